//! A setting that cannot be used, as every adapter reports it, and what of a URL can be shown.

use std::fmt;

/// One problem of a settings section: the key, the value met and the bound.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("{key} is {value}, but {bound}")]
pub struct SettingProblem {
    /// The key's path, for example `amqp.heartbeat`.
    pub key: String,
    /// The value that was met; never a secret.
    pub value: String,
    /// What the value must be, as the end of a sentence: `it must be 1 to 64`.
    pub bound: String,
}

impl SettingProblem {
    /// Puts a problem together.
    #[must_use]
    pub fn new(key: impl Into<String>, value: impl fmt::Display, bound: impl Into<String>) -> Self {
        Self { key: key.into(), value: value.to_string(), bound: bound.into() }
    }

    /// The same problem, its key within a section.
    #[must_use]
    pub fn within(self, section: &str) -> Self {
        Self { key: format!("{section}.{}", self.key), ..self }
    }
}

/// Whether credentials may stand behind the host of a URL, so that it must not be shown in parts either.
///
/// A `/`, `?` or `#` that is not percent-encoded ends a password early: its beginning is then read as the port, and its
/// rest, up to the `@`, as path, query or fragment.
#[must_use]
pub fn hides_credentials(url: &str) -> bool {
    let behind_scheme = url.split_once("://").map_or(url, |(_, rest)| rest);
    behind_scheme.split_once(['/', '?', '#']).is_some_and(|(_, rest)| rest.contains('@'))
}

#[cfg(test)]
mod tests {
    use super::hides_credentials;

    #[test]
    fn an_at_sign_behind_the_host_may_end_a_password() {
        for url in ["postgres://u:1#x@h/db", "postgres://u:1?x@h", "amqp://u:1/x@h/v", "u:1/x@h"] {
            assert!(hides_credentials(url), "{url}");
        }
        for url in ["postgres://u:x@h/db?sslmode=disable", "amqp://u:x@y@h", "amqp://h/%2f", "nothing"] {
            assert!(!hides_credentials(url), "{url}");
        }
    }
}
