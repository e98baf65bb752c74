//! The span of an append, whose context the events carry.

use std::sync::Arc;

use application_core::{
    outbox::NewOutboxEvent,
    ports::{OutboxAppendError, OutboxAppendPort},
};
use async_trait::async_trait;
use tracing_opentelemetry::OpenTelemetrySpanExt;

use super::{context::TraceContext, fail, within};

/// Appends in a span.
///
/// The context of the span takes the place of any that the events have: theirs is what the request brought, and the span
/// is further on in the same trace. Without a trace, events keep theirs.
pub(super) struct TracedAppend<Tx: Send + Sync + 'static> {
    outbox: Arc<dyn OutboxAppendPort<Tx>>,
}

impl<Tx: Send + Sync + 'static> TracedAppend<Tx> {
    pub(super) fn new(outbox: Arc<dyn OutboxAppendPort<Tx>>) -> Self {
        Self { outbox }
    }
}

#[async_trait]
impl<Tx: Send + Sync + 'static> OutboxAppendPort<Tx> for TracedAppend<Tx> {
    async fn append(&self, tx: &mut Tx, events: &[NewOutboxEvent]) -> Result<(), OutboxAppendError> {
        let span = tracing::info_span!("append");
        span.set_attribute("outbox.events", i64::try_from(events.len()).unwrap_or(i64::MAX));
        let context = TraceContext::of_span(&span);
        let traced = context.map(|context| events.iter().map(|event| carrying(&context, event)).collect::<Vec<_>>());
        let events = traced.as_deref().unwrap_or(events);
        let appended = within(&span, self.outbox.append(tx, events)).await;
        if let Err(error) = &appended {
            let kind = match error {
                OutboxAppendError::Duplicate { .. } => "duplicate",
                OutboxAppendError::Store { .. } => "store",
            };
            fail(&span, kind);
        }
        appended
    }
}

/// Headers that are full leave no room for a context; the event matters more than its trace.
fn carrying(context: &TraceContext, event: &NewOutboxEvent) -> NewOutboxEvent {
    let headers = context.in_place_of_that_in(event.headers());
    event.clone().with_headers(headers).unwrap_or_else(|_full| event.clone())
}
