//! From a delivery's bytes and properties to a message of the core.
//!
//! Three forms are read: the envelope of version 1, CloudEvents 1.0 (structured and binary), and `raw`, where the body is
//! the payload and everything else stands in headers. What a body lacks is taken from the headers `x-…`; unknown fields
//! are passed over, and of repeated fields the last one counts.

mod error;
mod fields;
mod headers;
mod identity;

use application_core::{
    inbox::InboundMessage,
    outbox::{AggregateId, AggregateType, EventId, EventType, Payload, Sequence, bounds::MAX_HEADERS_BYTES},
};
use lapin::BasicProperties;
use serde::{Deserialize, Serialize};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

pub use error::DecodeError;
use fields::Fields;
use headers::Headers;
pub(super) use identity::Identity;

/// The envelope's version that is read.
pub const ENVELOPE_VERSION: &str = "1";
/// The version of CloudEvents that is read.
pub const CLOUD_EVENTS_VERSION: &str = "1.0";

/// How a body is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MessageFormat {
    /// As its content type, its headers and its fields say. A raw payload that has a field `envelopeVersion` itself is
    /// taken for an envelope; choose [`Self::Raw`] where that can happen.
    #[default]
    Auto,
    /// As an envelope.
    Envelope,
    /// As a `CloudEvent`, structured or binary.
    CloudEvents,
    /// As the payload alone.
    Raw,
}

const ENVELOPE_FIELDS: &[&str] = &[
    "envelopeVersion",
    "eventId",
    "idempotencyKey",
    "eventType",
    "aggregateType",
    "aggregateId",
    "sequence",
    "occurredAt",
    "schemaVersion",
    "payload",
];

const CLOUD_EVENTS_FIELDS: &[&str] = &[
    "specversion",
    "id",
    "idempotencykey",
    "type",
    "aggregatetype",
    "aggregateid",
    "partitionkey",
    "subject",
    "sequence",
    "time",
    "schemaversion",
    "data",
    "data_base64",
];

/// The parts of a message as texts, before any of them is checked.
#[derive(Debug, Default)]
struct Parts {
    id: Option<String>,
    idempotency_key: Option<String>,
    event_type: Option<String>,
    aggregate_type: Option<String>,
    aggregate_id: Option<String>,
    sequence: Option<String>,
    occurred_at: Option<String>,
    schema_version: Option<String>,
    payload: Option<String>,
}

/// Reads a delivery.
///
/// Memory is bounded by a small multiple of the body and headers, and no input panics.
///
/// # Errors
/// [`DecodeError`] names the field and what was wrong with it; payloads never appear in it.
pub fn decode(
    format: MessageFormat,
    max_body_bytes: usize,
    properties: &BasicProperties,
    body: &[u8],
) -> Result<InboundMessage, DecodeError> {
    if body.len() > max_body_bytes {
        return Err(DecodeError::TooLarge { bound: max_body_bytes, actual: body.len() });
    }
    let headers = Headers::new(properties);
    headers.check_encoding()?;
    let text = std::str::from_utf8(body).map_err(|error| DecodeError::NotText { offset: error.valid_up_to() })?;
    let parts = match format {
        MessageFormat::Auto => guess(&headers, text)?,
        MessageFormat::Envelope => from_envelope(&Fields::read(text, ENVELOPE_FIELDS)?)?,
        MessageFormat::CloudEvents => from_cloud_event(&headers, text)?,
        MessageFormat::Raw => Parts { payload: Some(text.to_owned()), ..Parts::default() },
    };
    assemble(parts, &headers)
}

fn guess(headers: &Headers<'_>, text: &str) -> Result<Parts, DecodeError> {
    if headers.is_structured_cloud_event() || headers.is_binary_cloud_event() {
        return from_cloud_event(headers, text);
    }
    let fields = Fields::read(text, ENVELOPE_FIELDS);
    match fields {
        Ok(fields) if fields.has("envelopeVersion") => from_envelope(&fields),
        _ if headers.describe_an_event() => Ok(Parts { payload: Some(text.to_owned()), ..Parts::default() }),
        Ok(_) => Err(DecodeError::UnknownFormat),
        Err(error) => Err(error),
    }
}

fn from_envelope(fields: &Fields<'_>) -> Result<Parts, DecodeError> {
    check_version("envelopeVersion", ENVELOPE_VERSION, fields.text("envelopeVersion")?)?;
    Ok(Parts {
        id: fields.text("eventId")?,
        idempotency_key: fields.text("idempotencyKey")?,
        event_type: fields.text("eventType")?,
        aggregate_type: fields.text("aggregateType")?,
        aggregate_id: fields.text("aggregateId")?,
        sequence: fields.text("sequence")?,
        occurred_at: fields.text("occurredAt")?,
        schema_version: fields.text("schemaVersion")?,
        payload: fields.raw("payload").map(ToOwned::to_owned),
    })
}

