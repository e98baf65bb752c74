//! The handlers of `/ops/outbox`.

use std::sync::Arc;

use application_core::{
    outbox::{
        AggregateId, AggregateType, Attribution, EventAction, EventId, EventType, FailureClass, InvalidEventId,
        OperatorName, OutboxEventStatus, Reason, UnknownAction,
    },
    ports::EventFilter,
    usecases::{OperateError, OperateOutboxUseCase},
};
use axum::{
    Json,
    body::Bytes,
    extract::{
        Path, Query, State,
        rejection::{BytesRejection, PathRejection, QueryRejection},
    },
    http::StatusCode,
};
use serde::Deserialize;

use super::views::{AuditView, BlockedView, EventView, Page, StatusView};
use crate::http::problem_details::ProblemDetails;

type Operate = State<Arc<OperateOutboxUseCase>>;
type Answer<T> = Result<T, ProblemDetails>;

/// Who is recorded when a request does not say: whoever knows the token, or is on this machine.
const DEFAULT_OPERATOR: &str = "ops-http";
const DEFAULT_LIMIT: u32 = 100;
const MAX_LIMIT: u32 = 1_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct ListQuery {
    status: Option<String>,
    aggregate_type: Option<String>,
    aggregate_id: Option<String>,
    event_type: Option<String>,
    class: Option<String>,
    after: Option<String>,
    limit: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AuditQuery {
    before: Option<i64>,
    limit: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ActRequest {
    by: Option<String>,
    reason: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BlockedQuery {
    limit: Option<u32>,
}

pub(super) async fn status(State(operate): Operate) -> Answer<Json<StatusView>> {
    Ok(Json(operate.statistics().await.map_err(problem)?.into()))
}

pub(super) async fn list(
    State(operate): Operate,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Answer<Json<Page<EventView>>> {
    let Query(query) = query.map_err(|error| bad_request(error.body_text()))?;
    let filter = EventFilter {
        status: optional("status", query.status, |text| text.parse::<OutboxEventStatus>())?,
        aggregate_type: optional("aggregateType", query.aggregate_type, AggregateType::try_new)?,
        aggregate_id: optional("aggregateId", query.aggregate_id, AggregateId::try_new)?,
        event_type: optional("eventType", query.event_type, EventType::try_new)?,
        class: optional("class", query.class, |text| text.parse::<FailureClass>())?,
        after: optional("after", query.after, |text| text.parse::<EventId>())?,
        limit: limit(query.limit)?,
        ..EventFilter::default()
    };
    let events = operate.list(&filter).await.map_err(problem)?;
    let full = u32::try_from(events.len()).is_ok_and(|count| count >= filter.limit);
    let next = events.last().filter(|_| full).map(|event| event.id.to_string());
    Ok(Json(Page { items: events.into_iter().map(EventView::from).collect(), next }))
}

pub(super) async fn show(
    State(operate): Operate,
    path: Result<Path<String>, PathRejection>,
) -> Answer<Json<EventView>> {
    let Path(id) = path.map_err(|error| bad_request(error.body_text()))?;
    Ok(Json(operate.show(event_id(&id)?).await.map_err(problem)?.into()))
}

pub(super) async fn blocked(
    State(operate): Operate,
    query: Result<Query<BlockedQuery>, QueryRejection>,
) -> Answer<Json<Page<BlockedView>>> {
    let Query(query) = query.map_err(|error| bad_request(error.body_text()))?;
    let blocked = operate.blocked(limit(query.limit)?).await.map_err(problem)?;
    Ok(Json(Page { items: blocked.into_iter().map(BlockedView::from).collect(), next: None }))
}

pub(super) async fn audit(
    State(operate): Operate,
    query: Result<Query<AuditQuery>, QueryRejection>,
) -> Answer<Json<Page<AuditView>>> {
    let Query(query) = query.map_err(|error| bad_request(error.body_text()))?;
    let limit = limit(query.limit)?;
    let entries = operate.audit(query.before, limit).await.map_err(problem)?;
    let full = u32::try_from(entries.len()).is_ok_and(|count| count >= limit);
    let next = entries.last().filter(|_| full).map(|entry| entry.number.to_string());
    Ok(Json(Page { items: entries.into_iter().map(AuditView::from).collect(), next }))
}

pub(super) async fn act(
    State(operate): Operate,
    path: Result<Path<(String, String)>, PathRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Answer<StatusCode> {
    let Path((id, action)) = path.map_err(|error| bad_request(error.body_text()))?;
    let id = event_id(&id)?;
    let body = body.map_err(|error| ProblemDetails::new(error.status(), error.body_text()))?;
    let action: EventAction =
        action.parse().map_err(|error: UnknownAction| ProblemDetails::new(StatusCode::NOT_FOUND, error.to_string()))?;
    operate.act(action, id, &attribution(action, &body)?).await.map_err(problem)?;
    Ok(StatusCode::NO_CONTENT)
}

fn attribution(action: EventAction, body: &[u8]) -> Answer<Attribution> {
    let request = if body.is_empty() { Ok(ActRequest::default()) } else { serde_json::from_slice(body) };
    let request = request.map_err(|error| bad_request(format!("{action} takes by and reason: {error}")))?;
    let by = request.by.unwrap_or_else(|| DEFAULT_OPERATOR.to_owned());
    let operator = OperatorName::try_new(by).map_err(|error| bad_request(format!("by: {error}")))?;
    Ok(Attribution { operator, reason: optional("reason", request.reason, Reason::try_new)? })
}

fn event_id(text: &str) -> Answer<EventId> {
    text.parse().map_err(|error: InvalidEventId| bad_request(error.to_string()))
}

fn limit(limit: Option<u32>) -> Answer<u32> {
    match limit.unwrap_or(DEFAULT_LIMIT) {
        limit @ 1..=MAX_LIMIT => Ok(limit),
        other => Err(bad_request(format!("limit is {other}, it must be 1 to {MAX_LIMIT}"))),
    }
}

fn optional<T, E: std::fmt::Display>(
    name: &str,
    text: Option<String>,
    parse: impl FnOnce(String) -> Result<T, E>,
) -> Answer<Option<T>> {
    text.map(parse).transpose().map_err(|error| bad_request(format!("{name}: {error}")))
}

fn bad_request(detail: String) -> ProblemDetails {
    ProblemDetails::new(StatusCode::BAD_REQUEST, detail)
}

/// The store's own words go to the log, not to the client.
#[expect(clippy::needless_pass_by_value, reason = "used with map_err")]
fn problem(error: OperateError) -> ProblemDetails {
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
