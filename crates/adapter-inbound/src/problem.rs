//! One wrong setting, in the words an operator needs to put it right.

/// A setting whose value cannot work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key} is {value}, but {bound}")]
pub struct SettingProblem {
    /// The key's path below the adapter's own section, for example `retry.cap`.
    pub key: &'static str,
    /// The value that was met; never a secret.
    pub value: String,
    /// What the value must be, as the end of a sentence, for example `it must be at least 1`.
    pub bound: String,
}

impl SettingProblem {
    pub(crate) fn new(key: &'static str, value: impl Into<String>, bound: impl Into<String>) -> Self {
        Self { key, value: value.into(), bound: bound.into() }
    }
}
