//! The outbox, the inbox and the unit of work in PostgreSQL.
//!
//! # Invariants
//! - Relay, reaper, maintenance and operators change the outbox through the functions of `migrations/outbox` alone, each
//!   call one message that holds its whole transaction (`short_transaction.rs`, rule R11).
//! - Appending uses the caller's transaction and nothing else (rule R7).
//! - No session state is relied upon but by the migrator and the wake-up, which have connections of their own.
//! - Errors carry the server's message, SQLSTATE and constraint, never rows, parameters or connection strings.
//!
//! # Adding a repository
//! Take [`PgTransaction`] and run statements on [`PgTransaction::orm`]; hand on every error by
//! [`PgTransaction::store_error`].

mod connection;
mod error;
mod inbox;
mod leadership;
mod migrate;
pub mod outbox;
mod readiness;
mod settings;
mod short_transaction;
mod sql;
mod unit_of_work;

pub use connection::Database;
pub use error::DriverError;
pub use inbox::PostgresInbox;
pub use leadership::PostgresLeadership;
pub use migrate::{History, MigrateError, MigrationReport, migrate, newest_version, outbox_migrations, schema_version};
pub use outbox::{
    AutovacuumCheck, ClaimedRow, ClockCheck, FailureRow, IndexCheck, LaneCheck, OutboxClaimRepository,
    OutboxEventEntity, OutboxEventRepository, OutboxEventStateEntity, OutboxReaper, OutboxRole, OutboxStoreAdapter,
    PermissionCheck, PostgresOutboxClaimRepository, RoutingCheck, SchemaCheck, ServerSettingsCheck, SettlementRow,
    SnapshotCheck,
    wakeup::{ListenWakeup, NotifyWakeup, WakeupSettings},
};
pub use readiness::{DatabaseReadiness, SchemaReadiness, SequenceError, TablesReadiness, check_sequence};
pub use refinery::Migration;
pub use settings::{DatabaseSettings, PoolSettings, TlsMode, TlsSettings, masked};
pub use unit_of_work::{PgTransaction, PostgresUnitOfWork};

/// How durations of settings are read and written.
mod setting_duration {
    pub(crate) use application_core::setting_duration::serialize;
    pub(crate) use humantime_serde::deserialize;
}
