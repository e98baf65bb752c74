//! The outbox as its writers, operators and watchers see it.

use crate::Database;

/// Appends events in a caller's transaction, reads and moves single events for operators, and takes statistics.
///
/// It implements [`OutboxAppendPort`](application_core::ports::OutboxAppendPort) (`append.rs`),
/// [`OutboxOperationsPort`](application_core::ports::OutboxOperationsPort) (`operations.rs`),
/// [`OutboxAuditPort`](application_core::ports::OutboxAuditPort) (`audit.rs`),
/// [`OutboxPausePort`](application_core::ports::OutboxPausePort) (`pause.rs`) and
/// [`OutboxStatisticsPort`](application_core::ports::OutboxStatisticsPort) (`statistics.rs`).
#[derive(Debug, Clone)]
pub struct OutboxEventRepository {
    pub(super) database: Database,
}

impl OutboxEventRepository {
    /// Works on this database; appending uses the caller's transaction alone.
    #[must_use]
    pub const fn new(database: Database) -> Self {
        Self { database }
    }
}
