//! What it takes to write an event down, for each form of the envelope.

use std::time::Duration;

use adapter_outbound::envelope::{Envelope, EnvelopeFormat, EnvelopeSettings};
use application_core::outbox::{
    AggregateId, AggregateType, EventHeaders, EventId, EventType, OutboxEvent, Payload, Sequence,
};
use divan::{Bencher, black_box, counter::BytesCount};
use time::macros::datetime;
use uuid::Uuid;

fn main() {
    divan::main();
}

const FORMATS: [EnvelopeFormat; 4] = [
    EnvelopeFormat::Json,
    EnvelopeFormat::CloudEventsStructured,
    EnvelopeFormat::CloudEventsBinary,
    EnvelopeFormat::Raw,
];

#[divan::bench(args = FORMATS)]
fn payload_of_300_bytes(bencher: Bencher, format: EnvelopeFormat) {
    encode(bencher, format, 300);
}

#[divan::bench(args = FORMATS)]
fn payload_of_64_kib(bencher: Bencher, format: EnvelopeFormat) {
    encode(bencher, format, 64 * 1024);
}

fn encode(bencher: Bencher, format: EnvelopeFormat, payload_bytes: usize) {
    let envelope = Envelope::new(&EnvelopeSettings { format, ..EnvelopeSettings::default() });
    let event = event(payload_bytes);
    bencher.counter(BytesCount::new(payload_bytes)).bench(|| envelope.encode(black_box(&event)));
}

fn event(payload_bytes: usize) -> OutboxEvent {
    OutboxEvent {
        id: EventId::new(Uuid::from_u128(0x0192_0000_0000_7000_8000_0000_0000_0001)),
        sequence: Sequence(42),
        aggregate_type: AggregateType::from_stored("bench"),
        aggregate_id: AggregateId::from_stored("b7c1"),
        event_type: EventType::from_stored("Benched"),
        payload: Payload::from_stored(format!("{{\"filler\":\"{}\"}}", "x".repeat(payload_bytes - 13))),
        headers: EventHeaders::default(),
        attempts: 0,
        replays: 0,
        created_at: datetime!(2026-01-02 03:04:05.678901 UTC),
        age_at_claim: Duration::ZERO,
    }
}
