//! Port: claim events and settle what became of them.

use std::time::Duration;

use async_trait::async_trait;

use super::error::StoreError;
use crate::outbox::{ClaimRequest, ConfirmedRun, FailedRun, LeaseToken, Run, Settlement};

/// The relay's side of the outbox.
///
/// Each call MUST be one short READ COMMITTED transaction that never waits for its client (rule R11), and every settling
/// call MUST change nothing unless the claim of its token still stands (rule R14).
///
/// # Cancellation
/// Dropping a call leaves its effect unknown: a claim that took effect is returned by its lease, a settlement may be
/// repeated.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait OutboxStorePort: Send + Sync {
    /// Leases due lanes and hands out the run of each (rules R11, R12, R16).
    ///
    /// Lanes that are leased, not due, or headed by a DEAD event are passed over. The result is empty when nothing is due.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<Run>, StoreError>;

    /// Settles runs that were confirmed to their end, and gives their lanes back.
    ///
    /// With empty `confirmed`, frees lanes that an earlier call postponed; it waits a short time for each.
    /// A call may be repeated when its answer was lost: what the first one settled is not settled again.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::RowsAffected`] when an event of a standing claim was not there to settle.
    async fn acknowledge(&self, token: LeaseToken, runs: &[ConfirmedRun]) -> Result<Settlement, StoreError>;

    /// Settles the confirmed start of each run, counts one attempt for the event after it, and gives the lanes back.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn fail(&self, token: LeaseToken, runs: &[FailedRun]) -> Result<Settlement, StoreError>;

    /// Settles the confirmed start of each run and gives the rest back untouched, due after `delay`.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn release(
        &self,
        token: LeaseToken,
        runs: &[ConfirmedRun],
        delay: Duration,
    ) -> Result<Settlement, StoreError>;

    /// Makes the lease end `lease` from now; `false` when the claim is gone.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn renew(&self, token: LeaseToken, lease: Duration) -> Result<bool, StoreError>;
}
