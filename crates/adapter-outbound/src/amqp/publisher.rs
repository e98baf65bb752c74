//! The AMQP implementation of the core's publish port.

use std::{
    collections::HashMap,
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    pin::pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use application_core::{
    outbox::{FailureClass, OutboxEvent, PublishFailure},
    ports::{Availability, Destination, MessagePublishPort, Random, ReadinessCheck},
};
use async_trait::async_trait;
use lapin::types::ShortString;
use tokio::{
    sync::{Notify, mpsc, oneshot, watch},
    time::{Instant, timeout, timeout_at},
};

use super::{
    channel::{ChannelTask, Request},
    connection::{Link, Live},
    endpoint::Endpoint,
    message::MessageEncoder,
    topology::{Desk, Topology, TopologyError, TopologyProblem},
};
use crate::{
    envelope::Envelope,
    route::{Route, Target},
    settings::OutboundSettings,
    setup::OutboundSetupError,
};

/// Publishes events to RabbitMQ and waits for its confirms.
///
/// One connection, kept by a task of its own, and one channel a destination, each driven by a task of its own, so that
/// a destination that fails takes no other with it. Any number of `publish` calls may wait at once; what one aggregate
/// sends stays on one channel.
///
/// # Delivery
/// At least once. `Ok` means that the broker confirmed the message and did not return it. After a failure of class
/// *unavailable* it may have the message all the same.
///
/// # Cancellation
/// A dropped `publish` leaves open whether the broker has the message; others are not disturbed.
pub struct OutboxMessagePublishAdapter {
    route: Route,
    encoder: MessageEncoder,
    link: Arc<Link>,
    channels: Mutex<HashMap<Destination, Arc<[mpsc::UnboundedSender<Request>]>>>,
    channels_per_destination: usize,
    connect_timeout: Duration,
    confirm_timeout: Duration,
    topology: Topology,
    waiting: Waiting,
    closing: watch::Sender<bool>,
}

impl OutboxMessagePublishAdapter {
    /// Sets the publisher up and begins to connect; a broker that is down is no error. Must be called within a runtime.
    ///
    /// # Errors
    /// [`OutboundSetupError`] when settings cannot be used or the file with certificate authorities cannot be read.
    pub fn start(settings: &OutboundSettings, random: Arc<dyn Random>) -> Result<Self, OutboundSetupError> {
        let mut problems = settings.envelope.problems("envelope");
        problems.extend(settings.amqp.problems("amqp"));
        let route = match Route::compile(&settings.route, "route") {
            Ok(route) if problems.is_empty() => route,
            Ok(_) => return Err(OutboundSetupError::Settings(problems)),
            Err(more) => {
                problems.extend(more);
                return Err(OutboundSetupError::Settings(problems));
            }
        };
        let amqp = &settings.amqp;
        let link = Link::start(Endpoint::of(amqp)?, amqp, random);
        let encoder =
            MessageEncoder::new(Envelope::new(&settings.envelope), amqp.app_id.as_deref(), amqp.max_message_bytes);
        Ok(Self {
            topology: Topology::new(&route, &amqp.topology),
            route,
            encoder,
            link,
            channels: Mutex::default(),
            channels_per_destination: amqp.channels_per_destination.max(1),
            connect_timeout: amqp.connect_timeout,
            confirm_timeout: amqp.confirm_timeout,
            waiting: Waiting::default(),
            closing: watch::Sender::new(false),
        })
    }

    /// Waits until messages can be sent, at most so long.
    ///
    /// # Errors
    /// Why they cannot, in words for an operator.
    pub async fn wait_until_available(&self, within: Duration) -> Result<(), String> {
        self.link.wait_until_up(within).await.map(|_| ())
    }

    /// Looks for the exchanges and queues that the settings name, and declares them first if the settings say so.
    ///
    /// Waits for a connection as long as one may take. What is missing is a problem with its cure, not an error.
    ///
    /// # Errors
    /// [`TopologyError`] when there is no connection, or something stands on the broker that differs from what
    /// the settings declare.
    pub async fn prepare_topology(&self) -> Result<Vec<TopologyProblem>, TopologyError> {
        let live = self.connected().await?;
        self.topology.prepare(&self.desk(&live)).await
    }

    /// Looks for what is missing, differs from what the settings declare, or may not be used; changes nothing.
    ///
    /// Waits for a connection as long as one may take. What start-up would declare is no problem while it is missing.
    ///
    /// # Errors
    /// [`TopologyError::Unavailable`] when the broker cannot be asked.
    pub async fn examine_topology(&self) -> Result<Vec<TopologyProblem>, TopologyError> {
        let live = self.connected().await?;
        self.topology.examine(&self.desk(&live)).await
    }

    async fn connected(&self) -> Result<Arc<Live>, TopologyError> {
        self.link.wait_until_up(self.connect_timeout).await.map_err(|reason| TopologyError::Unavailable { reason })
    }

    fn desk<'a>(&'a self, live: &'a Live) -> Desk<'a> {
        Desk { live, within: self.connect_timeout, vhost: self.link.vhost() }
    }

    /// Stops taking messages, waits for the confirms of those that were sent, and closes the connection; by force
    /// what is not done in time. Publishing afterwards fails as unavailable.
    pub async fn close(&self, within: Duration) {
        let deadline = Instant::now() + within;
        self.closing.send_replace(true);
        if timeout_at(deadline, self.waiting.until_none()).await.is_err() {
            tracing::warn!(messages = self.waiting.count(), "the broker owes confirms that nobody waits for now");
        }
        self.channels.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.link.close(deadline.saturating_duration_since(Instant::now())).await;
    }

    fn channel(&self, destination: &Destination, event: &OutboxEvent) -> Option<mpsc::UnboundedSender<Request>> {
        let mut all = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.get(destination).cloned();
        let channels = known.unwrap_or_else(|| {
            let new: Arc<[_]> = (0..self.channels_per_destination).map(|_| self.start_channel()).collect();
            all.insert(destination.clone(), Arc::clone(&new));
            new
        });
        drop(all);
        let mut hasher = DefaultHasher::new();
        (event.aggregate_type.as_str(), event.aggregate_id.as_str()).hash(&mut hasher);
        let at = usize::try_from(hasher.finish() % channels.len() as u64).unwrap_or_default();
        channels.get(at).cloned()
    }

    fn start_channel(&self) -> mpsc::UnboundedSender<Request> {
        ChannelTask::start(Arc::clone(&self.link), self.connect_timeout)
    }

    /// Sends one message to its channel's task and waits for its fate.
    async fn send(&self, event: &OutboxEvent, target: Target) -> Result<(), PublishFailure> {
        let message = self.encoder.encode(event)?;
        // Counted first: closing waits for all who have not seen it yet.
        let _counted = self.waiting.one_more();
        if *self.closing.borrow() {
            return Err(unavailable("the publisher is closing"));
        }
        let live = self.link.live().map_err(unavailable)?;
        message.check(&live.bounds())?;
        drop(live);
        let (answer, fate) = oneshot::channel();
        let request =
            Request { exchange: name(target.exchange)?, routing_key: name(target.routing_key)?, message, answer };
        let stopping = || unavailable("the publisher is closing");
        let channel = self.channel(&target.destination, event).ok_or_else(stopping)?;
        channel.send(request).map_err(|_closed| stopping())?;
        match timeout(self.confirm_timeout, fate).await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(stopping()),
            Err(_) => {
                let why = self.link.live().err().map(|reason| format!(": {reason}")).unwrap_or_default();
                Err(unavailable(format!("no confirm within {:?}{why}", self.confirm_timeout)))
            }
        }
    }
}

