//! All settings of the process, from three layers, checked as a whole.

mod contradictions;
mod load;
mod outbox;
mod service;
#[cfg(test)]
mod tests;
mod unreadable;
mod variables;

use std::time::Duration;

use adapter_inbound::{amqp::ConsumerSettings, http::OperationsSettings};
use adapter_outbound::{EncryptionSettings, OutboundSettings, PublisherKind};
use adapter_persistence_postgres::DatabaseSettings;
use application_core::{SettingProblem, setting_duration::readable};
use serde::{Deserialize, Serialize};

pub use contradictions::ContradictionCheck;
pub use load::{ENVIRONMENT_PREFIX, SettingsError, SettingsFile, Sources};
pub use outbox::{
    BreakerSettings, CrossProcessWakeup, DeadHeadSettings, LeaderSettings, OutboxSettings, ReaperSettings,
    RelaySettings, RetentionSettings, RetrySettings, StatisticsSettings,
};
pub use service::{HttpSettings, ServiceSettings};

use crate::telemetry::{LogSettings, TelemetrySettings};

/// Everything that can be set; each section belongs to the part that it configures.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The process itself.
    pub service: ServiceSettings,
    /// What is logged, and how.
    pub logs: LogSettings,
    /// What the process tells about itself otherwise.
    pub telemetry: TelemetrySettings,
    /// The service's own HTTP.
    pub http: HttpSettings,
    /// Health, metrics and `/ops`, on a listener of their own.
    pub operations: OperationsSettings,
    /// PostgreSQL.
    pub database: DatabaseSettings,
    /// The relay and what keeps the outbox in shape.
    pub outbox: OutboxSettings,
    /// The keys of personal fields.
    pub encryption: EncryptionSettings,
    /// Where events go, and in which form.
    pub outbound: OutboundSettings,
    /// RabbitMQ, as the consumer reads from it.
    pub consumer: ConsumerSettings,
}

impl Settings {
    /// Everything that is wrong beyond what the types hold, all at once.
    #[must_use]
    pub fn problems(&self) -> Vec<SettingProblem> {
        let mut problems = Vec::new();
        let sections = [
            ("service", self.service.problems()),
            ("http", self.http.problems()),
            ("operations", self.operations.problems()),
            ("database", self.database.problems()),
            ("outbox", self.outbox.problems()),
            ("encryption", self.encryption.problems()),
            ("outbound", self.outbound.problems()),
            ("consumer", if self.consumer.enabled { self.consumer.problems() } else { Vec::new() }),
            ("logs", self.logs.problems()),
            ("telemetry", self.telemetry.problems()),
        ];
        for (section, found) in sections {
            problems.extend(found.into_iter().map(|problem| problem.within(section)));
        }
        problems.extend(self.lease_problem());
        SettingProblem::without_follow_ons(problems)
    }

    /// A confirm may take its whole time-out, and a send must still fit before the half time at which a lease is renewed.
    fn lease_problem(&self) -> Option<SettingProblem> {
        let (lease, confirm) = (self.outbox.relay.lease, self.confirm_timeout());
        let shortest = confirm.saturating_mul(3);
        if lease >= shortest || lease < Duration::from_secs(1) {
            return None;
        }
        // Whole units are easier to read, and to type.
        let third = match lease / 3 {
            third if third.as_secs() > 0 => Duration::from_secs(third.as_secs()),
            third => Duration::from_millis(third.subsec_millis().into()),
        };
        let otherwise = self.confirm_timeout_key().map_or_else(String::new, |key| {
            format!(", or {key} (now {}) to {} or less", readable(confirm), readable(third))
        });
        let bound = format!(
            "a lease must outlast three time-outs of a confirm: set it to {} or more{otherwise}",
            readable(shortest)
        );
        let problem = SettingProblem::new("outbox.relay.lease", readable(lease), bound);
        Some(self.confirm_timeout_key().into_iter().fold(problem, SettingProblem::bounded_by))
    }

    /// How long a publish may take at most.
    #[must_use]
    pub fn confirm_timeout(&self) -> Duration {
        match self.outbound.publisher {
            PublisherKind::Amqp => self.outbound.amqp.confirm_timeout,
            PublisherKind::Webhook => self.outbound.webhook.confirm_timeout,
            PublisherKind::Stdout | PublisherKind::Disabled => Duration::from_secs(1),
        }
    }

    /// The setting that says so, if there is one.
    const fn confirm_timeout_key(&self) -> Option<&'static str> {
        match self.outbound.publisher {
            PublisherKind::Amqp => Some("outbound.amqp.confirm_timeout"),
            PublisherKind::Webhook => Some("outbound.webhook.confirm_timeout"),
            PublisherKind::Stdout | PublisherKind::Disabled => None,
        }
    }

    /// The settings as TOML, secrets redacted.
    ///
    /// # Errors
    /// When a value has no TOML form.
    pub fn redacted(&self) -> Result<String, toml::ser::Error> {
        toml::to_string_pretty(self)
    }

    /// The settings as JSON, secrets redacted.
    ///
    /// # Errors
    /// When a value has no JSON form.
    pub fn redacted_json(&self) -> Result<serde_json::Value, serde_json::Error> {
        serde_json::to_value(self)
    }
}
