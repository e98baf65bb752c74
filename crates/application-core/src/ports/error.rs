//! What a store can answer besides its result.

use std::time::Duration;

/// A cause from below a port, kept for the log.
pub type BoxError = Box<dyn std::error::Error + Send + Sync + 'static>;

/// A store that could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No connection could be had, or it broke.
    #[error("the database cannot be reached")]
    Unavailable {
        /// The driver's error.
        #[source]
        source: BoxError,
    },
    /// The answer did not come in time; whether the statement took effect is unknown.
    #[error("the database did not answer within {limit:?}")]
    Timeout {
        /// The time allowed.
        limit: Duration,
    },
    /// The transaction lost against another one (serialization failure, deadlock, lock not available).
    #[error("the transaction lost against another one")]
    Conflict {
        /// The driver's error.
        #[source]
        source: BoxError,
    },
    /// A stored value cannot be read.
    #[error("{table}.{column} of {id} cannot be read")]
    Corrupt {
        /// The table or view.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// The row.
        id: String,
    },
    /// A state change touched another number of rows than it must.
    #[error("{operation} changed {actual} rows instead of {expected}")]
    RowsAffected {
        /// The operation.
        operation: &'static str,
        /// The rows that should have changed.
        expected: u64,
        /// The rows that did.
        actual: u64,
    },
    /// The database does not let this process's user do it.
    #[error("the user of the database lacks a right")]
    Forbidden {
        /// The driver's error.
        #[source]
        source: BoxError,
    },
    /// The database refused the statement: a constraint, a missing table.
    #[error("the database refused the statement")]
    Refused {
        /// The driver's error.
        #[source]
        source: BoxError,
    },
}

impl StoreError {
    /// Whether the same call may succeed a little later.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Timeout { .. } | Self::Conflict { .. })
    }
}
