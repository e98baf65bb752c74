//! The payload: JSON text whose bytes are kept from append to consumer.

use std::fmt;

use serde::Serialize;
use serde_json::value::RawValue;

use super::{
    bounds::{MAX_PAYLOAD_BYTES, MAX_PAYLOAD_DEPTH},
    invalid::{EventField, InvalidEvent},
};

/// One JSON value as text: at most 1 MiB, at most 100 levels deep, bytes kept as they are.
///
/// Numbers, key order and repeated keys reach the consumer as they were appended (rule R19), because the text
/// is never parsed into values on its way. `Debug` shows the size alone: payloads stay out of logs (rule R29).
#[derive(Clone, PartialEq, Eq)]
pub struct Payload(String);

impl Payload {
    /// Checks that the text is one JSON value within the bounds.
    ///
    /// # Errors
    /// [`InvalidEvent`] when it is too long, too deep, not JSON, or holds `\u0000` or half a surrogate pair,
    /// which PostgreSQL or a consumer could not hold.
    pub fn try_new(text: impl Into<String>) -> Result<Self, InvalidEvent> {
        let text = text.into();
        if text.len() > MAX_PAYLOAD_BYTES {
            return Err(InvalidEvent::TooLong {
                field: EventField::Payload,
                bound: MAX_PAYLOAD_BYTES,
                actual: text.len(),
            });
        }
        check_escapes_and_depth(&text)?;
        serde_json::from_str::<&RawValue>(&text)
            .map_err(|error| InvalidEvent::NotJson { reason: error.to_string() })?;
        Ok(Self(text))
    }

    /// Encodes a value. A float that is no number (NaN, infinity) has no JSON form and becomes `null`, as the encoder
    /// (`serde_json`) has it: refuse such a value where it comes from.
    ///
    /// # Errors
    /// [`InvalidEvent`] when the value cannot be encoded or the text breaks a bound.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Self, InvalidEvent> {
        let text = serde_json::to_string(value).map_err(|error| InvalidEvent::NotJson { reason: error.to_string() })?;
        Self::try_new(text)
    }

    /// Takes a stored text as it is; the table's type has checked that it is JSON.
    #[must_use]
    pub fn from_stored(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The JSON text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes)", self.0.len())
    }
}

/// Walks the text once. It is strict only about what the JSON parser lets pass: escapes inside strings, and depth.
fn check_escapes_and_depth(text: &str) -> Result<(), InvalidEvent> {
    let bytes = text.as_bytes();
    let forbidden = |what, offset| InvalidEvent::Forbidden { field: EventField::Payload, what, offset };
    let (mut depth, mut deepest, mut in_string, mut at) = (0_usize, 0_usize, false, 0_usize);
    while let Some(&byte) = bytes.get(at) {
        match (in_string, byte) {
            (false, b'{' | b'[') => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            (false, b'}' | b']') => depth = depth.saturating_sub(1),
            (_, b'"') => in_string = !in_string,
            (true, b'\\') => {
                match escaped_unit(bytes, at) {
                    Some(0) => return Err(forbidden("\\u0000", at)),
                    Some(0xDC00..=0xDFFF) => return Err(forbidden("half a surrogate pair", at)),
                    Some(0xD800..=0xDBFF) => {
                        let second = escaped_unit(bytes, at + 6);
                        if !second.is_some_and(|unit| (0xDC00..=0xDFFF).contains(&unit)) {
                            return Err(forbidden("half a surrogate pair", at));
                        }
                        at += 6;
                    }
                    _ => {}
                }
                // The escaped character itself is never a delimiter.
                at += 1;
            }
            _ => {}
        }
        at += 1;
    }
    if deepest > MAX_PAYLOAD_DEPTH {
        return Err(InvalidEvent::TooDeep { bound: MAX_PAYLOAD_DEPTH, actual: deepest });
    }
    Ok(())
}

/// The UTF-16 unit of a `\uXXXX` escape that begins at `at`.
fn escaped_unit(bytes: &[u8], at: usize) -> Option<u32> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(text: &str) -> InvalidEvent {
        Payload::try_new(text).expect_err("the payload should be refused")
    }

    #[test]
    fn bytes_are_kept_with_long_numbers_key_order_and_repeated_keys() {
        let text = r#"{"b":9223372036854775807,"a":0.10000000000000000000000001,"a":1e400}"#;
        assert_eq!(Payload::try_new(text).expect("valid").as_str(), text);
    }

    #[test]
    fn an_escaped_nul_is_refused_but_an_escaped_backslash_before_u0000_is_text() {
        assert!(matches!(refusal(r#"["\u0000"]"#), InvalidEvent::Forbidden { offset: 2, .. }));
        assert!(Payload::try_new(r#"["\\u0000"]"#).is_ok());
    }

    #[test]
    fn half_a_surrogate_pair_is_refused_and_a_whole_one_is_kept() {
        for text in [r#""\ud83d""#, r#""\ude00""#, r#""\ud83d\ud83d""#, r#""\ud83dx""#] {
            assert!(matches!(refusal(text), InvalidEvent::Forbidden { .. }), "{text}");
        }
        assert!(Payload::try_new(r#""\ud83d\ude00""#).is_ok());
    }

    #[test]
    fn depth_counts_brackets_outside_strings_alone() {
        let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(Payload::try_new(deep(MAX_PAYLOAD_DEPTH)).is_ok());
        assert_eq!(refusal(&deep(101)), InvalidEvent::TooDeep { bound: 100, actual: 101 });
        assert!(Payload::try_new(format!("\"{}\"", "[".repeat(500))).is_ok());
    }

    #[test]
    fn text_that_is_not_one_json_value_is_refused() {
        for text in ["", "{", "{} {}", "nul", "{\"a\":01}", "'a'"] {
            assert!(matches!(refusal(text), InvalidEvent::NotJson { .. }), "{text}");
        }
    }

    #[test]
    fn the_budget_is_exact() {
        let fitting = format!("\"{}\"", "x".repeat(MAX_PAYLOAD_BYTES - 2));
        assert!(Payload::try_new(fitting.clone()).is_ok());
        let over = format!("{fitting} ");
        assert_eq!(
            refusal(&over),
            InvalidEvent::TooLong {
                field: EventField::Payload,
                bound: MAX_PAYLOAD_BYTES,
                actual: MAX_PAYLOAD_BYTES + 1
            }
        );
    }

    #[test]
    fn debug_shows_no_content() {
        assert_eq!(format!("{:?}", Payload::try_new("\"secret\"").expect("valid")), "Payload(8 bytes)");
    }
}
