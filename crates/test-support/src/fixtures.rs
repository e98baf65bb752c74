//! Events with valid defaults, for tests that care about one field of them.

use std::sync::atomic::{AtomicU64, Ordering};

use application_core::outbox::{EventDraft, EventId, NewOutboxEvent};
use serde::Serialize;
use uuid::Uuid;

/// The aggregate type of an event for which none was given.
pub const AGGREGATE_TYPE: &str = "sample";
/// The event type of an event for which none was given.
pub const EVENT_TYPE: &str = "SampleHappened";

/// The `n`-th event id of every test: a valid `UUIDv7`, the same in every run and ordered by `n`.
#[must_use]
pub const fn event_id(n: u64) -> EventId {
    // 2030-01-01, so that a fixture is told from a real event at sight; the number is in the time for the order, and in
    // the random part to be read.
    let millis = 1_893_456_000_000 + (n & 0xFFFF_FFFF);
    let (version, variant) = (0x7 << 12, 0b10 << 62);
    let id = Uuid::from_u64_pair(millis << 16 | version, variant | (n & 0x3FFF_FFFF_FFFF_FFFF));
    EventId::new(id)
}

/// A series of events whose ids count up from 1: the same ids in every run.
#[derive(Debug, Default)]
pub struct Events(AtomicU64);

impl Events {
    /// A series that starts at 1.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Starts the next event, of the aggregate with this id.
    pub fn of(&self, aggregate_id: impl Into<String>) -> EventBuilder {
        EventBuilder::numbered(self.0.fetch_add(1, Ordering::Relaxed) + 1, aggregate_id.into())
    }

    /// The next `count` events of one aggregate, in order.
    pub fn many_of(&self, aggregate_id: &str, count: usize) -> Vec<NewOutboxEvent> {
        (0..count).map(|_| self.of(aggregate_id).build()).collect()
    }
}

/// Starts an event of the aggregate with this id; ids count up through the whole test process.
///
/// Where several tests share a process, which id an event gets depends on them all: a test that names ids takes them
/// from [`Events`] or [`event_id`].
pub fn new_event(aggregate_id: impl Into<String>) -> EventBuilder {
    static SERIES: Events = Events(AtomicU64::new(1 << 31));
    SERIES.of(aggregate_id)
}

/// An event that is valid as it stands; every field can be replaced.
#[derive(Debug, Clone)]
#[must_use = "a builder is no event until it is built"]
pub struct EventBuilder {
    id: EventId,
    aggregate_type: String,
    aggregate_id: String,
    event_type: String,
    payload: String,
    headers: Vec<(String, String)>,
}

impl EventBuilder {
    fn numbered(n: u64, aggregate_id: String) -> Self {
        Self {
            id: event_id(n),
            aggregate_type: AGGREGATE_TYPE.to_owned(),
            aggregate_id,
            event_type: EVENT_TYPE.to_owned(),
            payload: format!("{{\"number\":{n}}}"),
            headers: Vec::new(),
        }
    }

    /// Replaces the id.
    pub const fn id(mut self, id: EventId) -> Self {
        self.id = id;
        self
    }

    /// Replaces the aggregate's type.
    pub fn aggregate_type(mut self, aggregate_type: impl Into<String>) -> Self {
        self.aggregate_type = aggregate_type.into();
        self
    }

    /// Replaces the event's type.
    pub fn event_type(mut self, event_type: impl Into<String>) -> Self {
        self.event_type = event_type.into();
        self
    }

    /// Replaces the payload by JSON text.
    pub fn payload(mut self, json: impl Into<String>) -> Self {
        self.payload = json.into();
        self
    }

    /// Replaces the payload by JSON text of exactly this many bytes; at least 2.
    pub fn payload_of_bytes(self, bytes: usize) -> Self {
        self.payload(format!("\"{}\"", "x".repeat(bytes.saturating_sub(2))))
    }

    /// Replaces the payload by the JSON encoding of a value.
    ///
    /// # Panics
    /// When the value has no JSON form.
    pub fn payload_of<T: Serialize + ?Sized>(self, value: &T) -> Self {
        #[expect(clippy::expect_used, reason = "a wrong fixture fails its test")]
        let json = serde_json::to_string(value).expect("a fixture's payload has a JSON form");
        self.payload(json)
    }

    /// Adds a header.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// The draft, for a test of what `build` refuses.
    pub fn draft(self) -> EventDraft {
        let aggregate = (self.aggregate_type.as_str(), self.aggregate_id.as_str());
        let draft = NewOutboxEvent::draft_raw(self.id, aggregate, &self.event_type, self.payload);
        self.headers.into_iter().fold(draft, |draft, (name, value)| draft.header(name, value))
    }

    /// The event.
    ///
    /// # Panics
    /// When a replaced field breaks a bound of rule R8.
    #[must_use]
    #[track_caller]
    pub fn build(self) -> NewOutboxEvent {
        #[expect(clippy::expect_used, reason = "a wrong fixture fails its test")]
        self.draft().build().expect("a fixture holds every bound")
    }
}

/// A UUID that is the same in every run, for tokens and other identifiers of tests.
#[must_use]
pub const fn uuid(n: u64) -> Uuid {
    Uuid::from_u64_pair(0x7E57, n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_gives_the_same_ids_in_every_run_in_ascending_order() {
        let ids = || Events::new().many_of("a", 3).iter().map(NewOutboxEvent::id).collect::<Vec<_>>();
        assert_eq!(ids(), [event_id(1), event_id(2), event_id(3)]);
        assert_eq!(ids(), ids());
        assert!(ids().is_sorted());
        assert_eq!(event_id(1).as_uuid().get_version_num(), 7);
    }

    #[test]
    fn events_outside_a_series_differ() {
        assert_ne!(new_event("a").build().id(), new_event("a").build().id());
    }

    #[test]
    fn every_field_can_be_replaced() {
        let event = new_event("a")
            .id(event_id(9))
            .aggregate_type("order")
            .event_type("OrderPlaced")
            .payload_of(&[1, 2])
            .header("idempotencyKey", "k")
            .build();
        assert_eq!(event.id(), event_id(9));
        assert_eq!(event.aggregate_type().as_str(), "order");
        assert_eq!(event.aggregate_id().as_str(), "a");
        assert_eq!(event.event_type().as_str(), "OrderPlaced");
        assert_eq!(event.payload().as_str(), "[1,2]");
        assert_eq!(event.headers().get("idempotencyKey"), Some("k"));
        assert_eq!(new_event("a").payload_of_bytes(10).build().payload().as_str().len(), 10);
    }
}
