//! Port: return expired leases, and remove history.

use std::time::Duration;

use async_trait::async_trait;

use super::{error::StoreError, leadership::LeaderTerm};
use crate::outbox::{AggregateType, Attribution, SettledHistory};

/// How expired leases are returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReapRequest {
    /// The most claims of one call; 1 or more.
    pub max_claims: u32,
    /// After how many expiries in a row the head of a lane goes DEAD; 2 or more (rule R15).
    pub dead_after_expiries: u32,
    /// Aggregate types whose DEAD heads are skipped (rule R13).
    pub skip_types: Vec<AggregateType>,
}

/// What a reaper's call did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReapReport {
    /// Claims whose lease had ended.
    pub claims: u32,
    /// Lanes that are free again.
    pub lanes: u32,
    /// Lanes that an appender held; a later call frees them.
    pub postponed: u32,
    /// Events that went DEAD because they outlived too many leases.
    pub dead: u32,
}

/// Keeps the outbox in shape; safe beside any number of relays.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait OutboxMaintenancePort: Send + Sync {
    /// Returns the events of expired leases without touching their attempts.
    ///
    /// A claim that its relay settles or renews meanwhile MUST stay as it is.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn reap(&self, request: &ReapRequest) -> Result<ReapReport, StoreError>;

    /// Removes up to `batch` events that were published longer ago than `retention`; open and DEAD events stay.
    ///
    /// Returns the number removed, or `None` when the term is over: then nothing was changed (rules R14, R23).
    ///
    /// # Errors
    /// [`StoreError`].
    async fn clean_up(&self, term: &LeaderTerm, retention: Duration, batch: u32) -> Result<Option<u32>, StoreError>;

    /// Removes up to `batch` events of this history that are older than `age`, oldest first, for an operator; fewer than
    /// `batch`: that was all. It MUST record who had it done in the same transaction, unless it removed nothing.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn purge(
        &self,
        history: SettledHistory,
        age: Duration,
        batch: u32,
        by: &Attribution,
    ) -> Result<u32, StoreError>;

    /// Counts what [`Self::purge`] would remove in all; counting stops at
    /// [`OutboxStatistics::COUNT_LIMIT`](super::OutboxStatistics::COUNT_LIMIT).
    ///
    /// # Errors
    /// [`StoreError`].
    async fn count_purgeable(&self, history: SettledHistory, age: Duration) -> Result<u64, StoreError>;
}
