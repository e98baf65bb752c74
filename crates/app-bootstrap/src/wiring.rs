//! One process, put together: what it connects to, what runs in it, and in which order it stops.

mod broker;
mod operations;

use std::{fmt, process::ExitCode, sync::Arc, time::Duration};

use adapter_inbound::{
    amqp::{AmqpConsumer, ConsumerParts},
    http::{HttpServerError, ServerLimits, bind},
};
use adapter_persistence_postgres::{Database, ListenWakeup, NotifyWakeup, PostgresInbox, TablesReadiness};
use application_core::{
    ports::{ReadinessCheck, StoreError},
    usecases::HandleMessageOnce,
};
use axum::Router;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::broker::Broker;
use crate::{
    cli::database,
    contexts::{self, Chore, Handler, with_names_of_their_own},
    error::BootstrapError,
    outbox_config::OutboxConfig,
    scheduler::{Periodic, RelayEnd},
    settings::Settings,
    shutdown::{EXIT_NOT_DRAINED, drain},
    telemetry::{ConsumerMetrics, install_metrics, record_availability, record_pool, traces},
    wakeup::RelayWakeup,
};

/// A process that is connected; its parts are started one by one.
pub struct Process {
    settings: Settings,
    database: Database,
    broker: Broker,
    wakeup: RelayWakeup,
    listener: Option<ListenWakeup>,
    metrics: PrometheusHandle,
    checks: Vec<Arc<dyn ReadinessCheck>>,
    tasks: TaskTracker,
    cancel: CancellationToken,
    /// Cancelled once the broker has said what stands on it; none: nobody looks.
    topology_known: Option<CancellationToken>,
}

impl Process {
    /// Connects to the database, whose schema must be recent enough, and begins to connect to the broker.
    ///
    /// A broker that is down is no error: commands are taken, events wait, readiness says so.
    /// `None`: it was cancelled before the database was connected, and nothing runs.
    ///
    /// # Errors
    /// [`BootstrapError`].
    pub async fn connect(settings: Settings, cancel: CancellationToken) -> Result<Option<Self>, BootstrapError> {
        let metrics = install_metrics()?;
        let Some(database) = cancel.run_until_cancelled(database(&settings)).await.transpose()? else {
            tracing::info!("stopped before the database was connected");
            return Ok(None);
        };
        let broker = Broker::start(&settings, OutboxConfig::random(), OutboxConfig::clock())?;
        let (wakeup, listener) = connect_wakeup(&settings, &database);
        let checks = operations::checks(&database, &broker);
        let tasks = TaskTracker::new();
        let topology_known = None;
        Ok(Some(Self { settings, database, broker, wakeup, listener, metrics, checks, tasks, cancel, topology_known }))
    }

    /// Starts the relay, the reaper, the figures and the maintenance of the outbox.
    ///
    /// # Errors
    /// [`BootstrapError`].
    pub fn run_relay(&mut self) -> Result<(), BootstrapError> {
        let outbox = self.outbox();
        let relay = outbox.relay(self.broker.publisher())?;
        let leader = outbox.maintenance_leader();
        let (reaper, statistics) = (outbox.reaper(), outbox.statistics());
        let (topology_known, cancel) = (CancellationToken::new(), self.cancel.clone());
        self.topology_known = Some(topology_known.clone());
        self.tasks.spawn(self.broker.keep_topology(topology_known.clone(), cancel.clone()));
        self.tasks.spawn(async move {
            // An event sent before the declared queue is bound would pass that queue by as soon as another one is bound.
            tokio::select! {
                () = topology_known.cancelled() => {}
                () = cancel.cancelled() => {}
            }
            relay.run(cancel).await;
        });
        self.tasks.spawn(leader.run(self.cancel.clone()));
        self.every("reaper", self.settings.outbox.reaper.every, move || {
            let reaper = Arc::clone(&reaper);
            async move { reaper.run_once().await }
        });
        self.every("statistics", self.settings.outbox.statistics.every, move || {
            let statistics = Arc::clone(&statistics);
            async move { statistics.run_once().await }
        });
        Ok(())
    }

    /// Starts the service's own HTTP, its consumer, and the operations HTTP.
    ///
    /// # Errors
    /// [`BootstrapError`].
    pub async fn run_service(&mut self) -> Result<(), BootstrapError> {
        let (mut routes, mut handlers) = (Router::new(), Vec::new());
        for context in contexts::all(&self.settings, &self.outbox()) {
            self.checks.push(Arc::new(TablesReadiness::new(self.database.clone(), context.name, context.tables)));
            routes = routes.merge(context.routes);
            handlers.extend(context.handler);
            for Chore { name, every, work } in context.chores {
                let cancel = self.cancel.clone();
                self.every(name, every, move || work(cancel.clone()));
            }
        }
        self.run_consumer(with_names_of_their_own(handlers)?)?;
        let routes = traces::routes(&self.settings, routes);
        let http = &self.settings.http;
        let server = bind("service", http.listen).await.map_err(|source| listen_error("http.listen", source))?;
        let limits = ServerLimits {
            header_timeout: http.request_timeout,
            request_timeout: http.request_timeout,
            max_body_bytes: http.max_body_bytes,
            max_connections: http.max_connections,
        };
        self.tasks.spawn(server.serve(routes, limits, self.cancel.clone(), self.settings.service.grace));
        self.run_operations().await
    }

