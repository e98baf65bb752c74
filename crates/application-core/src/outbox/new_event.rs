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
    use std::collections::BTreeSet;

    use time::macros::datetime;
    use uuid::Uuid;

    use super::{EventDraft, NewOutboxEvent};
    use crate::outbox::{
        EventField, EventId, InvalidEvent,
        bounds::{MAX_AGGREGATE_ID_BYTES, MAX_AGGREGATE_TYPE_BYTES, MAX_EVENT_TYPE_BYTES, MAX_HEADERS_BYTES},
    };

    fn draft(aggregate_type: &str, aggregate_id: &str, event_type: &str) -> EventDraft {
        NewOutboxEvent::draft_raw(EventId::new(Uuid::nil()), (aggregate_type, aggregate_id), event_type, "{}")
    }

    fn valid() -> EventDraft {
        draft("order", "1", "OrderPlaced")
    }

    fn refusal(draft: EventDraft) -> InvalidEvent {
        draft.build().expect_err("should be refused")
    }

    #[test]
    fn an_event_within_its_bounds_keeps_what_it_was_given() {
        let event = valid()
            .idempotency_key("key")
            .occurred_at(datetime!(2026-01-02 03:04:05 UTC))
            .schema_version(2)
            .traceparent(Some("00-1-2-01"))
            .traceparent(None)
            .build()
            .expect("valid");
        assert_eq!(event.id(), EventId::new(Uuid::nil()));
        assert_eq!((event.aggregate_type().as_str(), event.aggregate_id().as_str()), ("order", "1"));
        assert_eq!((event.event_type().as_str(), event.payload().as_str()), ("OrderPlaced", "{}"));
        let headers: BTreeSet<_> = event.headers().iter().collect();
        let given = [
            ("idempotencyKey", "key"),
            ("occurredAt", "2026-01-02T03:04:05Z"),
            ("schemaVersion", "2"),
            ("traceparent", "00-1-2-01"),
        ];
        assert_eq!(headers, BTreeSet::from(given));
    }

    #[test]
    fn each_name_is_refused_beyond_its_bound_with_field_bound_and_length() {
        let of = |length: usize| "x".repeat(length);
        let (kind, id, event) = (MAX_AGGREGATE_TYPE_BYTES, MAX_AGGREGATE_ID_BYTES, MAX_EVENT_TYPE_BYTES);
        assert!(draft(&of(kind), &of(id), &of(event)).build().is_ok());
        for (draft, field, bound) in [
            (draft(&of(kind + 1), "1", "E"), EventField::AggregateType, kind),
            (draft("order", &of(id + 1), "E"), EventField::AggregateId, id),
            (draft("order", "1", &of(event + 1)), EventField::EventType, event),
        ] {
            assert_eq!(refusal(draft), InvalidEvent::TooLong { field, bound, actual: bound + 1 });
        }
    }

    #[test]
    fn an_empty_name_and_a_control_character_are_refused() {
        for (draft, field) in [
            (draft("", "1", "E"), EventField::AggregateType),
            (draft("order", "", "E"), EventField::AggregateId),
            (draft("order", "1", ""), EventField::EventType),
            (valid().header("", "value"), EventField::HeaderName),
        ] {
            assert_eq!(refusal(draft), InvalidEvent::Empty { field });
        }
        for (draft, met) in [
            (draft("or\0der", "1", "E"), EventField::AggregateType),
            (draft("order", "\n", "E"), EventField::AggregateId),
            (draft("order", "1", "E\u{7f}"), EventField::EventType),
            (valid().header("name", "\0"), EventField::HeaderValue),
        ] {
            assert!(matches!(refusal(draft), InvalidEvent::Forbidden { field, .. } if field == met), "{met}");
        }
    }

    #[test]
    fn headers_over_their_budget_are_refused_together() {
        let half = "x".repeat(MAX_HEADERS_BYTES / 2);
        assert!(valid().header("a", half.clone()).build().is_ok());
        let refusal = refusal(valid().header("a", half.clone()).header("b", half));
        assert!(
            matches!(refusal, InvalidEvent::TooLong { field: EventField::Headers, bound: MAX_HEADERS_BYTES, .. }),
            "{refusal}"
        );
    }

    #[test]
    fn a_payload_that_cannot_be_encoded_is_refused_when_the_event_is_built() {
        let broken = NewOutboxEvent::draft_raw(EventId::new(Uuid::nil()), ("order", "1"), "E", "{");
        assert!(matches!(refusal(broken), InvalidEvent::NotJson { .. }));
        let encoded = NewOutboxEvent::draft(EventId::new(Uuid::nil()), ("order", "1"), "E", &[1, 2]);
        assert_eq!(encoded.build().expect("valid").payload().as_str(), "[1,2]");
    }
}
