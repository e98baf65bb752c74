//! What must stand on the broker: looked for at start, and declared if the settings say so.

use std::time::Duration;

use lapin::{
    Channel, ErrorKind, ExchangeKind,
    options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions},
    protocol::{AMQPErrorKind, AMQPSoftError},
    types::{AMQPValue, FieldTable, ShortString},
};
use tokio::time::timeout;

use super::{connection::Live, failure::words, settings::TopologySettings};
use crate::route::Route;

/// Something that is missing on the broker, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{object}: {problem}; {cure}")]
pub struct TopologyProblem {
    /// What it is about, for example `exchange "outbox.events"`.
    pub object: String,
    /// What is wrong with it.
    pub problem: String,
    /// What to do.
    pub cure: String,
}

/// Why the topology could not be looked at or declared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// There is no connection.
    #[error("the broker cannot be asked: {reason}")]
    Unavailable {
        /// Why.
        reason: String,
    },
    /// The object exists and is not what the settings declare. Nothing was changed.
    #[error("{object} exists with {argument} {found}, and the settings declare {wanted}")]
    Differs {
        /// What it is about, for example `queue "jobs"`.
        object: String,
        /// What differs, for example `durable` or `x-queue-type`.
        argument: String,
        /// What the settings declare.
        wanted: String,
        /// What stands on the broker.
        found: String,
    },
    /// The broker refused a declaration for another reason.
    #[error("{object} cannot be declared: {reason}")]
    Refused {
        /// What it is about.
        object: String,
        /// The broker's words.
        reason: String,
    },
}

/// What the settings name.
#[derive(Debug, Clone)]
pub(super) struct Topology {
    exchanges: Vec<String>,
    /// Queues that are addressed through the default exchange.
    addressed_queues: Vec<String>,
    settings: TopologySettings,
}

impl Topology {
    pub(super) fn new(route: &Route, settings: &TopologySettings) -> Self {
        Self { exchanges: route.fixed_exchanges(), addressed_queues: route.fixed_queues(), settings: settings.clone() }
    }

    /// Declares if the settings say so, then looks.
    pub(super) async fn prepare(
        &self,
        live: &Live,
        within: Duration,
        vhost: &str,
    ) -> Result<Vec<TopologyProblem>, TopologyError> {
        let desk = Desk { live, within, vhost };
        if self.settings.declare {
            self.declare(&desk).await?;
        }
        self.look(&desk).await
    }

    /// Declaring what stands there already changes nothing.
    async fn declare(&self, desk: &Desk<'_>) -> Result<(), TopologyError> {
        for name in &self.exchanges {
            let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
            let object = exchange(name);
            let name = short(&object, name)?;
            desk.ask(&object, async |channel: &Channel| {
                channel.exchange_declare(name, ExchangeKind::Topic, options, FieldTable::default()).await
            })
            .await??;
        }
        for name in self.queues_to_declare() {
            let single = self.settings.single_active_consumer && Some(name) != self.settings.parking_queue.as_ref();
            let object = queue(name);
            let name = short(&object, name)?;
            let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
            desk.ask(&object, async |channel: &Channel| {
                channel.queue_declare(name, options, queue_arguments(single)).await.map(|_| ())
            })
            .await??;
        }
        let Some(bound) = &self.settings.queue else { return Ok(()) };
        let bindings: Vec<_> =
            self.exchanges.iter().flat_map(|e| self.settings.binding_keys.iter().map(move |k| (e, k))).collect();
        for (exchange_name, key) in bindings {
            let object = format!("the binding of {} to {} with key {key:?}", queue(bound), exchange(exchange_name));
            let (bound, source, key) = (short(&object, bound)?, short(&object, exchange_name)?, short(&object, key)?);
            desk.ask(&object, async |channel: &Channel| {
                channel.queue_bind(bound, source, key, QueueBindOptions::default(), FieldTable::default()).await
            })
            .await??;
        }
        Ok(())
    }

    /// Everything that is missing, at once.
    async fn look(&self, desk: &Desk<'_>) -> Result<Vec<TopologyProblem>, TopologyError> {
        let mut problems = Vec::new();
        for name in &self.exchanges {
            let options = ExchangeDeclareOptions { passive: true, ..ExchangeDeclareOptions::default() };
            let object = exchange(name);
            let name = short(&object, name)?;
            let answer = desk
                .ask(&object, async |channel: &Channel| {
                    channel.exchange_declare(name, ExchangeKind::Topic, options, FieldTable::default()).await
                })
                .await?;
            problems.extend(desk.problem(&object, answer));
        }
        for name in self.queues_to_look_for() {
            let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
            let object = queue(name);
            let name = short(&object, name)?;
            let answer = desk
                .ask(&object, async |channel: &Channel| {
                    channel.queue_declare(name, options, FieldTable::default()).await.map(|_| ())
                })
                .await?;
            problems.extend(desk.problem(&object, answer));
        }
        Ok(problems)
    }

