//! Where the operations HTTP listens, and for whom.

use std::{net::SocketAddr, time::Duration};

use application_core::{SettingProblem, setting_duration::readable};
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize, Serializer};

use super::server::ServerLimits;

/// The fewest bytes of a bearer token.
const SHORTEST_TOKEN: usize = 16;

/// The listeners beside the application's own.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OperationsSettings {
    /// Where `/livez`, `/readyz` and `/metrics` listen; may face the cluster. Port 0 takes a free one.
    pub health_listen: SocketAddr,
    /// Where `/ops` listens; none: nowhere. Beyond loopback only with a token.
    pub ops_listen: Option<SocketAddr>,
    /// What an operator's requests carry as `Authorization: Bearer …`; at least 16 visible ASCII characters. Without a
    /// token, everybody on this machine is an operator.
    #[serde(serialize_with = "redacted")]
    pub ops_token: Option<SecretString>,
    /// Whether `/ops` shows the payloads and headers of events, which may hold personal data; only with a token.
    pub payloads: bool,
    /// How long a request may take, from its last header to its answer; 100 ms to 5 min.
    #[serde(with = "crate::setting_duration")]
    pub request_timeout: Duration,
    /// How long a client may take to send its headers; 100 ms to 5 min.
    #[serde(with = "crate::setting_duration")]
    pub header_timeout: Duration,
    /// The largest request body, in bytes; up to 1 MiB.
    pub max_body_bytes: usize,
    /// The most connections at once; further ones wait. 1 to 10,000.
    pub max_connections: usize,
}

impl Default for OperationsSettings {
    fn default() -> Self {
        Self {
            health_listen: SocketAddr::from(([127, 0, 0, 1], 9_090)),
            ops_listen: Some(SocketAddr::from(([127, 0, 0, 1], 9_091))),
            ops_token: None,
            payloads: false,
            request_timeout: Duration::from_secs(10),
            header_timeout: Duration::from_secs(5),
            max_body_bytes: 16 * 1024,
            max_connections: 100,
        }
    }
}

/// Settings of the operations HTTP that cannot work; every problem at once.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the operations HTTP cannot start: {}", .problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct InvalidOperationsSettings {
    /// What is wrong; at least one.
    pub problems: Vec<SettingProblem>,
}

impl OperationsSettings {
    /// Everything that is wrong with the settings; none: they can work.
    #[must_use]
    pub fn problems(&self) -> Vec<SettingProblem> {
        let mut problems = Vec::new();
        match (&self.ops_listen, &self.ops_token) {
            (Some(listen), None) if !listen.ip().is_loopback() => {
                let bound = "without `ops_token` it must be a loopback address such as 127.0.0.1:9091";
                problems.push(SettingProblem::new("ops_listen", listen.to_string(), bound));
            }
            (_, Some(token)) if !is_strong(token.expose_secret()) => {
                let bound = format!("it must have at least {SHORTEST_TOKEN} characters, all of them visible ASCII");
                problems.push(SettingProblem::new("ops_token", "too weak", bound));
            }
            _ => {}
        }
        if self.payloads && self.ops_token.is_none() {
            problems.push(SettingProblem::new("payloads", "true", "without `ops_token` it must be false"));
        }
        let (shortest, longest) = (Duration::from_millis(100), Duration::from_mins(5));
        for (key, value) in [("request_timeout", self.request_timeout), ("header_timeout", self.header_timeout)] {
            if !(shortest..=longest).contains(&value) {
                let bound = format!("it must be {} to {}", readable(shortest), readable(longest));
                problems.push(SettingProblem::new(key, readable(value), bound));
            }
        }
        for (key, value, least, most) in [
            ("max_body_bytes", self.max_body_bytes, 0, 1024 * 1024),
            ("max_connections", self.max_connections, 1, 10_000),
        ] {
            if !(least..=most).contains(&value) {
                problems.push(SettingProblem::new(key, value.to_string(), format!("it must be {least} to {most}")));
            }
        }
        problems
    }

    /// Refuses settings that have a problem.
    ///
    /// # Errors
    /// [`InvalidOperationsSettings`] with every problem.
    pub fn check(&self) -> Result<(), InvalidOperationsSettings> {
        let problems = self.problems();
        if problems.is_empty() { Ok(()) } else { Err(InvalidOperationsSettings { problems }) }
    }

    /// The limits of a server under these settings.
    #[must_use]
    pub const fn limits(&self) -> ServerLimits {
        ServerLimits {
            header_timeout: self.header_timeout,
            request_timeout: self.request_timeout,
            max_body_bytes: self.max_body_bytes,
            max_connections: self.max_connections,
        }
    }
}

fn is_strong(token: &str) -> bool {
    token.len() >= SHORTEST_TOKEN && token.bytes().all(|byte| byte.is_ascii_graphic())
}

#[expect(clippy::ref_option, reason = "serde passes the field by reference")]
fn redacted<S: Serializer>(token: &Option<SecretString>, serializer: S) -> Result<S::Ok, S::Error> {
    token.as_ref().map(|_| "***").serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_without_a_token_refuse_to_listen_beyond_loopback() {
        let listen = |address: &str, token: Option<&str>| {
            OperationsSettings {
                ops_listen: Some(address.parse().unwrap()),
                ops_token: token.map(SecretString::from),
                ..OperationsSettings::default()
            }
            .check()
        };
        for address in ["0.0.0.0:9091", "[::]:9091", "10.0.0.1:80", "[::ffff:127.0.0.1]:1"] {
            let error = listen(address, None).unwrap_err();
            assert_eq!(error.problems[0].key, "ops_listen", "{address}");
            assert!(error.to_string().contains(address), "{error}");
            listen(address, Some("0123456789abcdef")).unwrap();
        }
        for address in ["127.0.0.1:9091", "127.9.9.9:0", "[::1]:9091"] {
            listen(address, None).unwrap();
        }
    }

    #[test]
    fn payloads_are_shown_to_whoever_has_a_token_alone() {
        let problems = |payloads: bool, token: Option<&str>| {
            let ops_token = token.map(SecretString::from);
            OperationsSettings { ops_token, payloads, ..OperationsSettings::default() }.problems()
        };
        let refused = problems(true, None);
        assert_eq!((refused.len(), refused[0].key.as_str()), (1, "payloads"), "{refused:?}");
        assert_eq!(problems(true, Some("0123456789abcdef")), []);
        assert_eq!(problems(false, None), []);
    }

    #[test]
    fn every_problem_is_reported_at_once_and_no_token_with_it() {
        let settings = OperationsSettings {
            ops_token: Some("short token".into()),
            request_timeout: Duration::ZERO,
            header_timeout: Duration::from_hours(1),
            max_body_bytes: 1 << 30,
            max_connections: 0,
            ..OperationsSettings::default()
        };
        let error = settings.check().unwrap_err();
        let keys: Vec<_> = error.problems.iter().map(|problem| problem.key.as_str()).collect();
        assert_eq!(keys, ["ops_token", "request_timeout", "header_timeout", "max_body_bytes", "max_connections"]);
        assert!(!format!("{settings:?} {error} {error:?}").contains("short token"));
        assert_eq!(OperationsSettings::default().problems(), []);
    }
}
