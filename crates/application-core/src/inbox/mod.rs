//! The inbox: a message as a consumer meets it.

use crate::outbox::{AggregateId, AggregateType, EventHeaders, EventId, EventType, Payload, Sequence};
use time::OffsetDateTime;

/// A message that came from a broker, decoded from its envelope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboundMessage {
    /// The event's identity, by which redeliveries are recognised.
    pub id: EventId,
    /// The event's type.
    pub event_type: EventType,
    /// The aggregate's type.
    pub aggregate_type: AggregateType,
    /// The aggregate's identifier.
    pub aggregate_id: AggregateId,
    /// The place in the aggregate's order.
    pub sequence: Sequence,
    /// The version of the payload's schema.
    pub schema_version: u32,
    /// The key of the business operation.
    pub idempotency_key: String,
    /// When the change happened.
    pub occurred_at: OffsetDateTime,
    /// Whether an operator sent it again on purpose.
    pub replay: bool,
    /// The payload, byte for byte as appended.
    pub payload: Payload,
    /// Other headers, `traceparent` among them.
    pub headers: EventHeaders,
}

/// An aggregate whose later messages wait, because one of its messages was parked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParkedAggregate {
    /// The aggregate's type.
    pub aggregate_type: AggregateType,
    /// The aggregate's identifier.
    pub aggregate_id: AggregateId,
    /// The message that could not be handled.
    pub event: EventId,
    /// Why; storable.
    pub reason: String,
}
