//! Whether published events are kept.

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
