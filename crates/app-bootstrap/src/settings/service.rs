//! Settings of the process and of its own HTTP.

use std::{net::SocketAddr, time::Duration};

use application_core::{SettingProblem, outbox::HolderName, setting_duration::readable};
use serde::{Deserialize, Serialize};

/// The process itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServiceSettings {
    /// The name under which this process holds leases; must tell processes apart. Default: host name and process id.
    pub instance: String,
    /// How long stopping may take after the first signal; 1 s to 10 min. Keep it under the orchestrator's own.
    #[serde(with = "crate::setting_duration")]
    pub grace: Duration,
}

impl Default for ServiceSettings {
    fn default() -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Self { instance: format!("{host}-{}", std::process::id()), grace: Duration::from_secs(25) }
    }
}

impl ServiceSettings {
    /// The holder of this process's leases.
    #[must_use]
    pub fn holder(&self) -> HolderName {
        HolderName::new(self.instance.clone())
    }

    pub(super) fn problems(&self) -> Vec<SettingProblem> {
        let mut problems = Vec::new();
        if self.instance.is_empty() || self.instance.len() > 200 || self.instance.chars().any(char::is_control) {
            let bound = "it must be 1 to 200 bytes without control characters";
            problems.push(SettingProblem::new("instance", format!("{:?}", self.instance), bound));
        }
        problems.extend(between("grace", self.grace, Duration::from_secs(1), Duration::from_mins(10)));
        problems
    }
}

/// The service's own HTTP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpSettings {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The largest request body, in bytes; 1 KiB to 16 MiB.
    pub max_body_bytes: usize,
    /// The most connections at once; further ones wait. 1 to 100,000.
    pub max_connections: usize,
    /// How long a client may take to send its headers, and then a request until its answer begins; 100 ms to 5 min.
    #[serde(with = "crate::setting_duration")]
    pub request_timeout: Duration,
    /// How long an idempotency key is remembered; longer than any client tries again. 1 min to 3,650 days.
    #[serde(with = "crate::setting_duration")]
    pub idempotency_key_retention: Duration,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            max_body_bytes: 256 * 1024,
            max_connections: 1_000,
            request_timeout: Duration::from_secs(15),
            idempotency_key_retention: Duration::from_hours(7 * 24),
        }
    }
}

impl HttpSettings {
    pub(super) fn problems(&self) -> Vec<SettingProblem> {
        let mut problems = Vec::new();
        if !(1024..=16 * 1024 * 1024).contains(&self.max_body_bytes) {
            problems.push(SettingProblem::new("max_body_bytes", self.max_body_bytes, "it must be 1024 to 16777216"));
        }
        if !(1..=100_000).contains(&self.max_connections) {
            problems.push(SettingProblem::new("max_connections", self.max_connections, "it must be 1 to 100000"));
        }
        let longest = Duration::from_mins(5);
        problems.extend(between("request_timeout", self.request_timeout, Duration::from_millis(100), longest));
        let (retention, longest) = (self.idempotency_key_retention, Duration::from_hours(24 * 3_650));
        problems.extend(between("idempotency_key_retention", retention, Duration::from_mins(1), longest));
        problems
    }
}

pub(super) fn between(key: &str, value: Duration, least: Duration, most: Duration) -> Option<SettingProblem> {
    let bound = || format!("it must be {} to {}", readable(least), readable(most));
    (!(least..=most).contains(&value)).then(|| SettingProblem::new(key, readable(value), bound()))
}
