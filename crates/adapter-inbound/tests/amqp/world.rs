//! A consumer with a scripted handler over an inbox in memory, and what it did.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use adapter_inbound::amqp::{
    AmqpConsumer, ConsumerObserver, ConsumerParts, ConsumerSettings, ConsumerSignal, HandleMessage, OutageSettings,
    RetrySettings,
};
use application_core::{
    inbox::{InboundMessage, ParkedAggregate},
    outbox::{AggregateId, AggregateType},
    ports::{Clock, ConsumerName, MockWakeupPort, ParkingPort, ReadinessCheck},
    usecases::{HandleMessageOnce, HandlerError, MessageHandler, Transaction, Transactional},
};
use async_trait::async_trait;
use lapin::BasicProperties;
use secrecy::SecretString;
use test_support::{
    clock::{FakeClock, SeededRandom},
    in_memory::{InMemoryOutbox, InMemoryTransaction},
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::broker::{Broker, QueueType, ends, eventually};

pub(crate) const CONSUMER: &str = "projection";
/// A second handler of the same queue, in tests that have one.
pub(crate) const OTHER: &str = "mailing";

/// What the handler does with one delivery; the second argument counts the tries of this message, from 1.
type Script = dyn Fn(&str, i64, u32) -> Step + Send + Sync;

/// Which messages a handler listens to.
type Hears = fn(&str, i64) -> bool;

pub(crate) enum Step {
    Apply,
    Retry,
    Reject,
    Fail(HandlerError),
    Panic,
    Hang,
    /// Applies once the gate is open.
    WaitFor(Gate),
}

/// Something that a handler waits for, and that says that one waits.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<tokio::sync::watch::Sender<(u32, bool)>>);

impl Gate {
    pub(crate) fn open(&self) {
        self.0.send_modify(|(_, open)| *open = true);
    }

    /// Waits until `count` handlers wait, or have waited.
    pub(crate) async fn reached_by(&self, count: u32) {
        let mut state = self.0.subscribe();
        ends("a handler reaches the gate", state.wait_for(|(waiting, _)| *waiting >= count)).await.unwrap();
    }

    async fn pass(&self) {
        let mut state = self.0.subscribe();
        self.0.send_modify(|(waiting, _)| *waiting += 1);
        state.wait_for(|(_, open)| *open).await.unwrap();
    }
}

/// Effects in the order of their commits, and tries.
#[derive(Default)]
pub(crate) struct Journal {
    effects: Mutex<Vec<(String, i64)>>,
    tries: Mutex<HashMap<(String, i64), u32>>,
    signals: Mutex<Vec<(String, ConsumerSignal)>>,
}

impl Journal {
    pub(crate) fn effects(&self) -> Vec<(String, i64)> {
        self.effects.lock().unwrap().clone()
    }

    /// The sequences applied to one aggregate.
    pub(crate) fn of(&self, aggregate: &str) -> Vec<i64> {
        self.effects().into_iter().filter(|(of, _)| of == aggregate).map(|(_, sequence)| sequence).collect()
    }

    pub(crate) fn tries(&self, aggregate: &str, sequence: i64) -> u32 {
        self.tries.lock().unwrap().get(&(aggregate.to_owned(), sequence)).copied().unwrap_or_default()
    }

    pub(crate) fn count(&self, matches: impl Fn(&ConsumerSignal) -> bool) -> usize {
        self.count_for(CONSUMER, matches)
    }

    /// The signals of one of the handlers.
    pub(crate) fn count_for(&self, consumer: &str, matches: impl Fn(&ConsumerSignal) -> bool) -> usize {
        self.signals.lock().unwrap().iter().filter(|(of, signal)| of == consumer && matches(signal)).count()
    }
}

impl ConsumerObserver for Journal {
    fn observe(&self, consumer: &ConsumerName, signal: &ConsumerSignal) {
        assert!([CONSUMER, OTHER].contains(&consumer.as_str()), "{consumer}");
        self.signals.lock().unwrap().push((consumer.to_string(), *signal));
    }
}

struct Scripted {
    script: Arc<Script>,
    journal: Arc<Journal>,
    hears: Hears,
}

#[async_trait]
impl MessageHandler<InMemoryTransaction> for Scripted {
    fn listens_to(&self, message: &InboundMessage) -> bool {
        (self.hears)(message.aggregate_id.as_str(), message.sequence.0)
    }

    async fn handle(
        &self,
        transaction: &mut Transaction<InMemoryTransaction>,
        message: &InboundMessage,
    ) -> Result<(), HandlerError> {
        let (aggregate, sequence) = (message.aggregate_id.to_string(), message.sequence.0);
        let count = {
            let mut tries = self.journal.tries.lock().unwrap();
            let count = tries.entry((aggregate.clone(), sequence)).or_default();
            *count += 1;
            *count
        };
        match (self.script)(&aggregate, sequence, count) {
            Step::Apply => {}
            Step::Retry => return Err(HandlerError::Retry { source: "not now".into() }),
            Step::Reject => return Err(HandlerError::Reject { reason: "makes no sense".to_owned() }),
            Step::Fail(error) => return Err(error),
            Step::Panic => panic!("a bug in the handler"),
            Step::Hang => std::future::pending().await,
            Step::WaitFor(gate) => gate.pass().await,
        }
        let journal = Arc::clone(&self.journal);
        transaction.tx().on_commit(move || journal.effects.lock().unwrap().push((aggregate, sequence)));
        Ok(())
    }
}

/// One test's broker, inbox, clock and handler; consumers come and go.
pub(crate) struct World {
    pub(crate) broker: Broker,
    pub(crate) inbox: InMemoryOutbox,
    pub(crate) clock: Arc<FakeClock>,
    pub(crate) journal: Arc<Journal>,
    pub(crate) settings: ConsumerSettings,
    /// What the handler listens to: everything, unless a test says otherwise.
    pub(crate) hears: Hears,
    script: Arc<Script>,
}

/// A consumer that runs.
pub(crate) struct Running {
    pub(crate) stop: CancellationToken,
    pub(crate) readiness: Arc<dyn ReadinessCheck>,
    task: JoinHandle<()>,
}

impl Running {
    pub(crate) async fn stopped(self) {
        self.stop.cancel();
        ends("the consumer stops", self.task).await.unwrap();
    }

    pub(crate) async fn ready(&self) {
        eventually("the consumer is ready", async || self.readiness.check().await.is_ok()).await;
    }

    pub(crate) async fn not_ready(&self, reason: &str) {
        eventually(&format!("the consumer is not ready: {reason}"), async || {
            self.readiness.check().await.is_err_and(|said| said.contains(reason))
        })
        .await;
    }
}

impl World {
    pub(crate) async fn new(hint: &str, script: impl Fn(&str, i64, u32) -> Step + Send + Sync + 'static) -> Self {
        Self::on(Broker::shared(hint, QueueType::Classic).await, script)
    }

    pub(crate) fn on(broker: Broker, script: impl Fn(&str, i64, u32) -> Step + Send + Sync + 'static) -> Self {
        let clock = Arc::new(FakeClock::default());
        let second = Duration::from_secs(1);
        let settings = ConsumerSettings {
            url: SecretString::from(broker.url.as_str()),
            name: CONSUMER.to_owned(),
            queue: broker.queue.clone(),
            parking_queue: broker.parking_queue.clone(),
            retry: RetrySettings { tries: 3, floor: second, base: second, cap: 2 * second },
            outage: OutageSettings { first_pause: second, longest_pause: 4 * second },
            ..ConsumerSettings::default()
        };
        let inbox = InMemoryOutbox::new(Arc::clone(&clock) as Arc<dyn Clock>);
        Self { broker, inbox, clock, journal: Arc::default(), settings, hears: |_, _| true, script: Arc::new(script) }
    }

    /// Starts a consumer; the clock stands still, so that a wait for another try never ends by itself.
    pub(crate) fn start(&self) -> Running {
        self.start_with(Vec::new())
    }

    /// A handler beside that of the world, with effects of its own.
    pub(crate) fn other(
        &self,
        hears: Hears,
        script: impl Fn(&str, i64, u32) -> Step + Send + Sync + 'static,
    ) -> (Arc<dyn HandleMessage>, Arc<Journal>) {
        let journal = Arc::<Journal>::default();
        let handler = Scripted { script: Arc::new(script), journal: Arc::clone(&journal), hears };
        (self.once(OTHER, handler), journal)
    }

    fn once(&self, name: &'static str, handler: Scripted) -> Arc<dyn HandleMessage> {
        let mut wakeup = MockWakeupPort::new();
        wakeup.expect_wake().return_const(());
        let transactional =
            Transactional::new(Arc::new(self.inbox.unit_of_work()), Arc::new(self.inbox.clone()), Arc::new(wakeup));
        let (inbox, name) = (Arc::new(self.inbox.clone()), ConsumerName::new(name));
        Arc::new(HandleMessageOnce::new(Arc::new(transactional), inbox, name, Arc::new(handler)))
    }

    /// As `start`, with further handlers.
    pub(crate) fn start_with(&self, others: Vec<Arc<dyn HandleMessage>>) -> Running {
        let (script, journal) = (Arc::clone(&self.script), Arc::clone(&self.journal));
        let parts = ConsumerParts {
            handler: self.once(CONSUMER, Scripted { script, journal, hears: self.hears }),
            others,
            parking: Arc::new(self.inbox.clone()),
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            random: Arc::new(SeededRandom::default()),
            observer: Arc::clone(&self.journal) as Arc<dyn ConsumerObserver>,
        };
        let consumer = AmqpConsumer::try_new(self.settings.clone(), parts).unwrap();
        let (readiness, stop) = (consumer.readiness(), CancellationToken::new());
        let cancel = stop.clone();
        let task = tokio::spawn(async move { consumer.run(cancel).await });
        Running { stop, readiness, task }
    }

    /// Lets the clock run fast while something is waited for.
    pub(crate) async fn eventually(&self, what: &str, mut holds: impl AsyncFnMut() -> bool) {
        eventually(what, async || {
            self.clock.advance(Duration::from_secs(1));
            holds().await
        })
        .await;
    }

    pub(crate) async fn publish(&self, aggregate: &str, sequences: impl IntoIterator<Item = i64>) {
        for sequence in sequences {
            self.broker.publish(&envelope(aggregate, sequence), BasicProperties::default()).await;
        }
    }

    /// The mark of an aggregate.
    pub(crate) async fn mark(&self, aggregate: &str) -> Option<ParkedAggregate> {
        self.mark_for(CONSUMER, aggregate).await
    }

    /// The mark of an aggregate for one of the handlers.
    pub(crate) async fn mark_for(&self, consumer: &'static str, aggregate: &str) -> Option<ParkedAggregate> {
        let (consumer, kind) = (ConsumerName::new(consumer), AggregateType::from_stored("work-log"));
        self.inbox.parked(&consumer, &kind, &AggregateId::from_stored(aggregate)).await.unwrap()
    }

    /// Messages in the work queue that no consumer holds.
    pub(crate) async fn undelivered(&self) -> u32 {
        self.broker.ready(&self.broker.queue).await
    }

    /// All messages in the work queue, once the broker has taken back those of the consumers that stopped.
    pub(crate) async fn left_in_queue(&self) -> u32 {
        let queue = &self.broker.queue;
        eventually("the broker knows of no consumer", async || self.broker.count(queue).await.1 == 0).await;
        self.undelivered().await
    }
}

/// The identity of an aggregate's event.
pub(crate) fn event_id(aggregate: &str, sequence: i64) -> Uuid {
    let text = aggregate.bytes().fold(7_u128, |hash, byte| hash.wrapping_mul(0x0100_0000_01b3) ^ u128::from(byte));
    Uuid::from_u128((text << 64) | u128::try_from(sequence).unwrap())
}

pub(crate) fn envelope(aggregate: &str, sequence: i64) -> Vec<u8> {
    let id = event_id(aggregate, sequence);
    format!(
        r#"{{"envelopeVersion":1,"eventId":"{id}","idempotencyKey":"{id}","eventType":"WorkLogReserved",
        "aggregateType":"work-log","aggregateId":"{aggregate}","sequence":{sequence},
        "occurredAt":"2030-01-01T12:00:00Z","schemaVersion":1,"payload":{{"n":{sequence}}}}}"#
    )
    .into_bytes()
}
