//! The test's own view of the broker, and a wire to it that can be cut.

use std::{net::SocketAddr, time::Duration};

use lapin::{
    BasicProperties, Channel, Connection, ConnectionProperties,
    message::BasicGetMessage,
    options::{BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions, QueueDeleteOptions},
    types::{AMQPValue, FieldTable},
};
use test_support::servers;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
    time::{Instant, interval, timeout},
};

pub(crate) const SOON: Duration = Duration::from_secs(30);

/// Waits until something holds; fails loudly when it does not come.
pub(crate) async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    let mut ticks = interval(Duration::from_millis(20));
    while !holds().await {
        assert!(Instant::now() < deadline, "not within {SOON:?}: {what}");
        ticks.tick().await;
    }
}

/// A work queue and a parking queue of one test.
pub(crate) struct Broker {
    pub(crate) url: String,
    pub(crate) queue: String,
    pub(crate) parking_queue: String,
    queue_type: QueueType,
    connection: Connection,
    channel: Channel,
}

#[derive(Clone, Copy)]
pub(crate) enum QueueType {
    Classic,
    Quorum,
}

impl Broker {
    /// A place on the shared broker.
    pub(crate) async fn shared(hint: &str, queue_type: QueueType) -> Self {
        let vhost = servers::shared().vhost(hint).await.unwrap();
        Self::at(vhost.url(), &vhost.name("work"), queue_type).await
    }

    pub(crate) async fn at(url: &str, queue: &str, queue_type: QueueType) -> Self {
        let (connection, channel) = connect(url).await;
        let (url, queue, parking_queue) = (url.to_owned(), queue.to_owned(), format!("{queue}.parking"));
        let broker = Self { url, queue, parking_queue, queue_type, connection, channel };
        broker.declare_work_queue().await;
        broker.declare_parking_queue(FieldTable::default()).await;
        broker
    }

    /// Connects anew, after the broker was away.
    pub(crate) async fn reconnect(&mut self) {
        (self.connection, self.channel) = connect(&self.url).await;
    }

    pub(crate) async fn declare_work_queue(&self) {
        let mut arguments = FieldTable::default();
        arguments.insert("x-single-active-consumer".into(), AMQPValue::Boolean(true));
        self.declare(&self.queue, arguments).await;
    }

    pub(crate) async fn declare_parking_queue(&self, arguments: FieldTable) {
        self.declare(&self.parking_queue, arguments).await;
    }

    async fn declare(&self, queue: &str, mut arguments: FieldTable) {
        if matches!(self.queue_type, QueueType::Quorum) {
            arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
        }
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        self.channel.queue_declare(queue.into(), options, arguments).await.unwrap();
    }

    pub(crate) async fn delete(&self, queue: &str) {
        self.channel.queue_delete(queue.into(), QueueDeleteOptions::default()).await.unwrap();
    }

    pub(crate) async fn publish(&self, body: &[u8], properties: BasicProperties) {
        self.publish_to(&self.queue, body, properties).await;
    }

    pub(crate) async fn publish_to(&self, queue: &str, body: &[u8], properties: BasicProperties) {
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let properties = properties.with_delivery_mode(2);
        let sent = self.channel.basic_publish("".into(), queue.into(), options, body, properties).await.unwrap();
        let confirmation = sent.await.unwrap();
        assert!(confirmation.is_ack() && confirmation.take_message().is_none(), "{queue} took no message");
    }

    /// How many messages are ready, and how many consumers subscribed.
    pub(crate) async fn count(&self, queue: &str) -> (u32, u32) {
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let queue = self.channel.queue_declare(queue.into(), passive, FieldTable::default()).await.unwrap();
        (queue.message_count(), queue.consumer_count())
    }

    pub(crate) async fn ready(&self, queue: &str) -> u32 {
        self.count(queue).await.0
    }

    /// Takes a message off a queue.
    pub(crate) async fn take(&self, queue: &str) -> Option<BasicGetMessage> {
        self.channel.basic_get(queue.into(), BasicGetOptions { no_ack: true }).await.unwrap()
    }

    /// Takes `count` messages off the parking queue as they come.
    pub(crate) async fn take_parked(&self, count: usize) -> Vec<BasicGetMessage> {
        let mut messages = Vec::new();
        eventually("messages are parked", async || {
            messages.extend(self.take(&self.parking_queue).await);
            messages.len() == count
        })
        .await;
        messages
    }
}

async fn connect(url: &str) -> (Connection, Channel) {
    let connection = Connection::connect(url, ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    (connection, channel)
}

/// The text of a header.
pub(crate) fn header(message: &BasicGetMessage, name: &str) -> Option<String> {
    match message.properties.headers().as_ref()?.inner().get(name)? {
        AMQPValue::LongString(text) => Some(text.to_string()),
        other => Some(format!("{other:?}")),
    }
}

/// A TCP relay to the broker whose connections can be cut.
pub(crate) struct Wire {
    /// The broker's URL by way of the relay.
    pub(crate) url: String,
    cut: watch::Sender<u32>,
}

impl Wire {
    pub(crate) async fn to(url: &str) -> Self {
        let (scheme, rest) = url.split_once("://").unwrap();
        let (user, rest) = rest.split_once('@').unwrap();
        let (target, path) = rest.split_once('/').unwrap();
        let target = target.to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let cut = watch::Sender::new(0);
        let cuts = cut.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(relay(client, target.clone(), cuts.subscribe()));
            }
        });
        Self { url: format!("{scheme}://{user}@{address}/{path}"), cut }
    }

    /// Cuts every connection that exists now.
    pub(crate) fn cut(&self) {
        self.cut.send_modify(|cuts| *cuts += 1);
    }
}

async fn relay(mut client: TcpStream, target: String, mut cuts: watch::Receiver<u32>) {
    let Ok(mut server) = TcpStream::connect(target).await else { return };
    tokio::select! {
        _ = copy_bidirectional(&mut client, &mut server) => {}
        _ = cuts.changed() => {}
    }
}

/// An address where nobody listens.
pub(crate) async fn nobody() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

/// Waits for an end that must come.
pub(crate) async fn ends<T>(what: &str, work: impl Future<Output = T>) -> T {
    timeout(SOON, work).await.unwrap_or_else(|_| panic!("not within {SOON:?}: {what}"))
}
