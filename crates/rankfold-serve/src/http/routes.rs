//! All paths in one table: the router and the OpenAPI document are made of it.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, on};
use http_body_util::{BodyExt, Limited};
use hyper::body::Bytes;
use serde_json::json;

use super::guard::{Guard, Right};
use super::handlers as h;
use crate::answer::Answer;
use crate::core::Core;
use crate::error::Refused;
use crate::workers::Workers;

/// What every handler has at hand.
#[derive(Clone)]
pub struct Service {
    pub core: Arc<Core>,
    pub workers: Arc<Workers>,
    pub guard: Arc<Guard>,
    pub log_requests: bool,
}

/// Who asks; the server adds it to each request.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub SocketAddr);

/// A request that was let in, with its whole body.
pub struct Asked {
    pub service: Service,
    /// What stands in the place of `{id}`.
    pub id: String,
    pub query: String,
    pub body: Bytes,
}

type Handled = Pin<Box<dyn Future<Output = Answer<Response>> + Send>>;

/// One path with one method.
pub struct Route {
    pub method: &'static str,
    pub path: &'static str,
    pub right: Right,
    /// What it does, for the document.
    pub summary: &'static str,
    /// A body that is good for a similarity, as JSON; empty where there is none.
    pub example: &'static str,
    /// Fields of the body with their types.
    pub fields: &'static [(&'static str, &'static str)],
    /// Fields that an answer always has; empty where it is no JSON object.
    pub answers: &'static [&'static str],
    pub handler: fn(Asked) -> Handled,
}

macro_rules! handler {
    ($name:path) => {
        |asked| Box::pin($name(asked))
    };
}

const ROW: &[(&str, &str)] = &[
    ("id", "id"),
    ("row", "features"),
    ("text", "string"),
    ("k", "integer"),
    ("after", "integer"),
];