    /// Starts health, metrics and `/ops`; they answer until the process ends.
    ///
    /// # Errors
    /// [`BootstrapError`].
    pub async fn run_operations(&mut self) -> Result<(), BootstrapError> {
        operations::serve(&self.settings, &self.checks, &self.outbox(), self.metrics.clone()).await?;
        self.every("metrics upkeep", Duration::from_secs(5), {
            let (metrics, database, publisher) = (self.metrics.clone(), self.database.clone(), self.broker.publisher());
            let most = self.settings.database.pool.max_connections;
            move || {
                metrics.run_upkeep();
                record_pool(&database, most);
                record_availability(&publisher.availability());
                async { Ok::<_, StoreError>(()) }
            }
        });
        Ok(())
    }

    /// Publishes until nothing is due and nothing is in flight; needs the broker now. The exit code of a stop before that
    /// is [`EXIT_NOT_DRAINED`].
    ///
    /// # Errors
    /// [`BootstrapError::Broker`] when the broker cannot be reached.
    pub async fn drain(self) -> Result<ExitCode, BootstrapError> {
        let end = match self.cancel.run_until_cancelled(self.broker.require()).await {
            Some(usable) => {
                usable?;
                self.publish_until_drained().await?
            }
            None => RelayEnd::Stopped,
        };
        self.cancel.cancel();
        let stopped = self.until_stopped().await;
        Ok(if end == RelayEnd::Drained { stopped } else { ExitCode::from(EXIT_NOT_DRAINED) })
    }

    async fn publish_until_drained(&self) -> Result<RelayEnd, BootstrapError> {
        let outbox = self.outbox();
        let relay = outbox.relay(self.broker.publisher())?;
        let reaper = outbox.reaper();
        self.every("reaper", self.settings.outbox.reaper.every, move || {
            let reaper = Arc::clone(&reaper);
            async move { reaper.run_once().await }
        });
        Ok(relay.run_until_drained(self.cancel.clone()).await)
    }

    /// Waits for the signal, then for everything that runs, and closes what is connected (case S61).
    pub async fn until_stopped(self) -> ExitCode {
        let grace = self.settings.service.grace;
        let drained = drain(&self.tasks, &self.cancel, grace).await;
        drop(self.listener);
        // What is left of the grace is not known here; closing is only a courtesy once everything is settled.
        self.broker.close(Duration::from_secs(1)).await;
        let closed = tokio::time::timeout(Duration::from_secs(1), self.database.close()).await;
        if drained && closed.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_NOT_DRAINED) }
    }

    fn outbox(&self) -> OutboxConfig<'_> {
        OutboxConfig::new(&self.settings, self.database.clone(), self.wakeup.clone())
    }

    fn run_consumer(&mut self, handlers: Vec<Handler>) -> Result<(), BootstrapError> {
        if !self.settings.consumer.enabled {
            return Ok(());
        }
        let outbox = self.outbox();
        let inbox = outbox.inbox();
        let mut others: Vec<_> = handlers
            .into_iter()
            .map(|Handler { name, handler }| {
                let inbox = Arc::<PostgresInbox>::clone(&inbox);
                let once = HandleMessageOnce::new(outbox.transactional(), inbox, name, handler);
                traces::handler(&self.settings, Arc::new(once))
            })
            .collect();
        if others.is_empty() {
            tracing::info!("no context consumes: messages stay in the queue");
            return Ok(());
        }
        let parts = ConsumerParts {
            handler: others.remove(0),
            others,
            parking: inbox,
            clock: OutboxConfig::clock(),
            random: OutboxConfig::random(),
            observer: Arc::new(ConsumerMetrics),
        };
        let consumer = AmqpConsumer::try_new(self.settings.consumer.clone(), parts)?;
        self.checks.push(consumer.readiness());
        let (cancel, declared) = (self.cancel.clone(), self.queues_declared());
        self.tasks.spawn(async move {
            if let Some(declared) = declared {
                cancel.run_until_cancelled(declared.cancelled()).await;
            }
            consumer.run(cancel).await;
        });
        Ok(())
    }

    /// What the consumer waits for where this process declares its queues: on a fresh broker they do not exist yet.
    fn queues_declared(&self) -> Option<CancellationToken> {
        let (topology, consumer) = (&self.settings.outbound.amqp.topology, &self.settings.consumer);
        let own = topology.queue.as_ref() == Some(&consumer.queue)
            || topology.parking_queue.as_ref() == Some(&consumer.parking_queue);
        self.topology_known.clone().filter(|_| topology.declare && own)
    }

    fn every<F, Fut, T>(&self, name: &'static str, interval: Duration, task: F)
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, StoreError>> + Send + 'static,
        T: Send + 'static,
    {
        let periodic = Periodic::new(name, interval, OutboxConfig::random());
        self.tasks.spawn(periodic.run(self.cancel.clone(), task));
    }
}

/// A listener that cannot be set up, with the setting to change.
fn listen_error(setting: &'static str, source: HttpServerError) -> BootstrapError {
    BootstrapError::Http { setting, source }
}

fn connect_wakeup(settings: &Settings, database: &Database) -> (RelayWakeup, Option<ListenWakeup>) {
    let local = RelayWakeup::local();
    if !settings.outbox.wakeup.enabled {
        return (local, None);
    }
    let notify = &settings.outbox.wakeup.notify;
    let woken = local.clone();
    let listener = ListenWakeup::start(database, notify.clone(), move || woken.wake_local());
    let others = Arc::new(NotifyWakeup::start(database, notify.clone()));
    (local.with_others(others), Some(listener))
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process").field("settings", &self.settings).finish_non_exhaustive()
    }
}
