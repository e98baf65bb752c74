//! What is declared at the broker.
//!
//! The exchange that relays publish to leads to a fan-out, and every queue is bound to that. When the exchange is
//! declared again, one binding brings all queues back at once: no message reaches some of them and not the others.
//! The queues that count, the tap's and the consumer's, are never deleted; what was in a deleted queue is gone by the
//! broker's own rules, so that one beside them is deleted instead.

use std::time::Duration;

use lapin::{
    Channel, Connection, ConnectionProperties, ExchangeKind,
    options::{
        ExchangeBindOptions, ExchangeDeclareOptions, ExchangeDeleteOptions, QueueBindOptions, QueueDeclareOptions,
        QueueDeleteOptions,
    },
    types::{AMQPValue, FieldTable},
};

use super::error::ChaosError;
use crate::{TimedOut, tap::Tap};

/// How long the broker may take to answer.
const OPENED_WITHIN: Duration = Duration::from_secs(30);
const FAN_OUT: &str = "chaos.all";
const ASIDE: &str = "chaos.aside";
const FULL: &str = "chaos.full";
const WORK: &str = "app.events";
const PARKING: &str = "app.events.parking";

/// Declares and deletes, each time over a connection of its own.
#[derive(Debug)]
pub(crate) struct Topology {
    url: String,
}

impl Topology {
    /// Declares everything; `tap` is the tap's queue, which is there already.
    pub(crate) async fn declare(url: &str, tap: &str) -> Result<Self, ChaosError> {
        let topology = Self { url: url.to_owned() };
        let (connection, channel) = topology.open().await?;
        channel
            .exchange_declare(FAN_OUT.into(), ExchangeKind::Fanout, durable_exchange(), FieldTable::default())
            .await?;
        let single = [("x-single-active-consumer", AMQPValue::Boolean(true))];
        declare_queue(&channel, WORK, "quorum", single.into()).await?;
        declare_queue(&channel, PARKING, "quorum", Vec::new()).await?;
        for queue in [WORK, tap] {
            bind(&channel, queue).await?;
        }
        connection.close(200, "declared".into()).await?;
        topology.declare_aside().await?;
        topology.declare_exchange().await?;
        Ok(topology)
    }

    pub(crate) async fn declare_exchange(&self) -> Result<(), ChaosError> {
        let (connection, channel) = self.open().await?;
        let arguments = FieldTable::default;
        channel.exchange_declare(Tap::EXCHANGE.into(), ExchangeKind::Topic, durable_exchange(), arguments()).await?;
        let bind = ExchangeBindOptions::default();
        channel.exchange_bind(FAN_OUT.into(), Tap::EXCHANGE.into(), "#".into(), bind, arguments()).await?;
        Ok(connection.close(200, "declared".into()).await?)
    }

    pub(crate) async fn delete_exchange(&self) -> Result<(), ChaosError> {
        let (connection, channel) = self.open().await?;
        channel.exchange_delete(Tap::EXCHANGE.into(), ExchangeDeleteOptions::default()).await?;
        Ok(connection.close(200, "deleted".into()).await?)
    }

    /// Nobody reads this queue: it forgets its oldest messages.
    pub(crate) async fn declare_aside(&self) -> Result<(), ChaosError> {
        let (connection, channel) = self.open().await?;
        declare_queue(&channel, ASIDE, "classic", vec![("x-max-length", AMQPValue::LongInt(100))]).await?;
        bind(&channel, ASIDE).await?;
        Ok(connection.close(200, "declared".into()).await?)
    }

    pub(crate) async fn delete_aside(&self) -> Result<(), ChaosError> {
        self.delete(ASIDE).await
    }

    /// Takes one message and rejects all others.
    pub(crate) async fn bind_full(&self) -> Result<(), ChaosError> {
        let (connection, channel) = self.open().await?;
        let arguments = vec![
            ("x-max-length", AMQPValue::LongInt(1)),
            ("x-overflow", AMQPValue::LongString("reject-publish".into())),
        ];
        declare_queue(&channel, FULL, "classic", arguments).await?;
        bind(&channel, FULL).await?;
        Ok(connection.close(200, "declared".into()).await?)
    }

    pub(crate) async fn delete_full(&self) -> Result<(), ChaosError> {
        self.delete(FULL).await
    }

    /// Messages that the consumer has given up.
    pub(crate) async fn parked(&self) -> Result<u32, ChaosError> {
        let (connection, channel) = self.open().await?;
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let parked = channel.queue_declare(PARKING.into(), passive, FieldTable::default()).await?.message_count();
        connection.close(200, "counted".into()).await?;
        Ok(parked)
    }

    async fn delete(&self, queue: &str) -> Result<(), ChaosError> {
        let (connection, channel) = self.open().await?;
        channel.queue_delete(queue.into(), QueueDeleteOptions::default()).await?;
        Ok(connection.close(200, "deleted".into()).await?)
    }

    async fn open(&self) -> Result<(Connection, Channel), ChaosError> {
        let opened = async {
            let connection = Connection::connect(&self.url, ConnectionProperties::default()).await?;
            let channel = connection.create_channel().await?;
            Ok((connection, channel))
        };
        let opened = tokio::time::timeout(OPENED_WITHIN, opened).await;
        opened.map_err(|_elapsed| TimedOut::new("a connection to the broker", OPENED_WITHIN))?
    }
}

fn durable_exchange() -> ExchangeDeclareOptions {
    ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() }
}

async fn declare_queue(
    channel: &Channel,
    queue: &str,
    kind: &str,
    arguments: Vec<(&str, AMQPValue)>,
) -> Result<(), lapin::Error> {
    let mut table = FieldTable::default();
    table.insert("x-queue-type".into(), AMQPValue::LongString(kind.into()));
    for (name, value) in arguments {
        table.insert(name.into(), value);
    }
    let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    channel.queue_declare(queue.into(), durable, table).await.map(drop)
}

async fn bind(channel: &Channel, queue: &str) -> Result<(), lapin::Error> {
    let options = QueueBindOptions::default();
    channel.queue_bind(queue.into(), FAN_OUT.into(), "".into(), options, FieldTable::default()).await
}
