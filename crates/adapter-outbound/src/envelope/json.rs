//! Our own envelope: versioned JSON around the payload's bytes (rule R19).

use application_core::outbox::OutboxEvent;
use serde::Serialize;

use super::{EncodeError, checked_payload, object_with_raw_member, rfc3339};

/// The version of the envelope's own shape. It grows when a field changes its meaning or goes; new fields may appear
/// within a version, and consumers must ignore those that they do not know.
pub const ENVELOPE_VERSION: u32 = 1;

/// The envelope, its fields in the order in which they are written.
///
/// `payload` stands at the end, its bytes as they were appended: numbers of any length, key order and repeated keys
/// reach the consumer, because nothing on the way parses them into values.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OutboxEnvelopeJson<'a> {
    envelope_version: u32,
    event_id: String,
    idempotency_key: String,
    event_type: &'a str,
    aggregate_type: &'a str,
    aggregate_id: &'a str,
    sequence: i64,
    occurred_at: String,
    schema_version: u32,
}

impl OutboxEnvelopeJson<'_> {
    /// Writes an event down.
    ///
    /// # Errors
    /// [`EncodeError`] when the stored payload is not JSON, or the event's time is beyond the year 9999.
    pub fn encode(event: &OutboxEvent) -> Result<Vec<u8>, EncodeError> {
        let payload = checked_payload(event)?;
        let fields = OutboxEnvelopeJson {
            envelope_version: ENVELOPE_VERSION,
            event_id: event.id.to_string(),
            idempotency_key: event.idempotency_key(),
            event_type: event.event_type.as_str(),
            aggregate_type: event.aggregate_type.as_str(),
            aggregate_id: event.aggregate_id.as_str(),
            sequence: event.sequence.0,
            occurred_at: rfc3339("occurredAt", event.occurred_at())?,
            schema_version: event.headers.schema_version(),
        };
        object_with_raw_member(&fields, "payload", payload)
    }
}

#[cfg(test)]
mod tests {
    use application_core::outbox::Payload;
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::*;
    use crate::testing::{event, event_of};

    /// What a consumer would read.
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    struct Read<'a> {
        envelope_version: u32,
        event_id: String,
        idempotency_key: String,
        event_type: String,
        aggregate_type: String,
        aggregate_id: String,
        sequence: i64,
        occurred_at: String,
        schema_version: u32,
        #[serde(borrow)]
        payload: &'a RawValue,
    }

    fn payload_after(text: &str) -> String {
        let mut event = event();
        event.payload = Payload::from_stored(text);
        let body = OutboxEnvelopeJson::encode(&event).unwrap();
        serde_json::from_slice::<Read<'_>>(&body).unwrap().payload.get().to_owned()
    }

    #[test]
    fn numbers_key_order_and_repeated_keys_reach_the_consumer_byte_for_byte() {
        let text = r#"{"z":9223372036854775807,"a":0.10000000000000000000000000000000000001,"a":1e400,"n":-0}"#;
        assert_eq!(payload_after(text), text);
    }

    #[test]
    fn a_stored_payload_that_is_not_json_cannot_break_out_of_the_envelope() {
        for text in ["", "{", r#"1,"eventId":"forged""#, "{} {}"] {
            let mut event = event();
            event.payload = Payload::from_stored(text);
            assert!(matches!(OutboxEnvelopeJson::encode(&event), Err(EncodeError::PayloadNotJson { .. })), "{text}");
        }
    }

    #[test]
    fn a_time_beyond_the_calendar_is_refused_and_not_cut() {
        let mut event = event();
        event.created_at = time::macros::datetime!(0000-01-01 00:00 UTC) - time::Duration::days(10);
        assert!(matches!(OutboxEnvelopeJson::encode(&event), Err(EncodeError::Time { .. })));
    }

    proptest! {
        #[test]
        fn whatever_names_an_event_has_a_consumer_reads_them_back(
            aggregate in "\\PC{1,40}", id in "\\PC{1,80}", kind in "\\PC{1,40}", sequence in any::<i64>(),
        ) {
            let mut event = event_of(&aggregate, &id, &kind);
            event.sequence.0 = sequence;
            let body = OutboxEnvelopeJson::encode(&event).unwrap();
            let read: Read<'_> = serde_json::from_slice(&body).unwrap();
            prop_assert_eq!(read.envelope_version, ENVELOPE_VERSION);
            prop_assert_eq!(read.aggregate_type, aggregate);
            prop_assert_eq!(read.aggregate_id, id);
            prop_assert_eq!(read.event_type, kind);
            prop_assert_eq!(read.sequence, sequence);
            prop_assert_eq!(read.event_id, event.id.to_string());
            prop_assert_eq!(read.idempotency_key, event.idempotency_key());
            prop_assert_eq!(read.schema_version, 1);
            prop_assert!(read.occurred_at.ends_with('Z'));
        }

        #[test]
        fn any_json_text_is_taken_over_byte_for_byte(value in json_text()) {
            prop_assert_eq!(payload_after(&value), value);
        }
    }

    fn json_text() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("null".to_owned()),
            "-?(0|[1-9][0-9]{0,40})(\\.[0-9]{1,40})?([eE][+-]?[0-9]{1,4})?",
            any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap()),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(" , "))),
                prop::collection::vec(("[a-c]{1,2}", inner), 0..4).prop_map(|members| {
                    let members: Vec<_> = members.iter().map(|(key, value)| format!("\"{key}\": {value}")).collect();
                    format!("{{{}}}", members.join(","))
                }),
            ]
        })
    }
}
