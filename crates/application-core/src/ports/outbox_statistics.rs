//! Port: the figures by which the outbox is watched.

use std::time::Duration;

use async_trait::async_trait;

use super::error::StoreError;
use crate::outbox::{AggregateType, EventType, FailureClass};

/// A snapshot of the outbox. Counts stop at [`OutboxStatistics::COUNT_LIMIT`]; ages are by the database's clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutboxStatistics {
    /// Open events that wait for their first delivery, in flight ones not included. Where `failed` or `dead` has reached
    /// the limit, at least so many.
    pub pending: u64,
    /// Events under a lease.
    pub in_flight: u64,
    /// Events that wait for another delivery.
    pub failed: u64,
    /// DEAD events that nobody has resolved.
    pub dead: u64,
    /// Lanes that wait behind a DEAD event.
    pub blocked_aggregates: u64,
    /// Time since the oldest DEAD event that nobody has resolved was stored: its aggregate waits behind it.
    pub oldest_blocked_age: Option<Duration>,
    /// Age of the oldest open event that is not DEAD nor behind a DEAD one, replays not counted.
    pub oldest_pending_age: Option<Duration>,
    /// Time since the oldest claim that still holds a lane was made; a renewal does not shorten it, so that a relay
    /// which renews for ever without getting on is seen.
    pub oldest_in_flight_age: Option<Duration>,
    /// Age of the oldest snapshot or transaction in the database, which holds back vacuum.
    pub oldest_snapshot_age: Option<Duration>,
}

impl OutboxStatistics {
    /// Where counting stops, so that a count never costs more than a bounded read (rule R27).
    pub const COUNT_LIMIT: u64 = 100_000;
}

/// DEAD events that nobody has resolved, and that have died alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadGroup {
    /// Whose fault it was; none: their `last_error` begins with no class.
    pub class: Option<FailureClass>,
    /// Their aggregates' type.
    pub aggregate_type: AggregateType,
    /// Their type.
    pub event_type: EventType,
    /// How many there are, of those that were looked at.
    pub events: u64,
    /// How long the oldest of them has been stored.
    pub oldest_age: Duration,
    /// The `last_error` of one of them.
    pub example: Option<String>,
}

impl DeadGroup {
    /// The most groups that are told.
    pub const MOST: u32 = 100;
}

/// How publishing has gone lately, whichever relays did it: what stands with the events that were published last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecentPublishing {
    /// Events that were published within [`Self::SPAN`], the newest [`Self::MOST`] of them at most.
    pub events: u64,
    /// The time within which they were; above zero.
    pub span: Duration,
    /// From append to confirm, replays not counted; none: no event was.
    pub lag: Option<LagPercentiles>,
}

/// Half, 95 and 99 of a hundred events took no longer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the field's")]
pub struct LagPercentiles {
    pub p50: Duration,
    pub p95: Duration,
    pub p99: Duration,
}

impl RecentPublishing {
    /// How far the look goes back.
    pub const SPAN: Duration = Duration::from_mins(1);
    /// How many events it goes through, so that it costs the same at any rate; a second's at ten thousand a second.
    pub const MOST: u64 = 10_000;

    /// Events a second.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "at most ten thousand")]
    pub fn per_second(&self) -> f64 {
        self.events as f64 / self.span.as_secs_f64().max(1e-3)
    }
}

/// Reads the figures; each read is bounded and served by an index.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait OutboxStatisticsPort: Send + Sync {
    /// Takes one snapshot.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn statistics(&self) -> Result<OutboxStatistics, StoreError>;

    /// The groups of the first [`OutboxStatistics::COUNT_LIMIT`] unresolved DEAD events, the largest first; at most
    /// [`DeadGroup::MOST`].
    ///
    /// # Errors
    /// [`StoreError`].
    async fn dead_groups(&self) -> Result<Vec<DeadGroup>, StoreError>;

    /// The events that were published last, as far as published events are kept.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn recent_publishing(&self) -> Result<RecentPublishing, StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_taken_over_the_time_that_was_looked_at() {
        let minute = RecentPublishing { events: 120, span: RecentPublishing::SPAN, lag: None };
        assert!((minute.per_second() - 2.0).abs() < 1e-9);
        let busy = RecentPublishing { events: RecentPublishing::MOST, span: Duration::from_secs(2), lag: None };
        assert!((busy.per_second() - 5_000.0).abs() < 1e-9);
        assert!(RecentPublishing::default().per_second().abs() < 1e-9, "nothing in no time is no rate");
    }
}
