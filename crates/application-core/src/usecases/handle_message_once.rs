//! Use case: apply a message's effect once, however often it is delivered.

use std::{fmt, sync::Arc};

use async_trait::async_trait;

use super::transactional::{Transaction, Transactional};
use crate::{
    inbox::InboundMessage,
    ports::{BoxError, ConsumerName, FirstSeen, InboxPort, OutboxAppendError, StoreError},
};

/// Why a handler could not apply a message.
#[derive(Debug, thiserror::Error)]
pub enum HandlerError {
    /// It may work later.
    #[error("the message could not be handled now")]
    Retry {
        /// Why.
        #[source]
        source: BoxError,
    },
    /// It will never work: the message makes no sense to this consumer.
    #[error("the message cannot be handled: {reason}")]
    Reject {
        /// Why, storable.
        reason: String,
    },
}

impl From<StoreError> for HandlerError {
    fn from(source: StoreError) -> Self {
        Self::Retry { source: source.into() }
    }
}

impl From<OutboxAppendError> for HandlerError {
    fn from(source: OutboxAppendError) -> Self {
        Self::Retry { source: source.into() }
    }
}

/// A consumer's own work, done in the transaction in which the message is recorded as handled.
#[async_trait]
pub trait MessageHandler<Tx: Send + Sync + 'static>: Send + Sync {
    /// Whether it wants a message at all; all of them unless it says otherwise.
    ///
    /// What it does not want is never handed to it and leaves no record of it. The answer MUST rest upon the message alone:
    /// it is asked again when the message comes again.
    fn listens_to(&self, _message: &InboundMessage) -> bool {
        true
    }

    /// Applies the message's effect through the transaction and nothing else; may record events of its own.
    ///
    /// # Errors
    /// [`HandlerError`]; nothing of the transaction stays.
    async fn handle(&self, transaction: &mut Transaction<Tx>, message: &InboundMessage) -> Result<(), HandlerError>;
}

/// What became of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handled {
    /// The effect was applied now.
    Applied,
    /// It had been applied before; nothing was done.
    Duplicate,
}

/// Applies messages through one handler, each once per consumer name (rule R21).
pub struct HandleMessageOnce<Tx: Send + Sync + 'static> {
    transactional: Arc<Transactional<Tx>>,
    inbox: Arc<dyn InboxPort<Tx>>,
    consumer: ConsumerName,
    handler: Arc<dyn MessageHandler<Tx>>,
}

impl<Tx: Send + Sync + 'static> HandleMessageOnce<Tx> {
    /// Puts the parts together.
    #[must_use]
    pub fn new(
        transactional: Arc<Transactional<Tx>>,
        inbox: Arc<dyn InboxPort<Tx>>,
        consumer: ConsumerName,
        handler: Arc<dyn MessageHandler<Tx>>,
    ) -> Self {
        Self { transactional, inbox, consumer, handler }
    }

    /// The name under which messages are recorded.
    #[must_use]
    pub const fn consumer(&self) -> &ConsumerName {
        &self.consumer
    }

    /// Whether the handler wants the message.
    #[must_use]
    pub fn listens_to(&self, message: &InboundMessage) -> bool {
        self.handler.listens_to(message)
    }

    /// Records the message and applies its effect in one transaction, unless it was recorded before.
    ///
    /// # Errors
    /// [`HandlerError`]; neither record nor effect stays.
    pub async fn handle(&self, message: &InboundMessage) -> Result<Handled, HandlerError> {
        self.transactional
            .run(async |transaction: &mut Transaction<Tx>| {
                match self.inbox.record(transaction.tx(), &self.consumer, message.id).await? {
                    FirstSeen::No => Ok(Handled::Duplicate),
                    FirstSeen::Yes => {
                        self.handler.handle(transaction, message).await?;
                        Ok(Handled::Applied)
                    }
                }
            })
            .await
    }
}

impl<Tx: Send + Sync + 'static> fmt::Debug for HandleMessageOnce<Tx> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandleMessageOnce").field("consumer", &self.consumer).finish_non_exhaustive()
    }
}
