//! The settings of the AMQP publisher.

use std::{path::PathBuf, time::Duration};

use secrecy::SecretString;
use serde::{Deserialize, Serialize, Serializer};

use super::endpoint::{Endpoint, redacted};
use crate::settings::{AN_HOUR, Problems};
use application_core::{SettingProblem, setting_duration::readable};

/// How the broker is reached and used.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AmqpSettings {
    /// `amqp://user:password@host:port/vhost`, or `amqps://` for TLS, which always verifies the server's certificate.
    /// The virtual host is percent-encoded; without one it is `/`.
    #[serde(serialize_with = "without_password")]
    pub url: SecretString,
    /// A PEM file with the certificate authorities to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// The name that RabbitMQ shows for the connection; 1 to 255 bytes.
    pub connection_name: String,
    /// The message property `app-id`; at most 255 bytes.
    pub app_id: Option<String>,
    /// A broker that is silent for twice this long counts as gone; whole seconds, 1 s to 1 h.
    #[serde(with = "crate::setting_duration")]
    pub heartbeat: Duration,
    /// How long connecting, opening a channel and declaring may take, each; more than 0, at most 1 h.
    #[serde(with = "crate::setting_duration")]
    pub connect_timeout: Duration,
    /// How long a message may wait for its confirm, everything before included; more than 0, at most 1 h.
    /// The relay's margin before the end of a lease must be at least as long.
    #[serde(with = "crate::setting_duration")]
    pub confirm_timeout: Duration,
    /// The largest body that is sent, in bytes; at most the broker's own limit, 128 MiB by default.
    pub max_message_bytes: u64,
    /// Over how many channels the aggregates of one destination are spread; 1 to 64.
    pub channels_per_destination: usize,
    /// The first pause after a failed or lost connection; doubled each time, with jitter; 10 ms to 1 h.
    #[serde(with = "crate::setting_duration")]
    pub reconnect_first_pause: Duration,
    /// The longest pause; at least the first, at most 1 h.
    #[serde(with = "crate::setting_duration")]
    pub reconnect_longest_pause: Duration,
    /// What must stand on the broker.
    pub topology: TopologySettings,
}

/// Exchanges and queues on the broker.
///
/// The exchanges are those of the routes whose names do not depend on the event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TopologySettings {
    /// Whether start-up declares what is missing: durable topic exchanges, the quorum queue, its bindings, the
    /// parking queue. Otherwise it only looks.
    pub declare: bool,
    /// A queue that must exist and be bound to the exchanges; none: consumers bring their own.
    pub queue: Option<String>,
    /// The keys with which the queue is bound.
    pub binding_keys: Vec<String>,
    /// Whether the declared queue has a single active consumer, which keeps the order of effects (rule R22).
    pub single_active_consumer: bool,
    /// A queue for messages that consumers gave up.
    pub parking_queue: Option<String>,
}

impl Default for AmqpSettings {
    fn default() -> Self {
        Self {
            url: SecretString::from("amqp://guest:guest@localhost:5672/%2f"),
            ca_file: None,
            connection_name: "outbox-relay".to_owned(),
            app_id: None,
            heartbeat: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(5),
            confirm_timeout: Duration::from_secs(10),
            max_message_bytes: 16 * 1024 * 1024,
            channels_per_destination: 1,
            reconnect_first_pause: Duration::from_millis(200),
            reconnect_longest_pause: Duration::from_secs(10),
            topology: TopologySettings::default(),
        }
    }
}

impl Default for TopologySettings {
    fn default() -> Self {
        Self {
            declare: false,
            queue: None,
            binding_keys: vec!["#".to_owned()],
            single_active_consumer: true,
            parking_queue: None,
        }
    }
}

impl AmqpSettings {
    /// Everything that is wrong; keys begin with `prefix`. Files are not looked at.
    #[must_use]
    pub fn problems(&self, prefix: &str) -> Vec<SettingProblem> {
        let mut problems = Problems::under(prefix);
        if let Err(invalid) = Endpoint::parse(&self.url) {
            problems.add("url", redacted(&self.url), invalid.to_string());
        }
        if !(1..=255).contains(&self.connection_name.len()) {
            problems.add("connection_name", format!("{:?}", self.connection_name), "it must have 1 to 255 bytes");
        }
        if let Some(app_id) = self.app_id.as_ref().filter(|id| !(1..=255).contains(&id.len())) {
            problems.add("app_id", format!("{app_id:?}"), "it must have 1 to 255 bytes");
        }
        if self.heartbeat.subsec_nanos() != 0 {
            problems.add("heartbeat", readable(self.heartbeat), "it must be whole seconds");
        }
        problems.within("heartbeat", self.heartbeat, Duration::from_secs(1), AN_HOUR);
        problems.within("connect_timeout", self.connect_timeout, Duration::from_millis(1), AN_HOUR);
        problems.within("confirm_timeout", self.confirm_timeout, Duration::from_millis(1), AN_HOUR);
        problems.message_bytes("max_message_bytes", self.max_message_bytes);
        if !(1..=64).contains(&self.channels_per_destination) {
            problems.add("channels_per_destination", self.channels_per_destination.to_string(), "it must be 1 to 64");
        }
        let first = self.reconnect_first_pause;
        problems.within("reconnect_first_pause", first, Duration::from_millis(10), AN_HOUR);
        problems.within_from("reconnect_longest_pause", self.reconnect_longest_pause, "reconnect_first_pause", first);
        self.topology.problems(&mut problems);
        problems.found()
    }
}

