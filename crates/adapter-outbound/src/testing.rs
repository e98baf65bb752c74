//! Events for this crate's unit tests.

use std::time::Duration;

use application_core::outbox::{
    AggregateId, AggregateType, EventHeaders, EventId, EventType, OutboxEvent, Payload, Sequence,
};
use time::macros::datetime;
use uuid::Uuid;

pub(crate) fn event() -> OutboxEvent {
    event_of("work-log", "b7c1", "WorkLogReserved")
}

pub(crate) fn event_of(aggregate_type: &str, aggregate_id: &str, event_type: &str) -> OutboxEvent {
    OutboxEvent {
        id: EventId::new(Uuid::from_u128(0x0192_0000_0000_7000_8000_0000_0000_0001)),
        sequence: Sequence(42),
        aggregate_type: AggregateType::from_stored(aggregate_type),
        aggregate_id: AggregateId::from_stored(aggregate_id),
        event_type: EventType::from_stored(event_type),
        payload: Payload::from_stored(r#"{"minutes":90}"#),
        headers: EventHeaders::default(),
        attempts: 0,
        replays: 0,
        created_at: datetime!(2026-01-02 03:04:05.678901 UTC),
        age_at_claim: Duration::ZERO,
    }
}