/// The table.
pub const ROUTES: &[Route] = &[
    Route {
        method: "GET",
        path: "/",
        right: Right::Open,
        summary: "The page",
        example: "",
        fields: &[],
        answers: &[],
        handler: handler!(h::page),
    },
    Route {
        method: "GET",
        path: "/page.css",
        right: Right::Open,
        summary: "The style of the page",
        example: "",
        fields: &[],
        answers: &[],
        handler: handler!(h::style),
    },
    Route {
        method: "GET",
        path: "/page.js",
        right: Right::Open,
        summary: "The script of the page",
        example: "",
        fields: &[],
        answers: &[],
        handler: handler!(h::script),
    },
    Route {
        method: "GET",
        path: "/healthz",
        right: Right::Open,
        summary: "Whether the service runs",
        example: "",
        fields: &[],
        answers: &["status"],
        handler: handler!(h::health),
    },
    Route {
        method: "GET",
        path: "/readyz",
        right: Right::Open,
        summary: "Whether it answers, and learns where it should",
        example: "",
        fields: &[],
        answers: &["status", "learning"],
        handler: handler!(h::ready),
    },
    Route {
        method: "GET",
        path: "/metrics",
        right: Right::Read,
        summary: "Numbers in the text format of Prometheus",
        example: "",
        fields: &[],
        answers: &[],
        handler: handler!(h::metrics),
    },
    Route {
        method: "GET",
        path: "/v1/openapi.json",
        right: Right::Open,
        summary: "This document",
        example: "",
        fields: &[],
        answers: &["openapi", "paths"],
        handler: handler!(h::openapi),
    },
    Route {
        method: "GET",
        path: "/v1/model",
        right: Right::Read,
        summary: "Task, learner, rank, rows, sequence, index and its recall",
        example: "",
        fields: &[],
        answers: &[
            "task", "learner", "rank", "rows", "sequence", "index", "recall",
        ],
        handler: handler!(h::model),
    },
    Route {
        method: "GET",
        path: "/v1/model/file",
        right: Right::Read,
        summary: "The model file, with all feedback up to now; its sequence is in a header",
        example: "",
        fields: &[],
        answers: &[],
        handler: handler!(h::model_file),
    },
    Route {
        method: "POST",
        path: "/v1/neighbors",
        right: Right::Read,
        summary: "What is most like a row, a text, an item or a user",
        example: r#"{"id":"0","k":3}"#,
        fields: &[
            ("id", "id"),
            ("row", "features"),
            ("text", "string"),
            ("stroke", "numbers"),
            ("k", "integer"),
            ("uncertainty", "boolean"),
            ("side", "string"),
            ("exact", "boolean"),
            ("after", "integer"),
        ],
        answers: &["results"],
        handler: handler!(h::neighbors),
    },
    Route {
        method: "POST",
        path: "/v1/rank",
        right: Right::Read,
        summary: "The best labels of a row, for a model of `train ranking`",
        example: "",
        fields: ROW,
        answers: &["results"],
        handler: handler!(h::rank),
    },
    Route {
        method: "POST",
        path: "/v1/recommend",
        right: Right::Read,
        summary: "The best items for a user, for recommendations and ratings",
        example: "",
        fields: &[
            ("user", "id"),
            ("items", "ids"),
            ("k", "integer"),
            ("exclude", "string"),
            ("after", "integer"),
        ],
        answers: &["results"],
        handler: handler!(h::recommend),
    },
    Route {
        method: "POST",
        path: "/v1/predict",
        right: Right::Read,
        summary: "Scores of pairs or triplets, ratings, targets or scores of labels, in order",
        example: r#"{"inputs":[{"left":"0","right":"1"}]}"#,
        fields: &[
            ("inputs", "objects"),
            ("uncertainty", "boolean"),
            ("after", "integer"),
        ],
        answers: &["results", "unknown"],
        handler: handler!(h::predict),
    },
    Route {
        method: "POST",
        path: "/v1/transform",
        right: Right::Read,
        summary: "Rows as points of the learned space, in order",
        example: r#"{"inputs":[{"id":"0"}]}"#,
        fields: &[
            ("inputs", "objects"),
            ("side", "string"),
            ("after", "integer"),
        ],
        answers: &["results"],
        handler: handler!(h::transform),
    },
    Route {
        method: "POST",
        path: "/v1/feedback",
        right: Right::Teach,
        summary: "Learns one example or a list of them, as `rankfold update` reads them; answers \
                  when they are durable",
        example: r#"{"query":"0","positive":"1","negative":"2"}"#,
        fields: &[],
        answers: &["accepted", "sequence"],
        handler: handler!(h::feedback),
    },
    Route {
        method: "POST",
        path: "/v1/undo",
        right: Right::Teach,
        summary: "Takes the last example back",
        example: "{}",
        fields: &[],
        answers: &["sequence"],
        handler: handler!(h::undo),
    },
    Route {
        method: "GET",
        path: "/v1/rows",
        right: Right::Read,
        summary: "Ids that begin with `prefix`, at most `limit` of them",
        example: "",
        fields: &[],
        answers: &["rows"],
        handler: handler!(h::rows),
    },
    Route {
        method: "GET",
        path: "/v1/rows/{id}",
        right: Right::Read,
        summary: "A row by value",
        example: "",
        fields: &[],
        answers: &["id", "row"],
        handler: handler!(h::row),
    },
    Route {
        method: "PUT",
        path: "/v1/rows/{id}",
        right: Right::Teach,
        summary: "Adds a row or replaces it, by its features or as a text",
        example: r#"{"row":{"1":1}}"#,
        fields: &[("row", "features"), ("text", "string"), ("side", "string")],
        answers: &["id", "sequence"],
        handler: handler!(h::put_row),
    },
    Route {
        method: "GET",
        path: "/v1/journal",
        right: Right::Teach,
        summary: "All examples that count, rows by value: a stream for `rankfold update`",
        example: "",
        fields: &[],
        answers: &[],
        handler: handler!(h::journal),
    },
    Route {
        method: "GET",
        path: "/v1/status",
        right: Right::Read,
        summary: "How learning goes: sequences, feedback a second, the curve of the error",
        example: "",
        fields: &[],
        answers: &[
            "sequence",
            "visible_sequence",
            "feedback_per_second",
            "curve",
        ],
        handler: handler!(h::status),
    },
    Route {
        method: "GET",
        path: "/v1/map",
        right: Right::Read,
        summary: "Some rows in the plane of their two principal directions",
        example: "",
        fields: &[],
        answers: &["sequence", "points"],
        handler: handler!(h::map),
    },
];

