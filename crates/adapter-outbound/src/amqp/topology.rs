//! What must stand on the broker: looked for at start, and declared if the settings say so.

use std::{fmt, time::Duration};

use lapin::{
    BasicProperties, Channel, ErrorKind, ExchangeKind,
    options::{BasicPublishOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions},
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

    /// Declares if the settings say so, then looks: everything that is missing, at once.
    pub(super) async fn prepare(&self, desk: &Desk<'_>) -> Result<Vec<TopologyProblem>, TopologyError> {
        if self.settings.declare {
            self.declare(desk).await?;
        }
        let mut problems = Vec::new();
        for named in self.named() {
            let answer = self.ask_for(desk, named, true).await?;
            problems.extend(desk.problem(named, answer));
        }
        Ok(problems)
    }

    /// Everything that is missing, differs from what the settings declare, or may not be used, at once.
    ///
    /// Nothing is changed: what start-up would declare is no problem while it is missing, and is declared here only where it
    /// stands, which does nothing if it is the same.
    pub(super) async fn examine(&self, desk: &Desk<'_>) -> Result<Vec<TopologyProblem>, TopologyError> {
        let declares = self.settings.declare;
        let mut problems = Vec::new();
        for named in self.named() {
            match self.ask_for(desk, named, true).await? {
                Ok(()) => {
                    if declares {
                        problems.extend(undeclarable(self.ask_for(desk, named, false).await?));
                    }
                    if let Named::Exchange(name) = named {
                        problems.extend(desk.unwritable(name).await?);
                    }
                }
                missing if !declares => problems.extend(desk.problem(named, missing)),
                Err(_) => {}
            }
        }
        if !self.addressed_queues.is_empty() {
            problems.extend(desk.unwritable("").await?);
        }
        Ok(problems)
    }

    /// Declaring what stands there already changes nothing.
    async fn declare(&self, desk: &Desk<'_>) -> Result<(), TopologyError> {
        for named in self.named() {
            self.ask_for(desk, named, false).await??;
        }
        let Some(bound) = &self.settings.queue else { return Ok(()) };
        let bindings: Vec<_> =
            self.exchanges.iter().flat_map(|e| self.settings.binding_keys.iter().map(move |k| (e, k))).collect();
        for (exchange, key) in bindings {
            let (queue, source) = (Named::Queue(bound), Named::Exchange(exchange));
            let object = format!("the binding of {queue} to {source} with key {key:?}");
            let (bound, source, key) = (short(&object, bound)?, short(&object, exchange)?, short(&object, key)?);
            desk.ask(&object, async |channel: &Channel| {
                channel.queue_bind(bound, source, key, QueueBindOptions::default(), FieldTable::default()).await
            })
            .await??;
        }
        Ok(())
    }

    /// Asks for it as the settings declare it, or, passively, for one of that name.
    async fn ask_for(
        &self,
        desk: &Desk<'_>,
        named: Named<'_>,
        passive: bool,
    ) -> Result<Result<(), TopologyError>, TopologyError> {
        let object = named.to_string();
        match named {
            Named::Exchange(name) => {
                let options = ExchangeDeclareOptions { durable: true, passive, ..ExchangeDeclareOptions::default() };
                let name = short(&object, name)?;
                desk.ask(&object, async |channel: &Channel| {
                    channel.exchange_declare(name, ExchangeKind::Topic, options, FieldTable::default()).await
                })
                .await
            }
            Named::Queue(name) => {
                let parks = Some(name) == self.settings.parking_queue.as_deref();
                let arguments = queue_arguments(self.settings.single_active_consumer && !parks);
                let options = QueueDeclareOptions { durable: true, passive, ..QueueDeclareOptions::default() };
                let name = short(&object, name)?;
                desk.ask(&object, async |channel: &Channel| {
                    channel.queue_declare(name, options, arguments).await.map(|_| ())
                })
                .await
            }
        }
    }

    fn named(&self) -> Vec<Named<'_>> {
        let own = self.settings.queue.iter().chain(&self.settings.parking_queue);
        let mut queues: Vec<&str> = self.addressed_queues.iter().chain(own).map(String::as_str).collect();
        queues.sort_unstable();
        queues.dedup();
        let exchanges = self.exchanges.iter().map(|name| Named::Exchange(name));
        exchanges.chain(queues.into_iter().map(Named::Queue)).collect()
    }
}

