//! Port: what operators have changed.

use async_trait::async_trait;
use time::OffsetDateTime;

use super::error::StoreError;
use crate::outbox::{Attribution, EventId};

/// A change that an operator made, recorded in the transaction of the change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// Its number; later entries have higher ones.
    pub number: i64,
    /// When.
    pub acted_at: OffsetDateTime,
    /// Who, and why.
    pub by: Attribution,
    /// What: `requeue`, `discard`, `replay`, `pause`, `resume`, `purge`, `repair`, `forget`, `unpark` or
    /// `discard_parked`.
    pub action: String,
    /// Which aggregate type, of a pause or resume of one, or of an aggregate whose messages were parked.
    pub aggregate_type: Option<String>,
    /// Which aggregate, whose messages were parked.
    pub aggregate_id: Option<String>,
    /// Whose records of handled events were forgotten, or whose parked message alone was given up.
    pub consumer: Option<String>,
    /// The events that were changed, as far as the action changes single ones.
    pub events: Vec<EventId>,
    /// How many events, lanes, pauses, records or aggregates were changed; 1 or more.
    pub affected: u64,
}

/// Reads the record; it is written by the changes themselves.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait OutboxAuditPort: Send + Sync {
    /// The entries with a number below `before`, newest first; at most `limit`.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn audit(&self, before: Option<i64>, limit: u32) -> Result<Vec<AuditEntry>, StoreError>;

    /// The entries that name this event, newest first; at most `limit`.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn audit_of(&self, event: EventId, limit: u32) -> Result<Vec<AuditEntry>, StoreError>;
}