/// The router of all paths.
pub fn router(service: Service) -> Router {
    let mut router = Router::new();
    for route in ROUTES {
        let filter = match route.method {
            "POST" => MethodFilter::POST,
            "PUT" => MethodFilter::PUT,
            _ => MethodFilter::GET,
        };
        let answer =
            move |State(service): State<Service>, request: Request| answer(route, service, request);
        router = router.route(route.path, on(filter, answer));
    }
    let missing = || async {
        Refused::not_found("there is nothing here: /v1/openapi.json lists what there is")
    };
    let other = || async {
        let message = "there is no such method here: /v1/openapi.json lists those that there are";
        Refused::new(StatusCode::METHOD_NOT_ALLOWED, message)
    };
    router
        .fallback(missing)
        .method_not_allowed_fallback(other)
        .with_state(service)
}

/// Lets a request in, reads its body, and answers it in time.
async fn answer(route: &'static Route, service: Service, request: Request) -> Response {
    let start = Instant::now();
    let (core, log) = (service.core.clone(), service.log_requests);
    let limit = core.limits.time;
    let response = match tokio::time::timeout(limit, let_in(route, service, request)).await {
        Ok(Ok(response)) => response,
        Ok(Err(refused)) => refused.into_response(),
        Err(_) => {
            let message = format!("the request took longer than {} s", limit.as_secs_f64());
            Refused::new(StatusCode::REQUEST_TIMEOUT, message).into_response()
        }
    };
    let (status, took) = (response.status().as_u16(), start.elapsed());
    core.metrics.answered(route.path, status, took);
    if log {
        let ms = took.as_secs_f64() * 1e3;
        let fields =
            json!({ "method": route.method, "path": route.path, "status": status, "ms": ms });
        core.log.info("request", fields);
    }
    secured(response)
}

/// Headers that keep a browser from doing anything else with an answer.
fn secured(mut response: Response) -> Response {
    let headers = response.headers_mut();
    let mut set = |name: header::HeaderName, value: &'static str| {
        headers.insert(name, HeaderValue::from_static(value));
    };
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(header::X_FRAME_OPTIONS, "DENY");
    set(header::REFERRER_POLICY, "no-referrer");
    set(header::CACHE_CONTROL, "no-store");
    set(
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
         img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    );
    response
}

async fn let_in(route: &'static Route, service: Service, request: Request) -> Answer<Response> {
    let (parts, body) = request.into_parts();
    let peer = parts.extensions.get::<Peer>().map(|peer| peer.0);
    let peer = peer.unwrap_or_else(|| ([127, 0, 0, 1], 0).into());
    service
        .guard
        .pass(peer, &parts.method, &parts.headers, route.right)?;
    let id = match route.path.split_once("{id}") {
        Some((before, _)) => decoded(parts.uri.path().strip_prefix(before).unwrap_or_default())?,
        None => String::new(),
    };
    let body = match parts.method {
        Method::GET | Method::HEAD => Bytes::new(),
        _ => {
            is_json(&parts.headers)?;
            whole(body, service.core.limits.body).await?
        }
    };
    let asked = Asked {
        service,
        id,
        query: parts.uri.query().unwrap_or_default().to_owned(),
        body,
    };
    (route.handler)(asked).await
}

/// A form of another site cannot send this type without being asked first.
fn is_json(headers: &axum::http::HeaderMap) -> Answer<()> {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|h| h.to_str().ok());
    let kind = kind.map(|kind| kind.split(';').next().unwrap_or_default().trim());
    match kind {
        Some(kind) if kind.eq_ignore_ascii_case("application/json") => Ok(()),
        _ => Err(Refused::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "expected the header `Content-Type: application/json`",
        )),
    }
}

async fn whole(body: Body, limit: usize) -> Answer<Bytes> {
    match Limited::new(body, limit).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(Refused::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the body is longer than {limit} bytes"),
        )),
        Err(_) => Err(Refused::input("the body could not be read to its end")),
    }
}

/// A part of a path, or a value of a query, without `%`.
pub fn decoded(text: &str) -> Answer<String> {
    let bad = || Refused::input("expected UTF-8 text, with `%` and two digits for other bytes");
    let (mut out, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2).ok_or_else(bad)?;
        let digits = std::str::from_utf8(digits).map_err(|_| bad())?;
        out.push(u8::from_str_radix(digits, 16).map_err(|_| bad())?);
        rest = after;
    }
    String::from_utf8(out).map_err(|_| bad())
}
