//! Port: ask the running consumer to handle what it has parked.

use async_trait::async_trait;

use super::{error::BoxError, inbox::ConsumerName};
use crate::outbox::{AggregateId, AggregateType, EventId};

/// The consumer could not be asked; the request may have reached it all the same.
#[derive(Debug, thiserror::Error)]
#[error("the consumer could not be asked")]
pub struct UnparkRequestError {
    /// Why.
    #[source]
    pub source: BoxError,
}

/// A parked message that is given up instead of handled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GiveUp {
    /// Its event.
    pub event: EventId,
    /// Whose copy of it; nobody's in particular: the copies of all consumers.
    pub consumer: Option<ConsumerName>,
}

/// Sends requests to whichever process consumes.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait UnparkRequestPort: Send + Sync {
    /// Asks for the parked messages of the aggregate to be handled in order, `discard` to be given up. The consumer acts on
    /// it later.
    ///
    /// # Delivery
    /// At least once; a repeated request finds nothing left to do.
    ///
    /// # Errors
    /// [`UnparkRequestError`].
    async fn request(
        &self,
        aggregate_type: &AggregateType,
        aggregate_id: &AggregateId,
        discard: Option<GiveUp>,
    ) -> Result<(), UnparkRequestError>;
}
