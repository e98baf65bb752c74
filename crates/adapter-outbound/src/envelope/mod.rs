//! How an event is written down: one file a format (rule R19).
//!
//! # Adding a format
//! 1. Write `envelope/<format>.rs` with a function from an event to [`Encoded`]; the payload's bytes go in untouched.
//! 2. Add it to [`EnvelopeFormat`] and to [`Envelope::encode`].
//! 3. Add a golden file in `tests/golden/` and its line to the test below.

mod cloudevents;
mod json;
mod raw;

use application_core::outbox::{FailureClass, OutboxEvent, PublishFailure};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use time::{OffsetDateTime, UtcOffset, format_description::well_known::Rfc3339};

use self::cloudevents::CloudEvents;
pub(crate) use self::cloudevents::HEADER_PREFIX as CLOUDEVENTS_PREFIX;
pub use self::json::{ENVELOPE_VERSION, OutboxEnvelopeJson};
use application_core::SettingProblem;

/// The forms an event can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EnvelopeFormat {
    /// Our own versioned JSON envelope.
    #[default]
    Json,
    /// CloudEvents 1.0: one JSON document with attributes and data.
    #[serde(rename = "cloudevents-structured")]
    CloudEventsStructured,
    /// CloudEvents 1.0: attributes in headers, the payload as the body.
    #[serde(rename = "cloudevents-binary")]
    CloudEventsBinary,
    /// The payload as the body; what else there is travels in the publisher's headers.
    Raw,
}

/// The form of messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EnvelopeSettings {
    /// The format.
    pub format: EnvelopeFormat,
    /// The CloudEvents attribute `source`: a URI reference that names this service; at most 1,024 bytes.
    pub source: String,
}

impl Default for EnvelopeSettings {
    fn default() -> Self {
        Self { format: EnvelopeFormat::default(), source: "/outbox".to_owned() }
    }
}

impl EnvelopeSettings {
    /// Everything that is wrong; keys begin with `prefix`.
    #[must_use]
    pub fn problems(&self, prefix: &str) -> Vec<SettingProblem> {
        let usable = (1..=1_024).contains(&self.source.len())
            && !self.source.chars().any(|c| c.is_control() || c.is_whitespace());
        if usable {
            return Vec::new();
        }
        let bound = "it must be a URI reference of 1 to 1,024 bytes without white space";
        vec![SettingProblem::new(format!("{prefix}.source"), format_args!("{:?}", self.source), bound)]
    }
}

/// The encoder that the settings ask for.
#[derive(Debug, Clone)]
pub struct Envelope(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Json,
    Structured(CloudEvents),
    Binary(CloudEvents),
    Raw,
}

/// An event, written down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    /// The media type of the body.
    pub content_type: &'static str,
    /// The body.
    pub body: Vec<u8>,
    /// Headers that belong to the format, besides those that the publisher always adds.
    pub headers: Vec<(String, String)>,
}

/// An event that cannot be written down.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The stored payload is not one JSON value; another writer must have put it there.
    #[error("the payload is not one JSON value")]
    PayloadNotJson {
        /// What the parser says; it holds no content.
        #[source]
        source: serde_json::Error,
    },
    /// A time lies outside the years 0 to 9999.
    #[error("the time {field} cannot be written in RFC 3339")]
    Time {
        /// The field.
        field: &'static str,
        /// What the formatter says.
        #[source]
        source: time::error::Format,
    },
    /// The fields around the payload cannot be written.
    #[error("the envelope cannot be written")]
    Fields {
        /// What the serializer says.
        #[source]
        source: serde_json::Error,
    },
}

impl From<EncodeError> for PublishFailure {
    fn from(error: EncodeError) -> Self {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        Self::new(FailureClass::Poison, format!("{error}{cause}"))
    }
}

impl Envelope {
    /// Takes over the settings.
    #[must_use]
    pub fn new(settings: &EnvelopeSettings) -> Self {
        let source = || CloudEvents::new(&settings.source);
        Self(match settings.format {
            EnvelopeFormat::Json => Kind::Json,
            EnvelopeFormat::CloudEventsStructured => Kind::Structured(source()),
            EnvelopeFormat::CloudEventsBinary => Kind::Binary(source()),
            EnvelopeFormat::Raw => Kind::Raw,
        })
    }

