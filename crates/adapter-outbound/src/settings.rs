//! The settings of this adapter, and what can be wrong with them.

use std::time::Duration;

use application_core::{SettingProblem, setting_duration::readable};
use serde::{Deserialize, Serialize};

use crate::{amqp::AmqpSettings, envelope::EnvelopeSettings, route::RouteSettings, webhook::WebhookSettings};

/// The longest time-out that makes sense anywhere here.
pub(crate) const AN_HOUR: Duration = Duration::from_secs(3_600);
/// The largest message that may be asked for: RabbitMQ's own default limit.
pub(crate) const MOST_MESSAGE_BYTES: u64 = 128 * 1024 * 1024;

/// Where events go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PublisherKind {
    /// To RabbitMQ.
    #[default]
    Amqp,
    /// To receivers over HTTP, each event a signed request.
    Webhook,
    /// To standard output, one JSON line an event.
    Stdout,
    /// Nowhere: events wait in the outbox (rule R20).
    Disabled,
}

/// All settings of the outbound adapter.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OutboundSettings {
    /// Which publisher takes the events.
    pub publisher: PublisherKind,
    /// How an event is written down.
    pub envelope: EnvelopeSettings,
    /// Which exchange and routing key an event gets.
    pub route: RouteSettings,
    /// The broker.
    pub amqp: AmqpSettings,
    /// The receivers of webhooks.
    pub webhook: WebhookSettings,
}

impl OutboundSettings {
    /// Everything that is wrong, at once; empty when the settings can be used.
    ///
    /// What only matters to RabbitMQ or to webhooks is looked at only if events go there.
    #[must_use]
    pub fn problems(&self) -> Vec<SettingProblem> {
        let mut problems = self.envelope.problems("envelope");
        match self.publisher {
            PublisherKind::Amqp => {
                problems.extend(self.route.problems("route"));
                problems.extend(self.amqp.problems("amqp"));
            }
            PublisherKind::Webhook => problems.extend(self.webhook.problems("webhook")),
            PublisherKind::Stdout | PublisherKind::Disabled => {}
        }
        problems
    }
}

/// Collects problems under a prefix.
pub(crate) struct Problems<'a> {
    prefix: &'a str,
    found: Vec<SettingProblem>,
}

impl<'a> Problems<'a> {
    pub(crate) const fn under(prefix: &'a str) -> Self {
        Self { prefix, found: Vec::new() }
    }

    pub(crate) fn add(&mut self, key: &str, value: String, bound: impl Into<String>) {
        self.found.push(SettingProblem::new(format!("{}.{key}", self.prefix), value, bound));
    }

    pub(crate) fn within(&mut self, key: &str, value: Duration, least: Duration, most: Duration) {
        if value < least || value > most {
            self.add(key, readable(value), format!("it must be {} to {}", readable(least), readable(most)));
        }
    }

    /// A pause from what another setting says to an hour.
    pub(crate) fn within_from(&mut self, key: &str, value: Duration, by: &str, least: Duration) {
        if value > AN_HOUR {
            self.add(key, readable(value), format!("it must be at most {}", readable(AN_HOUR)));
        } else if value < least {
            let bound = format!("it must be {} ({by}) to {}", readable(least), readable(AN_HOUR));
            let problem = SettingProblem::new(key, readable(value), bound).bounded_by(by);
            self.found.push(problem.within(self.prefix));
        }
    }

    pub(crate) fn message_bytes(&mut self, key: &str, value: u64) {
        if !(1..=MOST_MESSAGE_BYTES).contains(&value) {
            self.add(key, value.to_string(), format!("it must be 1 to {MOST_MESSAGE_BYTES} bytes"));
        }
    }

    pub(crate) fn found(self) -> Vec<SettingProblem> {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_have_no_problem() {
        assert_eq!(OutboundSettings::default().problems(), []);
    }

    #[test]
    fn all_problems_are_reported_at_once_with_their_paths() {
        let settings: OutboundSettings = serde_json::from_str(
            r#"{"envelope": {"format": "cloudevents-binary", "source": " "},
                "route": {"exchange": "{aggregate_id}", "routing_key": "{nope}"},
                "amqp": {"url": "http://x", "heartbeat": "0s", "confirm_timeout": "0s", "channels_per_destination": 0}}"#,
        )
        .unwrap();
        let keys: Vec<_> = settings.problems().into_iter().map(|problem| problem.key).collect();
        assert_eq!(
            keys,
            [
                "envelope.source",
                "route.exchange",
                "route.routing_key",
                "amqp.url",
                "amqp.heartbeat",
                "amqp.confirm_timeout",
                "amqp.channels_per_destination"
            ]
        );
    }

    #[test]
    fn what_concerns_the_broker_is_not_asked_of_a_stdout_publisher() {
        let text = r#"{"publisher": "stdout", "amqp": {"url": "nonsense"}, "webhook": {"url": "nonsense"}}"#;
        assert_eq!(serde_json::from_str::<OutboundSettings>(text).unwrap().problems(), []);
    }

    #[test]
    fn what_concerns_the_broker_is_not_asked_of_a_webhook_publisher() {
        let text = r#"{"publisher": "webhook", "amqp": {"url": "nonsense"}, "webhook": {"url": "nonsense"}}"#;
        let problems = serde_json::from_str::<OutboundSettings>(text).unwrap().problems();
        let keys: Vec<_> = problems.into_iter().map(|problem| problem.key).collect();
        assert_eq!(keys, ["webhook.url", "webhook.secrets"]);
    }

    #[test]
    fn an_unknown_key_is_refused() {
        let error = serde_json::from_str::<OutboundSettings>(r#"{"amqp": {"confirm_timout": "1s"}}"#).unwrap_err();
        assert!(error.to_string().contains("confirm_timout"), "{error}");
    }
}
