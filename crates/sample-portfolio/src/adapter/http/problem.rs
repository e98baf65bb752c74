//! Problem documents (RFC 9457): whatever goes wrong, said in one form.

use std::error::Error;

use application_core::ports::{StoreError, with_causes};
use axum::{
    Json,
    extract::rejection::{JsonRejection, PathRejection, QueryRejection},
    http::{
        HeaderValue, StatusCode,
        header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER},
    },
    response::{IntoResponse, Response},
};
use serde::Serialize;

use super::MAX_BODY_BYTES;
use crate::{
    application::{CommandError, InvalidPageSize},
    domain::{InvalidWorkLog, PortfolioId, WorkLogId},
    ports::InvalidIdempotencyKey,
};

/// The most characters of the framework's words that an answer repeats.
const MAX_WORDS: usize = 300;
/// A problem without a kind of its own: its status says all.
const BLANK: &str = "about:blank";

/// An answer that is no success. Its kind is stable and meant for programs, its detail for people.
#[derive(Debug, Serialize)]
pub(super) struct Problem {
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    #[serde(serialize_with = "as_number")]
    status: StatusCode,
    detail: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<FieldProblem>,
}

/// One field of the body that is refused.
#[derive(Debug, Serialize)]
pub(super) struct FieldProblem {
    field: &'static str,
    detail: String,
}

impl FieldProblem {
    pub(super) fn new(field: &'static str, error: &InvalidWorkLog) -> Self {
        Self { field, detail: error.to_string() }
    }
}

// Serde asks for a reference.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn as_number<S: serde::Serializer>(status: &StatusCode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u16(status.as_u16())
}

impl Problem {
    fn new(status: StatusCode, kind: &'static str, title: &'static str, detail: impl Into<String>) -> Self {
        Self { kind, title, status, detail: detail.into(), errors: Vec::new() }
    }

    fn blank(status: StatusCode, detail: impl Into<String>) -> Self {
        Self::new(status, BLANK, status.canonical_reason().unwrap_or("Error"), detail)
    }

    pub(super) fn no_such_route() -> Self {
        Self::blank(StatusCode::NOT_FOUND, "there is nothing at this path")
    }

    pub(super) fn method_not_allowed() -> Self {
        Self::blank(StatusCode::METHOD_NOT_ALLOWED, "the methods that this path knows are in the header Allow")
    }

    pub(super) fn bad_request(detail: impl Into<String>) -> Self {
        Self::blank(StatusCode::BAD_REQUEST, detail)
    }

    pub(super) fn unknown_parameter(name: &str) -> Self {
        Self::bad_request(format!("unknown parameter {:?}, this path takes none", shortened(name)))
    }

    pub(super) fn foreign_charset(charset: &str) -> Self {
        let detail = format!("the body has the charset {:?}, only utf-8 is accepted", shortened(charset));
        Self::blank(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail)
    }

    pub(super) fn invalid_fields(errors: Vec<FieldProblem>) -> Self {
        let (kind, title) = ("urn:problem:work-log:invalid", "The work log is not valid");
        let detail = "each refused field is listed in errors";
        Self { errors, ..Self::new(StatusCode::UNPROCESSABLE_ENTITY, kind, title, detail) }
    }

    pub(super) fn no_such_work_log(portfolio: PortfolioId, id: WorkLogId) -> Self {
        Self::not_found(&CommandError::NotFound { portfolio, id })
    }

    fn not_found(error: &CommandError) -> Self {
        let (kind, title) = ("urn:problem:work-log:not-found", "There is no such work log");
        Self::new(StatusCode::NOT_FOUND, kind, title, error.to_string())
    }

    pub(super) fn version_mismatch(detail: impl Into<String>) -> Self {
        let (kind, title) = ("urn:problem:work-log:version-mismatch", "The work log has changed");
        Self::new(StatusCode::PRECONDITION_FAILED, kind, title, detail)
    }

    pub(super) fn key_missing() -> Self {
        let (kind, title) = ("urn:problem:idempotency-key:missing", "An idempotency key is needed");
        let detail = "send the header Idempotency-Key, and the same one when you try again";
        Self::new(StatusCode::BAD_REQUEST, kind, title, detail)
    }

