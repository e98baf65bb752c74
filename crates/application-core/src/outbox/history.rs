//! Whether published events are kept, and what of them an operator removes.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// What becomes of an event's row when the broker has confirmed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnPublish {
    /// It stays until its retention is over: it can be looked up and replayed, and its id stays a duplicate (rule R9).
    #[default]
    Keep,
    /// It is deleted by the settlement itself: less log and no cleanup, but nothing tells what was sent, nothing can be
    /// replayed, and an id that is appended again is no duplicate.
    Delete,
}

/// Events that are over, by what ended them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettledHistory {
    /// Confirmed by the broker; as old as its confirm.
    Published,
    /// DEAD, and discarded or skipped; as old as that.
    Resolved,
}

impl SettledHistory {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Published, Self::Resolved];

    /// The name in commands and SQL.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Published => "published",
            Self::Resolved => "resolved",
        }
    }
}

impl fmt::Display for SettledHistory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that names no history.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no history; {known} are", known = SettledHistory::ALL.map(SettledHistory::as_str).join(" and "))]
pub struct UnknownHistory(String);

impl FromStr for SettledHistory {
    type Err = UnknownHistory;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.into_iter().find(|history| history.as_str() == text);
        named.ok_or_else(|| UnknownHistory(text.to_owned()))
    }
}
