//! The queue that is published into: reads what arrived, in order.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use application_core::outbox::EventId;
use futures_util::StreamExt;
use lapin::{
    Channel, Connection, ConnectionProperties, Consumer,
    message::Delivery,
    options::{BasicConsumeOptions, QueuePurgeOptions},
    types::FieldTable,
};
use tokio::task::JoinHandle;

use crate::{error::BenchError, stage::QUEUE};

/// How long the queue must have been silent before it counts as read.
const SILENCE: Duration = Duration::from_millis(300);
/// How long to wait for a message that should be there.
const LATE: Duration = Duration::from_secs(10);

/// A connection to the queue.
pub(crate) struct Queue {
    connection: Connection,
    channel: Channel,
}

/// A message that arrived, and when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) event: EventId,
    pub(crate) at: Instant,
}

impl Queue {
    pub(crate) async fn open(amqp_url: &str) -> Result<Self, BenchError> {
        let connection = Connection::connect(amqp_url, ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        Ok(Self { connection, channel })
    }

    pub(crate) async fn purge(&self) -> Result<(), BenchError> {
        self.channel.queue_purge(QUEUE.into(), QueuePurgeOptions::default()).await?;
        Ok(())
    }

    /// Closes the connection. A queue with a single active consumer serves nobody else before that.
    pub(crate) async fn close(self) {
        // A connection that is gone already is closed as well.
        let _gone = self.connection.close(200, "done".into()).await;
    }

    /// Reads at least this many messages and what follows them; fewer only if no more come.
    pub(crate) async fn read(self, expected: usize) -> Result<Vec<EventId>, BenchError> {
        let mut consumer = self.consume().await?;
        let mut events = Vec::with_capacity(expected);
        loop {
            let wait = if events.len() < expected { LATE } else { SILENCE };
            match tokio::time::timeout(wait, consumer.next()).await {
                Ok(Some(delivery)) => events.extend(event_of(&delivery?)),
                Ok(None) | Err(_) => break,
            }
        }
        self.close().await;
        Ok(events)
    }

    /// Reads in a task of its own from now on.
    pub(crate) async fn follow(self) -> Result<Follower, BenchError> {
        let mut consumer = self.consume().await?;
        let arrivals = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&arrivals);
        let task = tokio::spawn(async move {
            while let Some(Ok(delivery)) = consumer.next().await {
                let at = Instant::now();
                if let Some(event) = event_of(&delivery) {
                    sink.lock().unwrap_or_else(PoisonError::into_inner).push(Arrival { event, at });
                }
            }
        });
        Ok(Follower { arrivals, task, queue: self })
    }

    async fn consume(&self) -> Result<Consumer, BenchError> {
        // Acknowledged by being sent: an acknowledgement for each would cost more than the message.
        let options = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
        Ok(self.channel.basic_consume(QUEUE.into(), "bench".into(), options, FieldTable::default()).await?)
    }
}

fn event_of(delivery: &Delivery) -> Option<EventId> {
    delivery.properties.message_id().as_ref()?.as_str().parse().ok()
}

/// A consumer at work.
pub(crate) struct Follower {
    arrivals: Arc<Mutex<Vec<Arrival>>>,
    task: JoinHandle<()>,
    queue: Queue,
}

impl Follower {
    pub(crate) fn count(&self) -> usize {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Ends the consumer and returns what arrived, in order.
    pub(crate) async fn end(self) -> Vec<Arrival> {
        self.queue.close().await;
        self.task.abort();
        std::mem::take(&mut *self.arrivals.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
