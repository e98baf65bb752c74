//! Where events go: the publisher of the settings, and what must stand on the broker.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use adapter_outbound::{
    DisabledOutboxMessagePublisher, OutboxMessagePublishAdapter, PublisherKind, StdoutOutboxMessagePublisher,
    WebhookOutboxMessagePublisher, amqp::TopologyError,
};
use application_core::ports::{Clock, MessagePublishPort, Random, ReadinessCheck, with_causes};
use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use crate::{error::BootstrapError, settings::Settings};

/// How long to wait before the topology is looked at again while something is missing.
const TOPOLOGY_PAUSE: Duration = Duration::from_secs(5);
/// How long to wait before it is looked at again when all stands.
const TOPOLOGY_INTERVAL: Duration = Duration::from_secs(30);

/// The publisher of this process.
#[derive(Clone)]
pub(super) struct Broker {
    publisher: Arc<dyn MessagePublishPort>,
    amqp: Option<Arc<OutboxMessagePublishAdapter>>,
    connect_timeout: Duration,
    topology: Arc<TopologyReadiness>,
}

/// What was wrong with the exchanges and queues when they were looked at last.
#[derive(Debug, Default)]
struct TopologyReadiness(Mutex<Option<String>>);

impl TopologyReadiness {
    fn set(&self, problem: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = problem;
    }
}

#[async_trait]
impl ReadinessCheck for TopologyReadiness {
    fn name(&self) -> &'static str {
        "topology"
    }

    async fn check(&self) -> Result<(), String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone().map_or(Ok(()), Err)
    }
}

impl Broker {
    pub(super) fn start(
        settings: &Settings,
        random: Arc<dyn Random>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, BootstrapError> {
        let outbound = &settings.outbound;
        let mut amqp = None;
        let publisher: Arc<dyn MessagePublishPort> = match outbound.publisher {
            PublisherKind::Amqp => {
                let adapter = Arc::new(OutboxMessagePublishAdapter::start(outbound, random)?);
                amqp = Some(Arc::<OutboxMessagePublishAdapter>::clone(&adapter));
                adapter
            }
            PublisherKind::Webhook => Arc::new(WebhookOutboxMessagePublisher::try_new(outbound, clock)?),
            PublisherKind::Stdout => Arc::new(StdoutOutboxMessagePublisher::new()),
            PublisherKind::Disabled => {
                tracing::warn!("publishing is disabled: events wait as PENDING, nothing is claimed");
                Arc::new(DisabledOutboxMessagePublisher)
            }
        };
        Ok(Self { publisher, amqp, connect_timeout: outbound.amqp.connect_timeout, topology: Arc::default() })
    }

    pub(super) fn publisher(&self) -> Arc<dyn MessagePublishPort> {
        Arc::clone(&self.publisher)
    }

    pub(super) fn checks(&self) -> Vec<Arc<dyn ReadinessCheck>> {
        let Some(amqp) = &self.amqp else { return Vec::new() };
        vec![Arc::<OutboxMessagePublishAdapter>::clone(amqp), Arc::<TopologyReadiness>::clone(&self.topology)]
    }

    /// Waits for the broker once, and for what must stand on it.
    pub(super) async fn require(&self) -> Result<(), BootstrapError> {
        let Some(amqp) = &self.amqp else { return Ok(()) };
        let unusable = |reason| BootstrapError::Broker { reason };
        amqp.wait_until_available(self.connect_timeout).await.map_err(unusable)?;
        let problems = amqp.prepare_topology().await.map_err(|error| unusable(with_causes(&error)))?;
        match problems.first() {
            None => Ok(()),
            Some(problem) => Err(unusable(problem.to_string())),
        }
    }

    /// Looks for the topology, or declares it, again and again: what somebody deletes is missed, or declared anew.
    ///
    /// `known` is cancelled at the first answer of the broker, whatever it is.
    pub(super) fn keep_topology(
        &self,
        known: CancellationToken,
        cancel: CancellationToken,
    ) -> impl Future<Output = ()> + Send + 'static {
        let (amqp, readiness) = (self.amqp.clone(), Arc::clone(&self.topology));
        async move {
            let (mut waiting, mut told) = (Some(known.drop_guard()), None);
            let Some(amqp) = amqp else { return };
            // A broker that takes the connection and stays silent must not hold a stop.
            while let Some(seen) = cancel.run_until_cancelled(look(&amqp)).await {
                let pause = match seen {
                    Look::NoAnswer { problem } => {
                        if problem.is_some() {
                            tell(&mut told, problem.as_deref());
                        }
                        TOPOLOGY_PAUSE
                    }
                    Look::Answered(problem) => {
                        waiting = None;
                        tell(&mut told, problem.as_deref());
                        let pause = if problem.is_some() { TOPOLOGY_PAUSE } else { TOPOLOGY_INTERVAL };
                        readiness.set(problem);
                        pause
                    }
                };
                tokio::select! {
                    () = cancel.cancelled() => {}
                    () = tokio::time::sleep(pause) => {}
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

/// What a look at the exchanges and queues gave.
enum Look {
    /// Nothing was looked at. Without a connection that is no problem of its own: whoever keeps it tells, and nothing can
    /// be published either.
    NoAnswer { problem: Option<String> },
    /// What is wrong; none: all stands.
    Answered(Option<String>),
}

async fn look(amqp: &OutboxMessagePublishAdapter) -> Look {
    match amqp.prepare_topology().await {
        Ok(problems) => {
            let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
            Look::Answered((!problems.is_empty()).then(|| problems.join("; ")))
        }
        Err(error @ TopologyError::Unavailable { .. }) => {
            tracing::debug!(error = with_causes(&error), "the broker's topology was not looked at");
            let connected = amqp.check().await.is_ok();
            Look::NoAnswer { problem: connected.then(|| with_causes(&error)) }
        }
        Err(error) => Look::Answered(Some(with_causes(&error))),
    }
}

/// One line when the problem changes, and one when it is gone.
fn tell(told: &mut Option<String>, problem: Option<&str>) {
    if told.as_deref() == problem {
        return;
    }
    if let Some(problem) = problem {
        tracing::error!(problem, "the broker's topology is not as it must be");
    } else {
        tracing::info!("the broker's topology is as it must be again");
    }
    *told = problem.map(ToOwned::to_owned);
}

impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Broker").field("amqp", &self.amqp.is_some()).finish_non_exhaustive()
    }
}
