//! Traces over OTLP: one trace from a request through append and publish to the effect at the consumer (rule R28, ADR 14).
//!
//! Everything that knows OpenTelemetry is here. Where the process is put together, what a trace passes on its way is
//! wrapped in spans; adapters and contexts carry headers as they do without traces:
//! - routes: `{method} {route}`, continues the trace of the request's headers;
//! - append: `append`, and its context goes into the headers of the events;
//! - publish: `{exchange} publish`, continues the trace of the event, and its context goes into the message;
//! - handler: `{queue} process`, continues the trace of the message.
//!
//! Spans of the core (`transaction`) and of contexts are exported as they stand between these.
//! Nothing is wrapped as long as `telemetry.otlp.endpoint` is not set.

mod append;
mod consume;
mod context;
mod export;
mod publish;
mod request;
#[cfg(test)]
mod tests;

use std::{borrow::Cow, sync::Arc};

use adapter_inbound::amqp::HandleMessage;
use adapter_outbound::PublisherKind;
use adapter_persistence_postgres::PgTransaction;
use application_core::ports::{MessagePublishPort, OutboxAppendPort};
use axum::{Router, middleware::from_fn};
use opentelemetry::trace::Status;
use tracing::{Instrument, Span};
use tracing_opentelemetry::OpenTelemetrySpanExt;

pub(crate) use self::export::Traces;
use self::{append::TracedAppend, consume::TracedHandler, publish::TracedPublisher};
use crate::settings::Settings;

const RABBITMQ: &str = "rabbitmq";

/// Gives every request a span.
pub(crate) fn routes(settings: &Settings, routes: Router) -> Router {
    if are_exported(settings) { routes.layer(from_fn(request::traced)) } else { routes }
}

/// Gives every append a span, whose context the events carry.
pub(crate) fn append(
    settings: &Settings,
    outbox: Arc<dyn OutboxAppendPort<PgTransaction>>,
) -> Arc<dyn OutboxAppendPort<PgTransaction>> {
    if are_exported(settings) { Arc::new(TracedAppend::new(outbox)) } else { outbox }
}

/// Gives every publish a span, whose context the message carries.
pub(crate) fn publisher(settings: &Settings, publisher: Arc<dyn MessagePublishPort>) -> Arc<dyn MessagePublishPort> {
    let system = match settings.outbound.publisher {
        PublisherKind::Amqp => RABBITMQ,
        PublisherKind::Webhook => "webhook",
        PublisherKind::Stdout => "stdout",
        PublisherKind::Disabled => return publisher,
    };
    if are_exported(settings) { Arc::new(TracedPublisher::new(publisher, system)) } else { publisher }
}

/// Gives every try of a message a span.
pub(crate) fn handler(settings: &Settings, handler: Arc<dyn HandleMessage>) -> Arc<dyn HandleMessage> {
    let queue = &settings.consumer.queue;
    if are_exported(settings) { Arc::new(TracedHandler::new(handler, queue)) } else { handler }
}

fn are_exported(settings: &Settings) -> bool {
    settings.telemetry.otlp.endpoint.is_some()
}

/// Marks a span as failed, by a word of ours: what a broker or a handler says may hold more than others should see.
fn fail(span: &Span, kind: impl Into<Cow<'static, str>>) {
    let kind = kind.into();
    span.set_attribute("error.type", kind.clone());
    span.set_status(Status::error(kind));
}

/// Does a piece of work in its span, and marks the span if the work is dropped before it ends: by a time-out, a panic or
/// who asked for it.
async fn within<T>(span: &Span, work: impl Future<Output = T>) -> T {
    let mut unended = Unended(Some(span));
    let ended = work.instrument(span.clone()).await;
    unended.0 = None;
    ended
}

/// Marks the span when it is dropped with it.
struct Unended<'a>(Option<&'a Span>);

impl Drop for Unended<'_> {
    fn drop(&mut self) {
        if let Some(span) = self.0 {
            fail(span, "cancelled");
        }
    }
}
