//! Settings of the process and of its own HTTP.

use std::{net::SocketAddr, time::Duration};

use application_core::{SettingProblem, outbox::HolderName, ports::Random, setting_duration::readable};
use serde::{Deserialize, Serialize};

/// The database takes holders of 200 bytes; what [`ServiceSettings::holder`] adds is the rest.
const LONGEST_INSTANCE: usize = 187;

/// The process itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServiceSettings {
    /// What the name begins with under which this process holds leases. Default: host name and process id.
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
    /// A holder of leases that nobody else is: `instance`, `#`, and twelve hexadecimal digits drawn at each call.
    ///
    /// The name alone may be that of two live processes, by a copied setting or by a predecessor that has not ended yet:
    /// the one would renew the term of the other, and both would lead.
    #[must_use]
    pub fn holder(&self, random: &dyn Random) -> HolderName {
        HolderName::new(format!("{}#{:012x}", self.instance, random.next_u64() >> 16))
    }

    pub(super) fn problems(&self) -> Vec<SettingProblem> {
        let mut problems = Vec::new();
        if self.instance.is_empty()
            || self.instance.len() > LONGEST_INSTANCE
            || self.instance.chars().any(char::is_control)
        {
            let bound = format!("it must be 1 to {LONGEST_INSTANCE} bytes without control characters");
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

#[cfg(test)]
mod tests {
    use application_core::ports::Random;

    use super::{LONGEST_INSTANCE, ServiceSettings};
    use crate::clock::SystemRandom;

    struct Highest;

    impl Random for Highest {
        fn next_u64(&self) -> u64 {
            u64::MAX
        }
    }

    #[test]
    fn two_processes_of_one_instance_hold_leases_under_names_of_their_own() {
        let service = ServiceSettings { instance: "relay-1".to_owned(), ..ServiceSettings::default() };
        let (one, other) = (service.holder(&SystemRandom), service.holder(&SystemRandom));
        assert_ne!(one, other);
        for holder in [one, other] {
            let (name, own) = holder.as_str().split_once('#').expect("a part of its own");
            assert_eq!((name, own.len()), ("relay-1", 12), "{holder}");
        }
    }

    #[test]
    fn the_longest_instance_makes_a_holder_that_the_database_takes() {
        let of = |bytes| ServiceSettings { instance: "i".repeat(bytes), ..ServiceSettings::default() };
        assert_eq!(of(LONGEST_INSTANCE).problems(), []);
        assert_eq!(of(LONGEST_INSTANCE).holder(&Highest).as_str().len(), 200);
        assert_eq!(of(LONGEST_INSTANCE + 1).problems().len(), 1);
    }
}
