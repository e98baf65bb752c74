//! Where events go: the publisher of the settings, and what must stand on the broker.

use std::{fmt, sync::Arc, time::Duration};

use adapter_outbound::{
    DisabledOutboxMessagePublisher, OutboxMessagePublishAdapter, PublisherKind, StdoutOutboxMessagePublisher,
    amqp::TopologyError,
};
use application_core::ports::{MessagePublishPort, Random, ReadinessCheck};
use tokio_util::sync::CancellationToken;

use crate::{error::BootstrapError, settings::Settings};

/// How long to wait before the topology is looked at again while something is missing.
const TOPOLOGY_PAUSE: Duration = Duration::from_secs(5);

/// The publisher of this process.
#[derive(Clone)]
pub(super) struct Broker {
    publisher: Arc<dyn MessagePublishPort>,
    amqp: Option<Arc<OutboxMessagePublishAdapter>>,
    connect_timeout: Duration,
}

impl Broker {
    pub(super) fn start(settings: &Settings, random: Arc<dyn Random>) -> Result<Self, BootstrapError> {
        let outbound = &settings.outbound;
        let connect_timeout = outbound.amqp.connect_timeout;
        Ok(match outbound.publisher {
            PublisherKind::Amqp => {
                let amqp = Arc::new(OutboxMessagePublishAdapter::start(outbound, random)?);
                let publisher = Arc::<OutboxMessagePublishAdapter>::clone(&amqp);
                Self { publisher, amqp: Some(amqp), connect_timeout }
            }
            PublisherKind::Stdout => {
                Self { publisher: Arc::new(StdoutOutboxMessagePublisher::new()), amqp: None, connect_timeout }
            }
            PublisherKind::Disabled => {
                tracing::warn!("publishing is disabled: events wait as PENDING, nothing is claimed");
                Self { publisher: Arc::new(DisabledOutboxMessagePublisher), amqp: None, connect_timeout }
            }
        })
    }

    pub(super) fn publisher(&self) -> Arc<dyn MessagePublishPort> {
        Arc::clone(&self.publisher)
    }

    pub(super) fn check(&self) -> Option<Arc<dyn ReadinessCheck>> {
        let amqp = self.amqp.as_ref()?;
        Some(Arc::<OutboxMessagePublishAdapter>::clone(amqp))
    }

    /// Waits for the broker once, and for what must stand on it.
    pub(super) async fn require(&self) -> Result<(), BootstrapError> {
        let Some(amqp) = &self.amqp else { return Ok(()) };
        let unusable = |reason| BootstrapError::Broker { reason };
        amqp.wait_until_available(self.connect_timeout).await.map_err(unusable)?;
        let problems = amqp.prepare_topology().await.map_err(|error| unusable(error.to_string()))?;
        match problems.first() {
            None => Ok(()),
            Some(problem) => Err(unusable(problem.to_string())),
        }
    }

    /// Looks for the topology, or declares it, until it stands; says what is missing meanwhile.
    ///
    /// `known` is cancelled at the first answer of the broker, whatever it is.
    pub(super) fn keep_topology(
        &self,
        known: CancellationToken,
        cancel: CancellationToken,
    ) -> impl Future<Output = ()> + Send + 'static {
        let amqp = self.amqp.clone();
        async move {
            let mut waiting = Some(known.drop_guard());
            let Some(amqp) = amqp else { return };
            while !cancel.is_cancelled() {
                match amqp.prepare_topology().await {
                    Ok(problems) if problems.is_empty() => return,
                    Ok(problems) => {
                        waiting = None;
                        for problem in problems {
                            tracing::error!(%problem, "something is missing on the broker");
                        }
                    }
                    Err(error) => {
                        // Without a connection nothing was looked at, and nothing can be published either.
                        if !matches!(error, TopologyError::Unavailable { .. }) {
                            waiting = None;
                        }
                        tracing::error!(error = &error as &dyn std::error::Error, "the broker's topology is not known");
                    }
                }
                tokio::select! {
                    () = cancel.cancelled() => {}
                    () = tokio::time::sleep(TOPOLOGY_PAUSE) => {}
                }
            }
            drop(waiting);
        }
    }

    pub(super) async fn close(&self, within: Duration) {
        if let Some(amqp) = &self.amqp {
            amqp.close(within).await;
        }
    }
}

impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Broker").field("amqp", &self.amqp.is_some()).finish_non_exhaustive()
    }
}
