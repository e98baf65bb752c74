//! An event as an AMQP message: body, properties and headers (rule R18).

use application_core::outbox::{
    FailureClass, OutboxEvent, PublishFailure,
    headers::{IDEMPOTENCY_KEY, OCCURRED_AT, SCHEMA_VERSION, TRACEPARENT},
};
use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable, ShortString},
};
use uuid::Uuid;

use super::{connection::Bounds, failure::too_large};
use crate::envelope::{Encoded, Envelope, rfc3339};

/// Header: the event's identity, by which consumers recognise a redelivery.
pub const X_EVENT_ID: &str = "x-event-id";
/// Header: the aggregate's type.
pub const X_AGGREGATE_TYPE: &str = "x-aggregate-type";
/// Header: the aggregate's identity, and the partition key.
pub const X_AGGREGATE_ID: &str = "x-aggregate-id";
/// Header: the event's type, as in the property `type`.
pub const X_EVENT_TYPE: &str = "x-event-type";
/// Header: the event's place in the order of its aggregate, a number.
pub const X_SEQUENCE: &str = "x-sequence";
/// Header: which attempt this is, a number from 1.
pub const X_ATTEMPT: &str = "x-attempt";
/// Header: how often an operator sent the event again after it had been published, a number.
pub const X_REPLAY: &str = "x-replay";
/// Header: the version of the payload's schema, a number from 1.
pub const X_SCHEMA_VERSION: &str = "x-schema-version";
/// Header: the key by which a consumer recognises the same business operation.
pub const X_IDEMPOTENCY_KEY: &str = "x-idempotency-key";
/// Header: when the change happened, RFC 3339.
pub const X_OCCURRED_AT: &str = "x-occurred-at";
/// What precedes the names of all other headers of an event. As they are, some would change what the broker does:
/// `CC` and `BCC` route copies elsewhere, others close the channel.
pub const EVENT_HEADER_PREFIX: &str = "x-header-";

/// Headers of an event that keep their names: tracing tools look for them.
pub(crate) const TRACE_HEADERS: [&str; 3] = [TRACEPARENT, "tracestate", "baggage"];
/// Survives a restart of the broker.
const PERSISTENT: u8 = 2;
/// What a frame holds besides the properties: its own head and end, and the content header's fixed fields.
const FRAME_OVERHEAD: usize = 8 + 14;

/// Turns events into messages.
#[derive(Debug, Clone)]
pub(super) struct MessageEncoder {
    envelope: Envelope,
    app_id: Option<ShortString>,
    max_bytes: usize,
}

/// A message, ready to be sent.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) id: Uuid,
    pub(super) body: Vec<u8>,
    pub(super) properties: BasicProperties,
    /// How much of a frame the properties take.
    pub(super) properties_bytes: usize,
}

impl MessageEncoder {
    /// Takes over the settings, which must have been seen to be valid.
    pub(super) fn new(envelope: Envelope, app_id: Option<&str>, max_bytes: u64) -> Self {
        Self {
            envelope,
            app_id: app_id.and_then(|id| ShortString::try_new(id).ok()),
            max_bytes: usize::try_from(max_bytes).unwrap_or(usize::MAX),
        }
    }

    /// Writes the event down.
    ///
    /// # Errors
    /// A failure of class *poison* when it cannot be written down or is too large.
    pub(super) fn encode(&self, event: &OutboxEvent) -> Result<Message, PublishFailure> {
        let Encoded { content_type, body, headers: of_format } = self.envelope.encode(event)?;
        if body.len() > self.max_bytes {
            too_large(body.len(), self.max_bytes)?;
        }
        let headers = headers(event, of_format)?;
        let kind = short("event type", event.event_type.as_str())?;
        let mut short_bytes = content_type.len() + kind.as_str().len() + 36 + 5;
        let mut properties = BasicProperties::default()
            .with_content_type(short("content type", content_type)?)
            .with_content_encoding("utf-8".into())
            .with_delivery_mode(PERSISTENT)
            .with_message_id(short("event id", &event.id.to_string())?)
            .with_type(kind);
        if let Ok(seconds) = u64::try_from(event.occurred_at().unix_timestamp()) {
            properties = properties.with_timestamp(seconds);
        }
        if let Some(app_id) = &self.app_id {
            short_bytes += app_id.as_str().len();
            properties = properties.with_app_id(app_id.clone());
        }
        // One length byte for each of five short texts, a mode byte and a timestamp.
        let properties_bytes = FRAME_OVERHEAD + short_bytes + 5 + 1 + 8 + table_bytes(&headers);
        Ok(Message { id: event.id.as_uuid(), body, properties: properties.with_headers(headers), properties_bytes })
    }
}

