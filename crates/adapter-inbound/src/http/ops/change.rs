//! The handlers of `/ops/outbox` that change something.

use std::{pin::pin, time::Duration};

use application_core::{
    JsonObject,
    outbox::{
        AggregateId, AggregateType, Attribution, EventAction, EventId, EventType, FailureClass, OperatorName, Reason,
        SettledHistory,
    },
    ports::{EventFilter, PauseScope},
    usecases::{OperateError, Selection, StopSignal},
};
use axum::{Json, extract::State, http::StatusCode};
use serde::Deserialize;
use utoipa::ToSchema;

use super::{
    Shared,
    answer::{Answer, Change, Named, NoQuery, bad_request, event_id, id_in_path, midway, optional, problem, time},
    openapi::{named_events_schema, optional_class_schema, optional_history_schema},
    views::{ChangedView, ManyView, PurgeView},
};

/// Who is recorded when a request does not say: whoever knows the token, or is on this machine.
const DEFAULT_OPERATOR: &str = "ops-http";
/// The most events that a request may name: more would not fit into the default bound of a body.
pub(super) const MOST_NAMED: usize = 200;
/// How many events one transaction changes. A request that is interrupted ends after one.
const BATCH: u32 = 100;
/// The same of a replay: what is named is sent again in the order of its aggregates, so it is one batch.
const REPLAY_BATCH: u32 = 200;
/// The same of a purge, whose events nobody waits for.
const PURGE_BATCH: u32 = 1_000;

/// Who makes a change, and why.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ActRequest {
    /// Who is recorded; `ops-http` if nothing is said. 1 to 100 bytes of UTF-8.
    #[schema(min_length = 1, max_length = 100, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    by: Option<String>,
    /// Why. 1 to 500 bytes of UTF-8.
    #[schema(min_length = 1, max_length = 500, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    reason: Option<String>,
}

/// What is held back, or let go: one of `everything` and `aggregateType`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct PauseRequest {
    /// Every event.
    everything: Option<bool>,
    /// The events of this aggregate type. 1 to 100 bytes of UTF-8.
    #[schema(min_length = 1, max_length = 100, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    aggregate_type: Option<String>,
    /// Who is recorded; `ops-http` if nothing is said. 1 to 100 bytes of UTF-8.
    #[schema(min_length = 1, max_length = 100, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    by: Option<String>,
    /// Why. 1 to 500 bytes of UTF-8.
    #[schema(min_length = 1, max_length = 500, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    reason: Option<String>,
}

/// Which events to act on, exactly one of `events`, `filter` and `all`; and whether to count them only.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct ManyRequest {
    /// These events.
    #[schema(schema_with = named_events_schema)]
    events: Option<Vec<String>>,
    /// Every unresolved DEAD event that matches.
    #[schema(value_type = Option<FilterRequest>)]
    filter: Option<JsonObject<FilterRequest>>,
    /// Every unresolved DEAD event.
    all: Option<bool>,
    /// With `filter` or `all`: only events after this id, `next` of the answer that was interrupted.
    #[schema(format = "uuid")]
    after: Option<String>,
    /// Only say how many events it would change.
    #[serde(default)]
    dry_run: bool,
    /// Who is recorded; `ops-http` if nothing is said. 1 to 100 bytes of UTF-8.
    #[schema(min_length = 1, max_length = 100, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    by: Option<String>,
    /// Why. 1 to 500 bytes of UTF-8.
    #[schema(min_length = 1, max_length = 500, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    reason: Option<String>,
}

