//! The producer span of a publish, whose context the message carries.

use std::sync::Arc;

use application_core::{
    outbox::{EventHeaders, OutboxEvent, PublishFailure},
    ports::{Availability, Destination, MessagePublishPort},
};
use async_trait::async_trait;
use tracing::{Span, field};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use super::{context::TraceContext, fail, within};

/// Publishes in a span that continues the trace of the event, however long ago it was appended.
pub(super) struct TracedPublisher {
    publisher: Arc<dyn MessagePublishPort>,
    system: &'static str,
}

impl TracedPublisher {
    pub(super) fn new(publisher: Arc<dyn MessagePublishPort>, system: &'static str) -> Self {
        Self { publisher, system }
    }

    fn span(&self, event: &OutboxEvent, destination: &Destination) -> Span {
        let name = format!("{destination} publish");
        let span = tracing::info_span!("publish", otel.name = name, otel.kind = "producer", trace_id = field::Empty);
        span.set_attribute("messaging.system", self.system);
        span.set_attribute("messaging.operation.name", "publish");
        span.set_attribute("messaging.operation.type", "send");
        span.set_attribute("messaging.destination.name", destination.as_str().to_owned());
        span.set_attribute("messaging.message.id", event.id.to_string());
        span
    }
}

#[async_trait]
impl MessagePublishPort for TracedPublisher {
    fn availability(&self) -> Availability {
        self.publisher.availability()
    }

    fn destination(&self, event: &OutboxEvent) -> Result<Destination, PublishFailure> {
        self.publisher.destination(event)
    }

    async fn publish(&self, event: &OutboxEvent) -> Result<(), PublishFailure> {
        let span = self.span(event, &self.publisher.destination(event)?);
        TraceContext::of_event(&event.headers).continue_in(&span);
        let traced = TraceContext::of_span(&span).and_then(|context| carrying(&context, event));
        let published = within(&span, self.publisher.publish(traced.as_ref().unwrap_or(event))).await;
        if let Err(failure) = &published {
            fail(&span, failure.class().as_str());
        }
        published
    }
}

/// `None`: headers that are full leave no room for a context, and more than the budget could keep the event from its
/// destination.
fn carrying(context: &TraceContext, event: &OutboxEvent) -> Option<OutboxEvent> {
    let headers = EventHeaders::try_new(context.in_place_of_that_in(&event.headers)).ok()?;
    Some(OutboxEvent { headers, ..event.clone() })
}
