//! The use case as the consumer sees it: without the transaction's type.

use application_core::{
    inbox::InboundMessage,
    ports::ConsumerName,
    usecases::{HandleMessageOnce, Handled, HandlerError},
};
use async_trait::async_trait;

/// Handles a message once, however often it is delivered; hides the type of the transaction.
#[async_trait]
pub trait HandleMessage: Send + Sync {
    /// The name under which messages are recorded.
    fn consumer(&self) -> &ConsumerName;

    /// Whether the message is for this consumer; if not, it is neither handed to it nor recorded for it.
    fn listens_to(&self, message: &InboundMessage) -> bool;

    /// Applies the message's effect unless it was applied before.
    ///
    /// # Cancellation
    /// All of the effect or nothing.
    ///
    /// # Errors
    /// [`HandlerError`]; nothing stays.
    async fn handle(&self, message: &InboundMessage) -> Result<Handled, HandlerError>;
}

#[async_trait]
impl<Tx: Send + Sync + 'static> HandleMessage for HandleMessageOnce<Tx> {
    fn consumer(&self) -> &ConsumerName {
        Self::consumer(self)
    }

    fn listens_to(&self, message: &InboundMessage) -> bool {
        Self::listens_to(self, message)
    }

    async fn handle(&self, message: &InboundMessage) -> Result<Handled, HandlerError> {
        Self::handle(self, message).await
    }
}
