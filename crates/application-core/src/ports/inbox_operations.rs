//! Port: what an operator sees of inboxes, and changes in them.

use async_trait::async_trait;

use super::{error::StoreError, inbox::ConsumerName, unpark_request::GiveUp};
use crate::{
    inbox::ParkedAggregate,
    outbox::{AggregateId, AggregateType, Attribution, EventId},
};

/// Lists what consumers have parked, and lets them forget what they have handled.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait InboxOperationsPort: Send + Sync {
    /// Forgets that the consumer handled these events, so that a replay has its effect again. Returns how many were
    /// recorded as handled.
    ///
    /// What is forgotten MUST be recorded in the same transaction. Very many events may be several transactions.
    ///
    /// # Errors
    /// [`StoreError`]; what was forgotten before stays so.
    async fn forget(&self, consumer: &ConsumerName, events: &[EventId], by: &Attribution) -> Result<u64, StoreError>;

    /// The aggregates that are parked for the consumer, longest first; at most `limit`.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn list_parked(&self, consumer: &ConsumerName, limit: u32) -> Result<Vec<ParkedAggregate>, StoreError>;

    /// The names under which anything is recorded or parked, in order.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn consumers(&self) -> Result<Vec<String>, StoreError>;

    /// Records that somebody asks for an aggregate's parked messages to be handled, `discard` to be given up. Returns for how
    /// many consumers the aggregate is parked; where it is for none, nothing MUST be recorded, unless messages may be parked
    /// without a mark (`unmarked`), so that it counts as one.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn record_unpark(
        &self,
        aggregate_type: &AggregateType,
        aggregate_id: &AggregateId,
        discard: Option<GiveUp>,
        unmarked: bool,
        by: &Attribution,
    ) -> Result<u64, StoreError>;
}