fn unavailable(reason: impl AsRef<str>) -> PublishFailure {
    PublishFailure::new(FailureClass::Unavailable, reason)
}

fn name(text: String) -> Result<ShortString, PublishFailure> {
    ShortString::try_new(text).map_err(|error| PublishFailure::new(FailureClass::Poison, error.to_string()))
}

/// How many messages wait for their confirms.
#[derive(Debug, Default)]
struct Waiting {
    count: AtomicUsize,
    none: Notify,
}

/// A message that waits, as long as this lives.
struct Counted<'a>(&'a Waiting);

impl Waiting {
    fn one_more(&self) -> Counted<'_> {
        self.count.fetch_add(1, Ordering::SeqCst);
        Counted(self)
    }

    fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    async fn until_none(&self) {
        let mut none = pin!(self.none.notified());
        // Before the look: the last one may go in between.
        none.as_mut().enable();
        if self.count() > 0 {
            none.await;
        }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        if self.0.count.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.none.notify_waiters();
        }
    }
}

#[async_trait]
impl MessagePublishPort for OutboxMessagePublishAdapter {
    fn availability(&self) -> Availability {
        if *self.closing.borrow() {
            return Availability::Unavailable { reason: "the publisher is closing".to_owned() };
        }
        self.link.availability()
    }

    fn destination(&self, event: &OutboxEvent) -> Result<Destination, PublishFailure> {
        self.route.resolve(event).map(|target| target.destination)
    }

    async fn publish(&self, event: &OutboxEvent) -> Result<(), PublishFailure> {
        let target = self.route.resolve(event)?;
        self.send(event, target).await
    }
}

#[async_trait]
impl ReadinessCheck for OutboxMessagePublishAdapter {
    fn name(&self) -> &'static str {
        "broker"
    }

    /// Heartbeats keep the answer fresh; nothing is asked of the broker.
    async fn check(&self) -> Result<(), String> {
        match self.availability() {
            Availability::Available => Ok(()),
            Availability::Unavailable { reason } => Err(reason),
            Availability::Disabled => Err("publishing is switched off".to_owned()),
        }
    }
}

impl Drop for OutboxMessagePublishAdapter {
    fn drop(&mut self) {
        self.link.abandon();
    }
}

impl fmt::Debug for OutboxMessagePublishAdapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboxMessagePublishAdapter")
            .field("link", &self.link)
            .field("availability", &self.availability())
            .finish_non_exhaustive()
    }
}
