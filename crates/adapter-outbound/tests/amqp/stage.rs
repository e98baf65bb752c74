//! What the tests share: a place on the broker, publishers, events, and ways to look at queues.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use adapter_outbound::{
    OutboundSettings, OutboxMessagePublishAdapter,
    route::{RouteOverride, RouteSettings},
};
use application_core::{
    outbox::{
        AggregateId, AggregateType, EventHeaders, EventId, EventType, FailureClass, OutboxEvent, Payload,
        PublishFailure, Sequence,
    },
    ports::{Availability, MessagePublishPort, Random},
};
use futures_util::future::join_all;
use lapin::{
    Channel, Connection, ConnectionProperties, ExchangeKind,
    message::Delivery,
    options::{BasicGetOptions, ExchangeDeclareOptions, ExchangeDeleteOptions, QueueBindOptions, QueueDeclareOptions},
    types::{AMQPValue, FieldTable},
};
use secrecy::SecretString;
use test_support::servers::{self, Options, RabbitMq, Server, Servers};
use time::macros::datetime;
use tokio::{
    sync::{Mutex, MutexGuard},
    time::{Instant, interval},
};
use uuid::Uuid;

/// How long anything may take that a broker does in milliseconds.
pub(crate) const SOON: Duration = Duration::from_secs(60);

pub(crate) struct Numbers(AtomicU64);

impl Random for Numbers {
    fn next_u64(&self) -> u64 {
        self.0.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed)
    }
}

/// A place on a broker for one test.
pub(crate) struct Stage {
    pub(crate) url: String,
    admin: Connection,
    channel: Channel,
    prefix: String,
}

impl Stage {
    /// On the broker that all tests share.
    pub(crate) async fn shared(hint: &str) -> Self {
        Self::on(servers::shared(), hint).await
    }

    pub(crate) async fn on(servers: &Servers, hint: &str) -> Self {
        let vhost = servers.vhost(hint).await.unwrap();
        let admin = Connection::connect(vhost.url(), ConnectionProperties::default()).await.unwrap();
        let channel = admin.create_channel().await.unwrap();
        Self { url: vhost.url().to_owned(), admin, channel, prefix: vhost.name("x") }
    }

    /// Connects anew, after the broker was away.
    pub(crate) async fn reconnect(&mut self) {
        self.admin = Connection::connect(&self.url, ConnectionProperties::default()).await.unwrap();
        self.channel = self.admin.create_channel().await.unwrap();
    }

    pub(crate) fn name(&self, name: &str) -> String {
        format!("{}.{name}", self.prefix)
    }

    /// A virtual host of its own, as `rabbitmqctl` wants it.
    pub(crate) fn vhost(&self) -> String {
        self.url.rsplit_once('/').unwrap().1.to_owned()
    }

    pub(crate) async fn admin_channel(&self) -> Channel {
        self.admin.create_channel().await.unwrap()
    }

    /// A durable topic exchange.
    pub(crate) async fn exchange(&self, name: &str) -> String {
        let name = self.name(name);
        let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        self.channel
            .exchange_declare(name.as_str().into(), ExchangeKind::Topic, options, FieldTable::default())
            .await
            .unwrap();
        name
    }

    pub(crate) async fn delete_exchange(&self, full_name: &str) {
        self.channel.exchange_delete(full_name.into(), ExchangeDeleteOptions::default()).await.unwrap();
    }

    /// A durable queue, bound to the exchange with the key.
    pub(crate) async fn queue(&self, name: &str, exchange: &str, key: &str) -> String {
        self.queue_with(name, exchange, key, FieldTable::default()).await
    }

    pub(crate) async fn queue_with(&self, name: &str, exchange: &str, key: &str, arguments: FieldTable) -> String {
        let name = self.name(name);
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        self.channel.queue_declare(name.as_str().into(), options, arguments).await.unwrap();
        if !exchange.is_empty() {
            let options = QueueBindOptions::default();
            self.channel
                .queue_bind(name.as_str().into(), exchange.into(), key.into(), options, FieldTable::default())
                .await
                .unwrap();
        }
        name
    }

    /// How many messages wait in a queue.
    pub(crate) async fn messages(&self, queue: &str) -> u32 {
        let options = QueueDeclareOptions { durable: true, passive: true, ..QueueDeclareOptions::default() };
        self.channel.queue_declare(queue.into(), options, FieldTable::default()).await.unwrap().message_count()
    }

    /// Takes everything out of a queue.
    pub(crate) async fn take_all(&self, queue: &str) -> Vec<Delivery> {
        // A channel of its own: the connection may be a new one after a restart.
        let admin = Connection::connect(&self.url, ConnectionProperties::default()).await.unwrap();
        let channel = admin.create_channel().await.unwrap();
        let mut taken = Vec::new();
        while let Some(message) = channel.basic_get(queue.into(), BasicGetOptions { no_ack: true }).await.unwrap() {
            taken.push(message.delivery);
        }
        admin.close(200, "taken".into()).await.unwrap();
        taken
    }