    /// Writes an event down.
    ///
    /// # Errors
    /// [`EncodeError`]; as a [`PublishFailure`] it is of class *poison*.
    pub fn encode(&self, event: &OutboxEvent) -> Result<Encoded, EncodeError> {
        match &self.0 {
            Kind::Json => Ok(Encoded {
                content_type: "application/json",
                body: OutboxEnvelopeJson::encode(event)?,
                headers: Vec::new(),
            }),
            Kind::Structured(cloudevents) => cloudevents.structured(event),
            Kind::Binary(cloudevents) => cloudevents.binary(event),
            Kind::Raw => raw::encode(event),
        }
    }
}

/// The time in UTC.
pub(crate) fn rfc3339(field: &'static str, time: OffsetDateTime) -> Result<String, EncodeError> {
    // Near the ends of the calendar another offset may be out of range; the formatter then refuses the year.
    let time = time.checked_to_offset(UtcOffset::UTC).unwrap_or(time);
    time.format(&Rfc3339).map_err(|source| EncodeError::Time { field, source })
}

/// The payload's bytes, seen to be one JSON value so that what surrounds them stays readable.
fn checked_payload(event: &OutboxEvent) -> Result<&str, EncodeError> {
    let text = event.payload.as_str();
    serde_json::from_str::<&RawValue>(text).map_err(|source| EncodeError::PayloadNotJson { source })?;
    Ok(text)
}

/// A JSON object of `fields` with one more member at its end, whose value is taken over byte for byte.
fn object_with_raw_member(fields: &impl Serialize, name: &str, raw: &str) -> Result<Vec<u8>, EncodeError> {
    let mut json = Vec::with_capacity(raw.len() + 512);
    serde_json::to_writer(&mut json, fields).map_err(|source| EncodeError::Fields { source })?;
    // Drops the closing brace.
    json.pop();
    json.extend_from_slice(b",\"");
    json.extend_from_slice(name.as_bytes());
    json.extend_from_slice(b"\":");
    json.extend_from_slice(raw.as_bytes());
    json.push(b'}');
    Ok(json)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, fmt::Write};

    use application_core::outbox::{EventHeaders, Payload};

    use super::*;
    use crate::testing::event;

    /// An event that uses everything, with a payload that any re-encoding would change.
    fn golden_event() -> OutboxEvent {
        let mut event = event();
        event.payload = Payload::try_new(
            "{ \"minutes\": 9223372036854775807,\t\"rate\":0.10000000000000000000000001, \"a\":\"\\u00e9é\", \"a\":[ ] }",
        )
        .unwrap();
        let headers = [
            ("idempotencyKey", "reserve \"42\""),
            ("occurredAt", "2026-01-02T04:04:05.5+01:00"),
            ("schemaVersion", "3"),
            ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
            ("tenant", "acme"),
        ];
        let headers: BTreeMap<_, _> = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        event.headers = EventHeaders::try_new(headers).unwrap();
        event
    }

    /// Content type, headers and body as a text file.
    fn shown(format: EnvelopeFormat, event: &OutboxEvent) -> String {
        let settings = EnvelopeSettings { format, source: "/portfolio".to_owned() };
        let encoded = Envelope::new(&settings).encode(event).unwrap();
        let mut text = format!("content-type: {}\n", encoded.content_type);
        for (name, value) in &encoded.headers {
            writeln!(text, "{name}: {value}").unwrap();
        }
        writeln!(text, "\n{}", String::from_utf8(encoded.body).unwrap()).unwrap();
        text
    }

    #[test]
    fn every_format_writes_what_its_golden_file_holds() {
        let golden = [
            (EnvelopeFormat::Json, include_str!("../../tests/golden/json.v1.txt")),
            (EnvelopeFormat::CloudEventsStructured, include_str!("../../tests/golden/cloudevents-structured.v1.txt")),
            (EnvelopeFormat::CloudEventsBinary, include_str!("../../tests/golden/cloudevents-binary.v1.txt")),
            (EnvelopeFormat::Raw, include_str!("../../tests/golden/raw.v1.txt")),
        ];
        for (format, expected) in golden {
            assert_eq!(shown(format, &golden_event()), expected, "{format:?}");
        }
    }

    #[test]
    fn no_format_lets_a_stored_payload_through_that_is_not_json() {
        let mut event = event();
        event.payload = Payload::from_stored("{\"a\":1}, \"id\": 2");
        let formats = ["json", "cloudevents-structured", "cloudevents-binary", "raw"];
        for format in formats.map(|name| serde_json::from_str(&format!("\"{name}\"")).unwrap()) {
            let settings = EnvelopeSettings { format, ..EnvelopeSettings::default() };
            let failure = PublishFailure::from(Envelope::new(&settings).encode(&event).unwrap_err());
            assert_eq!(failure.class(), FailureClass::Poison);
        }
    }
}
