//! Whichever publisher confirms it, an event ends in the same state (case B25).

use std::{
    io::{self, Write},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use adapter_outbound::{
    DisabledOutboxMessagePublisher, OutboundSettings, OutboxMessagePublishAdapter, StdoutOutboxMessagePublisher,
    WebhookOutboxMessagePublisher, envelope::EnvelopeFormat,
};
use app_bootstrap::{outbox_config::OutboxConfig, scheduler::RelayEnd, settings::Settings, wakeup::RelayWakeup};
use application_core::{
    outbox::HolderName,
    ports::MessagePublishPort,
    ports::NoObserver,
    usecases::{PublishOutcome, PublishPendingOutboxEventsUseCase, PublishPolicy, StopSignal},
};
use lapin::{
    Connection, ConnectionProperties, ExchangeKind,
    message::Delivery,
    options::{BasicGetOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions},
    types::FieldTable,
};
use test_support::{
    fixtures::Events,
    servers::{self, TestVhost},
    webhook::{Answer, WebhookReceiver},
};
use tokio_util::sync::CancellationToken;

use super::postgres::Postgres;

/// Lines that were written.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Lines {
    fn count(&self) -> usize {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count()
    }
}

/// A queue of its own, and a publisher that sends into it.
pub(crate) struct Rabbit {
    vhost: TestVhost,
    queue: String,
    pub(crate) publisher: Arc<OutboxMessagePublishAdapter>,
}

impl Rabbit {
    /// Behind the default exchange, whose routing key is the queue.
    pub(crate) async fn start(format: EnvelopeFormat) -> Self {
        Self::on(format, None).await
    }

    /// Behind an exchange of this name, if there is one.
    async fn on(format: EnvelopeFormat, exchange: Option<&str>) -> Self {
        let vhost = servers::shared().vhost("contract").await.expect("a virtual host");
        let queue = vhost.name("events");
        let admin = Connection::connect(vhost.url(), ConnectionProperties::default()).await.expect("connected");
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        let channel = admin.create_channel().await.expect("a channel");
        channel.queue_declare(queue.as_str().into(), options, FieldTable::default()).await.expect("declared");
        let mut set = OutboundSettings::default();
        set.envelope.format = format;
        set.amqp.url = vhost.url().to_owned().into();
        match exchange.map(|name| vhost.name(name)) {
            None => {
                set.route.exchange = String::new();
                set.route.routing_key.clone_from(&queue);
            }
            Some(exchange) => {
                let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
                let name = exchange.as_str().into();
                let declared = channel.exchange_declare(name, ExchangeKind::Topic, options, FieldTable::default());
                declared.await.expect("declared");
                let (name, key, options) = (exchange.as_str().into(), "#".into(), QueueBindOptions::default());
                let bound = channel.queue_bind(queue.as_str().into(), name, key, options, FieldTable::default());
                bound.await.expect("bound");
                set.route.exchange = exchange;
            }
        }
        let publisher = OutboxMessagePublishAdapter::start(&set, OutboxConfig::random()).expect("settings");
        publisher.wait_until_available(Duration::from_mins(1)).await.expect("available");
        Self { vhost, queue, publisher: Arc::new(publisher) }
    }

    /// Takes everything out of the queue.
    pub(crate) async fn messages(&self) -> Vec<Delivery> {
        let admin = Connection::connect(self.vhost.url(), ConnectionProperties::default()).await.expect("connected");
        let channel = admin.create_channel().await.expect("a channel");
        let mut messages = Vec::new();
        let taken = BasicGetOptions { no_ack: true };
        while let Some(message) = channel.basic_get(self.queue.as_str().into(), taken).await.expect("looked") {
            messages.push(message.delivery);
        }
        messages
    }
}

fn webhook_to(receiver: &WebhookReceiver) -> WebhookOutboxMessagePublisher {
    let mut set = OutboundSettings::default();
    set.webhook.url = Some(receiver.url("/in").into());
    set.webhook.secrets = Some("whsec_dGhlIG5ld2VyIHNlY3JldCBvZiB0ZXN0cw==".into());
    WebhookOutboxMessagePublisher::try_new(&set, OutboxConfig::clock()).expect("settings")
}