/// What is known of the events; at least one of the fields.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct FilterRequest {
    /// Their aggregates' type. 1 to 100 bytes of UTF-8.
    #[schema(min_length = 1, max_length = 100, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    aggregate_type: Option<String>,
    /// Their aggregate. 1 to 200 bytes of UTF-8.
    #[schema(min_length = 1, max_length = 200, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    aggregate_id: Option<String>,
    /// Their type. 1 to 100 bytes of UTF-8.
    #[schema(min_length = 1, max_length = 100, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    event_type: Option<String>,
    /// The class of their last failure.
    #[schema(schema_with = optional_class_schema)]
    class: Option<String>,
    /// They were stored this many seconds ago or longer.
    #[schema(maximum = 4_294_967_295_u32)]
    older_than_seconds: Option<u32>,
}

/// Which published events to send again, exactly one of `events` and `filter`; and whether to count them only.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct ReplayRequest {
    /// These events.
    #[schema(schema_with = named_events_schema)]
    events: Option<Vec<String>>,
    /// Every published event that matches.
    #[schema(value_type = Option<ReplayFilterRequest>)]
    filter: Option<JsonObject<ReplayFilterRequest>>,
    /// With `filter`: only events after this id, `next` of the answer that was interrupted.
    #[schema(format = "uuid")]
    after: Option<String>,
    /// Only say how many events it would send again.
    #[serde(default)]
    dry_run: bool,
    /// Who is recorded; `ops-http` if nothing is said. 1 to 100 bytes of UTF-8.
    #[schema(min_length = 1, max_length = 100, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    by: Option<String>,
    /// Why. 1 to 500 bytes of UTF-8.
    #[schema(min_length = 1, max_length = 500, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    reason: Option<String>,
}

/// What is known of the published events; at least one of the fields.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct ReplayFilterRequest {
    /// Their aggregates' type. 1 to 100 bytes of UTF-8.
    #[schema(min_length = 1, max_length = 100, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    aggregate_type: Option<String>,
    /// Their aggregate. 1 to 200 bytes of UTF-8.
    #[schema(min_length = 1, max_length = 200, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    aggregate_id: Option<String>,
    /// Their type. 1 to 100 bytes of UTF-8.
    #[schema(min_length = 1, max_length = 100, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    event_type: Option<String>,
    /// The broker confirmed them at this time or later.
    #[schema(format = "date-time")]
    published_from: Option<String>,
    /// The broker confirmed them before this time; in the past, a repetition sends none twice.
    #[schema(format = "date-time")]
    published_until: Option<String>,
    /// The first of them, by id.
    #[schema(format = "uuid")]
    from: Option<String>,
    /// The last of them, by id.
    #[schema(format = "uuid")]
    to: Option<String>,
}

/// Which history to delete.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct PurgeRequest {
    /// Only events that were published, discarded or skipped this many seconds ago or longer.
    #[schema(maximum = 4_294_967_295_u32)]
    older_than_seconds: u32,
    /// Only this history: `published`, or `resolved` (DEAD events that were discarded or skipped).
    #[schema(schema_with = optional_history_schema)]
    only: Option<String>,
    /// Only say how many events it would delete.
    #[serde(default)]
    dry_run: bool,
    /// Who is recorded; `ops-http` if nothing is said. 1 to 100 bytes of UTF-8.
    #[schema(min_length = 1, max_length = 100, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    by: Option<String>,
    /// Why. 1 to 500 bytes of UTF-8.
    #[schema(min_length = 1, max_length = 500, pattern = r"^[^\x00-\x1f\x7f-\x9f]*$")]
    reason: Option<String>,
}

/// Tries a DEAD event anew, attempts from zero.
#[utoipa::path(post, path = "/ops/outbox/events/{id}/requeue", tag = "events", request_body = ActRequest,
    params(("id" = String, Path, format = "uuid", description = "the event")),
    responses((status = 204, description = "done")))]
pub(super) async fn requeue_one(
    State(parts): State<Shared>,
    _: NoQuery,
    event: Named,
    Change(request): Change<ActRequest>,
) -> Answer<StatusCode> {
    one(&parts, EventAction::Requeue, event, request).await
}

