//! A delivery's properties and header table, read as texts.

use std::collections::BTreeMap;

use application_core::outbox::{EventHeaders, bounds::MAX_HEADERS_BYTES, headers::TRACEPARENT};
use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable},
};
use time::OffsetDateTime;

use super::error::DecodeError;

/// How attributes of a binary `CloudEvent` are marked: as the AMQP binding says, as its JMS-safe form, and as HTTP bridges
/// leave them.
const CLOUD_EVENTS_PREFIXES: [&str; 4] = ["cloudEvents:", "cloudEvents_", "ce-", "ce_"];

/// What the publisher puts before the names of an event's own headers.
const EVENT_HEADER_PREFIX: &str = "x-header-";
/// Headers that the message's own fields, the broker or the parking queue hold already.
const NOT_CARRIED: [&str; 7] =
    ["cloudEvents_", "x-parked-", "x-original-", "x-death", "x-first-death-", "x-delivery-count", "x-unpark"];
const KNOWN: [&str; 12] = [
    "CC",
    "BCC",
    "x-event-id",
    "x-event-type",
    "x-aggregate-type",
    "x-aggregate-id",
    "x-sequence",
    "x-attempt",
    "x-replay",
    "x-schema-version",
    "x-idempotency-key",
    "x-occurred-at",
];

pub(super) struct Headers<'a> {
    properties: &'a BasicProperties,
    table: Option<&'a FieldTable>,
}

impl<'a> Headers<'a> {
    pub(super) fn new(properties: &'a BasicProperties) -> Self {
        Self { properties, table: properties.headers().as_ref() }
    }

    pub(super) fn check_encoding(&self) -> Result<(), DecodeError> {
        match self.properties.content_encoding().as_ref().map(lapin::types::ShortString::as_str) {
            Some(encoding) if !["", "identity", "utf-8", "utf8"].contains(&encoding.to_ascii_lowercase().as_str()) => {
                Err(DecodeError::unsupported("content-encoding", encoding))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn is_structured_cloud_event(&self) -> bool {
        let content_type = self.properties.content_type().as_ref().map_or("", lapin::types::ShortString::as_str);
        let essence = content_type.split(';').next().unwrap_or("").trim();
        essence.eq_ignore_ascii_case("application/cloudevents+json")
    }

    pub(super) fn is_binary_cloud_event(&self) -> bool {
        CLOUD_EVENTS_PREFIXES.iter().any(|prefix| self.get(&format!("{prefix}specversion")).is_some())
    }

    /// Whether the headers say enough to take the body for a bare payload.
    pub(super) fn describe_an_event(&self) -> bool {
        self.get("x-aggregate-type").is_some() && self.get("x-aggregate-id").is_some()
    }

    /// An attribute of a binary `CloudEvent`.
    pub(super) fn cloud_event_attribute(&self, name: &str) -> Result<Option<String>, DecodeError> {
        for prefix in CLOUD_EVENTS_PREFIXES {
            if let Some(text) = self.text(&format!("{prefix}{name}"))? {
                return Ok(Some(text));
            }
        }
        Ok(None)
    }

    /// A header as text: texts, numbers and truth values are read; nothing is like no header.
    pub(super) fn text(&self, name: &str) -> Result<Option<String>, DecodeError> {
        match self.get(name) {
            None | Some(AMQPValue::Void) => Ok(None),
            Some(value) => match as_text(value) {
                Some(text) => Ok(Some(text)),
                None => Err(DecodeError::invalid(name, "a text or a number", &value.get_type().to_string())),
            },
        }
    }

    /// Whether a header says yes; anything unreadable says no.
    pub(super) fn flag(&self, name: &str) -> bool {
        let text = self.text(name).ok().flatten().unwrap_or_default();
        !matches!(text.to_ascii_lowercase().as_str(), "" | "0" | "false" | "no")
    }

    pub(super) fn message_id(&self) -> Option<String> {
        self.properties.message_id().as_ref().map(ToString::to_string)
    }

    pub(super) fn message_type(&self) -> Option<String> {
        self.properties.kind().as_ref().map(ToString::to_string)
    }

    /// The property `timestamp`, in seconds since 1970.
    pub(super) fn timestamp(&self) -> Result<Option<OffsetDateTime>, DecodeError> {
        let Some(seconds) = *self.properties.timestamp() else { return Ok(None) };
        let time = i64::try_from(seconds).ok().and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok());
        match time {
            Some(time) => Ok(Some(time)),
            None => Err(DecodeError::invalid("timestamp", "seconds since 1970", &seconds.to_string())),
        }
    }

    /// The headers that a handler sees: texts that an event could carry, as many as its budget allows.
    ///
    /// Whatever a proxy or a plugin added must not make a message unreadable, so the rest is left out silently. The trace
    /// context comes first, then the event's own headers, which the publisher marks with a prefix.
    pub(super) fn carried(&self) -> EventHeaders {
        let mut carried = BTreeMap::new();
        let mut total = 0_usize;
        let table = self.table.map(FieldTable::inner);
        let mut entries: Vec<_> = table
            .into_iter()
            .flatten()
            .filter_map(|(name, value)| {
                let own = name.as_str().strip_prefix(EVENT_HEADER_PREFIX);
                let rank = if name.as_str() == TRACEPARENT { 0 } else { 2 - u8::from(own.is_some()) };
                Some((rank, own.unwrap_or(name.as_str()), as_carried(value)?))
            })
            .collect();
        entries.sort_unstable();
        for (rank, name, value) in entries {
            let size = name.len() + value.len();
            let foreign = KNOWN.contains(&name) || NOT_CARRIED.iter().any(|prefix| name.starts_with(prefix));
            let unfit = name.is_empty() || name.chars().any(char::is_control) || value.chars().any(char::is_control);
            if (foreign && rank == 2) || unfit || total + size > MAX_HEADERS_BYTES || carried.contains_key(name) {
                continue;
            }
            total += size;
            carried.insert(name.to_owned(), value.to_owned());
        }
        EventHeaders::from_stored(carried)
    }

    fn get(&self, name: &str) -> Option<&'a AMQPValue> {
        self.table?.inner().get(name)
    }
}

fn as_carried(value: &AMQPValue) -> Option<&str> {
    match value {
        AMQPValue::LongString(text) => std::str::from_utf8(text.as_bytes()).ok(),
        AMQPValue::ShortString(text) => Some(text.as_str()),
        _ => None,
    }
}

fn as_text(value: &AMQPValue) -> Option<String> {
    Some(match value {
        AMQPValue::LongString(text) => std::str::from_utf8(text.as_bytes()).ok()?.to_owned(),
        AMQPValue::ShortString(text) => text.to_string(),
        AMQPValue::Boolean(value) => value.to_string(),
        AMQPValue::ShortShortInt(value) => value.to_string(),
        AMQPValue::ShortShortUInt(value) => value.to_string(),
        AMQPValue::ShortInt(value) => value.to_string(),
        AMQPValue::ShortUInt(value) => value.to_string(),
        AMQPValue::LongInt(value) => value.to_string(),
        AMQPValue::LongUInt(value) => value.to_string(),
        AMQPValue::LongLongInt(value) => value.to_string(),
        AMQPValue::Timestamp(value) => value.to_string(),
        _ => return None,
    })
}
