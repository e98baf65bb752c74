//! The handlers of `/ops/outbox`.

use std::sync::Arc;

use application_core::{
    outbox::{AggregateId, AggregateType, EventId, OutboxEventStatus},
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

use super::views::{BlockedView, EventView, Page, StatusView};
use crate::http::problem_details::ProblemDetails;

type Operate = State<Arc<OperateOutboxUseCase>>;
type Answer<T> = Result<T, ProblemDetails>;

const DEFAULT_LIMIT: u32 = 100;
const MAX_LIMIT: u32 = 1_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct ListQuery {
    status: Option<String>,
    aggregate_type: Option<String>,
    aggregate_id: Option<String>,
    after: Option<String>,
    limit: Option<u32>,
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
        after: optional("after", query.after, |text| text.parse::<EventId>())?,
        limit: limit(query.limit)?,
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

/// Actions take no body: a request that brings one means something else than what would happen.
pub(super) async fn act(
    State(operate): Operate,
    path: Result<Path<(String, String)>, PathRejection>,
    body: Result<Bytes, BytesRejection>,
) -> Answer<StatusCode> {
    let Path((id, action)) = path.map_err(|error| bad_request(error.body_text()))?;
    let id = event_id(&id)?;
    let body = body.map_err(|error| ProblemDetails::new(error.status(), error.body_text()))?;
    if !body.is_empty() && body.trim_ascii() != b"{}" {
        return Err(bad_request(format!("{action} takes no body, and {} bytes came", body.len())));
    }
    match action.as_str() {
        "requeue" => operate.requeue(id).await,
        "discard" => operate.discard(id).await,
        "replay" => operate.replay(id).await,
        _ => {
            let detail = format!("{action:?} is no action; requeue, discard and replay are");
            return Err(ProblemDetails::new(StatusCode::NOT_FOUND, detail));
        }
    }
    .map_err(problem)?;
    Ok(StatusCode::NO_CONTENT)
}

fn event_id(text: &str) -> Answer<EventId> {
    text.parse().map_err(|error| bad_request(format!("{text:?} is no event id: {error}")))
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
