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
