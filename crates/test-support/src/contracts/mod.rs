//! Contract suites: one per port, the same cases for every adapter.
//!
//! A case is an async function whose name is a sentence. A macro per suite turns each into a test of its own:
//!
//! ```text
//! test_support::outbox_contracts!(MyHarness);
//! ```
//!
//! # Adding a case
//! 1. Write it in the suite of its port, over [`OutboxHarness`] alone.
//! 2. Name it in the suite's macro in `suites.rs` (test `every_case_is_named_in_the_macro_of_its_suite`).
//! 3. See it fail once against every adapter that runs the suite.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "a case fails by panicking"
)]

mod bench;
pub mod inbox;
pub mod leadership;
pub mod outbox_append;
pub mod outbox_audit;
pub mod outbox_maintenance;
pub mod outbox_operations;
pub mod outbox_pause;
pub mod outbox_statistics;
pub mod outbox_store;
pub mod outbox_without_history;
pub mod relay_registry;
mod suites;
pub mod unit_of_work;

use std::{sync::Arc, time::Duration};

use application_core::ports::{
    InboxPort, LeadershipPort, OutboxAppendPort, OutboxAuditPort, OutboxHoldersPort, OutboxMaintenancePort,
    OutboxOperationsPort, OutboxPausePort, OutboxStatisticsPort, OutboxStorePort, ParkingPort, RelayRegistryPort,
    UnitOfWork,
};

/// An adapter under test: its ports over one empty outbox, and the power to let its clock run.
///
/// The two asynchronous functions are written as `async fn` by an implementation; nothing asks their futures to be `Send`.
pub trait OutboxHarness: Send + Sync + Sized + 'static {
    /// The adapter's transaction.
    type Tx: Send + Sync + 'static;

    /// An empty outbox that no other case sees.
    fn fresh() -> impl Future<Output = Self>;

    /// Transactions.
    fn unit_of_work(&self) -> Arc<dyn UnitOfWork<Tx = Self::Tx>>;

    /// The appender's side.
    fn append(&self) -> Arc<dyn OutboxAppendPort<Self::Tx>>;

    /// The relay's side.
    fn store(&self) -> Arc<dyn OutboxStorePort>;

    /// The relay's side of the same outbox, deleting events when they are published.
    fn store_without_history(&self) -> Arc<dyn OutboxStorePort>;

    /// Reaping and cleaning.
    fn maintenance(&self) -> Arc<dyn OutboxMaintenancePort>;

    /// The operator's side.
    fn operations(&self) -> Arc<dyn OutboxOperationsPort>;

    /// Pauses.
    fn pause(&self) -> Arc<dyn OutboxPausePort>;

    /// The record of what operators changed.
    fn audit(&self) -> Arc<dyn OutboxAuditPort>;

    /// Leases and leaders.
    fn holders(&self) -> Arc<dyn OutboxHoldersPort>;

    /// The list of relays.
    fn registry(&self) -> Arc<dyn RelayRegistryPort>;

    /// The figures.
    fn statistics(&self) -> Arc<dyn OutboxStatisticsPort>;

    /// The consumer's side.
    fn inbox(&self) -> Arc<dyn InboxPort<Self::Tx>>;

    /// Parked aggregates.
    fn parking(&self) -> Arc<dyn ParkingPort>;

    /// The leader's lease.
    fn leadership(&self) -> Arc<dyn LeadershipPort>;

    /// Lets this much time pass for everything that is stored: moves a fake clock, or ages every stored time.
    ///
    /// Cases call it while no transaction of theirs is open.
    fn advance(&self, by: Duration) -> impl Future<Output = ()>;
}

/// Runs one case, and fails it if it hangs.
#[doc(hidden)]
pub async fn run(case: impl Future<Output = ()>) {
    const LIMIT: Duration = Duration::from_secs(120);
    tokio::time::timeout(LIMIT, case).await.expect("the case should not hang");
}
