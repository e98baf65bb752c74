//! Port: hand an event to a broker.

use std::fmt;

use async_trait::async_trait;

use crate::outbox::{OutboxEvent, PublishFailure};

/// What fails as one: an exchange, a webhook's host. Each destination has a circuit breaker of its own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Destination(String);

impl Destination {
    /// Wraps a name.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The name, used in logs and metrics.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a publisher can take anything now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Availability {
    /// It can.
    Available,
    /// It cannot for now: not connected, or blocked by the broker.
    Unavailable {
        /// Why, for logs and readiness.
        reason: String,
    },
    /// It never will: publishing is switched off (rule R20).
    Disabled,
}

/// Publishes events; the relay asks it before each claim whether claiming makes sense.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait MessagePublishPort: Send + Sync {
    /// Whether anything can be published now; answers at once, without I/O.
    fn availability(&self) -> Availability;

    /// Where the event goes; every event has exactly one destination.
    ///
    /// # Errors
    /// A failure of class *poison* when no route takes the event.
    fn destination(&self, event: &OutboxEvent) -> Result<Destination, PublishFailure>;

    /// Sends the event and waits for the broker's confirm.
    ///
    /// `Ok` MUST mean that the broker has taken responsibility: a message that was returned, or for which no confirm came
    /// in time, is a failure.
    ///
    /// # Delivery
    /// At least once: after a failure of class *unavailable* the broker may have the message all the same.
    ///
    /// # Cancellation
    /// Dropping the call leaves open whether the broker has the message.
    ///
    /// # Errors
    /// [`PublishFailure`] with its class.
    async fn publish(&self, event: &OutboxEvent) -> Result<(), PublishFailure>;
}
