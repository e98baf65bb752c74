//! The handlers that tell of this process: its settings, its metrics, and what is wrong as seen from it.

use axum::{
    Json,
    extract::State,
    http::{HeaderName, header::CONTENT_TYPE},
};

use super::{Shared, answer::NoQuery, views::DoctorView};
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

/// What is wrong with database, broker and settings, and the cure of each finding; changes nothing. It reads all open events,
/// and reaches out to the broker: what `app outbox doctor` does.
#[utoipa::path(get, path = "/ops/doctor", tag = "process",
    responses((status = 200, description = "the findings", body = DoctorView)))]
pub(super) async fn doctor(State(parts): State<Shared>, _: NoQuery) -> Json<DoctorView> {
    Json(DoctorView::new(parts.doctor.examine().await))
}
