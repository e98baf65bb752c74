//! A setting that cannot be used, as every adapter reports it.

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
