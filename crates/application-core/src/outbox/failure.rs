//! Why a publish failed, in the classes of rule R5.

use std::{fmt, str::FromStr};

use super::bounds::MAX_ERROR_BYTES;

/// Whose fault a failed publish is, which decides what happens to the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureClass {
    /// The destination cannot take anything now: attempts stay, the claim is released, the destination pauses.
    Unavailable,
    /// The broker refused the message (nack) while it took others: one attempt, then backoff.
    Rejected,
    /// The broker returned the message because no queue takes it: one attempt, then backoff.
    Unroutable,
    /// The message cannot be sent at all (not encodable, over the limit): DEAD at once.
    Poison,
}

impl FailureClass {
    /// Every class.
    pub const ALL: [Self; 4] = [Self::Unavailable, Self::Rejected, Self::Unroutable, Self::Poison];

    /// The name in `last_error` and the metrics labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unavailable => "unavailable",
            Self::Rejected => "rejected",
            Self::Unroutable => "unroutable",
            Self::Poison => "poison",
        }
    }
}

impl fmt::Display for FailureClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that names no class.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no class of failures: {known} are", known = FailureClass::ALL.map(FailureClass::as_str).join(", "))]
pub struct UnknownClass(String);

impl FromStr for FailureClass {
    type Err = UnknownClass;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.into_iter().find(|class| class.as_str() == text);
        named.ok_or_else(|| UnknownClass(text.to_owned()))
    }
}

/// A publish that failed: the class and the broker's or encoder's own words, cleaned for storage.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{class}: {reason}")]
pub struct PublishFailure {
    class: FailureClass,
    reason: String,
}

impl PublishFailure {
    /// Keeps the class and a storable form of the reason.
    #[must_use]
    pub fn new(class: FailureClass, reason: impl AsRef<str>) -> Self {
        Self { class, reason: storable(reason.as_ref()) }
    }

    /// The class.
    #[must_use]
    pub const fn class(&self) -> FailureClass {
        self.class
    }

    /// The reason, without control characters and at most 1,000 bytes.
    #[must_use]
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

/// A text that PostgreSQL stores whatever a broker said: without control characters and at most 1,000 bytes.
///
/// `\0` would make the very update fail that records it.
#[must_use]
pub fn storable(text: &str) -> String {
    let mut clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if clean.len() > MAX_ERROR_BYTES {
        let end = (0..=MAX_ERROR_BYTES).rev().find(|at| clean.is_char_boundary(*at)).unwrap_or(0);
        clean.truncate(end);
    }
    clean
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_reason_becomes_storable(text in any::<String>()) {
            let failure = PublishFailure::new(FailureClass::Rejected, &text);
            prop_assert!(failure.reason().len() <= MAX_ERROR_BYTES);
            prop_assert!(!failure.reason().chars().any(char::is_control));
        }
    }

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        let failure = PublishFailure::new(FailureClass::Poison, "é".repeat(MAX_ERROR_BYTES));
        assert_eq!(failure.reason().len(), MAX_ERROR_BYTES);
    }
}