/// Gives a DEAD event up, so that its aggregate goes on without it.
#[utoipa::path(post, path = "/ops/outbox/events/{id}/discard", tag = "events", request_body = ActRequest,
    params(("id" = String, Path, format = "uuid", description = "the event")),
    responses((status = 204, description = "done")))]
pub(super) async fn discard_one(
    State(parts): State<Shared>,
    _: NoQuery,
    event: Named,
    Change(request): Change<ActRequest>,
) -> Answer<StatusCode> {
    one(&parts, EventAction::Discard, event, request).await
}

/// Sends a published event again under its id.
#[utoipa::path(post, path = "/ops/outbox/events/{id}/replay", tag = "events", request_body = ActRequest,
    params(("id" = String, Path, format = "uuid", description = "the event")),
    responses((status = 204, description = "done")))]
pub(super) async fn replay_one(
    State(parts): State<Shared>,
    _: NoQuery,
    event: Named,
    Change(request): Change<ActRequest>,
) -> Answer<StatusCode> {
    one(&parts, EventAction::Replay, event, request).await
}

/// Tries DEAD events anew. After a while it answers that it was interrupted: the same request goes on.
#[utoipa::path(post, path = "/ops/outbox/requeue", tag = "outbox", request_body = ManyRequest,
    responses((status = 200, description = "how many events", body = ManyView)))]
pub(super) async fn requeue_many(
    State(parts): State<Shared>,
    _: NoQuery,
    Change(request): Change<ManyRequest>,
) -> Answer<Json<ManyView>> {
    many(&parts, EventAction::Requeue, request).await
}

/// Gives DEAD events up. After a while it answers that it was interrupted: the same request goes on.
#[utoipa::path(post, path = "/ops/outbox/discard", tag = "outbox", request_body = ManyRequest,
    responses((status = 200, description = "how many events", body = ManyView)))]
pub(super) async fn discard_many(
    State(parts): State<Shared>,
    _: NoQuery,
    Change(request): Change<ManyRequest>,
) -> Answer<Json<ManyView>> {
    many(&parts, EventAction::Discard, request).await
}

/// Sends published events again under their ids. After a while it answers that it was interrupted: the same request goes on
/// with `next` as its `after`; without it, what was sent again and confirmed meanwhile may be sent once more.
#[utoipa::path(post, path = "/ops/outbox/replay", tag = "outbox", request_body = ReplayRequest,
    responses((status = 200, description = "how many events", body = ManyView)))]
pub(super) async fn replay_many(
    State(parts): State<Shared>,
    _: NoQuery,
    Change(request): Change<ReplayRequest>,
) -> Answer<Json<ManyView>> {
    let which = replayed(request.events, request.filter, request.after)?;
    let by = attribution(request.by, request.reason)?;
    act_on(&parts, EventAction::Replay, &which, &by, request.dry_run).await
}

/// Deletes history: what was published, discarded or skipped long ago. After a while it answers that it was interrupted: the
/// same request goes on. What is open stays, and so does what is DEAD and not resolved.
#[utoipa::path(post, path = "/ops/outbox/purge", tag = "outbox", request_body = PurgeRequest,
    responses((status = 200, description = "how many events", body = PurgeView)))]
pub(super) async fn purge(
    State(parts): State<Shared>,
    _: NoQuery,
    Change(request): Change<PurgeRequest>,
) -> Answer<Json<PurgeView>> {
    let by = attribution(request.by, request.reason)?;
    let only = optional("only", request.only, |text| text.parse::<SettledHistory>())?;
    let histories = only.map_or_else(|| SettledHistory::ALL.to_vec(), |only| vec![only]);
    let age = Duration::from_secs(request.older_than_seconds.into());
    if request.dry_run {
        let count = parts.purge.count(&histories, age).await;
        let count = count.map_err(|source| problem(OperateError::Store { source }))?;
        return Ok(Json(PurgeView::counted(count)));
    }
    let stop = StopSignal::new();
    let work = parts.purge.purge(&histories, age, PURGE_BATCH, &by, &stop);
    let report = for_a_while(parts.bulk_time, &stop, work).await.map_err(|failed| midway(failed, false))?;
    Ok(Json(PurgeView::done(&report)))
}

