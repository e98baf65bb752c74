//! A tap on the exchange: sees every message that the relays publish.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use futures_util::StreamExt;
use lapin::{
    Connection, ConnectionProperties, Consumer, ExchangeKind,
    message::Delivery,
    options::{BasicAckOptions, BasicConsumeOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions},
    types::{AMQPValue, FieldTable},
};
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::patience::pause;

/// How long it may take to connect and to begin to read.
const CONSUMED_WITHIN: Duration = Duration::from_secs(10);

/// A delivery, as far as order and loss need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The event.
    pub event: Uuid,
    /// Its type.
    pub event_type: String,
    /// The aggregate's type and identifier.
    pub aggregate: String,
    /// The place in the aggregate's order.
    pub sequence: i64,
    /// When it arrived.
    pub at: Instant,
    /// The publisher's name, if the settings gave it one: the property `app-id`.
    pub publisher: Option<String>,
    /// Whether the broker says that it may have delivered this message before.
    pub redelivered: bool,
}

/// A durable queue of its own on the exchange, read by a task that connects anew when it must.
#[derive(Debug)]
pub struct Tap {
    seen: Arc<Mutex<Vec<Seen>>>,
    task: JoinHandle<()>,
}

impl Tap {
    /// The exchange that the settings name by default.
    pub const EXCHANGE: &'static str = "outbox.events";

    /// Declares the exchange and the queue and begins to read.
    ///
    /// # Errors
    /// What the broker says.
    pub async fn open(amqp_url: &str, queue: &str) -> Result<Self, lapin::Error> {
        Self::open_on(amqp_url, Self::EXCHANGE, queue).await
    }

    /// As [`Tap::open`], on an exchange of another name.
    ///
    /// # Errors
    /// What the broker says.
    pub async fn open_on(amqp_url: &str, exchange: &str, queue: &str) -> Result<Self, lapin::Error> {
        declare(amqp_url, exchange, queue).await?;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (url, queue, sink) = (amqp_url.to_owned(), queue.to_owned(), Arc::clone(&seen));
        let task = tokio::spawn(async move {
            loop {
                // A broker that is restarted ends the stream; the queue is durable, so nothing is missed.
                let _ = read(&url, &queue, &sink).await;
                pause().await;
            }
        });
        Ok(Self { seen, task })
    }

    /// What was delivered so far, in the order of delivery.
    #[must_use]
    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What was delivered behind the first `already` deliveries.
    #[must_use]
    pub fn seen_after(&self, already: usize) -> Vec<Seen> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(already..).unwrap_or_default().to_vec()
    }

    /// How many deliveries there were so far.
    #[must_use]
    pub fn count(&self) -> usize {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn declare(amqp_url: &str, exchange: &str, queue: &str) -> Result<(), lapin::Error> {
    let connection = Connection::connect(amqp_url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
    channel.exchange_declare(exchange.into(), ExchangeKind::Topic, durable, FieldTable::default()).await?;
    let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    let mut quorum = FieldTable::default();
    quorum.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
    channel.queue_declare(queue.into(), durable, quorum).await?;
    let bind = QueueBindOptions::default();
    channel.queue_bind(queue.into(), exchange.into(), "#".into(), bind, FieldTable::default()).await?;
    connection.close(200, "declared".into()).await
}

async fn read(amqp_url: &str, queue: &str, sink: &Mutex<Vec<Seen>>) -> Result<(), lapin::Error> {
    // A broker that is killed in the middle of a handshake leaves the client waiting for ever.
    let Ok(consumed) = tokio::time::timeout(CONSUMED_WITHIN, consume(amqp_url, queue)).await else {
        return Ok(());
    };
    let (_connection, mut deliveries) = consumed?;
    while let Some(delivery) = deliveries.next().await {
        let delivery = delivery?;
        if let Some(seen) = seen(&delivery) {
            sink.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
        }
        delivery.ack(BasicAckOptions::default()).await?;
    }
    Ok(())
}

async fn consume(amqp_url: &str, queue: &str) -> Result<(Connection, Consumer), lapin::Error> {
    let connection = Connection::connect(amqp_url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    let options = BasicConsumeOptions::default();
    let deliveries = channel.basic_consume(queue.into(), "tap".into(), options, FieldTable::default()).await?;
    Ok((connection, deliveries))
}

fn seen(delivery: &Delivery) -> Option<Seen> {
    let properties = &delivery.properties;
    let headers = properties.headers().as_ref()?.inner();
    let text = |name: &str| match headers.get(name)? {
        AMQPValue::LongString(text) => Some(text.to_string()),
        AMQPValue::ShortString(text) => Some(text.to_string()),
        AMQPValue::LongLongInt(number) => Some(number.to_string()),
        _ => None,
    };
    Some(Seen {
        event: Uuid::parse_str(properties.message_id().as_ref()?.as_str()).ok()?,
        event_type: properties.kind().as_ref().map(ToString::to_string).unwrap_or_default(),
        aggregate: format!("{}/{}", text("x-aggregate-type")?, text("x-aggregate-id")?),
        sequence: text("x-sequence")?.parse().ok()?,
        at: Instant::now(),
        publisher: properties.app_id().as_ref().map(ToString::to_string),
        redelivered: delivery.redelivered,
    })
}
