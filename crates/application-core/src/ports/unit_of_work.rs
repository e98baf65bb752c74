//! Port: one database transaction.

use async_trait::async_trait;

use super::error::StoreError;

/// Begins and commits transactions. The type of a transaction is the adapter's own; the core only carries it.
#[async_trait]
pub trait UnitOfWork: Send + Sync {
    /// An open transaction; dropping it rolls it back.
    type Tx: Send + Sync + 'static;

    /// Begins a transaction.
    ///
    /// # Cancellation
    /// Dropping the call MUST leave no transaction open on a pooled connection.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn begin(&self) -> Result<Self::Tx, StoreError>;

    /// Commits.
    ///
    /// # Cancellation
    /// Dropping the call leaves the outcome unknown: all of the transaction, or nothing of it.
    ///
    /// # Errors
    /// [`StoreError`]; after [`StoreError::Unavailable`] or [`StoreError::Timeout`] the outcome is unknown.
    async fn commit(&self, tx: Self::Tx) -> Result<(), StoreError>;
}
