//! Ports: remember which messages a consumer has handled, and which aggregates it must not touch.

use std::{fmt, time::Duration};

use async_trait::async_trait;

use super::{error::StoreError, leadership::LeaderTerm};
use crate::{
    inbox::ParkedAggregate,
    outbox::{AggregateId, AggregateType, EventId},
};

/// The name of a consumer: the scope in which an event is handled once. 1 to 100 bytes, no control character.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConsumerName(String);

/// A consumer's name that breaks a bound.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidConsumerName {
    /// Without a character.
    #[error("the consumer's name is empty")]
    Empty,
    /// Over its byte budget.
    #[error("the consumer's name takes {actual} bytes, at most {bound} are allowed", bound = ConsumerName::MAX_BYTES)]
    TooLong {
        /// The bytes met.
        actual: usize,
    },
    /// With a control character.
    #[error("the consumer's name holds a control character at byte {offset}")]
    Forbidden {
        /// Where it stands.
        offset: usize,
    },
}

impl ConsumerName {
    /// The most bytes allowed. The inbox's tables repeat it.
    pub const MAX_BYTES: usize = 100;

    /// Takes a name that is fixed in the code and within the bounds. It is stored: renaming a consumer makes it handle
    /// everything anew.
    #[must_use]
    pub fn new(name: &'static str) -> Self {
        Self(name.to_owned())
    }

    /// Checks a name that comes from outside.
    ///
    /// # Errors
    /// [`InvalidConsumerName`] names the bound and what was met.
    pub fn try_new(name: impl Into<String>) -> Result<Self, InvalidConsumerName> {
        let name = name.into();
        if name.is_empty() {
            return Err(InvalidConsumerName::Empty);
        }
        if name.len() > Self::MAX_BYTES {
            return Err(InvalidConsumerName::TooLong { actual: name.len() });
        }
        match name.char_indices().find(|(_, c)| c.is_control()) {
            Some((offset, _)) => Err(InvalidConsumerName::Forbidden { offset }),
            None => Ok(Self(name)),
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_consumers_name_is_1_to_100_bytes_without_control_characters() {
        assert_eq!(ConsumerName::try_new("portfolio-minutes"), Ok(ConsumerName::new("portfolio-minutes")));
        assert!(ConsumerName::try_new("x".repeat(100)).is_ok());
        assert_eq!(ConsumerName::try_new(""), Err(InvalidConsumerName::Empty));
        let error = ConsumerName::try_new("x".repeat(101)).expect_err("too long");
        assert_eq!(error.to_string(), "the consumer's name takes 101 bytes, at most 100 are allowed");
        assert_eq!(ConsumerName::try_new("ab\n"), Err(InvalidConsumerName::Forbidden { offset: 2 }));
    }
}
