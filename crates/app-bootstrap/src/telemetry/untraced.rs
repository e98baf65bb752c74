//! What stands for `traces` in a binary without the feature `otlp`: nothing is wrapped, nothing is exported.
#![expect(clippy::unnecessary_wraps, clippy::unused_async, reason = "the signatures are those of `traces`")]

use std::sync::Arc;

use adapter_inbound::amqp::HandleMessage;
use adapter_persistence_postgres::PgTransaction;
use application_core::ports::{MessagePublishPort, OutboxAppendPort};
use axum::Router;

use super::{SpanLayer, TracesError};
use crate::settings::Settings;

/// No traces.
#[derive(Debug)]
pub(crate) struct Traces;

impl Traces {
    pub(crate) fn start(_settings: &Settings) -> Result<(Self, Option<SpanLayer>), TracesError> {
        Ok((Self, None))
    }

    pub(crate) async fn stop(self) {}
}

pub(crate) fn routes(_settings: &Settings, routes: Router) -> Router {
    routes
}

pub(crate) fn append(
    _settings: &Settings,
    outbox: Arc<dyn OutboxAppendPort<PgTransaction>>,
) -> Arc<dyn OutboxAppendPort<PgTransaction>> {
    outbox
}

pub(crate) fn publisher(_settings: &Settings, publisher: Arc<dyn MessagePublishPort>) -> Arc<dyn MessagePublishPort> {
    publisher
}

pub(crate) fn handler(_settings: &Settings, handler: Arc<dyn HandleMessage>) -> Arc<dyn HandleMessage> {
    handler
}