    fn queues_to_declare(&self) -> Vec<&String> {
        let own = self.settings.queue.iter().chain(&self.settings.parking_queue);
        let mut names: Vec<_> = self.addressed_queues.iter().chain(own).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn queues_to_look_for(&self) -> Vec<&String> {
        self.queues_to_declare()
    }
}

/// Asks the broker, each question on a channel of its own: a refusal closes it.
struct Desk<'a> {
    live: &'a Live,
    within: Duration,
    vhost: &'a str,
}

impl Desk<'_> {
    /// The outer error: the broker did not answer. The inner one: it refused.
    async fn ask(
        &self,
        object: &str,
        question: impl AsyncFnOnce(&Channel) -> lapin::Result<()>,
    ) -> Result<Result<(), TopologyError>, TopologyError> {
        let unavailable = |reason| TopologyError::Unavailable { reason };
        let channel = self.live.open_channel(self.within).await.map_err(unavailable)?;
        let answer = timeout(self.within, question(&channel))
            .await
            .map_err(|_elapsed| unavailable(format!("no answer about {object} within {:?}", self.within)))?;
        match answer {
            Ok(()) => {
                if let Err(error) = channel.close(200, "asked".into()).await {
                    tracing::trace!(%error, "the channel ended by itself");
                }
                Ok(Ok(()))
            }
            Err(error) => match refusal(object, &error) {
                Some(refused) => Ok(Err(refused)),
                None => Err(unavailable(words(&error))),
            },
        }
    }

    fn problem(&self, object: &str, answer: Result<(), TopologyError>) -> Option<TopologyProblem> {
        let TopologyError::Refused { reason, .. } = answer.err()? else { return None };
        let (problem, cure) = if reason.starts_with("NOT_FOUND") {
            let problem = format!("it does not exist in virtual host {:?}", self.vhost);
            (problem, "declare it, set outbound.amqp.topology.declare = true, or correct the route".to_owned())
        } else {
            (reason, "grant the user of outbound.amqp.url access to it".to_owned())
        };
        Some(TopologyProblem { object: object.to_owned(), problem, cure })
    }
}

/// What a closed channel says about the object; none if it was the connection that ended.
fn refusal(object: &str, error: &lapin::Error) -> Option<TopologyError> {
    let ErrorKind::ProtocolError(protocol) = error.kind() else { return None };
    let AMQPErrorKind::Soft(kind) = protocol.kind() else { return None };
    let text = protocol.get_message().as_str();
    if *kind == AMQPSoftError::PRECONDITIONFAILED
        && let Some(differs) = difference(object, text)
    {
        return Some(differs);
    }
    Some(TopologyError::Refused { object: object.to_owned(), reason: text.to_owned() })
}

/// Reads `… inequivalent arg 'durable' for … : received 'true' but current is 'false'`.
fn difference(object: &str, text: &str) -> Option<TopologyError> {
    let (_, rest) = text.split_once("inequivalent arg '")?;
    let (argument, rest) = rest.split_once('\'')?;
    let (_, rest) = rest.split_once("received ")?;
    let (wanted, found) = rest.split_once(" but current is ")?;
    let plain = |text: &str| text.trim_matches('\'').to_owned();
    Some(TopologyError::Differs {
        object: object.to_owned(),
        argument: argument.to_owned(),
        wanted: plain(wanted),
        found: plain(found),
    })
}

fn queue_arguments(single_active_consumer: bool) -> FieldTable {
    let mut arguments = FieldTable::default();
    arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
    if single_active_consumer {
        arguments.insert("x-single-active-consumer".into(), AMQPValue::Boolean(true));
    }
    arguments
}

fn short(object: &str, name: &str) -> Result<ShortString, TopologyError> {
    ShortString::try_new(name)
        .map_err(|error| TopologyError::Refused { object: object.to_owned(), reason: error.to_string() })
}

fn exchange(name: &str) -> String {
    format!("exchange {name:?}")
}

fn queue(name: &str) -> String {
    format!("queue {name:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_brokers_words_about_a_difference_become_a_typed_error() {
        let texts = [
            (
                "PRECONDITION_FAILED - inequivalent arg 'durable' for exchange 'x' in vhost '/': received 'true' but \
              current is 'false'",
                "durable",
                "true",
                "false",
            ),
            (
                "PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'q' in vhost '/': received the value \
              'quorum' of type 'longstr' but current is none",
                "x-queue-type",
                "the value 'quorum' of type 'longstr",
                "none",
            ),
        ];
        for (text, argument, wanted, found) in texts {
            let expected = TopologyError::Differs {
                object: "it".to_owned(),
                argument: argument.to_owned(),
                wanted: wanted.to_owned(),
                found: found.to_owned(),
            };
            assert_eq!(difference("it", text), Some(expected));
        }
        assert_eq!(difference("it", "PRECONDITION_FAILED - something else"), None);
    }
}
