//! The server span of a request.

use axum::{
    extract::{MatchedPath, Request},
    middleware::Next,
    response::Response,
};
use tracing::{Span, field};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use super::{context::TraceContext, fail, within};

/// A client may invent methods without end; the conventions count all others as one.
const METHODS: [&str; 9] = ["CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"];
/// How much of a path a span holds, in characters: spans wait in memory for their export.
pub(super) const MOST_OF_A_PATH: usize = 500;

pub(super) async fn traced(request: Request, next: Next) -> Response {
    let span = server_span(&request);
    TraceContext::of_request(request.headers()).continue_in(&span);
    let response = within(&span, next.run(request)).await;
    let status = response.status();
    span.set_attribute("http.response.status_code", i64::from(status.as_u16()));
    if status.is_server_error() {
        fail(&span, status.as_str().to_owned());
    }
    response
}

/// The fields are what log lines show. The path is for the trace alone: it is the client's, and long if it likes.
fn server_span(request: &Request) -> Span {
    let known = METHODS.into_iter().find(|method| *method == request.method().as_str());
    let (called, method) = known.map_or(("HTTP", "_OTHER"), |method| (method, method));
    let route = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let name = route.map_or_else(|| called.to_owned(), |route| format!("{called} {route}"));
    let span = tracing::info_span!("request", otel.name = name, otel.kind = "server", trace_id = field::Empty);
    span.set_attribute("http.request.method", method);
    span.set_attribute("url.scheme", "http");
    span.set_attribute("url.path", request.uri().path().chars().take(MOST_OF_A_PATH).collect::<String>());
    if let Some(route) = route {
        span.set_attribute("http.route", route.to_owned());
    }
    span
}
