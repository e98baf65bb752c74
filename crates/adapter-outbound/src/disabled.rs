//! A publisher that publishes nothing (rule R20).

use application_core::{
    outbox::{FailureClass, OutboxEvent, PublishFailure},
    ports::{Availability, Destination, MessagePublishPort},
};
use async_trait::async_trait;

/// Takes no event, ever: with it the relay does not claim, and events wait as PENDING.
#[derive(Debug, Clone, Copy, Default)]
pub struct DisabledOutboxMessagePublisher;

#[async_trait]
impl MessagePublishPort for DisabledOutboxMessagePublisher {
    fn availability(&self) -> Availability {
        Availability::Disabled
    }

    fn destination(&self, _: &OutboxEvent) -> Result<Destination, PublishFailure> {
        Ok(Destination::new("disabled"))
    }

    async fn publish(&self, _: &OutboxEvent) -> Result<(), PublishFailure> {
        Err(PublishFailure::new(FailureClass::Unavailable, "publishing is switched off"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::event;

    #[tokio::test]
    async fn the_disabled_publisher_confirms_nothing_and_blames_no_event() {
        let publisher = DisabledOutboxMessagePublisher;
        assert_eq!(publisher.availability(), Availability::Disabled);
        let failure = publisher.publish(&event()).await.unwrap_err();
        assert_eq!(failure.class(), FailureClass::Unavailable);
    }
}
