//! An event in the hands of a relay.

use std::time::Duration;

use time::OffsetDateTime;

use super::{
    headers::{EventHeaders, IDEMPOTENCY_KEY},
    identity::{AggregateId, AggregateType, EventId, EventType, Sequence},
    payload::Payload,
};

/// A claimed event: what was appended, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxEvent {
    /// The identity by which consumers recognise a redelivery.
    pub id: EventId,
    /// The place in the order of the aggregate.
    pub sequence: Sequence,
    /// The aggregate's type.
    pub aggregate_type: AggregateType,
    /// The aggregate's identifier.
    pub aggregate_id: AggregateId,
    /// The event's type.
    pub event_type: EventType,
    /// The payload, byte for byte as appended.
    pub payload: Payload,
    /// The headers.
    pub headers: EventHeaders,
    /// How many deliveries failed through the message itself (rule R3).
    pub attempts: u32,
    /// How often an operator sent the event again after it had been published.
    pub replays: u32,
    /// When the event was stored, by the database's clock.
    pub created_at: OffsetDateTime,
    /// How long it had been stored when it was claimed, by the database's clock alone (case Y56).
    pub age_at_claim: Duration,
}

impl OutboxEvent {
    /// The key by which a consumer recognises the same business operation: the event id unless one was given.
    #[must_use]
    pub fn idempotency_key(&self) -> String {
        self.headers.get(IDEMPOTENCY_KEY).map_or_else(|| self.id.to_string(), ToOwned::to_owned)
    }

    /// When the change happened: when the event was stored unless a time was given.
    #[must_use]
    pub fn occurred_at(&self) -> OffsetDateTime {
        self.headers.occurred_at().unwrap_or(self.created_at)
    }
}
