//! `/ops`: an operator's view of the outbox and actions on single events, as JSON.
//!
//! | request | answer |
//! | --- | --- |
//! | `GET /ops/outbox/status` | the figures of the moment |
//! | `GET /ops/outbox/events?status=&aggregateType=&aggregateId=&eventType=&class=&after=&limit=` | a page of events, without payloads |
//! | `GET /ops/outbox/events/{id}` | one event, without its payload |
//! | `GET /ops/outbox/blocked?limit=` | aggregates that wait behind a DEAD event |
//! | `GET /ops/outbox/audit?before=&limit=` | what operators have changed, newest first |
//! | `POST /ops/outbox/events/{id}/requeue`, `…/discard`, `…/replay` | 204 |
//!
//! An action takes `{"by": "…", "reason": "…"}`, both optional: who is recorded as having done it (default `ops-http`),
//! and why.
//!
//! Errors are problem details: 400 what cannot be read, 401 and 403 whoever is no operator, 404 an unknown event,
//! 409 an action that the event's status does not allow, 503 a store that cannot be reached.

mod access;
mod outbox;
mod views;

use std::sync::Arc;

use application_core::usecases::OperateOutboxUseCase;
use axum::{
    Router,
    http::{Method, StatusCode, Uri},
    middleware::from_fn_with_state,
    routing::{get, post},
};

pub use access::OpsAccess;

use super::problem_details::ProblemDetails;

/// Routes `/ops` for whomever `access` lets in.
pub fn ops_router(operate: Arc<OperateOutboxUseCase>, access: OpsAccess) -> Router {
    Router::new()
        .route("/ops/outbox/status", get(outbox::status))
        .route("/ops/outbox/events", get(outbox::list))
        .route("/ops/outbox/events/{id}", get(outbox::show))
        .route("/ops/outbox/blocked", get(outbox::blocked))
        .route("/ops/outbox/audit", get(outbox::audit))
        .route("/ops/outbox/events/{id}/{action}", post(outbox::act))
        .fallback(async |uri: Uri| ProblemDetails::new(StatusCode::NOT_FOUND, format!("there is no {}", uri.path())))
        .method_not_allowed_fallback(async |method: Method, uri: Uri| {
            ProblemDetails::new(StatusCode::METHOD_NOT_ALLOWED, format!("{} does not take {method}", uri.path()))
        })
        .layer(from_fn_with_state(Arc::new(access), access::check))
        .with_state(operate)
}

#[cfg(test)]
mod tests;
