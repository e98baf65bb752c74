//! What an operator sees, in JSON: times in RFC 3339, ages in seconds; payloads are left out.

use std::time::Duration;

use application_core::ports::{AuditEntry, BlockedAggregate, OutboxEventState, OutboxStatistics};
use serde::Serialize;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StatusView {
    pending: u64,
    in_flight: u64,
    failed: u64,
    dead: u64,
    blocked_aggregates: u64,
    oldest_pending_age_seconds: Option<f64>,
    oldest_in_flight_age_seconds: Option<f64>,
    oldest_snapshot_age_seconds: Option<f64>,
    /// Counts stop here.
    count_limit: u64,
}

impl From<OutboxStatistics> for StatusView {
    fn from(figures: OutboxStatistics) -> Self {
        let seconds = |age: Option<Duration>| age.as_ref().map(Duration::as_secs_f64);
        Self {
            pending: figures.pending,
            in_flight: figures.in_flight,
            failed: figures.failed,
            dead: figures.dead,
            blocked_aggregates: figures.blocked_aggregates,
            oldest_pending_age_seconds: seconds(figures.oldest_pending_age),
            oldest_in_flight_age_seconds: seconds(figures.oldest_in_flight_age),
            oldest_snapshot_age_seconds: seconds(figures.oldest_snapshot_age),
            count_limit: OutboxStatistics::COUNT_LIMIT,
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EventView {
    id: String,
    sequence: i64,
    aggregate_type: String,
    aggregate_id: String,
    event_type: String,
    status: &'static str,
    attempts: u32,
    replays: u32,
    created_at: Option<String>,
    published_at: Option<String>,
    due_at: Option<String>,
    last_error: Option<String>,
    resolved_at: Option<String>,
    resolution: Option<String>,
    holder: Option<String>,
    lease_expires_at: Option<String>,
    blocked_behind: Option<String>,
}

impl From<OutboxEventState> for EventView {
    fn from(event: OutboxEventState) -> Self {
        Self {
            id: event.id.to_string(),
            sequence: event.sequence.0,
            aggregate_type: event.aggregate_type.to_string(),
            aggregate_id: event.aggregate_id.to_string(),
            event_type: event.event_type.to_string(),
            status: event.status.as_str(),
            attempts: event.attempts,
            replays: event.replays,
            created_at: rfc3339(Some(event.created_at)),
            published_at: rfc3339(event.published_at),
            due_at: rfc3339(event.due_at),
            last_error: event.last_error,
            resolved_at: rfc3339(event.resolved_at),
            resolution: event.resolution,
            holder: event.holder.map(|holder| holder.as_str().to_owned()),
            lease_expires_at: rfc3339(event.lease_expires_at),
            blocked_behind: event.blocked_behind.map(|id| id.to_string()),
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BlockedView {
    aggregate_type: String,
    aggregate_id: String,
    head: String,
    reason: Option<String>,
    age_seconds: f64,
    depth: u32,
}

impl From<BlockedAggregate> for BlockedView {
    fn from(blocked: BlockedAggregate) -> Self {
        Self {
            aggregate_type: blocked.aggregate_type.to_string(),
            aggregate_id: blocked.aggregate_id.to_string(),
            head: blocked.head.to_string(),
            reason: blocked.reason,
            age_seconds: blocked.age.as_secs_f64(),
            depth: blocked.depth,
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AuditView {
    number: i64,
    acted_at: Option<String>,
    operator: String,
    reason: Option<String>,
    action: String,
    aggregate_type: Option<String>,
    events: Vec<String>,
    affected: u64,
}

impl From<AuditEntry> for AuditView {
    fn from(entry: AuditEntry) -> Self {
        Self {
            number: entry.number,
            acted_at: rfc3339(Some(entry.acted_at)),
            operator: entry.by.operator.as_str().to_owned(),
            reason: entry.by.reason.map(|reason| reason.as_str().to_owned()),
            action: entry.action,
            aggregate_type: entry.aggregate_type,
            events: entry.events.iter().map(ToString::to_string).collect(),
            affected: entry.affected,
        }
    }
}

/// A page: `next` is the `after` or `before` of the following one; none: this is the last.
#[derive(Debug, Serialize)]
pub(super) struct Page<T> {
    pub(super) items: Vec<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<String>,
}

fn rfc3339(time: Option<OffsetDateTime>) -> Option<String> {
    time.and_then(|time| time.format(&Rfc3339).ok())
}
