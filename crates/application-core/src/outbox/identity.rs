//! Identifiers and names of an event: newtypes, so that none is mistaken for another.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{
    bounds::{MAX_AGGREGATE_ID_BYTES, MAX_AGGREGATE_TYPE_BYTES, MAX_EVENT_TYPE_BYTES},
    invalid::{EventField, InvalidEvent},
};
use crate::ports::{Clock, Random};

/// The identity of an event: a `UUIDv7`, which consumers use to recognise a redelivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EventId(Uuid);

impl EventId {
    /// Wraps an identifier that exists already.
    #[must_use]
    pub const fn new(id: Uuid) -> Self {
        Self(id)
    }

    /// Makes a `UUIDv7` from the clock's milliseconds and 74 random bits (RFC 9562, section 5.7).
    #[must_use]
    pub fn generate(clock: &dyn Clock, random: &dyn Random) -> Self {
        let millis = clock.now().unix_timestamp_nanos() / 1_000_000;
        let mut bytes = [0_u8; 10];
        for (chunk, value) in bytes.chunks_mut(8).zip([random.next_u64(), random.next_u64()]) {
            for (byte, fresh) in chunk.iter_mut().zip(value.to_le_bytes()) {
                *byte = fresh;
            }
        }
        let millis = u64::try_from(millis).unwrap_or(0);
        Self(uuid::Builder::from_unix_timestamp_millis(millis, &bytes).into_uuid())
    }

    /// The bare identifier.
    #[must_use]
    pub const fn as_uuid(&self) -> Uuid {
        self.0
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A text that is no identity of an event.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no event id: it must be a UUID, for example 0198c5a0-0000-7000-8000-000000000001")]
pub struct InvalidEventId(String);

impl FromStr for EventId {
    type Err = InvalidEventId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Uuid::parse_str(text).map(Self).map_err(|_unspecific| InvalidEventId(text.to_owned()))
    }
}

/// The place of an event in the order of its aggregate, drawn under the lane's lock (rule R10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Sequence(pub i64);

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The lane of an aggregate: a hash of its type and identifier.
///
/// Two aggregates that share a hash share a lane; they are merely ordered together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LaneId(pub i64);

impl fmt::Display for LaneId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

pub(super) fn check_text(field: EventField, text: &str, bound: usize) -> Result<(), InvalidEvent> {
    if text.is_empty() {
        return Err(InvalidEvent::Empty { field });
    }
    if text.len() > bound {
        return Err(InvalidEvent::TooLong { field, bound, actual: text.len() });
    }
    match text.char_indices().find(|(_, c)| c.is_control()) {
        Some((offset, _)) => Err(InvalidEvent::Forbidden { field, what: "a control character", offset }),
        None => Ok(()),
    }
}

macro_rules! bounded_name {
    ($(#[$doc:meta])* $name:ident, $field:expr, $bound:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Checks the bounds of rule R8.
            ///
            /// # Errors
            /// [`InvalidEvent`] when the text is empty, too long or holds a control character.
            pub fn try_new(text: impl Into<String>) -> Result<Self, InvalidEvent> {
                let text = text.into();
                check_text($field, &text, $bound)?;
                Ok(Self(text))
            }

            /// Takes a stored value as it is: what another writer stored must be readable, so that it can be settled.
            #[must_use]
            pub fn from_stored(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

bounded_name!(
    /// The kind of an aggregate, for example `work-log`: 1 to 100 bytes, no control character.
    AggregateType,
    EventField::AggregateType,
    MAX_AGGREGATE_TYPE_BYTES
);
bounded_name!(
    /// The identity of an aggregate within its type, and the partition key: 1 to 200 bytes, no control character.
    AggregateId,
    EventField::AggregateId,
    MAX_AGGREGATE_ID_BYTES
);
bounded_name!(
    /// The kind of an event, for example `WorkLogReserved`: 1 to 100 bytes, no control character.
    EventType,
    EventField::EventType,
    MAX_EVENT_TYPE_BYTES
);

/// The name under which a relay or another process holds leases, for logs and operators.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct HolderName(String);

impl HolderName {
    /// Wraps a name; anything that tells processes apart will do, such as host and process id.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HolderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
