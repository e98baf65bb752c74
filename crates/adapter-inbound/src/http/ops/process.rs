//! The handlers that tell of this process: its settings and its metrics.

use axum::{
    Json,
    extract::State,
    http::{HeaderName, header::CONTENT_TYPE},
};

use super::{Shared, answer::NoQuery};
use crate::http::metrics::METRICS_CONTENT_TYPE;

/// The settings in force, by section; secrets are redacted.
#[utoipa::path(get, path = "/ops/settings", tag = "process",
    responses((status = 200, description = "sections of keys and values", body = Object)))]
pub(super) async fn settings(State(parts): State<Shared>, _: NoQuery) -> Json<serde_json::Value> {
    Json(parts.settings.clone())
}

/// This process's metrics in the text format of Prometheus, as `/metrics` of the health listener shows them.
#[utoipa::path(get, path = "/ops/metrics", tag = "process",
    responses((status = 200, description = "one line a sample", body = String, content_type = "text/plain")))]
pub(super) async fn metrics(State(parts): State<Shared>, _: NoQuery) -> ([(HeaderName, &'static str); 1], String) {
    ([(CONTENT_TYPE, METRICS_CONTENT_TYPE)], (parts.metrics)())
}
