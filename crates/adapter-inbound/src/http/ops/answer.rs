//! What the handlers of `/ops` share: reading what came, and saying what went wrong.

use application_core::{
    JsonObject,
    outbox::{EventId, InvalidEventId},
    usecases::OperateError,
};
use axum::{
    Json,
    extract::{
        Path, Query,
        rejection::{JsonRejection, PathRejection, QueryRejection},
    },
    http::StatusCode,
};

use crate::http::problem_details::ProblemDetails;

pub(super) type Answer<T> = Result<T, ProblemDetails>;
pub(super) type Body<T> = Result<Json<JsonObject<T>>, JsonRejection>;
/// The event that the path of a request names.
pub(super) type Named = Result<Path<String>, PathRejection>;

pub(super) const DEFAULT_LIMIT: u32 = 100;
pub(super) const MAX_LIMIT: u32 = 1_000;

pub(super) fn query<T>(query: Result<Query<T>, QueryRejection>) -> Answer<T> {
    query.map(|Query(query)| query).map_err(|error| bad_request(error.body_text()))
}

/// The body of a change. A web page can send a form or text to any address without asking, but not JSON.
pub(super) fn json<T>(body: Body<T>) -> Answer<T> {
    match body {
        Ok(Json(JsonObject(body))) => Ok(body),
        Err(JsonRejection::MissingJsonContentType(_)) => {
            let detail = "a change is a JSON object with the content type application/json";
            Err(ProblemDetails::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail))
        }
        Err(JsonRejection::BytesRejection(error)) => Err(ProblemDetails::new(error.status(), error.body_text())),
        Err(error) => Err(bad_request(error.body_text())),
    }
}

pub(super) fn id_in_path(named: Named) -> Answer<EventId> {
    let Path(id) = named.map_err(|error| bad_request(error.body_text()))?;
    event_id(&id)
}

pub(super) fn event_id(text: &str) -> Answer<EventId> {
    text.parse().map_err(|error: InvalidEventId| bad_request(error.to_string()))
}

pub(super) fn limit(limit: Option<u32>) -> Answer<u32> {
    match limit.unwrap_or(DEFAULT_LIMIT) {
        limit @ 1..=MAX_LIMIT => Ok(limit),
        other => Err(bad_request(format!("limit is {other}, it must be 1 to {MAX_LIMIT}"))),
    }
}

pub(super) fn optional<T, E: std::fmt::Display>(
    name: &str,
    text: Option<String>,
    parse: impl FnOnce(String) -> Result<T, E>,
) -> Answer<Option<T>> {
    text.map(parse).transpose().map_err(|error| bad_request(format!("{name}: {error}")))
}

pub(super) fn bad_request(detail: impl Into<String>) -> ProblemDetails {
    ProblemDetails::new(StatusCode::BAD_REQUEST, detail)
}

/// The store's own words go to the log, not to the client.
#[expect(clippy::needless_pass_by_value, reason = "used with map_err")]
pub(super) fn problem(error: OperateError) -> ProblemDetails {
    match &error {
        OperateError::NotFound { .. } | OperateError::HistoryNotKept { .. } => {
            ProblemDetails::new(StatusCode::NOT_FOUND, error.to_string())
        }
        OperateError::NotAllowed { .. } => ProblemDetails::new(StatusCode::CONFLICT, error.to_string()),
        OperateError::Store { source } => {
            let status =
                if source.is_transient() { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::INTERNAL_SERVER_ERROR };
            tracing::error!(error = application_core::ports::with_causes(&error), "an operator's request failed");
            ProblemDetails::new(status, format!("{error}: {source}"))
        }
    }
}
