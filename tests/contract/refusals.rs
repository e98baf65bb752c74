//! An aggregate whose first event a real broker refuses, in each of the ways that there are (case O1).

use std::{sync::Arc, time::Duration};

use adapter_outbound::{OutboundSettings, OutboxMessagePublishAdapter, route::RouteOverride};
use app_bootstrap::outbox_config::OutboxConfig;
use application_core::{
    outbox::{EventId, HolderName, NewOutboxEvent},
    ports::NoObserver,
    usecases::{PublishOutcome, PublishPendingOutboxEventsUseCase, PublishPolicy, StopSignal},
};
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, ExchangeKind,
    options::{
        BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions, QueueBindOptions,
        QueueDeclareOptions, QueuePurgeOptions,
    },
    types::{AMQPValue, FieldTable},
};
use test_support::{
    clock::FakeClock,
    fixtures::Events,
    operate::OperateOne,
    servers::{self, TestVhost},
};

use super::postgres::Postgres;

const HOUR: Duration = Duration::from_hours(1);
/// The largest message that is sent.
const LARGEST: usize = 2_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    /// No queue takes it: the broker returns it.
    Unroutable,
    /// It is larger than what is sent.
    Oversize,
    /// The queue is full and rejects it.
    QueueFull,
}

/// A queue that takes every event but the first, which goes by an exchange of its own.
struct Broker {
    vhost: TestVhost,
    work: String,
    first: String,
    channel: Channel,
    _admin: Connection,
}

impl Broker {
    async fn start(refusal: Refusal) -> Self {
        let vhost = servers::shared().vhost("refusals").await.expect("a virtual host");
        let admin = Connection::connect(vhost.url(), ConnectionProperties::default()).await.expect("connected");
        let channel = admin.create_channel().await.expect("a channel");
        let (work, first) = (vhost.name("work"), vhost.name("first"));
        let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        let declared =
            channel.exchange_declare(first.as_str().into(), ExchangeKind::Topic, options, FieldTable::default());
        declared.await.expect("declared");
        let broker = Self { vhost, work, first, channel, _admin: admin };
        broker.declare(&broker.work, FieldTable::default()).await;
        if refusal == Refusal::QueueFull {
            let mut of_one = FieldTable::default();
            of_one.insert("x-max-length".into(), AMQPValue::LongInt(1));
            of_one.insert("x-overflow".into(), AMQPValue::LongString("reject-publish".into()));
            broker.bind_first(of_one).await;
            broker.fill_first().await;
        }
        broker
    }

    async fn declare(&self, queue: &str, arguments: FieldTable) {
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        self.channel.queue_declare(queue.into(), options, arguments).await.expect("declared");
    }

    /// A queue behind the exchange of first events, called like it.
    async fn bind_first(&self, arguments: FieldTable) {
        self.declare(&self.first, arguments).await;
        let (queue, exchange) = (self.first.as_str().into(), self.first.as_str().into());
        let options = QueueBindOptions::default();
        self.channel.queue_bind(queue, exchange, "#".into(), options, FieldTable::default()).await.expect("bound");
    }

    async fn fill_first(&self) {
        self.channel.confirm_select(ConfirmSelectOptions::default()).await.expect("confirms");
        let (exchange, options) = (self.first.as_str().into(), BasicPublishOptions::default());
        let sent = self.channel.basic_publish(exchange, "k".into(), options, b"{}", BasicProperties::default()).await;
        let confirmation = sent.expect("sent").await.expect("confirmed");
        assert!(matches!(confirmation, Confirmation::Ack(_)), "{confirmation:?}");
    }

    /// Lets the first event pass.
    async fn give_way(&self, refusal: Refusal, postgres: &Postgres, first: EventId) {
        match refusal {
            Refusal::Unroutable => self.bind_first(FieldTable::default()).await,
            Refusal::Oversize => assert!(postgres.operations().discard(first).await.expect("asked")),
            Refusal::QueueFull => {
                let options = QueuePurgeOptions::default();
                self.channel.queue_purge(self.first.as_str().into(), options).await.expect("purged");
            }
        }
    }