    /// How often each event is in the queue; takes it out.
    pub(crate) async fn count_all(&self, queue: &str) -> BTreeMap<Uuid, usize> {
        let mut counts = BTreeMap::new();
        for delivery in self.take_all(queue).await {
            *counts.entry(message_id(&delivery)).or_default() += 1;
        }
        counts
    }

    pub(crate) fn settings(&self, exchange: &str, routing_key: &str) -> OutboundSettings {
        settings(&self.url, exchange, routing_key)
    }

    pub(crate) async fn publisher(&self, settings: &OutboundSettings) -> OutboxMessagePublishAdapter {
        let publisher = start(settings);
        publisher.wait_until_available(SOON).await.unwrap();
        publisher
    }
}

pub(crate) fn settings(url: &str, exchange: &str, routing_key: &str) -> OutboundSettings {
    let mut settings = OutboundSettings {
        route: RouteSettings {
            exchange: exchange.to_owned(),
            routing_key: routing_key.to_owned(),
            overrides: Vec::new(),
        },
        ..OutboundSettings::default()
    };
    settings.amqp.url = SecretString::from(url);
    settings.amqp.confirm_timeout = Duration::from_secs(20);
    settings.amqp.reconnect_first_pause = Duration::from_millis(50);
    settings.amqp.reconnect_longest_pause = Duration::from_millis(500);
    settings
}

/// Sends the events of one type elsewhere.
pub(crate) fn with_override(settings: &mut OutboundSettings, event_type: &str, exchange: &str) {
    settings.route.overrides.push(RouteOverride {
        event_type: Some(event_type.to_owned()),
        exchange: Some(exchange.to_owned()),
        ..RouteOverride::default()
    });
}

pub(crate) fn start(settings: &OutboundSettings) -> OutboxMessagePublishAdapter {
    OutboxMessagePublishAdapter::start(settings, Arc::new(Numbers(AtomicU64::new(1)))).unwrap()
}

/// The broker whose faults are provoked, by one test at a time.
pub(crate) async fn faulty_broker() -> (MutexGuard<'static, ()>, &'static Servers, &'static Server<RabbitMq>) {
    static BROKER: OnceLock<Servers> = OnceLock::new();
    static TURN: Mutex<()> = Mutex::const_new(());
    let turn = TURN.lock().await;
    let servers = BROKER.get_or_init(|| servers::private(Options::fast()));
    let server = servers.rabbitmq().await.unwrap();
    (turn, servers, server)
}

pub(crate) fn event(event_type: &str) -> OutboxEvent {
    static SEQUENCE: AtomicUsize = AtomicUsize::new(1);
    let n = SEQUENCE.fetch_add(1, Ordering::Relaxed);
    OutboxEvent {
        id: EventId::new(Uuid::from_u128(0x0192_0000_0000_7000_8000_0000_0000_0000 + n as u128)),
        sequence: Sequence(i64::try_from(n).unwrap()),
        aggregate_type: AggregateType::from_stored("work-log"),
        aggregate_id: AggregateId::from_stored(format!("a{}", n % 20)),
        event_type: EventType::from_stored(event_type),
        payload: Payload::from_stored(format!("{{\"n\":{n}}}")),
        headers: EventHeaders::default(),
        attempts: 0,
        replays: 0,
        created_at: datetime!(2026-01-02 03:04:05 UTC),
        age_at_claim: Duration::ZERO,
    }
}

pub(crate) fn events(count: usize, event_type: &str) -> Vec<OutboxEvent> {
    (0..count).map(|_| event(event_type)).collect()
}

/// Publishes all at once; each event with its fate.
pub(crate) async fn publish_all(
    publisher: &OutboxMessagePublishAdapter,
    events: &[OutboxEvent],
) -> Vec<(Uuid, Result<(), PublishFailure>)> {
    join_all(events.iter().map(async |event| (event.id.as_uuid(), publisher.publish(event).await))).await
}

pub(crate) fn class(result: &Result<(), PublishFailure>) -> Option<FailureClass> {
    result.as_ref().err().map(PublishFailure::class)
}

pub(crate) fn message_id(delivery: &Delivery) -> Uuid {
    Uuid::parse_str(delivery.properties.message_id().as_ref().unwrap().as_str()).unwrap()
}

pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    let mut ticks = interval(Duration::from_millis(20));
    while !holds().await {
        assert!(Instant::now() < deadline, "not within {SOON:?}: {what}");
        ticks.tick().await;
    }
}

pub(crate) async fn until_unavailable(publisher: &OutboxMessagePublishAdapter) -> String {
    let mut reason = String::new();
    eventually("the publisher is unavailable", async || match publisher.availability() {
        Availability::Unavailable { reason: why } => {
            reason = why;
            true
        }
        _ => false,
    })
    .await;
    reason
}

pub(crate) fn argument(table: &mut FieldTable, name: &str, value: AMQPValue) {
    table.insert(name.into(), value);
}