fn from_cloud_event(headers: &Headers<'_>, text: &str) -> Result<Parts, DecodeError> {
    if headers.is_structured_cloud_event() {
        let fields = Fields::read(text, CLOUD_EVENTS_FIELDS)?;
        if !fields.has("data") && fields.has("data_base64") {
            return Err(DecodeError::Unsupported { field: "data_base64", actual: "binary data".to_owned() });
        }
        let payload = fields.raw("data").map(ToOwned::to_owned);
        return cloud_event_parts(payload, &|name| fields.text(name), headers);
    }
    cloud_event_parts(Some(text.to_owned()), &|name| headers.cloud_event_attribute(name), headers)
}

fn cloud_event_parts(
    payload: Option<String>,
    attribute: &dyn Fn(&'static str) -> Result<Option<String>, DecodeError>,
    headers: &Headers<'_>,
) -> Result<Parts, DecodeError> {
    check_version("specversion", CLOUD_EVENTS_VERSION, attribute("specversion")?)?;
    let mut aggregate_id = attribute("aggregateid")?.or(headers.text("x-aggregate-id")?);
    for name in ["partitionkey", "subject"] {
        if aggregate_id.is_none() {
            aggregate_id = attribute(name)?;
        }
    }
    Ok(Parts {
        id: attribute("id")?,
        idempotency_key: attribute("idempotencykey")?,
        event_type: attribute("type")?,
        aggregate_type: attribute("aggregatetype")?,
        aggregate_id,
        sequence: attribute("sequence")?,
        occurred_at: attribute("time")?,
        schema_version: attribute("schemaversion")?,
        payload,
    })
}

fn check_version(field: &'static str, supported: &'static str, actual: Option<String>) -> Result<(), DecodeError> {
    match actual {
        None => Err(DecodeError::Missing { field }),
        Some(version) if version == supported => Ok(()),
        Some(version) => Err(DecodeError::unsupported(field, &version)),
    }
}

/// Checks the parts, taking from the headers what the body did not say.
fn assemble(parts: Parts, headers: &Headers<'_>) -> Result<InboundMessage, DecodeError> {
    let or_header = |part: Option<String>, name| match part {
        Some(text) => Ok(Some(text)),
        None => headers.text(name),
    };
    let id = or_header(parts.id, "x-event-id")?.or_else(|| headers.message_id());
    let id: EventId = parse("eventId", "a UUID", &required("eventId", id)?)?;
    let event_type = or_header(parts.event_type, "x-event-type")?.or_else(|| headers.message_type());
    let aggregate_type = required("aggregateType", or_header(parts.aggregate_type, "x-aggregate-type")?)?;
    let aggregate_id = required("aggregateId", or_header(parts.aggregate_id, "x-aggregate-id")?)?;
    let sequence = required("sequence", or_header(parts.sequence, "x-sequence")?)?;
    let idempotency_key = or_header(parts.idempotency_key, "x-idempotency-key")?;
    Ok(InboundMessage {
        id,
        event_type: EventType::try_new(required("eventType", event_type)?)?,
        aggregate_type: AggregateType::try_new(aggregate_type)?,
        aggregate_id: AggregateId::try_new(aggregate_id)?,
        sequence: Sequence(parse("sequence", "a whole number of 64 bits", &sequence)?),
        schema_version: schema_version(or_header(parts.schema_version, "x-schema-version")?)?,
        idempotency_key: checked_key(idempotency_key.unwrap_or_else(|| id.to_string()))?,
        occurred_at: occurred_at(or_header(parts.occurred_at, "x-occurred-at")?, headers)?,
        replay: headers.flag("x-replay"),
        payload: Payload::try_new(required("payload", parts.payload)?)?,
        headers: headers.carried(),
    })
}

fn required(field: &'static str, part: Option<String>) -> Result<String, DecodeError> {
    part.ok_or(DecodeError::Missing { field })
}

fn parse<T: std::str::FromStr>(field: &'static str, expected: &'static str, text: &str) -> Result<T, DecodeError> {
    text.parse().map_err(|_unshown| DecodeError::invalid(field, expected, text))
}

fn schema_version(text: Option<String>) -> Result<u32, DecodeError> {
    let (field, expected) = ("schemaVersion", "a whole number from 1");
    match text {
        None => Ok(1),
        Some(text) => match text.parse() {
            Ok(version) if version > 0 => Ok(version),
            _ => Err(DecodeError::invalid(field, expected, &text)),
        },
    }
}

fn checked_key(key: String) -> Result<String, DecodeError> {
    if key.is_empty() || key.len() > MAX_HEADERS_BYTES || key.chars().any(char::is_control) {
        let expected = "1 to 16,384 bytes without control characters";
        return Err(DecodeError::invalid("idempotencyKey", expected, &key));
    }
    Ok(key)
}

fn occurred_at(text: Option<String>, headers: &Headers<'_>) -> Result<OffsetDateTime, DecodeError> {
    match text {
        Some(text) => OffsetDateTime::parse(&text, &Rfc3339)
            .map_err(|_unshown| DecodeError::invalid("occurredAt", "a time as in RFC 3339", &text)),
        None => headers.timestamp()?.ok_or(DecodeError::Missing { field: "occurredAt" }),
    }
}

#[cfg(test)]
mod tests;
