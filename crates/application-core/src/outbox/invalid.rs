//! Why an event is refused before any SQL.

use std::fmt;

/// The part of an event that breaks a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventField {
    /// The aggregate's type.
    AggregateType,
    /// The aggregate's identifier.
    AggregateId,
    /// The event's type.
    EventType,
    /// The payload.
    Payload,
    /// The headers, all together.
    Headers,
    /// The name of one header.
    HeaderName,
    /// The value of one header.
    HeaderValue,
    /// The value of the header `idempotencyKey`, which consumers need if it is given.
    IdempotencyKey,
}

impl fmt::Display for EventField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AggregateType => "aggregate_type",
            Self::AggregateId => "aggregate_id",
            Self::EventType => "event_type",
            Self::Payload => "payload",
            Self::Headers => "headers",
            Self::HeaderName => "header name",
            Self::HeaderValue => "header value",
            Self::IdempotencyKey => "header idempotencyKey",
        })
    }
}

/// An event that breaks a bound of rule R8: the field, the bound and the value that was met.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidEvent {
    /// A name or identifier without a character.
    #[error("{field} is empty")]
    Empty {
        /// The field.
        field: EventField,
    },
    /// A value over its byte budget.
    #[error("{field} takes {actual} bytes, at most {bound} are allowed")]
    TooLong {
        /// The field.
        field: EventField,
        /// The most bytes allowed.
        bound: usize,
        /// The bytes met.
        actual: usize,
    },
    /// A control character, or an escape that PostgreSQL or a consumer cannot hold.
    #[error("{field} holds {what} at byte {offset}")]
    Forbidden {
        /// The field.
        field: EventField,
        /// What was met, for example `\u0000`.
        what: &'static str,
        /// Where it stands, in bytes from the start.
        offset: usize,
    },
    /// A payload that is not one JSON value.
    #[error("payload is not JSON: {reason}")]
    NotJson {
        /// What the parser says, with line and column.
        reason: String,
    },
    /// A payload nested too deeply.
    #[error("payload is nested {actual} levels deep, at most {bound} are allowed")]
    TooDeep {
        /// The most levels allowed.
        bound: usize,
        /// The levels met.
        actual: usize,
    },
}
