//! An event on its way into the outbox.

use std::collections::BTreeMap;

use serde::Serialize;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::{
    headers::{EventHeaders, IDEMPOTENCY_KEY, OCCURRED_AT, SCHEMA_VERSION, TRACEPARENT},
    identity::{AggregateId, AggregateType, EventId, EventType},
    invalid::InvalidEvent,
    payload::Payload,
};

/// An event that holds every bound of rule R8 and may be appended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewOutboxEvent {
    id: EventId,
    aggregate_type: AggregateType,
    aggregate_id: AggregateId,
    event_type: EventType,
    payload: Payload,
    headers: EventHeaders,
}

impl NewOutboxEvent {
    /// Starts a draft with the payload's JSON encoding.
    pub fn draft<T: Serialize + ?Sized>(
        id: EventId,
        aggregate: (&str, &str),
        event_type: &str,
        payload: &T,
    ) -> EventDraft {
        EventDraft {
            id,
            aggregate_type: aggregate.0.to_owned(),
            aggregate_id: aggregate.1.to_owned(),
            event_type: event_type.to_owned(),
            payload: Payload::of(payload),
            headers: BTreeMap::new(),
        }
    }

    /// Starts a draft with a payload that is JSON text already; its bytes are kept.
    pub fn draft_raw(id: EventId, aggregate: (&str, &str), event_type: &str, payload: impl Into<String>) -> EventDraft {
        EventDraft {
            id,
            aggregate_type: aggregate.0.to_owned(),
            aggregate_id: aggregate.1.to_owned(),
            event_type: event_type.to_owned(),
            payload: Payload::try_new(payload),
            headers: BTreeMap::new(),
        }
    }

    /// The identity by which consumers recognise a redelivery.
    #[must_use]
    pub const fn id(&self) -> EventId {
        self.id
    }

    /// The aggregate's type.
    #[must_use]
    pub const fn aggregate_type(&self) -> &AggregateType {
        &self.aggregate_type
    }

    /// The aggregate's identifier.
    #[must_use]
    pub const fn aggregate_id(&self) -> &AggregateId {
        &self.aggregate_id
    }

    /// The event's type.
    #[must_use]
    pub const fn event_type(&self) -> &EventType {
        &self.event_type
    }

    /// The payload.
    #[must_use]
    pub const fn payload(&self) -> &Payload {
        &self.payload
    }

    /// The headers.
    #[must_use]
    pub const fn headers(&self) -> &EventHeaders {
        &self.headers
    }

    /// The same event with these headers instead of its own.
    ///
    /// # Errors
    /// [`InvalidEvent`] when they break a bound, as in [`EventHeaders::try_new`].
    pub fn with_headers(self, headers: BTreeMap<String, String>) -> Result<Self, InvalidEvent> {
        Ok(Self { headers: EventHeaders::try_new(headers)?, ..self })
    }
}

/// An event that is being put together; nothing is checked before [`EventDraft::build`].
#[derive(Debug, Clone)]
#[must_use = "a draft is no event until it is built"]
pub struct EventDraft {
    id: EventId,
    aggregate_type: String,
    aggregate_id: String,
    event_type: String,
    payload: Result<Payload, InvalidEvent>,
    headers: BTreeMap<String, String>,
}

impl EventDraft {
    /// Adds a header.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// The key by which a consumer recognises the same business operation.
    pub fn idempotency_key(self, key: impl Into<String>) -> Self {
        self.header(IDEMPOTENCY_KEY, key)
    }

    /// When the change happened.
    pub fn occurred_at(self, at: OffsetDateTime) -> Self {
        match at.format(&Rfc3339) {
            Ok(text) => self.header(OCCURRED_AT, text),
            // Years outside 0..=9999 have no RFC 3339 form; the default then is when the event is stored.
            Err(_) => self,
        }
    }

    /// The version of the payload's schema.
    pub fn schema_version(self, version: u32) -> Self {
        self.header(SCHEMA_VERSION, version.to_string())
    }

    /// The trace context of the request that causes the event (rule R28).
    pub fn traceparent(self, traceparent: Option<&str>) -> Self {
        match traceparent {
            Some(text) => self.header(TRACEPARENT, text),
            None => self,
        }
    }

