//! Port: put events into the outbox, in the caller's transaction.

use async_trait::async_trait;

use super::error::StoreError;
use crate::outbox::{EventId, NewOutboxEvent};

/// Why events could not be appended. The caller's transaction cannot be committed any more.
#[derive(Debug, thiserror::Error)]
pub enum OutboxAppendError {
    /// An event with this id is in the outbox already (rule R9).
    #[error("event {id} is in the outbox already")]
    Duplicate {
        /// The id, if the store can tell which of the call it is.
        id: EventId,
    },
    /// The store failed.
    #[error("the events could not be appended")]
    Store {
        /// Why.
        #[source]
        source: StoreError,
    },
}

impl From<StoreError> for OutboxAppendError {
    fn from(source: StoreError) -> Self {
        Self::Store { source }
    }
}

/// Appends events in the transaction `Tx`, and nowhere else.
///
/// An adapter MUST use no other connection, wait for no network but the database's, and send no NOTIFY (rule R7). It
/// MUST lock the lanes of the events in one order for all callers before it draws their sequences, and hold them to the
/// end of the transaction, so that the order within an aggregate is commit order (rule R10).
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait OutboxAppendPort<Tx: Send + Sync + 'static>: Send + Sync {
    /// Appends all events in one statement; those of one aggregate keep their order.
    ///
    /// # Errors
    /// [`OutboxAppendError`]; the transaction is spoilt and must be dropped.
    async fn append(&self, tx: &mut Tx, events: &[NewOutboxEvent]) -> Result<(), OutboxAppendError>;
}
