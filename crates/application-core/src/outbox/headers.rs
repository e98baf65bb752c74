//! The headers of an event: what travels beside the payload.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::{
    bounds::MAX_HEADERS_BYTES,
    identity::check_text,
    invalid::{EventField, InvalidEvent},
};

/// Header: the key by which a consumer recognises the same business operation; default: the event id.
pub const IDEMPOTENCY_KEY: &str = "idempotencyKey";
/// Header: when the change happened, RFC 3339; default: when the event was stored.
pub const OCCURRED_AT: &str = "occurredAt";
/// Header: the version of the payload's schema, a whole number from 1; default: 1.
pub const SCHEMA_VERSION: &str = "schemaVersion";
/// Header: the trace context of the appending request (W3C Trace Context).
pub const TRACEPARENT: &str = "traceparent";

/// Names and values, all text; at most 16 KiB as the JSON text that PostgreSQL makes of them.
///
/// `Debug` shows the names alone: values may be personal (rule R29).
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EventHeaders(BTreeMap<String, String>);

impl EventHeaders {
    /// Takes stored headers as they are.
    #[must_use]
    pub const fn from_stored(headers: BTreeMap<String, String>) -> Self {
        Self(headers)
    }

    /// Checks names, values and the byte budget.
    ///
    /// # Errors
    /// [`InvalidEvent`] when a name is empty or holds a control character, a value holds one, the idempotency key is
    /// there but empty, or all together are over the budget.
    pub fn try_new(headers: BTreeMap<String, String>) -> Result<Self, InvalidEvent> {
        // Braces, and after each header but the last a comma and a space: the table counts its own text of them.
        let mut total = 2 * headers.len().max(1);
        for (name, value) in &headers {
            check_text(EventField::HeaderName, name, MAX_HEADERS_BYTES)?;
            if name == IDEMPOTENCY_KEY {
                check_text(EventField::IdempotencyKey, value, MAX_HEADERS_BYTES)?;
            } else if !value.is_empty() {
                check_text(EventField::HeaderValue, value, MAX_HEADERS_BYTES)?;
            }
            total += quoted_bytes(name) + ": ".len() + quoted_bytes(value);
        }
        if total > MAX_HEADERS_BYTES {
            return Err(InvalidEvent::TooLong { field: EventField::Headers, bound: MAX_HEADERS_BYTES, actual: total });
        }
        Ok(Self(headers))
    }

    /// The value of a header.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// All headers in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// When the change happened, if a valid time was given.
    #[must_use]
    pub fn occurred_at(&self) -> Option<OffsetDateTime> {
        OffsetDateTime::parse(self.get(OCCURRED_AT)?, &Rfc3339).ok()
    }

    /// The version of the payload's schema: 1 unless a valid one was given.
    #[must_use]
    pub fn schema_version(&self) -> u32 {
        self.get(SCHEMA_VERSION).and_then(|text| text.parse().ok()).filter(|v| *v > 0).unwrap_or(1)
    }
}

/// The bytes of a text without control characters as a JSON string.
fn quoted_bytes(text: &str) -> usize {
    let escapes = text.bytes().filter(|byte| matches!(byte, b'"' | b'\\')).count();
    text.len() + escapes + 2
}

impl fmt::Debug for EventHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn any_headers_are_taken_within_their_budget_or_refused_in_few_words(
            headers in prop::collection::btree_map(any::<String>(), prop_oneof![any::<String>(), "[\"\\\\a]{0,3000}"], 0..12)
        ) {
            match EventHeaders::try_new(headers.clone()) {
                Ok(taken) => {
                    prop_assert!(serde_json::to_string(&taken).expect("JSON").len() <= MAX_HEADERS_BYTES);
                    prop_assert!(taken.schema_version() > 0);
                    prop_assert_eq!(taken, EventHeaders::from_stored(headers));
                }
                Err(error) => prop_assert!(error.to_string().len() < 200, "{error}"),
            }
        }
    }
}