/// Every column of the events that is no time of day, then what is left of lanes and claims.
async fn final_state(publisher: Arc<dyn MessagePublishPort>) -> Vec<String> {
    let postgres = Postgres::fresh().await;
    let series = Events::new();
    let events: Vec<_> = (0..12).map(|n| series.of(format!("a{}", n % 4)).build()).collect();
    postgres.append_all(&events).await;
    let set = Settings::default();
    let config = OutboxConfig::new(&set, postgres.database.clone(), RelayWakeup::local());
    let relay = config.relay(publisher).expect("valid settings");
    let cancel = CancellationToken::new();
    let drained = tokio::time::timeout(Duration::from_mins(1), relay.run_until_drained(cancel)).await;
    assert_eq!(drained.expect("in time"), RelayEnd::Drained);
    let query = "SELECT (to_jsonb(s) - '{created_at,published_at}'::text[] \
                        || jsonb_build_object('published', published_at IS NOT NULL))::text \
                   FROM outbox_event_state s \
                  UNION ALL SELECT format('%s lanes', count(*)) FROM outbox_lane \
                  UNION ALL SELECT format('%s claims', count(*)) FROM outbox_claim ORDER BY 1";
    postgres.sql().await.column(query).await
}

#[tokio::test]
async fn an_event_that_was_confirmed_ends_in_the_same_state_whoever_published_it() {
    let lines = Lines::default();
    let by_stdout = final_state(Arc::new(StdoutOutboxMessagePublisher::writing_to(lines.clone()))).await;
    assert_eq!(lines.count(), 12, "each went out, and once");
    let published = by_stdout.iter().filter(|row| row.contains(r#""status": "PUBLISHED""#)).count();
    assert_eq!(published, 12, "{by_stdout:?}");
    assert!(by_stdout.contains(&"0 lanes".to_owned()) && by_stdout.contains(&"0 claims".to_owned()), "{by_stdout:?}");
    for (format, exchange) in [
        (EnvelopeFormat::Json, None),
        (EnvelopeFormat::Json, Some("topic")),
        (EnvelopeFormat::CloudEventsStructured, None),
        (EnvelopeFormat::CloudEventsBinary, Some("topic")),
        (EnvelopeFormat::Raw, None),
    ] {
        let rabbit = Rabbit::on(format, exchange).await;
        let by_amqp = final_state(Arc::clone(&rabbit.publisher) as _).await;
        assert_eq!(by_amqp, by_stdout, "{format:?} by {exchange:?}");
        assert_eq!(rabbit.messages().await.len(), 12, "{format:?} by {exchange:?}: each went out, and once");
        rabbit.publisher.close(Duration::from_secs(10)).await;
    }
    let receiver = WebhookReceiver::start(|_| Answer::Status(204)).await.expect("a receiver");
    assert_eq!(final_state(Arc::new(webhook_to(&receiver))).await, by_stdout, "by webhook");
    assert_eq!(receiver.received().len(), 12, "by webhook: each went out, and once");
}

#[tokio::test]
async fn a_disabled_publisher_leaves_every_event_as_it_was() {
    let postgres = Postgres::fresh().await;
    postgres.append_all(&Events::new().many_of("a", 3)).await;
    let relay = PublishPendingOutboxEventsUseCase::new(
        postgres.store(),
        Arc::new(DisabledOutboxMessagePublisher),
        OutboxConfig::clock(),
        OutboxConfig::random(),
        Arc::new(NoObserver),
        PublishPolicy::of(HolderName::new("relay-1")),
    );
    assert_eq!(relay.run_once(&StopSignal::new()).await.expect("a round"), PublishOutcome::Disabled);
    let query = "SELECT status || ' ' || attempts FROM outbox_event_state";
    assert_eq!(postgres.sql().await.column::<String>(query).await, ["PENDING 0"; 3]);
}
