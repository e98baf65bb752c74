//! The consumer span of a message.

use std::sync::Arc;

use adapter_inbound::amqp::HandleMessage;
use application_core::{
    inbox::InboundMessage,
    ports::ConsumerName,
    usecases::{Handled, HandlerError},
};
use async_trait::async_trait;
use tracing::{Span, field};
use tracing_opentelemetry::OpenTelemetrySpanExt;

use super::{RABBITMQ, context::TraceContext, fail, within};

/// Handles each try of a message in a span that continues the trace of the message.
pub(super) struct TracedHandler {
    handler: Arc<dyn HandleMessage>,
    queue: String,
}

impl TracedHandler {
    pub(super) fn new(handler: Arc<dyn HandleMessage>, queue: &str) -> Self {
        Self { handler, queue: queue.to_owned() }
    }

    fn span(&self, message: &InboundMessage) -> Span {
        let name = format!("{} process", self.queue);
        let span = tracing::info_span!("process", otel.name = name, otel.kind = "consumer", trace_id = field::Empty);
        span.set_attribute("messaging.system", RABBITMQ);
        span.set_attribute("messaging.operation.name", "process");
        span.set_attribute("messaging.operation.type", "process");
        span.set_attribute("messaging.destination.name", self.queue.clone());
        span.set_attribute("messaging.consumer.group.name", self.handler.consumer().to_string());
        span.set_attribute("messaging.message.id", message.id.to_string());
        span
    }
}

#[async_trait]
impl HandleMessage for TracedHandler {
    fn consumer(&self) -> &ConsumerName {
        self.handler.consumer()
    }

    fn listens_to(&self, message: &InboundMessage) -> bool {
        self.handler.listens_to(message)
    }

    async fn handle(&self, message: &InboundMessage) -> Result<Handled, HandlerError> {
        let span = self.span(message);
        TraceContext::of_event(&message.headers).continue_in(&span);
        let handled = within(&span, self.handler.handle(message)).await;
        if let Err(error) = &handled {
            let kind = match error {
                HandlerError::Retry { .. } => "retry",
                HandlerError::Reject { .. } => "reject",
            };
            fail(&span, kind);
        }
        handled
    }
}