impl Message {
    /// Whether the broker can take the message.
    ///
    /// # Errors
    /// A failure of class *poison*. Sent all the same, properties over a frame would make the client wait for ever or
    /// the broker end the connection, and a body over the broker's limit would cost the channel.
    pub(super) fn check(&self, bounds: &Bounds) -> Result<(), PublishFailure> {
        if self.body.len() > bounds.body {
            too_large(self.body.len(), bounds.body)?;
        }
        if self.properties_bytes > bounds.frame {
            let (needed, frame) = (self.properties_bytes, bounds.frame);
            let reason = format!("the headers need {needed} bytes of a frame; the broker's frames have {frame}");
            return Err(PublishFailure::new(FailureClass::Poison, reason));
        }
        Ok(())
    }
}

fn headers(event: &OutboxEvent, of_format: Vec<(String, String)>) -> Result<FieldTable, PublishFailure> {
    let text = |value: &str| AMQPValue::LongString(value.into());
    let number = |value: i64| AMQPValue::LongLongInt(value);
    let mut table = FieldTable::default();
    for (name, value) in [
        (X_EVENT_ID, text(&event.id.to_string())),
        (X_EVENT_TYPE, text(event.event_type.as_str())),
        (X_AGGREGATE_TYPE, text(event.aggregate_type.as_str())),
        (X_AGGREGATE_ID, text(event.aggregate_id.as_str())),
        (X_SEQUENCE, number(event.sequence.0)),
        (X_ATTEMPT, number(i64::from(event.attempts) + 1)),
        (X_REPLAY, number(i64::from(event.replays))),
        (X_SCHEMA_VERSION, number(i64::from(event.headers.schema_version()))),
        (X_IDEMPOTENCY_KEY, text(&event.idempotency_key())),
        (X_OCCURRED_AT, text(&rfc3339(X_OCCURRED_AT, event.occurred_at())?)),
    ] {
        table.insert(name.into(), value);
    }
    for (name, value) in event.headers.iter() {
        match name {
            IDEMPOTENCY_KEY | OCCURRED_AT | SCHEMA_VERSION => {}
            name if TRACE_HEADERS.contains(&name) => {
                table.insert(short("header name", name)?, text(value));
            }
            name => {
                let name = short("header name", &format!("{EVENT_HEADER_PREFIX}{name}"))?;
                table.insert(name, text(value));
            }
        }
    }
    for (name, value) in of_format {
        table.insert(short("header name", &name)?, text(&value));
    }
    Ok(table)
}

fn short(what: &str, text: &str) -> Result<ShortString, PublishFailure> {
    ShortString::try_new(text).map_err(|_too_long| {
        let reason = format!("the {what} has {} bytes; AMQP carries 255", text.len());
        PublishFailure::new(FailureClass::Poison, reason)
    })
}

