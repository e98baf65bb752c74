//! What the doctor looks at on the broker that messages come from.

use std::{error::Error, fmt};

use application_core::ports::{Finding, OutboxCheckPort, StoreError, with_causes};
use async_trait::async_trait;
use lapin::{
    Channel, Connection, ErrorKind,
    options::{BasicConsumeOptions, QueueDeclareOptions},
    protocol::{AMQPErrorKind, AMQPSoftError},
    types::{AMQPValue, FieldTable},
};

use super::{
    connection::{AmqpError, Purpose, channel, connect, within},
    park::{close, short},
    settings::ConsumerSettings,
};

/// Whether the broker lets the consumer in, has its queue and its parking queue, and lets it read from the queue.
pub struct ConsumerCheck {
    settings: ConsumerSettings,
    declared: Vec<String>,
}

impl ConsumerCheck {
    /// Looks for the queues of these settings. Those that a start `declared` are no finding while they are missing.
    #[must_use]
    pub fn new(settings: ConsumerSettings, declared: Vec<String>) -> Self {
        Self { settings, declared }
    }

    async fn examine(&self) -> Result<Vec<Finding>, AmqpError> {
        let limit = self.settings.connect_timeout;
        let connection = connect(&self.settings, Purpose::Examine).await?;
        let found = self.queues(&connection).await;
        close(&connection, limit).await;
        found
    }

    async fn queues(&self, connection: &Connection) -> Result<Vec<Finding>, AmqpError> {
        let mut findings = Vec::new();
        let keys = [("consumer.queue", &self.settings.queue), ("consumer.parking_queue", &self.settings.parking_queue)];
        for (key, queue) in keys {
            match self.refusal(connection, async |channel| look(channel, queue).await).await? {
                Some(Refusal { missing: true, .. }) if self.declared.contains(queue) => {}
                Some(refusal) => findings.push(finding(key, queue, &refusal)),
                None if key == "consumer.queue" => {
                    let refusal = self.refusal(connection, async |channel| read(channel, queue).await).await?;
                    findings.extend(refusal.filter(|refusal| refusal.forbidden).map(|why| finding(key, queue, &why)));
                }
                None => {}
            }
        }
        Ok(findings)
    }

    /// Asks on a channel of its own, which a refusal closes; gives the refusal.
    async fn refusal(
        &self,
        connection: &Connection,
        question: impl AsyncFnOnce(&Channel) -> lapin::Result<()>,
    ) -> Result<Option<Refusal>, AmqpError> {
        let limit = self.settings.connect_timeout;
        let channel = channel(connection, limit).await?;
        match within(limit, "asking for a queue", question(&channel)).await {
            Ok(()) => Ok(None),
            Err(AmqpError::Broker { step, source }) => match refused(&source) {
                Some(refusal) => Ok(Some(refusal)),
                None => Err(AmqpError::Broker { step, source }),
            },
            Err(other) => Err(other),
        }
    }
}

async fn look(channel: &Channel, queue: &str) -> lapin::Result<()> {
    let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    channel.queue_declare(short(queue), options, FieldTable::default()).await.map(drop)
}

/// Subscribes with an argument that no queue takes: the broker checks the permission first, and refuses either way.
async fn read(channel: &Channel, queue: &str) -> lapin::Result<()> {
    let mut arguments = FieldTable::default();
    arguments.insert("x-priority".into(), AMQPValue::LongString("none".into()));
    channel.basic_consume(short(queue), short(""), BasicConsumeOptions::default(), arguments).await.map(drop)
}

#[derive(Debug)]
struct Refusal {
    missing: bool,
    forbidden: bool,
    words: String,
}

fn refused(error: &lapin::Error) -> Option<Refusal> {
    let ErrorKind::ProtocolError(protocol) = error.kind() else { return None };
    let AMQPErrorKind::Soft(kind) = protocol.kind() else { return None };
    Some(Refusal {
        missing: *kind == AMQPSoftError::NOTFOUND,
        forbidden: *kind == AMQPSoftError::ACCESSREFUSED,
        words: protocol.get_message().to_string(),
    })
}

fn finding(key: &str, queue: &str, refusal: &Refusal) -> Finding {
    let cure = if refusal.missing {
        format!("declare it, or correct {key}")
    } else {
        "grant the user of consumer.url the permission to read from it".to_owned()
    };
    Finding { problem: refusal.words.clone(), subject: format!("queue {queue:?} ({key})"), cure }
}

#[async_trait]
impl OutboxCheckPort for ConsumerCheck {
    fn name(&self) -> &'static str {
        "consumer"
    }

    async fn look(&self) -> Result<Vec<Finding>, StoreError> {
        Ok(self.examine().await.unwrap_or_else(|error| vec![unusable(&error)]))
    }
}

fn unusable(error: &(dyn Error + 'static)) -> Finding {
    Finding {
        problem: with_causes(error),
        subject: "the broker of consumer.url".to_owned(),
        cure: "start the server, or correct consumer.url (AMQP_URL): host, port, virtual host, user".to_owned(),
    }
}

impl fmt::Debug for ConsumerCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsumerCheck").field("queue", &self.settings.queue).finish_non_exhaustive()
    }
}