impl TopologySettings {
    fn problems(&self, problems: &mut Problems<'_>) {
        for (key, queue) in [("topology.queue", &self.queue), ("topology.parking_queue", &self.parking_queue)] {
            if let Some(name) = queue.as_ref().filter(|name| !(1..=255).contains(&name.len())) {
                problems.add(key, format!("{name:?}"), "it must have 1 to 255 bytes");
            }
        }
        if let Some(key) = self.binding_keys.iter().find(|key| key.len() > 255) {
            problems.add("topology.binding_keys", format!("{key:?}"), "each must have at most 255 bytes");
        }
        if self.queue.is_some() && self.binding_keys.is_empty() {
            problems.add("topology.binding_keys", "[]".to_owned(), "a queue needs at least one");
        }
        if self.queue.is_some() && self.queue == self.parking_queue {
            let name = format!("{:?}", self.queue.as_deref().unwrap_or_default());
            problems.add("topology.parking_queue", name, "it must be another queue than topology.queue");
        }
    }
}

fn without_password<S: Serializer>(url: &SecretString, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&redacted(url))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::MOST_MESSAGE_BYTES;

    #[test]
    fn neither_debug_nor_serialization_shows_the_password() {
        let settings = AmqpSettings {
            url: SecretString::from("amqp://relay:hunter2@broker:5673/%2fprod"),
            ..AmqpSettings::default()
        };
        let json = serde_json::to_string(&settings).unwrap();
        assert!(json.contains("amqp://relay:***@broker:5673/%2fprod"), "{json}");
        for text in [json, format!("{settings:?}")] {
            assert!(!text.contains("hunter2"), "{text}");
        }
    }

    #[test]
    fn a_bad_url_is_named_without_its_password() {
        for url in ["amqp://relay:hunter2@host/a/b", "http://relay:hunter2@host", "relay:hunter2@host", "amqp:hunter2"]
        {
            let settings = AmqpSettings { url: SecretString::from(url), ..AmqpSettings::default() };
            let problems = settings.problems("amqp");
            assert_eq!(problems.len(), 1, "{url}");
            assert_eq!(problems[0].key, "amqp.url");
            assert!(!problems[0].to_string().contains("hunter2"), "{}", problems[0]);
        }
    }

    #[test]
    fn a_url_that_its_password_breaks_up_is_not_shown_in_parts() {
        for url in ["amqp://u:4711#hunter2@h/v", "amqp://u:4711?hunter2@h/v", "amqp://u:4711/hunter2@h/v"] {
            let settings = AmqpSettings { url: SecretString::from(url), ..AmqpSettings::default() };
            let problems = settings.problems("amqp");
            assert_eq!(problems.len(), 1, "{url}");
            let told = format!("{settings:?} {problems:?} {}", serde_json::to_string(&settings).unwrap());
            assert!(!told.contains("hunter2") && !told.contains("4711"), "{told}");
        }
    }

    #[test]
    fn every_bound_is_checked() {
        let settings = AmqpSettings {
            connection_name: String::new(),
            app_id: Some("a".repeat(256)),
            heartbeat: Duration::from_millis(1_500),
            connect_timeout: Duration::ZERO,
            confirm_timeout: Duration::from_secs(3_601),
            max_message_bytes: MOST_MESSAGE_BYTES + 1,
            channels_per_destination: 65,
            reconnect_first_pause: Duration::from_secs(5),
            reconnect_longest_pause: Duration::from_secs(1),
            topology: TopologySettings {
                queue: Some("q".to_owned()),
                binding_keys: Vec::new(),
                parking_queue: Some("q".to_owned()),
                ..TopologySettings::default()
            },
            ..AmqpSettings::default()
        };
        let keys: Vec<_> = settings.problems("amqp").into_iter().map(|problem| problem.key).collect();
        let expected = [
            "connection_name",
            "app_id",
            "heartbeat",
            "connect_timeout",
            "confirm_timeout",
            "max_message_bytes",
            "channels_per_destination",
            "reconnect_longest_pause",
            "topology.binding_keys",
            "topology.parking_queue",
        ];
        assert_eq!(keys, expected.map(|key| format!("amqp.{key}")));
    }
}
