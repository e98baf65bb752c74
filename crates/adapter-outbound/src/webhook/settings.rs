//! The settings of the webhook publisher.

use std::{path::PathBuf, time::Duration};

use application_core::SettingProblem;
use secrecy::SecretString;
use serde::{Deserialize, Serialize, Serializer};

use super::{address::shown, route::Route};
use crate::settings::{AN_HOUR, Problems};

/// The most connections that may be kept open without work.
const MOST_IDLE: usize = 1_000;

/// Where receivers are, and how they are reached.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WebhookSettings {
    /// Where events are posted: `https://host/path`, required. `http` is for this machine, unless `allow_http` is set.
    /// Secret but for scheme, host and port: whoever knows a path may be let in by it.
    #[serde(serialize_with = "without_path")]
    pub url: Option<SecretString>,
    /// What requests are signed with, required: one to four secrets with spaces between them, each `whsec_` and 24 to 64
    /// bytes in base64. While a secret is changed, the new one and the old one stand here.
    #[serde(serialize_with = "redacted")]
    pub secrets: Option<SecretString>,
    /// Whether `http` is taken for other hosts than this machine: whoever is on the way can then read every event.
    pub allow_http: bool,
    /// A PEM file with the certificate authorities to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// How long a connection may take, name and TLS included; 1 ms to 1 h.
    #[serde(with = "crate::setting_duration")]
    pub connect_timeout: Duration,
    /// How long an event may wait for its answer, everything before included; 1 ms to 1 h.
    /// The relay's margin before the end of a lease must be at least as long.
    #[serde(with = "crate::setting_duration")]
    pub confirm_timeout: Duration,
    /// The largest body that is sent, in bytes; at most 128 MiB. Keep it within what receivers take.
    pub max_message_bytes: u64,
    /// The most connections to one host that are kept open without work; 0 to 1,000, 0: each event has its own.
    pub max_idle_connections: usize,
    /// When a connection without work is closed; 1 ms to 1 h. Keep it shorter than the receivers' own limit: a connection
    /// that they close just then costs a pause.
    #[serde(with = "crate::setting_duration")]
    pub idle_timeout: Duration,
    /// Exceptions; the first that fits an event counts.
    pub overrides: Vec<WebhookOverride>,
}

/// Another receiver for some events. It names an aggregate type, an event type, or both.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WebhookOverride {
    /// Fits events of this aggregate type; any if absent.
    pub aggregate_type: Option<String>,
    /// Fits events of this type; any if absent.
    pub event_type: Option<String>,
    /// As [`WebhookSettings::url`]; required.
    #[serde(serialize_with = "without_path")]
    pub url: Option<SecretString>,
    /// As [`WebhookSettings::secrets`], if others. Another host must have its own: whoever knows a secret can sign by it.
    #[serde(serialize_with = "redacted")]
    pub secrets: Option<SecretString>,
}

impl Default for WebhookSettings {
    fn default() -> Self {
        Self {
            url: None,
            secrets: None,
            allow_http: false,
            ca_file: None,
            connect_timeout: Duration::from_secs(5),
            confirm_timeout: Duration::from_secs(10),
            max_message_bytes: 16 * 1024 * 1024,
            max_idle_connections: 16,
            idle_timeout: Duration::from_secs(4),
            overrides: Vec::new(),
        }
    }
}

impl WebhookSettings {
    /// Everything that is wrong; keys begin with `prefix`. Files are not looked at.
    #[must_use]
    pub fn problems(&self, prefix: &str) -> Vec<SettingProblem> {
        let mut found = Route::compile(self, prefix).err().unwrap_or_default();
        let mut problems = Problems::under(prefix);
        let millisecond = Duration::from_millis(1);
        problems.within("connect_timeout", self.connect_timeout, millisecond, AN_HOUR);
        problems.within("confirm_timeout", self.confirm_timeout, millisecond, AN_HOUR);
        problems.message_bytes("max_message_bytes", self.max_message_bytes);
        if self.max_idle_connections > MOST_IDLE {
            let value = self.max_idle_connections.to_string();
            problems.add("max_idle_connections", value, format!("it must be 0 to {MOST_IDLE}"));
        }
        problems.within("idle_timeout", self.idle_timeout, millisecond, AN_HOUR);
        found.extend(problems.found());
        found
    }
}

#[expect(clippy::ref_option, reason = "serde passes the field by reference")]
fn without_path<S: Serializer>(url: &Option<SecretString>, serializer: S) -> Result<S::Ok, S::Error> {
    url.as_ref().map(shown).serialize(serializer)
}

#[expect(clippy::ref_option, reason = "serde passes the field by reference")]
fn redacted<S: Serializer>(secrets: &Option<SecretString>, serializer: S) -> Result<S::Ok, S::Error> {
    secrets.as_ref().map(|_| "***").serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_dGhlIG5ld2VyIHNlY3JldCBvZiB0ZXN0cw==";

    fn settings() -> WebhookSettings {
        WebhookSettings {
            url: Some("https://hooks.example.com/in".into()),
            secrets: Some(SECRET.into()),
            ..WebhookSettings::default()
        }
    }

    fn texts(settings: &WebhookSettings) -> Vec<String> {
        settings.problems("webhook").iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_url_and_a_secret_are_all_that_is_needed() {
        assert_eq!(texts(&settings()), Vec::<String>::new());
        assert_eq!(
            texts(&WebhookSettings::default()),
            [
                "webhook.url is missing, but it must be a URL like https://host/path",
                "webhook.secrets is missing, but it must hold 1 to 4 secrets, with spaces between them"
            ]
        );
    }

    #[test]
    fn every_bound_is_checked() {
        let settings = WebhookSettings {
            connect_timeout: Duration::ZERO,
            confirm_timeout: Duration::from_secs(3_601),
            max_message_bytes: 0,
            max_idle_connections: 1_001,
            idle_timeout: Duration::ZERO,
            ..settings()
        };
        let keys: Vec<_> = settings.problems("webhook").into_iter().map(|problem| problem.key).collect();
        let expected =
            ["connect_timeout", "confirm_timeout", "max_message_bytes", "max_idle_connections", "idle_timeout"];
        assert_eq!(keys, expected.map(|key| format!("webhook.{key}")));
    }

    #[test]
    fn neither_debug_nor_serialization_nor_a_problem_shows_a_secret_or_a_path() {
        let other = WebhookOverride {
            event_type: Some("Paid".to_owned()),
            url: Some("https://user:hush-1@hooks.example.com/hush-2".into()),
            secrets: Some("whsec_hush-3".into()),
            ..WebhookOverride::default()
        };
        let settings = WebhookSettings {
            url: Some("http://hooks.example.com/hush-4?key=hush-5".into()),
            secrets: Some(format!("{SECRET} hush-6").into()),
            overrides: vec![other],
            ..WebhookSettings::default()
        };
        let (json, problems) = (serde_json::to_string(&settings).unwrap(), texts(&settings));
        assert!(json.contains("http://hooks.example.com/***"), "{json}");
        assert_eq!(problems.len(), 4, "{problems:?}");
        for text in [json, format!("{settings:?}"), problems.join("\n")] {
            assert!(!text.contains("hush") && !text.contains("whsec_d"), "{text}");
        }
    }
}
