//! Settings that are each within their bounds and contradict each other: the doctor's to find, for a start does not need
//! to be refused.

use adapter_inbound::amqp::MessageFormat;
use adapter_outbound::{PublisherKind, envelope::EnvelopeFormat};
use application_core::ports::{Finding, OutboxCheckPort, StoreError};
use async_trait::async_trait;
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use super::Settings;

/// What contradicts, found when the settings were read.
#[derive(Debug, Clone)]
pub struct ContradictionCheck(Vec<Finding>);

impl ContradictionCheck {
    /// Looks at these settings.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        Self(settings.contradictions())
    }
}

#[async_trait]
impl OutboxCheckPort for ContradictionCheck {
    fn name(&self) -> &'static str {
        "contradictions"
    }

    async fn look(&self) -> Result<Vec<Finding>, StoreError> {
        Ok(self.0.clone())
    }
}

fn finding(subject: &str, problem: impl Into<String>, cure: impl Into<String>) -> Finding {
    Finding { problem: problem.into(), subject: subject.to_owned(), cure: cure.into() }
}

impl Settings {
    /// Everything that contradicts something else, all at once.
    #[must_use]
    pub fn contradictions(&self) -> Vec<Finding> {
        let mut found = Vec::new();
        if self.outbound.publisher == PublisherKind::Disabled {
            let cure = "set it to amqp or webhook, unless something else reads the outbox";
            found.push(finding("outbound.publisher", "nothing is published: events wait as PENDING", cure));
        }
        if self.outbound.publisher == PublisherKind::Amqp && self.consumer.enabled {
            self.consumed_otherwise(&mut found);
        }
        if self.database.pgbouncer && self.outbox.wakeup.enabled && self.database.direct_url.is_none() {
            let problem = "LISTEN needs a session of its own, which a pooler in transaction mode does not give";
            found.push(finding(
                "outbox.wakeup.enabled",
                problem,
                "set database.direct_url to the server itself, or this to false",
            ));
        }
        let (grace, confirm) = (self.service.grace, self.confirm_timeout());
        if grace < confirm {
            let problem = format!("a stop gives up after {grace:?}, while a confirm may take {confirm:?}");
            let key = self.confirm_timeout_key().unwrap_or("that");
            found.push(finding("service.grace", problem, format!("make it longer than {key}")));
        }
        let (workers, most) = (self.outbox.relay.workers, self.database.pool.max_connections);
        if workers >= most as usize {
            let problem = format!("{workers} workers of the relay leave no connection of {most} to anything else");
            found.push(finding("database.pool.max_connections", problem, "raise it, or lower outbox.relay.workers"));
        }
        found
    }

    /// What this process publishes and consumes on the same broker, each by settings of its own.
    fn consumed_otherwise(&self, found: &mut Vec<Finding>) {
        let (topology, consumer) = (&self.outbound.amqp.topology, &self.consumer);
        if topology.declare {
            let queues = [
                ("consumer.queue", &consumer.queue, "outbound.amqp.topology.queue", &topology.queue),
                (
                    "consumer.parking_queue",
                    &consumer.parking_queue,
                    "outbound.amqp.topology.parking_queue",
                    &topology.parking_queue,
                ),
            ];
            for (key, consumed, other, declared) in queues {
                if let Some(declared) = declared.as_ref().filter(|declared| *declared != consumed) {
                    let problem = format!("it is {consumed:?}, and the queue that is declared for it is {declared:?}");
                    found.push(finding(key, problem, format!("let it and {other} name the same queue")));
                }
            }
            if topology.queue.is_some() && !same_place(&self.outbound.amqp.url, &consumer.url) {
                let problem = "the queue is declared at the broker of outbound.amqp.url, and consumed at another one";
                found.push(finding("consumer.url", problem, "let both lead to the same host, port and virtual host"));
            }
        }
        let (published, read) = (self.outbound.envelope.format, consumer.format);
        let reads = match read {
            MessageFormat::Auto => true,
            MessageFormat::Envelope => published == EnvelopeFormat::Json,
            MessageFormat::CloudEvents => {
                matches!(published, EnvelopeFormat::CloudEventsStructured | EnvelopeFormat::CloudEventsBinary)
            }
            MessageFormat::Raw => published == EnvelopeFormat::Raw,
        };
        if !reads {
            let problem =
                format!("messages are published as {published:?} and read as {read:?}: all of them are parked");
            found.push(finding(
                "consumer.format",
                problem,
                "set it to auto, or to the form of outbound.envelope.format",
            ));
        }
    }
}

/// Whether two URLs lead to one virtual host; what cannot be read is told by the broker's own check.
fn same_place(one: &SecretString, other: &SecretString) -> bool {
    let place = |url: &SecretString| {
        let url = Url::parse(url.expose_secret()).ok()?;
        let port = url.port().unwrap_or(if url.scheme() == "amqps" { 5671 } else { 5672 });
        let path = url.path().trim_start_matches('/').to_lowercase();
        let vhost = if path.is_empty() { "%2f".to_owned() } else { path };
        Some((url.host_str()?.to_owned(), port, vhost))
    };
    match (place(one), place(other)) {
        (Some(one), Some(other)) => one == other,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn subjects(change: impl FnOnce(&mut Settings)) -> Vec<String> {
        let mut settings = Settings::default();
        change(&mut settings);
        settings.contradictions().into_iter().map(|finding| finding.subject).collect()
    }

    #[test]
    fn the_defaults_contradict_nothing() {
        assert_eq!(subjects(|_| {}), Vec::<String>::new());
    }

    #[test]
    fn each_contradiction_is_found_under_its_key() {
        fn declared(settings: &mut Settings) {
            settings.outbound.amqp.topology.declare = true;
            settings.outbound.amqp.topology.queue = Some(settings.consumer.queue.clone());
        }
        type Contradiction = fn(&mut Settings);
        let cases: [(&str, Contradiction); 8] = [
            ("outbound.publisher", |settings| settings.outbound.publisher = PublisherKind::Disabled),
            ("consumer.queue", |settings| {
                declared(settings);
                settings.outbound.amqp.topology.queue = Some("another".to_owned());
            }),
            ("consumer.parking_queue", |settings| {
                declared(settings);
                settings.outbound.amqp.topology.parking_queue = Some("another".to_owned());
            }),
            ("consumer.url", |settings| {
                declared(settings);
                settings.consumer.url = "amqp://guest:guest@localhost:5672/another".into();
            }),
            ("consumer.format", |settings| settings.consumer.format = MessageFormat::Raw),
            ("outbox.wakeup.enabled", |settings| settings.database.pgbouncer = true),
            ("service.grace", |settings| settings.service.grace = Duration::from_secs(2)),
            ("database.pool.max_connections", |settings| settings.database.pool.max_connections = 2),
        ];
        for (key, change) in cases {
            assert_eq!(subjects(change), [key]);
        }
        assert_eq!(subjects(declared), Vec::<String>::new());
    }

    #[test]
    fn a_broker_is_the_same_however_its_url_is_written() {
        let same = |one: &str, other: &str| same_place(&one.into(), &other.into());
        assert!(same("amqp://a:b@host", "amqp://host:5672/%2F"));
        assert!(!same("amqp://host", "amqps://host"));
        assert!(!same("amqp://host/a", "amqp://host/b"));
        assert!(same("unreadable", "amqp://host"));
    }
}