    /// Checks every bound.
    ///
    /// # Errors
    /// [`InvalidEvent`] names the first field that breaks a bound, the bound and the value met.
    pub fn build(self) -> Result<NewOutboxEvent, InvalidEvent> {
        Ok(NewOutboxEvent {
            id: self.id,
            aggregate_type: AggregateType::try_new(self.aggregate_type)?,
            aggregate_id: AggregateId::try_new(self.aggregate_id)?,
            event_type: EventType::try_new(self.event_type)?,
            payload: self.payload?,
            headers: EventHeaders::try_new(self.headers)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use time::macros::datetime;
    use uuid::Uuid;

    use super::*;
    use crate::outbox::{
        bounds::{MAX_AGGREGATE_ID_BYTES, MAX_AGGREGATE_TYPE_BYTES, MAX_EVENT_TYPE_BYTES, MAX_PAYLOAD_BYTES},
        invalid::EventField,
    };

    const ID: EventId = EventId::new(Uuid::from_u128(0x0192_0000_0000_7000_8000_0000_0000_0001));

    fn draft() -> EventDraft {
        NewOutboxEvent::draft_raw(ID, ("order", "o-1"), "OrderPlaced", "{}")
    }

    fn named(aggregate_type: &str, aggregate_id: &str, event_type: &str) -> Result<NewOutboxEvent, InvalidEvent> {
        NewOutboxEvent::draft_raw(ID, (aggregate_type, aggregate_id), event_type, "{}").build()
    }

    #[test]
    fn an_event_has_what_its_draft_was_given() {
        let event = NewOutboxEvent::draft(ID, ("order", "o-1"), "OrderPlaced", &[1, 2]).build().unwrap();
        assert_eq!(event.id(), ID);
        assert_eq!((event.aggregate_type().as_str(), event.aggregate_id().as_str()), ("order", "o-1"));
        assert_eq!((event.event_type().as_str(), event.payload().as_str()), ("OrderPlaced", "[1,2]"));
        assert_eq!(event.headers().iter().count(), 0);
    }

    #[test]
    fn a_name_fills_its_bound_and_one_byte_more_is_refused() {
        let too_long = |field, bound| Err(InvalidEvent::TooLong { field, bound, actual: bound + 1 });
        let text = |bytes: usize| "x".repeat(bytes);
        assert!(named(&text(MAX_AGGREGATE_TYPE_BYTES), "i", "e").is_ok());
        assert!(named("t", &text(MAX_AGGREGATE_ID_BYTES), "e").is_ok());
        assert!(named("t", "i", &text(MAX_EVENT_TYPE_BYTES)).is_ok());
        assert_eq!(
            named(&text(MAX_AGGREGATE_TYPE_BYTES + 1), "i", "e"),
            too_long(EventField::AggregateType, MAX_AGGREGATE_TYPE_BYTES)
        );
        assert_eq!(
            named("t", &text(MAX_AGGREGATE_ID_BYTES + 1), "e"),
            too_long(EventField::AggregateId, MAX_AGGREGATE_ID_BYTES)
        );
        assert_eq!(
            named("t", "i", &text(MAX_EVENT_TYPE_BYTES + 1)),
            too_long(EventField::EventType, MAX_EVENT_TYPE_BYTES)
        );
    }

    #[test]
    fn an_empty_name_or_a_control_character_is_refused_by_its_field() {
        assert_eq!(named("", "i", "e"), Err(InvalidEvent::Empty { field: EventField::AggregateType }));
        assert_eq!(named("t", "", "e"), Err(InvalidEvent::Empty { field: EventField::AggregateId }));
        assert_eq!(named("t", "i", ""), Err(InvalidEvent::Empty { field: EventField::EventType }));
        for name in ["a\0", "a\n", "a\u{85}"] {
            let refused = named("t", name, "e").unwrap_err();
            assert!(
                matches!(refused, InvalidEvent::Forbidden { field: EventField::AggregateId, offset: 1, .. }),
                "{refused:?}"
            );
        }
    }

    #[test]
    fn a_payload_fills_its_bound_and_one_byte_more_is_refused() {
        let of = |bytes: usize| {
            NewOutboxEvent::draft_raw(ID, ("t", "i"), "e", format!("\"{}\"", "x".repeat(bytes - 2))).build()
        };
        assert_eq!(of(MAX_PAYLOAD_BYTES).unwrap().payload().as_str().len(), MAX_PAYLOAD_BYTES);
        let (field, bound, actual) = (EventField::Payload, MAX_PAYLOAD_BYTES, MAX_PAYLOAD_BYTES + 1);
        assert_eq!(of(MAX_PAYLOAD_BYTES + 1), Err(InvalidEvent::TooLong { field, bound, actual }));
    }

    #[test]
    fn a_value_that_has_no_json_form_is_refused_when_the_event_is_built() {
        let keys = std::collections::HashMap::from([((1, 2), "a key that is no text")]);
        let draft = NewOutboxEvent::draft(ID, ("t", "i"), "e", &keys);
        assert!(matches!(draft.build(), Err(InvalidEvent::NotJson { .. })));
    }

    #[test]
    fn each_helper_writes_the_header_that_consumers_read() {
        let at = datetime!(2026-01-02 03:04:05 UTC);
        let event = draft()
            .idempotency_key("key")
            .occurred_at(at)
            .schema_version(3)
            .traceparent(Some("00-1-2-01"))
            .header("tenant", "t1")
            .build()
            .unwrap();
        let headers: Vec<_> = event.headers().iter().collect();
        assert_eq!(
            headers,
            [
                ("idempotencyKey", "key"),
                ("occurredAt", "2026-01-02T03:04:05Z"),
                ("schemaVersion", "3"),
                ("tenant", "t1"),
                ("traceparent", "00-1-2-01")
            ]
        );
        assert_eq!((event.headers().occurred_at(), event.headers().schema_version()), (Some(at), 3));
    }

    #[test]
    fn what_is_not_known_makes_no_header() {
        let before_christ = datetime!(-0044-03-15 12:00 UTC);
        let event = draft().traceparent(None).occurred_at(before_christ).build().unwrap();
        assert_eq!(event.headers().iter().count(), 0);
    }

    #[test]
    fn an_empty_idempotency_key_is_refused_and_another_header_may_be_empty() {
        let refused = draft().idempotency_key("").build();
        assert_eq!(refused, Err(InvalidEvent::Empty { field: EventField::IdempotencyKey }));
        assert!(draft().header("tenant", "").build().is_ok());
    }

    #[test]
    fn other_headers_replace_all_and_are_held_to_the_same_bounds() {
        let event = draft().header("a", "1").build().unwrap();
        let other =
            |name: &str, value: &str| event.clone().with_headers(BTreeMap::from([(name.to_owned(), value.to_owned())]));
        assert_eq!(other("b", "2").unwrap().headers().iter().collect::<Vec<_>>(), [("b", "2")]);
        assert!(other("b", "\n").is_err());
    }

    #[test]
    fn the_last_value_of_a_header_counts() {
        let event = draft().header("a", "1").header("a", "2").build().unwrap();
        assert_eq!(event.headers().get("a"), Some("2"));
    }

    proptest! {
        #[test]
        fn a_payload_that_is_taken_keeps_its_bytes(text in r#"[ \[\]{}",:0-9a-c\\u]{0,12}"#) {
            if let Ok(event) = NewOutboxEvent::draft_raw(ID, ("t", "i"), "e", text.clone()).build() {
                prop_assert_eq!(event.payload().as_str(), text);
            }
        }

        #[test]
        fn a_float_is_read_back_to_its_last_bit(bits in any::<u64>()) {
            let value = f64::from_bits(bits);
            prop_assume!(value.is_finite());
            let event = NewOutboxEvent::draft(ID, ("t", "i"), "e", &value).build().unwrap();
            let read: f64 = serde_json::from_str(event.payload().as_str()).unwrap();
            prop_assert_eq!(read.to_bits(), bits, "{}", event.payload().as_str());
        }
    }
}