/// Holds events back. What is in flight finishes; appending goes on.
#[utoipa::path(post, path = "/ops/outbox/pause", tag = "outbox", request_body = PauseRequest,
    responses((status = 200, description = "whether it was not paused before", body = ChangedView)))]
pub(super) async fn pause(
    State(parts): State<Shared>,
    _: NoQuery,
    Change(request): Change<PauseRequest>,
) -> Answer<Json<ChangedView>> {
    let (scope, by) = pause_of(request)?;
    Ok(Json(ChangedView { changed: parts.operate.pause(&scope, &by).await.map_err(problem)? }))
}

/// Lets events go again; each pause is lifted by itself.
#[utoipa::path(post, path = "/ops/outbox/resume", tag = "outbox", request_body = PauseRequest,
    responses((status = 200, description = "whether it was paused before", body = ChangedView)))]
pub(super) async fn resume(
    State(parts): State<Shared>,
    _: NoQuery,
    Change(request): Change<PauseRequest>,
) -> Answer<Json<ChangedView>> {
    let (scope, by) = pause_of(request)?;
    Ok(Json(ChangedView { changed: parts.operate.resume(&scope, &by).await.map_err(problem)? }))
}

async fn one(parts: &Shared, action: EventAction, event: Named, request: ActRequest) -> Answer<StatusCode> {
    let by = attribution(request.by, request.reason)?;
    parts.operate.act(action, id_in_path(event)?, &by).await.map_err(problem)?;
    Ok(StatusCode::NO_CONTENT)
}

async fn many(parts: &Shared, action: EventAction, request: ManyRequest) -> Answer<Json<ManyView>> {
    let which = selection(request.events, request.filter, request.all, request.after)?;
    let by = attribution(request.by, request.reason)?;
    act_on(parts, action, &which, &by, request.dry_run).await
}

async fn act_on(
    parts: &Shared,
    action: EventAction,
    which: &Selection,
    by: &Attribution,
    dry_run: bool,
) -> Answer<Json<ManyView>> {
    let (outbox, stop) = (&parts.operate, StopSignal::new());
    let batch = if action == EventAction::Replay { REPLAY_BATCH } else { BATCH };
    let report = if dry_run {
        for_a_while(parts.bulk_time, &stop, outbox.count_many(action, which, &stop)).await.map_err(problem)?
    } else {
        let work = outbox.act_on_many(action, which, batch, by, &stop);
        for_a_while(parts.bulk_time, &stop, work).await.map_err(|failed| midway(failed, true))?
    };
    Ok(Json(ManyView::new(action, report, dry_run)))
}

/// Lets the work come to its end once the time is over; dropping it would leave unknown what it did last.
async fn for_a_while<T>(time: Duration, stop: &StopSignal, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    match tokio::time::timeout(time, &mut work).await {
        Ok(done) => done,
        Err(_elapsed) => {
            stop.set();
            work.await
        }
    }
}

fn selection(
    events: Option<Vec<String>>,
    filter: Option<JsonObject<FilterRequest>>,
    all: Option<bool>,
    after: Option<String>,
) -> Answer<Selection> {
    let after = optional("after", after, |text| text.parse::<EventId>())?;
    match (events, filter, all) {
        (Some(_), None, None) if after.is_some() => Err(bad_request("after goes with filter or all, not with events")),
        (Some(events), None, None) => named(&events),
        (None, Some(JsonObject(filter)), None) => Ok(Selection::Matching(EventFilter { after, ..filter.filter()? })),
        (None, None, Some(true)) => Ok(Selection::Matching(EventFilter { after, ..EventFilter::default() })),
        _ => Err(bad_request("exactly one is to be said: events, filter, or all with the value true")),
    }
}