    /// Takes everything out of a queue.
    async fn taken(&self, queue: &str) -> Vec<EventId> {
        let (mut taken, options) = (Vec::new(), BasicGetOptions { no_ack: true });
        while let Some(message) = self.channel.basic_get(queue.into(), options).await.expect("looked") {
            let id = message.delivery.properties.message_id().as_ref().expect("an id");
            taken.push(id.as_str().parse::<EventId>().expect("an event id"));
        }
        taken
    }

    async fn publisher(&self) -> Arc<OutboxMessagePublishAdapter> {
        let mut set = OutboundSettings::default();
        set.amqp.url = self.vhost.url().to_owned().into();
        set.amqp.max_message_bytes = u64::try_from(LARGEST).expect("small");
        set.route.exchange = String::new();
        set.route.routing_key.clone_from(&self.work);
        set.route.overrides.push(RouteOverride {
            event_type: Some("First".to_owned()),
            exchange: Some(self.first.clone()),
            ..RouteOverride::default()
        });
        let publisher = OutboxMessagePublishAdapter::start(&set, OutboxConfig::random()).expect("settings");
        publisher.wait_until_available(Duration::from_mins(1)).await.expect("available");
        Arc::new(publisher)
    }
}

async fn until_idle(relay: &PublishPendingOutboxEventsUseCase) {
    let mut rounds = 0;
    while relay.run_once(&StopSignal::new()).await.expect("a round") != PublishOutcome::Idle {
        rounds += 1;
        assert!(rounds < 20, "the relay finds no rest");
    }
}

async fn later_events_wait_for_a_first_one_that_is_refused(refusal: Refusal) {
    let (postgres, broker) = (Postgres::fresh().await, Broker::start(refusal).await);
    let (clock, publisher) = (Arc::new(FakeClock::default()), broker.publisher().await);
    let relay = PublishPendingOutboxEventsUseCase::new(
        postgres.store(),
        Arc::clone(&publisher) as _,
        Arc::clone(&clock) as _,
        OutboxConfig::random(),
        Arc::new(NoObserver),
        PublishPolicy::of(HolderName::new("relay-1")),
    );
    let series = Events::new();
    let bytes = if refusal == Refusal::Oversize { LARGEST } else { 10 };
    let first = series.of("a").event_type("First").payload_of_bytes(bytes).build();
    let later = series.many_of("a", 2);
    postgres.append_all(&[std::slice::from_ref(&first), later.as_slice()].concat()).await;
    for _ in 0..5 {
        let beside = series.of("b").build();
        postgres.append_all(std::slice::from_ref(&beside)).await;
        until_idle(&relay).await;
        assert_eq!(broker.taken(&broker.work).await, [beside.id()], "{refusal:?}: nothing later of the aggregate");
        // Every wait is over: the breaker's, and those in the database.
        clock.advance(HOUR);
        postgres.advance(HOUR).await;
    }
    let query = "SELECT status FROM outbox_event WHERE aggregate_id = 'a' ORDER BY sequence";
    let statuses: Vec<String> = postgres.sql().await.column(query).await;
    let of_first = if refusal == Refusal::Oversize { "DEAD" } else { "FAILED" };
    assert_eq!(statuses, [of_first, "PENDING", "PENDING"], "{refusal:?}");

    broker.give_way(refusal, &postgres, first.id()).await;
    until_idle(&relay).await;
    let later: Vec<EventId> = later.iter().map(NewOutboxEvent::id).collect();
    assert_eq!(broker.taken(&broker.work).await, later, "{refusal:?}: the rest in order");
    if refusal != Refusal::Oversize {
        assert_eq!(broker.taken(&broker.first).await, [first.id()], "{refusal:?}");
    }
    publisher.close(Duration::from_secs(10)).await;
}

#[tokio::test]
async fn nothing_later_of_an_aggregate_reaches_the_broker_while_its_first_event_is_refused_in_any_way() {
    for refusal in [Refusal::Unroutable, Refusal::Oversize, Refusal::QueueFull] {
        later_events_wait_for_a_first_one_that_is_refused(refusal).await;
    }
}
