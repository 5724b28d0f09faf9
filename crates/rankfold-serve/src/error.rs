//! Errors as answers: a status and words, and no path of this machine.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rankfold::{Error, ErrorKind};
use serde_json::json;

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    pub status: StatusCode,
    pub message: String,
    /// More that is said, such as how much of a list was learned.
    pub more: Option<serde_json::Value>,
}

impl Refused {
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Refused {
            status,
            message: message.into(),
            more: None,
        }
    }

    /// What was sent is not what was expected.
    pub fn input(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }

    /// The service cannot do it now.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
    }
}

impl From<Error> for Refused {
    /// The words of the command line, without the files that they may name.
    fn from(error: Error) -> Self {
        let status = match error.kind {
            ErrorKind::Input => StatusCode::BAD_REQUEST,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let option = error.option.map(|name| format!("`{name}` "));
        Refused::new(
            status,
            format!("{}{}", option.unwrap_or_default(), error.message),
        )
    }
}

impl From<serde_json::Error> for Refused {
    fn from(error: serde_json::Error) -> Self {
        Refused::input(format!("expected JSON: {error}"))
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let mut body = json!({ "error": { "message": self.message } });
        if let Some(serde_json::Value::Object(more)) = self.more {
            for (name, value) in more {
                body["error"][name] = value;
            }
        }
        let mut response = (self.status, body.to_string()).into_response();
        let json = HeaderValue::from_static("application/json");
        response.headers_mut().insert(header::CONTENT_TYPE, json);
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            response
                .headers_mut()
                .insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}