/// What the settings name on the broker.
#[derive(Debug, Clone, Copy)]
enum Named<'a> {
    Exchange(&'a str),
    Queue(&'a str),
}

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exchange(name) => write!(f, "exchange {name:?}"),
            Self::Queue(name) => write!(f, "queue {name:?}"),
        }
    }
}

/// Asks the broker, each question on a channel of its own: a refusal closes it.
pub(super) struct Desk<'a> {
    pub(super) live: &'a Live,
    /// How long an answer may take.
    pub(super) within: Duration,
    pub(super) vhost: &'a str,
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

    /// What keeps the user from publishing to this exchange.
    ///
    /// The broker checks the permission before it looks at the message, whose expiration is none: it is refused either way,
    /// and reaches no queue.
    async fn unwritable(&self, name: &str) -> Result<Option<TopologyProblem>, TopologyError> {
        let unavailable = |reason| TopologyError::Unavailable { reason };
        let object = Named::Exchange(name).to_string();
        let name = short(&object, name)?;
        let channel = self.live.open_confirming_channel(self.within).await.map_err(unavailable)?;
        let properties = BasicProperties::default().with_expiration("never".into());
        let probe = async {
            let options = BasicPublishOptions::default();
            channel.basic_publish(name, ShortString::default(), options, &[], properties).await?.await
        };
        let answer = timeout(self.within, probe).await;
        let answer =
            answer.map_err(|_elapsed| unavailable(format!("no answer about {object} within {:?}", self.within)))?;
        Ok(match answer.err().and_then(|error| refusal(&object, &error)) {
            Some(TopologyError::Refused { reason, .. }) if reason.starts_with(NO_PERMISSION) => Some(TopologyProblem {
                object,
                problem: reason,
                cure: "grant the user of outbound.amqp.url the permission to write to it".to_owned(),
            }),
            _ => None,
        })
    }

    fn problem(&self, named: Named<'_>, answer: Result<(), TopologyError>) -> Option<TopologyProblem> {
        let TopologyError::Refused { reason, .. } = answer.err()? else { return None };
        let (problem, cure) = if reason.starts_with("NOT_FOUND") {
            let problem = format!("it does not exist in virtual host {:?}", self.vhost);
            (problem, "declare it, set outbound.amqp.topology.declare = true, or correct the route".to_owned())
        } else {
            (reason, "grant the user of outbound.amqp.url access to it".to_owned())
        };
        Some(TopologyProblem { object: named.to_string(), problem, cure })
    }
}

/// How the broker begins when a permission is missing.
const NO_PERMISSION: &str = "ACCESS_REFUSED";

/// Why start-up could not declare what stands on the broker already.
fn undeclarable(answer: Result<(), TopologyError>) -> Option<TopologyProblem> {
    let (object, problem, cure) = match answer.err()? {
        TopologyError::Differs { object, argument, wanted, found } => (
            object,
            format!("it has {argument} {found}, and the settings declare {wanted}"),
            "delete it when it is empty and start a relay, which declares it anew, or set outbound.amqp.topology as it is",
        ),
        TopologyError::Refused { object, reason } => (
            object,
            reason,
            "grant the user of outbound.amqp.url the permission to configure it, or set outbound.amqp.topology.declare = false",
        ),
        TopologyError::Unavailable { .. } => return None,
    };
    Some(TopologyProblem { object, problem, cure: cure.to_owned() })
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
