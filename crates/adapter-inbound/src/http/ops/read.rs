//! The handlers of `/ops/outbox` that change nothing.

use std::time::Duration;

use application_core::{
    outbox::{AggregateId, AggregateType, EventId, EventType, FailureClass, OutboxEventStatus},
    ports::{EventFilter, OutboxStatistics, StoreError},
    usecases::OperateError,
};
use axum::{
    Json,
    extract::{Query, State, rejection::QueryRejection},
    http::StatusCode,
};
use serde::Deserialize;
use utoipa::IntoParams;

use super::{
    Shared,
    answer::{Answer, Named, NoQuery, id_in_path, limit, optional, problem, query, time},
    openapi::{class_schema, status_schema},
    views::{AuditView, BlockedView, DeadView, EventView, Page, PayloadView, StatusView},
};
use crate::http::problem_details::ProblemDetails;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// Only this status; upper and lower case are the same.
    #[param(schema_with = status_schema)]
    status: Option<String>,
    /// Only this aggregate type. 1 to 100 bytes of UTF-8.
    #[param(min_length = 1, max_length = 100, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$", nullable = false)]
    aggregate_type: Option<String>,
    /// Only this aggregate. 1 to 200 bytes of UTF-8.
    #[param(min_length = 1, max_length = 200, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$", nullable = false)]
    aggregate_id: Option<String>,
    /// Only this event type. 1 to 100 bytes of UTF-8.
    #[param(min_length = 1, max_length = 100, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$", nullable = false)]
    event_type: Option<String>,
    /// Only events whose last failure was of this class.
    #[param(schema_with = class_schema)]
    class: Option<String>,
    /// Only events that were stored this many seconds ago or longer.
    #[param(maximum = 4_294_967_295_u32, nullable = false)]
    older_than_seconds: Option<u32>,
    /// Only events that the broker confirmed at this time or later.
    #[param(format = "date-time", nullable = false)]
    published_from: Option<String>,
    /// Only events that the broker confirmed before this time.
    #[param(format = "date-time", nullable = false)]
    published_until: Option<String>,
    /// Only this event and those with higher ids.
    #[param(format = "uuid", nullable = false)]
    from: Option<String>,
    /// Only this event and those with lower ids.
    #[param(format = "uuid", nullable = false)]
    to: Option<String>,
    /// Only events that were neither skipped nor discarded.
    #[param(nullable = false)]
    unresolved: Option<bool>,
    /// Only events after this id: `next` of the page before.
    #[param(format = "uuid", nullable = false)]
    after: Option<String>,
    /// How many; 100 if nothing is said.
    #[param(minimum = 1, maximum = 1000, nullable = false)]
    limit: Option<u32>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct AuditQuery {
    /// Only entries before this number: `next` of the page before.
    #[param(nullable = false)]
    before: Option<i64>,
    /// How many; 100 if nothing is said.
    #[param(minimum = 1, maximum = 1000, nullable = false)]
    limit: Option<u32>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct LimitQuery {
    /// How many; 100 if nothing is said.
    #[param(minimum = 1, maximum = 1000, nullable = false)]
    limit: Option<u32>,
}

/// The figures of the moment, publishing of late, the pauses that stand, the relays, and the leaders.
#[utoipa::path(get, path = "/ops/outbox/status", tag = "outbox",
    responses((status = 200, description = "the state of the outbox", body = StatusView)))]
pub(super) async fn status(State(parts): State<Shared>, _: NoQuery) -> Answer<Json<StatusView>> {
    let outbox = &parts.operate;
    let figures = outbox.statistics().await.map_err(problem)?;
    let recent = outbox.recent_publishing().await.map_err(problem)?;
    let (pauses, relays, leaders) = (outbox.pauses().await, outbox.relays().await, outbox.leaders().await);
    let (pauses, relays) = (pauses.map_err(problem)?, relays.map_err(problem)?);
    Ok(Json(StatusView::new(&figures, recent, pauses, relays, leaders.map_err(problem)?)))
}

/// Events in the order of their ids, a page at a time, without payloads.
#[utoipa::path(get, path = "/ops/outbox/events", tag = "events", params(ListQuery),
    responses((status = 200, description = "a page of events", body = Page<EventView>)))]
pub(super) async fn list(
    State(parts): State<Shared>,
    asked: Result<Query<ListQuery>, QueryRejection>,
) -> Answer<Json<Page<EventView>>> {
    let asked = query(asked)?;
    let filter = EventFilter {
        status: optional("status", asked.status, |text| text.parse::<OutboxEventStatus>())?,
        aggregate_type: optional("aggregateType", asked.aggregate_type, AggregateType::try_new)?,
        aggregate_id: optional("aggregateId", asked.aggregate_id, AggregateId::try_new)?,
        event_type: optional("eventType", asked.event_type, EventType::try_new)?,
        class: optional("class", asked.class, |text| text.parse::<FailureClass>())?,
        older_than: asked.older_than_seconds.map(|seconds| Duration::from_secs(seconds.into())),
        published_from: time("publishedFrom", asked.published_from)?,
        published_until: time("publishedUntil", asked.published_until)?,
        from: optional("from", asked.from, |text| text.parse::<EventId>())?,
        to: optional("to", asked.to, |text| text.parse::<EventId>())?,
        unresolved: asked.unresolved.unwrap_or_default(),
        after: optional("after", asked.after, |text| text.parse::<EventId>())?,
        limit: limit(asked.limit)?,
    };
    Ok(Json(Page::of_events(parts.operate.page(&filter).await.map_err(problem)?)))
}

