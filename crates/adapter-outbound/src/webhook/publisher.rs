//! The webhook implementation of the core's publish port.

use std::{collections::BTreeSet, fmt, sync::Arc};

use application_core::{
    outbox::{OutboxEvent, PublishFailure},
    ports::{Availability, Clock, Destination, MessagePublishPort},
};
use async_trait::async_trait;

use super::{
    client::{HttpClient, tls},
    message::MessageEncoder,
    route::Route,
};
use crate::{envelope::Envelope, settings::OutboundSettings, setup::OutboundSetupError};

/// Posts events to receivers, signed, and waits for their answers.
///
/// Scheme, host and port of a URL are the destination: each host has a breaker of its own. Any number of `publish` calls
/// may wait at once, each with a connection of its own; connections without work are kept for the next ones, up to a
/// bound.
///
/// # Delivery
/// At least once. `Ok` means that the receiver answered with a status from 200 to 299. After a failure of class
/// *unavailable* it may have the event all the same; `webhook-id` tells it so.
///
/// # Cancellation
/// A dropped `publish` leaves open whether the receiver has the event; others are not disturbed.
pub struct WebhookOutboxMessagePublisher {
    route: Route,
    encoder: MessageEncoder,
    client: HttpClient,
    clock: Arc<dyn Clock>,
}

impl WebhookOutboxMessagePublisher {
    /// Sets the publisher up; connects to nobody yet. The clock tells receivers when an attempt was made.
    ///
    /// # Errors
    /// [`OutboundSetupError`] when settings cannot be used, or there are no certificate authorities to trust and a URL
    /// asks for them.
    pub fn try_new(settings: &OutboundSettings, clock: Arc<dyn Clock>) -> Result<Self, OutboundSetupError> {
        let webhook = &settings.webhook;
        let mut problems = settings.envelope.problems("envelope");
        problems.extend(webhook.problems("webhook"));
        let route = match Route::compile(webhook, "webhook") {
            Ok(route) if problems.is_empty() => route,
            _ => return Err(OutboundSetupError::Settings(problems)),
        };
        let encrypted = route.receivers().any(|receiver| receiver.address.encrypted);
        Ok(Self {
            encoder: MessageEncoder::new(Envelope::new(&settings.envelope), webhook.max_message_bytes),
            client: HttpClient::new(webhook, tls(webhook, encrypted)?),
            route,
            clock,
        })
    }
}

#[async_trait]
impl MessagePublishPort for WebhookOutboxMessagePublisher {
    /// Always available: there is no connection to watch, and a host that is away pauses alone.
    fn availability(&self) -> Availability {
        Availability::Available
    }

    fn destination(&self, event: &OutboxEvent) -> Result<Destination, PublishFailure> {
        Ok(self.route.resolve(event).address.destination.clone())
    }

    async fn publish(&self, event: &OutboxEvent) -> Result<(), PublishFailure> {
        let request = self.encoder.encode(event)?.sign(self.route.resolve(event), self.clock.now())?;
        self.client.send(request).await
    }
}

impl fmt::Debug for WebhookOutboxMessagePublisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let destinations: BTreeSet<_> =
            self.route.receivers().map(|receiver| receiver.address.destination.as_str()).collect();
        f.debug_struct("WebhookOutboxMessagePublisher").field("destinations", &destinations).finish_non_exhaustive()
    }
}
