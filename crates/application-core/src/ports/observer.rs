//! Port: what the relay and its helpers report as they work.

use std::time::Duration;

use crate::outbox::FailureClass;

use super::{Destination, OutboxStatistics, ReapReport};

/// Something worth counting or timing (rule R27).
#[derive(Debug, Clone, PartialEq)]
pub enum OutboxSignal<'a> {
    /// A claim was answered.
    Claimed {
        /// Events in it; 0: nothing was due.
        events: usize,
        /// Lanes in it.
        lanes: usize,
        /// How long the database took.
        took: Duration,
    },
    /// The broker confirmed an event; its settlement comes later and may be stale, then it is confirmed again.
    Confirmed {
        /// From sending to confirm.
        took: Duration,
        /// From storing to confirm; none for a replay, which is no lag.
        lag: Option<Duration>,
    },
    /// A publish failed; whether that is charged to the event is decided when its batch is settled.
    PublishFailed {
        /// Whose fault.
        class: FailureClass,
    },
    /// Events went DEAD: the store has accepted it. A settlement whose answer was lost is not told, nor a stale one.
    Died {
        /// Why.
        class: FailureClass,
        /// How many.
        events: usize,
    },
    /// A settlement was answered.
    Settled {
        /// Events it settled.
        events: u32,
        /// Lanes it had to leave to a later try.
        postponed: usize,
        /// How long the database took.
        took: Duration,
    },
    /// A settlement met a claim that was gone: these events may be published twice.
    Stale {
        /// The runs it was about.
        runs: usize,
    },
    /// A destination's breaker changed.
    BreakerChanged {
        /// The destination.
        destination: &'a Destination,
        /// Whether it lets nothing through.
        open: bool,
    },
    /// Expired leases were returned.
    Reaped(ReapReport),
    /// History was removed.
    CleanedUp {
        /// Events removed.
        events: u32,
    },
    /// Old records of handled messages were removed.
    InboxCleanedUp {
        /// Records removed.
        records: u32,
    },
    /// A round of cleaning ended with nothing left whose retention is over.
    CleanUpFinished,
    /// A snapshot was taken.
    Statistics(OutboxStatistics),
}

/// Takes signals; must be quick, must not block and cannot fail.
#[cfg_attr(feature = "mocks", mockall::automock)]
pub trait OutboxObserver: Send + Sync {
    /// Takes one signal.
    fn observe<'a>(&self, signal: &OutboxSignal<'a>);
}

/// An observer that looks away.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoObserver;

impl OutboxObserver for NoObserver {
    fn observe(&self, _: &OutboxSignal<'_>) {}
}
