//! What the consumer reports as it works, for metrics.

use std::time::Duration;

use application_core::ports::ConsumerName;

/// Why a message went to the parking queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ParkCause {
    /// It could not be read.
    Undecodable,
    /// The handler refused it.
    Rejected,
    /// Its tries are used up.
    TriesUsedUp,
    /// An earlier message of its aggregate is parked.
    BehindAnother,
}

impl ParkCause {
    /// Every cause.
    pub const ALL: [Self; 4] = [Self::Undecodable, Self::Rejected, Self::TriesUsedUp, Self::BehindAnother];

    /// The name in metrics labels and in the header `x-parked-cause`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Undecodable => "undecodable",
            Self::Rejected => "rejected",
            Self::TriesUsedUp => "tries_used_up",
            Self::BehindAnother => "behind_another",
        }
    }
}

/// Something worth counting or timing (rule R27).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsumerSignal {
    /// An effect was applied.
    Applied {
        /// From the start of the successful try to its commit.
        took: Duration,
        /// From the change to its effect, by the clocks of two processes; none for a replay, which is no lag.
        lag: Option<Duration>,
    },
    /// A message that had been handled before.
    Duplicate,
    /// A message that no handler of the queue listens to; reported once, under the first handler's name.
    Unheard,
    /// A try failed; another follows.
    Retried {
        /// Tries so far; 1 or more.
        tries: u32,
        /// The wait before the next.
        delay: Duration,
    },
    /// The broker confirmed a message's copy in the parking queue.
    Parked {
        /// Why.
        cause: ParkCause,
    },
    /// A message could not be parked; it stays without acknowledgement, and parking is tried again.
    ParkingFailed,
    /// Parked messages of one aggregate were handled, and its mark was lifted.
    Unparked {
        /// How many messages.
        messages: u32,
    },
    /// The database could not be reached; nothing is taken until it can.
    StoreUnavailable,
    /// The database can be reached again.
    StoreAvailable,
    /// The queue is being consumed.
    Subscribed,
    /// The connection, the channel or the queue was lost.
    SubscriptionLost,
}

/// Takes signals; must be quick, must not block and cannot fail.
#[cfg_attr(test, mockall::automock)]
pub trait ConsumerObserver: Send + Sync {
    /// Takes one signal of one consumer.
    fn observe(&self, consumer: &ConsumerName, signal: &ConsumerSignal);
}

/// An observer that looks away.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoConsumerObserver;

impl ConsumerObserver for NoConsumerObserver {
    fn observe(&self, _: &ConsumerName, _: &ConsumerSignal) {}
}
