//! Who changes what by hand, and why.

use std::{fmt, str::FromStr};

use super::bounds::{MAX_OPERATOR_BYTES, MAX_REASON_BYTES};

/// A name or a reason that breaks a bound.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAttribution {
    /// Without a character.
    #[error("{field} is empty")]
    Empty {
        /// `operator` or `reason`.
        field: &'static str,
    },
    /// Over its byte budget.
    #[error("{field} takes {actual} bytes, at most {bound} are allowed")]
    TooLong {
        /// `operator` or `reason`.
        field: &'static str,
        /// The most bytes allowed.
        bound: usize,
        /// The bytes met.
        actual: usize,
    },
    /// With a control character.
    #[error("{field} holds a control character at byte {offset}")]
    Forbidden {
        /// `operator` or `reason`.
        field: &'static str,
        /// Where it stands, in bytes from the start.
        offset: usize,
    },
}

fn checked(field: &'static str, bound: usize, text: String) -> Result<String, InvalidAttribution> {
    if text.is_empty() {
        return Err(InvalidAttribution::Empty { field });
    }
    if text.len() > bound {
        return Err(InvalidAttribution::TooLong { field, bound, actual: text.len() });
    }
    match text.char_indices().find(|(_, c)| c.is_control()) {
        Some((offset, _)) => Err(InvalidAttribution::Forbidden { field, offset }),
        None => Ok(text),
    }
}

/// Who acts: 1 to 100 bytes, no control character.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorName(String);

impl OperatorName {
    /// Checks the bounds.
    ///
    /// # Errors
    /// [`InvalidAttribution`].
    pub fn try_new(name: impl Into<String>) -> Result<Self, InvalidAttribution> {
        checked("operator", MAX_OPERATOR_BYTES, name.into()).map(Self)
    }

    /// Takes a stored name as it is.
    #[must_use]
    pub fn from_stored(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why somebody acts: 1 to 500 bytes, no control character.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason(String);

impl Reason {
    /// Checks the bounds.
    ///
    /// # Errors
    /// [`InvalidAttribution`].
    pub fn try_new(reason: impl Into<String>) -> Result<Self, InvalidAttribution> {
        checked("reason", MAX_REASON_BYTES, reason.into()).map(Self)
    }

    /// Takes a stored reason as it is.
    #[must_use]
    pub fn from_stored(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What the audit says beside the change itself: who made it, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attribution {
    /// Who.
    pub operator: OperatorName,
    /// Why, if it was said.
    pub reason: Option<Reason>,
}

/// What an operator does to single events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventAction {
    /// DEAD → PENDING, attempts from zero; also undoes a resolution.
    Requeue,
    /// Resolves a DEAD event as discarded, so that its aggregate goes on.
    Discard,
    /// PUBLISHED → PENDING, attempts from zero, replays + 1.
    Replay,
}

impl EventAction {
    /// Every action.
    pub const ALL: [Self; 3] = [Self::Requeue, Self::Discard, Self::Replay];

    /// The name in commands, requests and the audit.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Requeue => "requeue",
            Self::Discard => "discard",
            Self::Replay => "replay",
        }
    }

    /// What has happened to the event afterwards.
    #[must_use]
    pub const fn participle(self) -> &'static str {
        match self {
            Self::Requeue => "requeued",
            Self::Discard => "discarded",
            Self::Replay => "replayed",
        }
    }
}

impl fmt::Display for EventAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that names no action.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no action; {known} are", known = EventAction::ALL.map(EventAction::as_str).join(", "))]
pub struct UnknownAction(String);

impl FromStr for EventAction {
    type Err = UnknownAction;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.into_iter().find(|action| action.as_str() == text);
        named.ok_or_else(|| UnknownAction(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_or_reason_out_of_bounds_is_refused_with_field_bound_and_value() {
        let refused = |text: &str| OperatorName::try_new(text).unwrap_err().to_string();
        assert_eq!(refused(""), "operator is empty");
        assert_eq!(refused(&"é".repeat(51)), "operator takes 102 bytes, at most 100 are allowed");
        assert_eq!(refused("a\u{9f}"), "operator holds a control character at byte 1");
        assert!(OperatorName::try_new("é".repeat(50)).is_ok());
        let refused = |text: &str| Reason::try_new(text).unwrap_err().to_string();
        assert_eq!(refused(""), "reason is empty");
        assert_eq!(refused(&"x".repeat(501)), "reason takes 501 bytes, at most 500 are allowed");
        assert_eq!(refused("a\nb"), "reason holds a control character at byte 1");
        assert!(Reason::try_new("x".repeat(500)).is_ok());
    }
}