    pub(super) fn key_repeated(times: usize) -> Self {
        let (kind, title) = ("urn:problem:idempotency-key:invalid", "The idempotency key is not valid");
        let detail = format!("the header Idempotency-Key came {times} times, 1 is allowed");
        Self::new(StatusCode::BAD_REQUEST, kind, title, detail)
    }

    pub(super) fn key_invalid(error: &InvalidIdempotencyKey) -> Self {
        let (kind, title) = ("urn:problem:idempotency-key:invalid", "The idempotency key is not valid");
        Self::new(StatusCode::BAD_REQUEST, kind, title, error.to_string())
    }

    /// What went wrong on our side is logged here, once, and told to nobody.
    fn ours(error: &dyn Error, transient: bool) -> Self {
        if transient {
            tracing::warn!(error = with_causes(error), "a request failed for now");
            let detail = "it may work in a moment; repeat the request, with the same idempotency key if it had one";
            return Self::blank(StatusCode::SERVICE_UNAVAILABLE, detail);
        }
        tracing::error!(error = with_causes(error), "a request failed");
        Self::blank(StatusCode::INTERNAL_SERVER_ERROR, "the request could not be carried out")
    }
}

impl From<CommandError> for Problem {
    fn from(error: CommandError) -> Self {
        match &error {
            CommandError::NotFound { .. } => Self::not_found(&error),
            CommandError::Illegal(_) => {
                let (kind, title) = ("urn:problem:work-log:illegal-transition", "The status does not allow this");
                Self::new(StatusCode::CONFLICT, kind, title, error.to_string())
            }
            CommandError::VersionMismatch { .. } => Self::version_mismatch(error.to_string()),
            CommandError::KeyReused { .. } => {
                let (kind, title) = ("urn:problem:idempotency-key:reused", "The key belongs to another request");
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, kind, title, error.to_string())
            }
            CommandError::Event { .. } | CommandError::Append { .. } | CommandError::Store { .. } => {
                Self::ours(&error, error.is_transient())
            }
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        Self::ours(&error, error.is_transient())
    }
}

impl From<InvalidPageSize> for Problem {
    fn from(error: InvalidPageSize) -> Self {
        Self::bad_request(error.to_string())
    }
}

/// The framework's words, which repeat what it could not read, however long that is.
fn shortened(words: &str) -> String {
    match words.char_indices().nth(MAX_WORDS) {
        Some((end, _)) => format!("{}…", words.get(..end).unwrap_or_default()),
        None => words.to_owned(),
    }
}

impl From<PathRejection> for Problem {
    fn from(rejection: PathRejection) -> Self {
        Self::blank(rejection.status(), shortened(&rejection.body_text()))
    }
}

impl From<QueryRejection> for Problem {
    fn from(rejection: QueryRejection) -> Self {
        Self::blank(rejection.status(), shortened(&rejection.body_text()))
    }
}

impl From<JsonRejection> for Problem {
    fn from(rejection: JsonRejection) -> Self {
        let (status, detail) = (rejection.status(), shortened(&rejection.body_text()));
        match rejection {
            JsonRejection::JsonDataError(_) => {
                Self::new(status, "urn:problem:body:invalid", "The body is not what this path takes", detail)
            }
            _ if status == StatusCode::PAYLOAD_TOO_LARGE => {
                Self::blank(status, format!("the body may have {MAX_BODY_BYTES} bytes at most"))
            }
            JsonRejection::MissingJsonContentType(_) => {
                Self::blank(status, "the body is a JSON object with the content type application/json")
            }
            _ => Self::blank(status, detail),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = self.status;
        let mut response = (status, Json(self)).into_response();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        let further = match status {
            StatusCode::SERVICE_UNAVAILABLE => Some((RETRY_AFTER, "1")),
            StatusCode::UNSUPPORTED_MEDIA_TYPE => Some((ACCEPT, "application/json")),
            _ => None,
        };
        if let Some((name, value)) = further {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        response
    }
}
