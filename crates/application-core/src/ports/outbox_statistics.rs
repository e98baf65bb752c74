//! Port: the figures by which the outbox is watched.

use std::time::Duration;

use async_trait::async_trait;

use super::error::StoreError;
use crate::outbox::{AggregateType, EventType, FailureClass};

/// A snapshot of the outbox. Counts stop at [`OutboxStatistics::COUNT_LIMIT`]; ages are by the database's clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutboxStatistics {
    /// Open events that wait for their first delivery, in flight ones not included.
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
}
