//! `/ops`: an operator's view of outbox and inboxes, actions on what is in them, and the page in front of the former.
//!
//! `GET /ops/openapi.json` describes every request and answer (`OpenAPI` 3.1); `openapi.rs` puts it together from the
//! handlers, and tests hold it to the routes and to what a running process answers. `GET /ops/` is the page.
//!
//! A change is a POST of a JSON object with its content type, so that no form of a web page can send one, and there are no
//! cookies. Its `by` and `reason` are optional: who is recorded as having made it (default `ops-http`), and why.
//!
//! A parameter that a path does not take is refused, as a field is that a body does not take.
//!
//! Errors are problem details: 400 what cannot be read, 401 and 403 whoever is no operator, 404 what is unknown, 409 an
//! action that the event's status does not allow, 413 and 415 a change that is too large or no JSON in UTF-8, 429 too many
//! requests of one address, 503 a store or a broker that cannot be reached.

mod access;
mod answer;
mod change;
mod inbox;
mod limit;
mod openapi;
mod page;
mod process;
mod read;
mod views;

use std::{fmt, sync::Arc, time::Duration};

use application_core::usecases::{ExamineOutboxUseCase, OperateInboxUseCase, OperateOutboxUseCase, PurgeOutboxUseCase};
use axum::{
    Router,
    http::{
        HeaderValue, Method, StatusCode, Uri,
        header::{ACCEPT, CACHE_CONTROL},
    },
    middleware::{from_fn_with_state, map_response},
    response::Response,
    routing::{MethodRouter, get, post},
};

use self::limit::RequestLimit;

pub use access::OpsAccess;

use super::problem_details::ProblemDetails;

/// What `/ops` shows and works with.
#[derive(Clone)]
pub struct OpsParts {
    /// The outbox.
    pub operate: Arc<OperateOutboxUseCase>,
    /// What consumers have handled and parked.
    pub inbox: Arc<OperateInboxUseCase>,
    /// Deletes its history.
    pub purge: Arc<PurgeOutboxUseCase>,
    /// Looks for what is wrong.
    pub doctor: Arc<ExamineOutboxUseCase>,
    /// Whether payloads are shown.
    pub payloads: bool,
    /// The settings in force, without secrets.
    pub settings: serde_json::Value,
    /// Renders this process's metrics, as `/metrics` shows them.
    pub metrics: Arc<dyn Fn() -> String + Send + Sync>,
    /// How long a request that acts on many events works before it answers that it was interrupted; well below the
    /// server's time-out.
    pub bulk_time: Duration,
}

impl fmt::Debug for OpsParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpsParts").field("bulk_time", &self.bulk_time).finish_non_exhaustive()
    }
}

type Shared = Arc<OpsParts>;

/// Routes `/ops` for whomever `access` lets in; the page itself, which holds no data, is for everybody who reaches it.
pub fn ops_router(parts: OpsParts, access: OpsAccess) -> Router {
    let access = Arc::new(access);
    let routes = ROUTES.iter().fold(Router::new(), |router, (path, route)| router.route(path, route()));
    routes
        .fallback(async |uri: Uri| ProblemDetails::new(StatusCode::NOT_FOUND, format!("there is no {}", uri.path())))
        .method_not_allowed_fallback(async |method: Method, uri: Uri| {
            ProblemDetails::new(StatusCode::METHOD_NOT_ALLOWED, format!("{} does not take {method}", uri.path()))
        })
        .layer(from_fn_with_state(Arc::clone(&access), access::check))
        .layer(map_response(completed))
        .layer(from_fn_with_state(Arc::new(RequestLimit::new()), limit::check))
        .with_state(Arc::new(parts))
        .merge(page::router(access))
}

/// What every answer says beside itself.
async fn completed(mut response: Response) -> Response {
    let is_of_another_type = response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE;
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if is_of_another_type {
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    }
    response
}

type Route = fn() -> MethodRouter<Shared>;

/// Every path behind the token.
const ROUTES: &[(&str, Route)] = &[
    ("/ops/openapi.json", || get(openapi::show)),
    ("/ops/settings", || get(process::settings)),
    ("/ops/metrics", || get(process::metrics)),
    ("/ops/doctor", || get(process::doctor)),
    ("/ops/outbox/status", || get(read::status)),
    ("/ops/outbox/events", || get(read::list)),
    ("/ops/outbox/events/{id}", || get(read::show)),
    ("/ops/outbox/events/{id}/payload", || get(read::payload)),
    ("/ops/outbox/events/{id}/audit", || get(read::audit_of)),
    ("/ops/outbox/events/{id}/requeue", || post(change::requeue_one)),
    ("/ops/outbox/events/{id}/discard", || post(change::discard_one)),
    ("/ops/outbox/events/{id}/replay", || post(change::replay_one)),
    ("/ops/outbox/dead", || get(read::dead)),
    ("/ops/outbox/blocked", || get(read::blocked)),
    ("/ops/outbox/audit", || get(read::audit)),
    ("/ops/outbox/requeue", || post(change::requeue_many)),
    ("/ops/outbox/discard", || post(change::discard_many)),
    ("/ops/outbox/replay", || post(change::replay_many)),
    ("/ops/outbox/purge", || post(change::purge)),
    ("/ops/outbox/pause", || post(change::pause)),
    ("/ops/outbox/resume", || post(change::resume)),
    ("/ops/inbox/parked", || get(inbox::parked)),
    ("/ops/inbox/forget", || post(inbox::forget)),
    ("/ops/inbox/unpark", || post(inbox::unpark)),
];

#[cfg(test)]
mod tests;
