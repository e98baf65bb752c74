//! Ports: remember which messages a consumer has handled, and which aggregates it must not touch.

use std::{fmt, time::Duration};

use async_trait::async_trait;

use super::{error::StoreError, leadership::LeaderTerm};
use crate::{
    inbox::ParkedAggregate,
    outbox::{AggregateId, AggregateType, EventId},
};

/// The name of a consumer: the scope in which an event is handled once.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConsumerName(String);

impl ConsumerName {
    /// Wraps a name. It is stored: renaming a consumer makes it handle everything anew.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ConsumerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a message is met for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstSeen {
    /// It is; it counts as handled once the transaction commits.
    Yes,
    /// It was handled before: its effects exist.
    No,
}

/// Records handled messages in the transaction of their effects (rule R21).
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait InboxPort<Tx: Send + Sync + 'static>: Send + Sync {
    /// Records the event for the consumer.
    ///
    /// If another transaction records the same event meanwhile, the call MUST wait for its outcome.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn record(&self, tx: &mut Tx, consumer: &ConsumerName, event: EventId) -> Result<FirstSeen, StoreError>;
}

/// Remembers aggregates whose message was parked, so that later ones wait as well (rule R22).
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait ParkingPort: Send + Sync {
    /// Why the aggregate is parked for the consumer, if it is.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn parked(
        &self,
        consumer: &ConsumerName,
        aggregate_type: &AggregateType,
        aggregate_id: &AggregateId,
    ) -> Result<Option<ParkedAggregate>, StoreError>;

    /// Parks an aggregate; a second call changes nothing.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn park(&self, consumer: &ConsumerName, parked: &ParkedAggregate) -> Result<(), StoreError>;

    /// Lets the aggregate's messages through again; `false`: it was not parked.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn unpark(
        &self,
        consumer: &ConsumerName,
        aggregate_type: &AggregateType,
        aggregate_id: &AggregateId,
    ) -> Result<bool, StoreError>;
}

/// Removes old records of handled messages.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait InboxMaintenancePort: Send + Sync {
    /// Removes up to `batch` records that are older than `retention`; `None`: the term is over, nothing was changed.
    ///
    /// A removed record lets a later redelivery of its event have a second effect: `retention` must be longer than
    /// anything can still be redelivered or replayed (rule R21).
    ///
    /// # Errors
    /// [`StoreError`].
    async fn clean_up(&self, term: &LeaderTerm, retention: Duration, batch: u32) -> Result<Option<u32>, StoreError>;
}
