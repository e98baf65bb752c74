//! Why a command was not carried out. Nothing of it stays then.

use application_core::{
    outbox::InvalidEvent,
    ports::{OutboxAppendError, StoreError},
};

use crate::{
    domain::{IllegalTransition, PortfolioId, Version, WorkLogId},
    ports::IdempotencyKey,
};

/// A command that failed as a whole.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// The portfolio has no such work log.
    #[error("portfolio {portfolio} has no work log {id}")]
    NotFound {
        /// The portfolio.
        portfolio: PortfolioId,
        /// The work log asked for.
        id: WorkLogId,
    },
    /// The work log's status does not allow it.
    #[error(transparent)]
    Illegal(#[from] IllegalTransition),
    /// The work log has changed since the client saw it.
    #[error("work log {id} is at version {actual}, version {expected} was expected")]
    VersionMismatch {
        /// The work log.
        id: WorkLogId,
        /// The version the client saw.
        expected: Version,
        /// The version it has.
        actual: Version,
    },
    /// The key belongs to another request.
    #[error("idempotency key {} was used for another request", .key.as_str())]
    KeyReused {
        /// The key.
        key: IdempotencyKey,
    },
    /// An event breaks a bound of the outbox.
    #[error("the event cannot be sent")]
    Event {
        /// Which bound.
        #[from]
        source: InvalidEvent,
    },
    /// The events could not be appended.
    #[error("the events could not be recorded")]
    Append {
        /// Why.
        #[from]
        source: OutboxAppendError,
    },
    /// The store failed.
    #[error("the work log could not be stored")]
    Store {
        /// Why.
        #[from]
        source: StoreError,
    },
}

impl CommandError {
    /// Whether the same command may succeed a little later.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        match self {
            Self::Store { source } | Self::Append { source: OutboxAppendError::Store { source } } => {
                source.is_transient()
            }
            _ => false,
        }
    }
}