fn replayed(
    events: Option<Vec<String>>,
    filter: Option<JsonObject<ReplayFilterRequest>>,
    after: Option<String>,
) -> Answer<Selection> {
    let after = optional("after", after, |text| text.parse::<EventId>())?;
    match (events, filter) {
        (Some(_), None) if after.is_some() => Err(bad_request("after goes with filter, not with events")),
        (Some(events), None) => named(&events),
        (None, Some(JsonObject(filter))) => Ok(Selection::Matching(EventFilter { after, ..filter.filter()? })),
        _ => Err(bad_request("exactly one is to be said: events or filter")),
    }
}

fn named(events: &[String]) -> Answer<Selection> {
    named_ids(events).map(Selection::Events)
}

pub(super) fn named_ids(events: &[String]) -> Answer<Vec<EventId>> {
    if !(1..=MOST_NAMED).contains(&events.len()) {
        return Err(bad_request(format!("events are {}, they must be 1 to {MOST_NAMED}", events.len())));
    }
    events.iter().map(|id| event_id(id)).collect()
}

impl FilterRequest {
    /// Without a field it would mean every event, which is to be said as `all`.
    fn filter(self) -> Answer<EventFilter> {
        let filter = EventFilter {
            aggregate_type: optional("filter.aggregateType", self.aggregate_type, AggregateType::try_new)?,
            aggregate_id: optional("filter.aggregateId", self.aggregate_id, AggregateId::try_new)?,
            event_type: optional("filter.eventType", self.event_type, EventType::try_new)?,
            class: optional("filter.class", self.class, |text| text.parse::<FailureClass>())?,
            older_than: self.older_than_seconds.map(|seconds| Duration::from_secs(seconds.into())),
            ..EventFilter::default()
        };
        if filter == EventFilter::default() {
            return Err(bad_request("filter is empty, it must have a field; every event is meant by all"));
        }
        Ok(filter)
    }
}

impl ReplayFilterRequest {
    /// Without a field it would mean everything that was ever published.
    fn filter(self) -> Answer<EventFilter> {
        let filter = EventFilter {
            aggregate_type: optional("filter.aggregateType", self.aggregate_type, AggregateType::try_new)?,
            aggregate_id: optional("filter.aggregateId", self.aggregate_id, AggregateId::try_new)?,
            event_type: optional("filter.eventType", self.event_type, EventType::try_new)?,
            published_from: time("filter.publishedFrom", self.published_from)?,
            published_until: time("filter.publishedUntil", self.published_until)?,
            from: optional("filter.from", self.from, |text| text.parse::<EventId>())?,
            to: optional("filter.to", self.to, |text| text.parse::<EventId>())?,
            ..EventFilter::default()
        };
        if filter == EventFilter::default() {
            return Err(bad_request("filter is empty, it must have a field"));
        }
        Ok(filter)
    }
}

fn pause_of(request: PauseRequest) -> Answer<(PauseScope, Attribution)> {
    let by = attribution(request.by, request.reason)?;
    match (request.everything, optional("aggregateType", request.aggregate_type, AggregateType::try_new)?) {
        (Some(true), None) => Ok((PauseScope::Everything, by)),
        (None | Some(false), Some(aggregate_type)) => Ok((PauseScope::Type(aggregate_type), by)),
        _ => Err(bad_request("exactly one is to be said: aggregateType, or everything with the value true")),
    }
}

pub(super) fn attribution(by: Option<String>, reason: Option<String>) -> Answer<Attribution> {
    let by = by.unwrap_or_else(|| DEFAULT_OPERATOR.to_owned());
    let operator = OperatorName::try_new(by).map_err(|error| bad_request(format!("by: {error}")))?;
    Ok(Attribution { operator, reason: optional("reason", reason, Reason::try_new)? })
}
