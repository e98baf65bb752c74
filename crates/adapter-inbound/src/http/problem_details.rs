//! Errors as problem details (RFC 9457).

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa::ToSchema;

/// An answer that says what went wrong: `application/problem+json` with `type`, `title`, `status` and `detail`.
///
/// The type is `about:blank`: the status says what kind of problem it is, `detail` says which.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ProblemDetails {
    r#type: &'static str,
    title: &'static str,
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    detail: String,
}

impl ProblemDetails {
    /// A problem with its explanation, which must hold no secret and no payload.
    #[must_use]
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        let title = status.canonical_reason().unwrap_or("Error");
        Self { r#type: "about:blank", title, status: status.as_u16(), detail: detail.into() }
    }

    /// The same problem with a further sentence about it.
    #[must_use]
    pub fn and(mut self, sentence: &str) -> Self {
        self.detail.push_str("; ");
        self.detail.push_str(sentence);
        self
    }

    /// The HTTP status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl IntoResponse for ProblemDetails {
    fn into_response(self) -> Response {
        let mut response = (self.status(), Json(self)).into_response();
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        response
    }
}
