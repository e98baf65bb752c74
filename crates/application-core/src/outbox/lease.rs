//! What a relay holds while it publishes: a claim over the runs of some lanes.

use std::{fmt, time::Duration};

use uuid::Uuid;

use super::{
    event::OutboxEvent,
    identity::{EventId, HolderName, LaneId},
};

/// The fencing token of one claim: whoever does not hold it any more changes nothing (rule R14).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseToken(Uuid);

impl LeaseToken {
    /// Wraps a fresh random identifier.
    #[must_use]
    pub const fn new(token: Uuid) -> Self {
        Self(token)
    }

    /// The bare identifier.
    #[must_use]
    pub const fn as_uuid(&self) -> Uuid {
        self.0
    }
}

impl fmt::Display for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Which lanes a claim looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClaimScope {
    /// Every lane that is due; lanes that somebody holds are passed over.
    #[default]
    Due,
    /// One lane that has been due for long, because appenders hold it whenever a claim looks: waits its turn for it,
    /// at most a second.
    Overdue,
}

/// How much a claim may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRequest {
    /// The token of the new claim; never used before.
    pub token: LeaseToken,
    /// Which lanes it looks at.
    pub scope: ClaimScope,
    /// Who claims, for operators.
    pub holder: HolderName,
    /// How long the lease runs, by the database's clock.
    pub lease: Duration,
    /// The most lanes; 1 or more.
    pub max_lanes: u32,
    /// The most events of one lane; 1 or more.
    pub max_run: u32,
    /// The most events altogether; 1 or more.
    pub max_events: u32,
    /// The most payload bytes altogether; one event is handed out even if it is larger.
    pub max_bytes: u64,
}

/// The claimed events of one lane: its head and what follows, in order, without a gap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The lane.
    pub lane: LaneId,
    /// The events in the order in which they must be published; never empty.
    pub events: Vec<OutboxEvent>,
}

/// How far a run came: the events at its start that the broker confirmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfirmedRun {
    /// The lane.
    pub lane: LaneId,
    /// The confirmed events, from the head without a gap; may be empty.
    pub confirmed: Vec<EventId>,
}

/// A run that stopped at an event whose delivery failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedRun {
    /// The confirmed events before it.
    pub run: ConfirmedRun,
    /// The event that failed.
    pub failed: EventId,
    /// What becomes of it.
    pub outcome: FailedOutcome,
    /// Class and reason, storable.
    pub error: String,
}

/// What becomes of an event whose delivery failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailedOutcome {
    /// FAILED; tried again after the delay, by the database's clock.
    Retry {
        /// The backoff.
        after: Duration,
    },
    /// DEAD; its aggregate waits for an operator (policy `block`).
    Block,
    /// DEAD and resolved at once; its aggregate goes on (policy `skip`).
    Skip,
}

/// What a settling call did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settlement {
    /// Lanes that were given back.
    pub freed: u32,
    /// Events that changed their status.
    pub events: u32,
    /// Lanes whose events are settled but which an appender holds: their lease stays until
    /// the same call without events is repeated, or the lease ends.
    pub postponed: Vec<LaneId>,
    /// The claim is gone: nothing was changed, another relay may publish these events again.
    pub stale: bool,
}

/// What happens to an aggregate whose head is DEAD (rule R13).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeadHeadPolicy {
    /// The aggregate waits until an operator requeues or discards the event.
    #[default]
    Block,
    /// The event is resolved as skipped, and the aggregate goes on without it.
    Skip,
}