/// The length of a table of texts and 64-bit numbers on the wire: a length, then name, kind and value of each.
fn table_bytes(table: &FieldTable) -> usize {
    let values = table.inner().iter().map(|(name, value)| {
        let value = match value {
            AMQPValue::LongString(text) => 4 + text.as_bytes().len(),
            _ => 8,
        };
        1 + name.as_str().len() + 1 + value
    });
    4 + values.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use application_core::outbox::{EventHeaders, EventType, Payload};
    use proptest::prelude::*;

    use super::*;
    use crate::{
        envelope::{EnvelopeFormat, EnvelopeSettings},
        testing::event,
    };

    fn encoder(format: EnvelopeFormat, max_bytes: u64) -> MessageEncoder {
        let envelope = Envelope::new(&EnvelopeSettings { format, ..EnvelopeSettings::default() });
        MessageEncoder::new(envelope, Some("portfolio"), max_bytes)
    }

    fn with_headers(headers: &[(&str, &str)]) -> OutboxEvent {
        let mut event = event();
        let headers: BTreeMap<_, _> = headers.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        event.headers = EventHeaders::from_stored(headers);
        event
    }

    fn table(message: &Message) -> BTreeMap<String, AMQPValue> {
        let headers = message.properties.headers().as_ref().unwrap();
        headers.inner().iter().map(|(name, value)| (name.to_string(), value.clone())).collect()
    }

    #[test]
    fn a_message_carries_what_rule_r18_lists() {
        let mut event = with_headers(&[(TRACEPARENT, "00-1-2-01"), (IDEMPOTENCY_KEY, "key-1"), (SCHEMA_VERSION, "3")]);
        event.attempts = 2;
        event.replays = 1;
        let message = encoder(EnvelopeFormat::Json, 1_000).encode(&event).unwrap();
        let properties = &message.properties;
        assert_eq!(properties.message_id().as_ref().unwrap().as_str(), event.id.to_string());
        assert_eq!(properties.delivery_mode(), &Some(2));
        assert_eq!(properties.content_type().as_ref().unwrap().as_str(), "application/json");
        assert_eq!(properties.kind().as_ref().unwrap().as_str(), "WorkLogReserved");
        assert_eq!(properties.timestamp(), &Some(1_767_323_045));
        assert_eq!(properties.app_id().as_ref().unwrap().as_str(), "portfolio");
        let id = event.id.to_string();
        let expected: BTreeMap<String, AMQPValue> = [
            ("traceparent", AMQPValue::LongString("00-1-2-01".into())),
            (X_EVENT_ID, AMQPValue::LongString(id.as_str().into())),
            (X_EVENT_TYPE, AMQPValue::LongString("WorkLogReserved".into())),
            (X_AGGREGATE_TYPE, AMQPValue::LongString("work-log".into())),
            (X_AGGREGATE_ID, AMQPValue::LongString("b7c1".into())),
            (X_SEQUENCE, AMQPValue::LongLongInt(42)),
            (X_ATTEMPT, AMQPValue::LongLongInt(3)),
            (X_REPLAY, AMQPValue::LongLongInt(1)),
            (X_SCHEMA_VERSION, AMQPValue::LongLongInt(3)),
            (X_IDEMPOTENCY_KEY, AMQPValue::LongString("key-1".into())),
            (X_OCCURRED_AT, AMQPValue::LongString("2026-01-02T03:04:05.678901Z".into())),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
        assert_eq!(table(&message), expected);
    }

    #[test]
    fn a_header_with_a_meaning_for_the_broker_is_carried_under_another_name() {
        let message = encoder(EnvelopeFormat::Json, 1_000).encode(&with_headers(&[("CC", "elsewhere")])).unwrap();
        let table = table(&message);
        assert!(!table.contains_key("CC"));
        assert_eq!(table["x-header-CC"], AMQPValue::LongString("elsewhere".into()));
    }

    #[test]
    fn an_event_cannot_forge_the_publishers_headers() {
        let message = encoder(EnvelopeFormat::Json, 1_000).encode(&with_headers(&[(X_EVENT_ID, "forged")])).unwrap();
        assert_eq!(table(&message)[X_EVENT_ID], AMQPValue::LongString(event().id.to_string().as_str().into()));
    }

    #[test]
    fn a_body_over_the_limit_is_poison_before_it_is_sent() {
        let mut event = event();
        event.payload = Payload::from_stored(format!("\"{}\"", "x".repeat(98)));
        assert!(encoder(EnvelopeFormat::Raw, 100).encode(&event).is_ok());
        let failure = encoder(EnvelopeFormat::Raw, 99).encode(&event).unwrap_err();
        assert_eq!(failure.class(), FailureClass::Poison);
        assert_eq!(failure.reason(), "the message has 100 bytes; the limit is 99");
    }

    #[test]
    fn a_name_that_amqp_cannot_carry_is_poison_and_no_panic() {
        let mut long_type = event();
        long_type.event_type = EventType::from_stored("t".repeat(256));
        let long_header = with_headers(&[("h".repeat(247).as_str(), "")]);
        for event in [long_type, long_header] {
            let failure = encoder(EnvelopeFormat::Raw, 1_000).encode(&event).unwrap_err();
            assert_eq!(failure.class(), FailureClass::Poison);
        }
        assert!(encoder(EnvelopeFormat::Raw, 1_000).encode(&with_headers(&[("h".repeat(246).as_str(), "")])).is_ok());
    }

    #[test]
    fn headers_that_do_not_fit_in_a_frame_are_poison() {
        let message = encoder(EnvelopeFormat::Raw, 1_000).encode(&with_headers(&[("a", &"v".repeat(4_000))])).unwrap();
        let class_in = |frame, body| message.check(&Bounds { frame, body }).err().map(|failure| failure.class());
        assert_eq!(class_in(131_072, 14), None);
        assert_eq!(class_in(4_096, 14), Some(FailureClass::Poison));
        assert_eq!(class_in(131_072, 13), Some(FailureClass::Poison));
    }

    proptest! {
        #[test]
        fn the_bytes_of_a_frame_are_never_counted_too_low(
            headers in prop::collection::btree_map("\\PC{1,30}", "\\PC{0,100}", 0..20), binary in any::<bool>(),
        ) {
            let mut event = event();
            event.headers = EventHeaders::from_stored(headers);
            let format = if binary { EnvelopeFormat::CloudEventsBinary } else { EnvelopeFormat::Raw };
            let message = encoder(format, 100_000).encode(&event).unwrap();
            let headers = message.properties.headers().as_ref().unwrap();
            let wire: usize = headers.inner().iter().map(|(name, value)| {
                let value = value.as_long_string().map_or(8, |text| 4 + text.as_bytes().len());
                2 + name.as_str().len() + value
            }).sum();
            prop_assert!(message.properties_bytes > wire + FRAME_OVERHEAD);
            prop_assert!(message.properties_bytes < wire + FRAME_OVERHEAD + 300);
        }
    }
}