/// One event, without its payload.
#[utoipa::path(get, path = "/ops/outbox/events/{id}", tag = "events",
    params(("id" = String, Path, format = "uuid", description = "the event")),
    responses((status = 200, description = "the event", body = EventView)))]
pub(super) async fn show(State(parts): State<Shared>, _: NoQuery, event: Named) -> Answer<Json<EventView>> {
    Ok(Json(parts.operate.show(id_in_path(event)?).await.map_err(problem)?.into()))
}

/// Payload and headers of one event, where the setting `operations.payloads` allows it and the database as well.
#[utoipa::path(get, path = "/ops/outbox/events/{id}/payload", tag = "events",
    params(("id" = String, Path, format = "uuid", description = "the event")),
    responses((status = 200, description = "the content, as it was appended", body = PayloadView)))]
pub(super) async fn payload(State(parts): State<Shared>, _: NoQuery, event: Named) -> Answer<Json<PayloadView>> {
    let id = id_in_path(event)?;
    if !parts.payloads {
        let detail = "payloads are not shown here: the setting operations.payloads is false";
        return Err(ProblemDetails::new(StatusCode::FORBIDDEN, detail));
    }
    let content = parts.operate.content(id).await.map_err(|error| match error {
        OperateError::Store { source: StoreError::Forbidden { .. } } => {
            ProblemDetails::new(StatusCode::FORBIDDEN, "the database does not let this process read payloads")
        }
        other => problem(other),
    })?;
    tracing::info!(event = %id, "an operator read a payload");
    Ok(Json(PayloadView::new(id, &content)))
}

/// What operators have done to one event, newest first; nothing for an event that is unknown.
#[utoipa::path(get, path = "/ops/outbox/events/{id}/audit", tag = "events",
    params(("id" = String, Path, format = "uuid", description = "the event"), LimitQuery),
    responses((status = 200, description = "the newest entries", body = Page<AuditView>)))]
pub(super) async fn audit_of(
    State(parts): State<Shared>,
    event: Named,
    asked: Result<Query<LimitQuery>, QueryRejection>,
) -> Answer<Json<Page<AuditView>>> {
    let (id, limit) = (id_in_path(event)?, limit(query(asked)?.limit)?);
    let entries = parts.operate.audit_of(id, limit).await.map_err(problem)?;
    Ok(Json(Page::new(entries.into_iter().map(AuditView::from).collect(), limit, None)))
}

/// Unresolved DEAD events by class and types, the largest group first; the first 100,000 events are counted.
#[utoipa::path(get, path = "/ops/outbox/dead", tag = "outbox",
    responses((status = 200, description = "the groups, at most 100", body = DeadView)))]
pub(super) async fn dead(State(parts): State<Shared>, _: NoQuery) -> Answer<Json<DeadView>> {
    let groups = parts.operate.dead_groups().await.map_err(problem)?;
    Ok(Json(DeadView::new(groups, OutboxStatistics::COUNT_LIMIT)))
}

/// Aggregates that wait behind a DEAD event, oldest first.
#[utoipa::path(get, path = "/ops/outbox/blocked", tag = "outbox", params(LimitQuery),
    responses((status = 200, description = "the aggregates", body = Page<BlockedView>)))]
pub(super) async fn blocked(
    State(parts): State<Shared>,
    asked: Result<Query<LimitQuery>, QueryRejection>,
) -> Answer<Json<Page<BlockedView>>> {
    let limit = limit(query(asked)?.limit)?;
    let blocked = parts.operate.blocked(limit).await.map_err(problem)?;
    Ok(Json(Page::new(blocked.into_iter().map(BlockedView::from).collect(), limit, None)))
}

/// What operators have changed, newest first, a page at a time.
#[utoipa::path(get, path = "/ops/outbox/audit", tag = "outbox", params(AuditQuery),
    responses((status = 200, description = "a page of the record", body = Page<AuditView>)))]
pub(super) async fn audit(
    State(parts): State<Shared>,
    asked: Result<Query<AuditQuery>, QueryRejection>,
) -> Answer<Json<Page<AuditView>>> {
    let asked = query(asked)?;
    let limit = limit(asked.limit)?;
    let entries = parts.operate.audit(asked.before, limit).await.map_err(problem)?;
    let next = entries.last().map(|entry| entry.number.to_string());
    Ok(Json(Page::new(entries.into_iter().map(AuditView::from).collect(), limit, next)))
}
