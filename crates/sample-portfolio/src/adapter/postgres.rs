//! Driven adapters on PostgreSQL. Types of the database layer stay in here.
//!
//! Writes run in the caller's transaction. Reads run in a short one of their own: it brings the limits of time, and a
//! connection that is safe to drop halfway.

mod idempotency_key_maintenance;
mod idempotency_keys;
mod portfolio_minutes;
mod work_log_entity;
mod work_logs;

use application_core::ports::StoreError;

pub use idempotency_key_maintenance::PostgresIdempotencyKeyMaintenance;
pub use idempotency_keys::PostgresIdempotencyKeys;
pub use portfolio_minutes::PostgresPortfolioMinutes;
pub use work_logs::PostgresWorkLogs;

/// The module's tables, for readiness.
pub const TABLES: &[&str] = &["work_log", "work_log_idempotency", "portfolio_minutes"];

/// A state change that touched another number of rows than it must has not happened as asked.
fn expect_rows(operation: &'static str, expected: u64, actual: u64) -> Result<(), StoreError> {
    if actual == expected { Ok(()) } else { Err(StoreError::RowsAffected { operation, expected, actual }) }
}
