//! A value of a payload that only a holder of its key can read, and what it belongs to.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::identity::{AggregateId, AggregateType, EventId};

/// An encrypted value as it stands in a payload: text that names the key which decrypts it.
///
/// Which form the text has is the cipher's affair; nothing is checked before it is decrypted. `Debug` shows the size alone.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ciphertext(String);

impl Ciphertext {
    /// Takes what a cipher has made.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Ciphertext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ciphertext({} bytes)", self.0.len())
    }
}

/// What an encrypted value belongs to: one field of one event. In any other place it cannot be decrypted.
///
/// It is no secret: it may stand beside the value, readable by everybody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncryptionContext {
    /// The aggregate's type.
    pub aggregate_type: AggregateType,
    /// The aggregate's identifier.
    pub aggregate_id: AggregateId,
    /// The event.
    pub event_id: EventId,
    /// The field's path in the payload: names joined by dots, for example `customer.email`.
    pub field: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_ciphertext() {
        assert_eq!(format!("{:?}", Ciphertext::new("opaque")), "Ciphertext(6 bytes)");
    }

    #[test]
    fn a_ciphertext_is_a_text_in_json() {
        let json = serde_json::to_string(&Ciphertext::new("opaque")).expect("JSON");
        assert_eq!(json, r#""opaque""#);
        assert_eq!(serde_json::from_str::<Ciphertext>(&json).expect("a text").as_str(), "opaque");
    }
}
