//! What each path does.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rankfold::Model;
use rankfold::form::Side;
use rankfold::model::{Knowledge, Precise};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::routes::{Asked, decoded};
use crate::answer::{
    Answer, Ask, Found, NeighborsAsk, PredictAsk, RecommendAsk, RowAsk, TransformAsk,
    kept_features, side_of,
};
use crate::core::{Core, Published};
use crate::error::Refused;
use crate::example::features;
use crate::export;
use crate::journal::{RowEntry, RowSide};
use crate::learner::Command;
use crate::metrics::Metrics;

fn typed(body: impl Into<Body>, kind: &'static str) -> Response {
    let mut response = Response::new(body.into());
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn json_of(value: &Value) -> Response {
    typed(value.to_string(), "application/json")
}

/// Names and pictures that stand beside ids.
fn results(core: &Core, found: &[Found]) -> Value {
    let one = |found: &Found| {
        let mut one = found.json();
        if let Some(title) = core.names.get(&found.id) {
            one["title"] = json!(title);
        }
        if let Some(drawings) = &core.drawings
            && let Some(stroke) = drawings.stroke(&found.id)
        {
            one["stroke"] = json!(stroke);
        }
        one
    };
    json!({ "results": found.iter().map(one).collect::<Vec<_>>() })
}

/// A question, and the view that answers it: one that knows of as many examples as it must.
async fn ask<A: Ask>(asked: &Asked) -> Answer<(A, Arc<Published>)> {
    let core = &asked.service.core;
    let ask: A = serde_json::from_slice(&asked.body)?;
    ask.check(&core.limits)?;
    let after = ask.after();
    if core.published().sequence < after {
        if core.sequence() < after {
            let message = format!(
                "`after` is {after}, and there are {} examples",
                core.sequence()
            );
            return Err(Refused::input(message));
        }
        let mut visible = core.visible();
        let seen = visible.wait_for(|sequence| *sequence >= after);
        let seen = tokio::time::timeout(Duration::from_secs(5), seen).await;
        if !matches!(seen, Ok(Ok(_))) {
            return Err(Refused::unavailable(
                "these examples are not to be seen yet: ask again",
            ));
        }
    }
    Ok((ask, core.published()))
}

pub async fn neighbors(asked: Asked) -> Answer<Response> {
    let (mut ask, published) = ask::<NeighborsAsk>(&asked).await?;
    let core = &asked.service.core;
    let stroked = ask.stroke.is_some();
    if let Some(stroke) = ask.stroke.take() {
        let drawings = core.drawings.as_ref();
        let drawings = drawings.ok_or_else(|| {
            Refused::input("`stroke` does not apply: the rows are no pictures of a pen")
        })?;
        if ask.id.is_some() || ask.row.is_some() || ask.text.is_some() {
            return Err(Refused::input("expected `stroke` alone, found more"));
        }
        let row = drawings.row(&stroke).ok_or_else(|| {
            Refused::input("expected 16 numbers from 0 to 100 as `stroke`, not all the same")
        })?;
        ask.row = Some(RawValue::from_string(row)?);
    }
    // What was understood of a text or a stroke: feedback can say it by value.
    let row = match &ask.text {
        Some(text) => Some(features_of_text(published.view.model(), text)?),
        None => ask.row.clone().filter(|_| stroked),
    };
    let found = asked.service.workers.neighbors(published, ask).await?;
    let mut answer = results(core, &found);
    if let Some(row) = row {
        answer["row"] = serde_json::from_str(row.get())?;
    }
    Ok(json_of(&answer))
}

/// The words of a text as features by value.
fn features_of_text(model: &Model, text: &str) -> Answer<Box<RawValue>> {
    let row = model.text_row::<f64>(text)?;
    let entries = row.as_row().iter();
    let named = entries.map(|(j, v)| ((u64::from(j) + 1).to_string(), v));
    Ok(RawValue::from_string(features(named))?)
}

pub async fn rank(asked: Asked) -> Answer<Response> {
    let (ask, published) = ask::<RowAsk>(&asked).await?;
    let workers = &asked.service.workers;
    let found = workers
        .answer(published, move |view| view.rank(&ask))
        .await?;
    Ok(json_of(&results(&asked.service.core, &found)))
}

pub async fn recommend(asked: Asked) -> Answer<Response> {
    let (ask, published) = ask::<RecommendAsk>(&asked).await?;
    let workers = &asked.service.workers;
    let found = workers
        .answer(published, move |view| view.recommend(&ask))
        .await?;
    Ok(json_of(&results(&asked.service.core, &found)))
}

pub async fn predict(asked: Asked) -> Answer<Response> {
    let (ask, published) = ask::<PredictAsk>(&asked).await?;
    let workers = &asked.service.workers;
    let (results, unknown) = workers
        .answer(published, move |view| view.predict(&ask))
        .await?;
    Ok(json_of(&json!({ "results": results, "unknown": unknown })))
}

pub async fn transform(asked: Asked) -> Answer<Response> {
    let (ask, published) = ask::<TransformAsk>(&asked).await?;
    let workers = &asked.service.workers;
    let points = workers
        .answer(published, move |view| view.transform(&ask))
        .await?;
    let results: Vec<Value> = points
        .iter()
        .map(|point| json!({ "vector": point }))
        .collect();
    Ok(json_of(&json!({ "results": results })))
}

/// Gives the learner something to do, and waits until it is done.
async fn learner<T>(
    core: &Core,
    command: impl FnOnce(oneshot::Sender<Answer<T>>) -> Command,
) -> Answer<T> {
    let sender = core.learner.lock().ok().and_then(|learner| learner.clone());
    let Some(sender) = sender else {
        return Err(Refused::new(
            StatusCode::CONFLICT,
            "the service does not learn: start it with --learn --journal DIR",
        ));
    };
    let (send, receive) = oneshot::channel();
    sender.try_send(command(send)).map_err(|_| {
        Refused::unavailable("too much feedback waits, or the service is stopping: try again")
    })?;
    let gone = || Refused::unavailable("the service is stopping");
    receive.await.unwrap_or_else(|_| Err(gone()))
}

pub async fn feedback(asked: Asked) -> Answer<Response> {
    let core = &asked.service.core;
    let body = &asked.body[..];
    // Line breaks outside of texts are spaces; inside of texts JSON has none.
    let line = |raw: &RawValue| raw.get().replace(['\n', '\r'], " ");
    let examples: Vec<String> = match body.trim_ascii_start().first() {
        Some(b'[') => {
            let all: Vec<&RawValue> = serde_json::from_slice(body)?;
            if all.len() > core.limits.batch {
                return Err(Refused::input(format!(
                    "expected up to {} examples, found {}",
                    core.limits.batch,
                    all.len()
                )));
            }
            all.into_iter().map(line).collect()
        }
        _ => vec![line(serde_json::from_slice(body)?)],
    };
    let bad = examples
        .iter()
        .position(|example| !example.trim_start().starts_with('{'));
    if let Some(at) = bad {
        return Err(Refused::input(format!(
            "example {}: expected a JSON object",
            at + 1
        )));
    }
    if examples.is_empty() {
        return Ok(json_of(
            &json!({ "accepted": 0, "sequence": core.sequence() }),
        ));
    }
    let answer = learner(core, |reply| Command::Feedback(examples, reply)).await?;
    Ok(json_of(&answer))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

pub async fn undo(asked: Asked) -> Answer<Response> {
    let _: Nothing = serde_json::from_slice(&asked.body)?;
    let core = &asked.service.core;
    Ok(json_of(&learner(core, Command::Undo).await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PutRow {
    row: Option<Box<RawValue>>,
    text: Option<String>,
    side: Option<String>,
}

/// Bytes of an id.
const LONGEST_ID: usize = 512;

pub async fn put_row(asked: Asked) -> Answer<Response> {
    let core = &asked.service.core;
    let put: PutRow = serde_json::from_slice(&asked.body)?;
    if asked.id.is_empty() || asked.id.len() > LONGEST_ID {
        return Err(Refused::input(format!(
            "an id has from 1 to {LONGEST_ID} bytes"
        )));
    }
    let side = side_of(put.side.as_deref(), Side::Left)?;
    let published = core.published();
    let model = published.view.model();
    if !takes_rows(model) {
        return Err(Refused::input(format!(
            "rows do not apply to a model for {}: it has things of its own",
            model.task()
        )));
    }
    if side == Side::Right && (model.objects.is_none() || model.task() == "ranking") {
        return Err(Refused::input(
            "the model has no objects: expected the side `left`",
        ));
    }
    let features = match (put.row, put.text) {
        (Some(row), None) => row,
        (None, Some(text)) => features_of_text(model, &text)?,
        _ => return Err(Refused::input("expected one of `row` and `text`")),
    };
    let features = match &model.form {
        Precise::F32(_) => kept_features::<f32>(model, side, &features)?,
        Precise::F64(_) => kept_features::<f64>(model, side, &features)?,
    };
    let row = RowEntry {
        id: asked.id.clone(),
        side: match side {
            Side::Left => RowSide::Left,
            Side::Right => RowSide::Right,
        },
        features: RawValue::from_string(features)?,
    };
    let answer = learner(core, |reply| Command::Row(row, reply)).await?;
    Ok(json_of(&answer))
}

/// Whether a model answers for rows by value.
fn takes_rows(model: &Model) -> bool {
    matches!(model.task(), "similarity" | "metric" | "pairs" | "ranking")
}

/// A value of the query of a URL.
fn parameter(query: &str, name: &str) -> Answer<Option<String>> {
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        if key == name {
            return decoded(&value.replace('+', " ")).map(Some);
        }
    }
    Ok(None)
}

fn limit_of(query: &str, default: usize, most: usize) -> Answer<usize> {
    match parameter(query, "limit")? {
        None => Ok(default),
        Some(text) => match text.parse::<usize>() {
            Ok(limit) if (1..=most).contains(&limit) => Ok(limit),
            _ => Err(Refused::input(format!("`limit` must be from 1 to {most}"))),
        },
    }
}

pub async fn rows(asked: Asked) -> Answer<Response> {
    let core = asked.service.core.clone();
    let limit = limit_of(&asked.query, 20, 1000)?;
    let prefix = parameter(&asked.query, "prefix")?.unwrap_or_default();
    let workers = &asked.service.workers;
    let found = workers
        .answer(core.published(), move |view| Ok(view.ids(&prefix, limit)))
        .await?;
    let one = |(id, label): &(String, Option<String>)| {
        let mut one = json!({ "id": id });
        if let Some(label) = label {
            one["label"] = json!(label);
        }
        if let Some(title) = core.names.get(id) {
            one["title"] = json!(title);
        }
        one
    };
    Ok(json_of(
        &json!({ "rows": found.iter().map(one).collect::<Vec<_>>() }),
    ))
}

pub async fn row(asked: Asked) -> Answer<Response> {
    let core = asked.service.core.clone();
    let id = asked.id.clone();
    let workers = &asked.service.workers;
    let found = workers.answer(core.published(), move |view| view.row(&id));
    let mut found = found.await?;
    if let Some(drawings) = &core.drawings {
        found["stroke"] = json!(drawings.stroke(&asked.id));
    }
    Ok(json_of(&found))
}

pub async fn map(asked: Asked) -> Answer<Response> {
    let limit = limit_of(&asked.query, 500, 2000)?;
    let published = asked.service.core.published();
    let sequence = published.sequence;
    let workers = &asked.service.workers;
    let points = workers
        .answer(published, move |view| view.map(limit))
        .await?;
    Ok(json_of(&json!({ "sequence": sequence, "points": points })))
}

pub async fn status(asked: Asked) -> Answer<Response> {
    let core = &asked.service.core;
    let mut status = match core.progress.lock() {
        Ok(mut progress) => progress.json(),
        Err(_) => json!({}),
    };
    let published = core.published();
    status["sequence"] = json!(core.sequence());
    status["visible_sequence"] = json!(published.sequence);
    status["visible_after_ms"] = json!(published.lag.as_secs_f64() * 1e3);
    Ok(json_of(&status))
}

pub async fn model(asked: Asked) -> Answer<Response> {
    let core = &asked.service.core;
    let published = core.published();
    let (view, model) = (&published.view, published.view.model());
    let index = view.index();
    let learning = core.learner.lock().is_ok_and(|learner| learner.is_some());
    Ok(json_of(&json!({
        "format": 1,
        "task": model.task(),
        "learner": model.card.learner,
        "score": model.card.score.name(),
        "rank": model.rank(),
        "features": model.columns(),
        "rows": view.rows(),
        "sequence": core.sequence(),
        "visible_sequence": published.sequence,
        "visible_within_ms": core.facts.visible_within.as_secs_f64() * 1e3,
        "visible_after_ms": published.lag.as_secs_f64() * 1e3,
        "learning": learning,
        "uncertainty": model.has_confidence() || model.check_rating_estimates().is_ok(),
        "text": model.vocabulary().is_some(),
        "drawings": core.drawings.is_some(),
        "objects": model.objects.is_some(),
        "index": match index {
            Some(_) => "hnsw",
            None => "exact",
        },
        "recall": index.map_or(1.0, |index| index.recall()),
        "index_sequence": index.map(|index| index.sequence),
        "index_seconds": index.map(|index| index.seconds),
        "journal_cut_bytes": core.facts.cut,
        "scale": rating_scale(model),
        "tokens": asked.service.guard.has_tokens(),
        "version": env!("CARGO_PKG_VERSION"),
    })))
}

/// The lowest and the highest rating, where the model clips to them.
fn rating_scale(model: &Model) -> Option<(f64, f64)> {
    match &model.knowledge {
        Knowledge::Completion(known) => known.card.scale,
        _ => None,
    }
}

pub async fn model_file(asked: Asked) -> Answer<Response> {
    let core = asked.service.core.clone();
    let learning = core.learner.lock().is_ok_and(|learner| learner.is_some());
    let (model, sequence) = match learning {
        true => learner(&core, Command::Model).await?,
        false => {
            let published = core.published();
            (published.view.model().clone(), published.sequence)
        }
    };
    let published = core.published();
    let workers = &asked.service.workers;
    let bytes = workers
        .answer(published, move |_| Ok(model.to_bytes()?))
        .await?;
    let mut response = typed(bytes, "application/octet-stream");
    let headers = response.headers_mut();
    if let Ok(sequence) = HeaderValue::from_str(&sequence.to_string()) {
        headers.insert("rankfold-sequence", sequence);
    }
    let name = HeaderValue::from_static("attachment; filename=\"model.safetensors\"");
    headers.insert(header::CONTENT_DISPOSITION, name);
    Ok(response)
}

pub async fn journal(asked: Asked) -> Answer<Response> {
    let core = asked.service.core.clone();
    let Some((folder, origin)) = core.facts.journal.clone() else {
        return Err(Refused::new(
            StatusCode::CONFLICT,
            "the service does not learn: start it with --learn --journal DIR",
        ));
    };
    let end = core.entries();
    let published = core.published();
    let (send, receive) = mpsc::channel::<std::io::Result<Vec<u8>>>(4);
    let thread = std::thread::Builder::new().name("export".into());
    let started = thread.spawn(move || {
        let sent = export::stream(&folder, &origin, end, &*published.view, |bytes| {
            send.blocking_send(Ok(bytes)).is_ok()
        });
        if let Err(error) = sent {
            core.log
                .error("export", json!({ "message": error.message }));
            let cut = std::io::Error::other("the journal could not be read");
            let _ = send.blocking_send(Err(cut));
        }
    });
    started.map_err(|_| Refused::unavailable("no thread is left: ask again later"))?;
    let body = Body::new(export::Stream(receive));
    Ok(typed(body, "application/x-ndjson"))
}

pub async fn health(_: Asked) -> Answer<Response> {
    Ok(json_of(&json!({ "status": "ok" })))
}

pub async fn ready(asked: Asked) -> Answer<Response> {
    let learning = asked.service.core.learner.lock();
    let learning = learning.is_ok_and(|learner| learner.is_some());
    Ok(json_of(&json!({ "status": "ok", "learning": learning })))
}

pub async fn metrics(asked: Asked) -> Answer<Response> {
    let text = Metrics::text(&asked.service.core);
    Ok(typed(text, "text/plain; version=0.0.4"))
}

pub async fn openapi(_: Asked) -> Answer<Response> {
    Ok(json_of(&super::document()))
}

pub async fn page(_: Asked) -> Answer<Response> {
    Ok(typed(
        include_str!("../page/index.html"),
        "text/html; charset=utf-8",
    )
    .into_response())
}

pub async fn style(_: Asked) -> Answer<Response> {
    Ok(typed(
        include_str!("../page/page.css"),
        "text/css; charset=utf-8",
    ))
}

pub async fn script(_: Asked) -> Answer<Response> {
    let kind = "text/javascript; charset=utf-8";
    Ok(typed(include_str!("../page/page.js"), kind))
}
