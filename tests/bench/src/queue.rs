//! The queue that is published into: reads what arrived, in order.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use application_core::outbox::{EventId, OutboxEvent};
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
                Ok(Some(delivery)) => {
                    let nameless = || BenchError::Unsound("a message without an event's id arrived".to_owned());
                    events.push(event_of(&delivery?).ok_or_else(nameless)?);
                }
                Ok(None) | Err(_) => break,
            }
        }
        self.close().await;
        Ok(events)
    }

    /// Reads the queue empty: it must hold each of these events once and nothing else, or whoever published them could
    /// look fast by losing some. In which order they were confirmed is not asked of a limit.
    pub(crate) async fn holds_exactly(self, what: &str, events: &[OutboxEvent]) -> Result<(), BenchError> {
        let arrived = self.read(events.len()).await?;
        match difference(events.iter().map(|event| event.id), arrived) {
            None => Ok(()),
            Some(difference) => Err(BenchError::Unsound(format!("{what} was wrong: {difference}"))),
        }
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

/// How what arrived differs from what was published; `None`: each is there once.
fn difference(
    published: impl IntoIterator<Item = EventId>,
    arrived: impl IntoIterator<Item = EventId>,
) -> Option<String> {
    let mut counts: HashMap<EventId, i64> = HashMap::new();
    for event in published {
        *counts.entry(event).or_default() -= 1;
    }
    let mut foreign = 0_i64;
    for event in arrived {
        match counts.get_mut(&event) {
            Some(count) => *count += 1,
            None => foreign += 1,
        }
    }
    let lost: i64 = counts.values().filter(|count| **count < 0).map(|count| -count).sum();
    let repeated: i64 = counts.values().filter(|count| **count > 0).sum();
    (lost + repeated + foreign > 0)
        .then(|| format!("of its messages {lost} were lost, {repeated} repeated, and {foreign} were of nobody"))
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

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn events(numbers: &[u128]) -> Vec<EventId> {
        numbers.iter().map(|number| EventId::new(Uuid::from_u128(*number))).collect()
    }

    #[test]
    fn what_was_published_is_there_once_in_any_order() {
        assert_eq!(difference(events(&[1, 2, 3]), events(&[3, 1, 2])), None);
    }

    #[test]
    fn a_lost_message_is_not_made_up_for_by_a_repeated_or_a_foreign_one() {
        for (arrived, told) in [
            (&[1, 3][..], "1 were lost, 0 repeated, and 0 were of nobody"),
            (&[1, 1, 3][..], "1 were lost, 1 repeated, and 0 were of nobody"),
            (&[1, 3, 4][..], "1 were lost, 0 repeated, and 1 were of nobody"),
            (&[1, 2, 3, 3][..], "0 were lost, 1 repeated, and 0 were of nobody"),
        ] {
            let difference = difference(events(&[1, 2, 3]), events(arrived)).unwrap();
            assert!(difference.ends_with(told), "{difference}");
        }
    }
}
