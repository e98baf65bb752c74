//! Use case frame: personal fields of a payload, encrypted before the event is built and decrypted by who consumes it.

use std::fmt;

use serde::{Serialize, de::DeserializeOwned};

use crate::{
    inbox::InboundMessage,
    outbox::{AggregateId, AggregateType, Ciphertext, EncryptionContext, EventId, InvalidEvent, Payload},
    ports::{PayloadCipherError, PayloadCipherPort},
};

/// Why a personal field could not be encrypted or decrypted. No variant holds anything of the value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PersonalFieldError {
    /// The value could not stand in a payload in plain text either: too long, too deep, not JSON.
    #[error("the value of {field} cannot be encrypted")]
    Value {
        /// The field.
        field: String,
        /// The bound that the value breaks.
        #[source]
        source: InvalidEvent,
    },
    /// The cipher refused.
    #[error("{field} cannot be encrypted or decrypted")]
    Cipher {
        /// The field.
        field: String,
        /// Why.
        #[source]
        source: PayloadCipherError,
    },
    /// What was decrypted is another value than the one that was asked for.
    #[error("the value of {field} has another form: {what:?} at {line}:{column}")]
    OtherForm {
        /// The field.
        field: String,
        /// The kind of the mismatch.
        what: serde_json::error::Category,
        /// The line of the value's JSON text.
        line: usize,
        /// The column.
        column: usize,
    },
}

impl PersonalFieldError {
    /// Whether the same call may succeed a little later.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Cipher { source, .. } if source.is_transient())
    }

    /// Whether the key is not known here: deleted, so that the value is gone for good, or not yet given to this process.
    /// Which of the two it is, only who keeps the keys can tell.
    #[must_use]
    pub const fn is_unknown_key(&self) -> bool {
        matches!(self, Self::Cipher { source: PayloadCipherError::UnknownKey { .. }, .. })
    }
}

/// Encrypts and decrypts the personal fields of one event. A field's value is any JSON value; its path is the same on both
/// sides: names joined by dots.
pub struct PersonalFields<'a> {
    cipher: &'a dyn PayloadCipherPort,
    aggregate_type: AggregateType,
    aggregate_id: AggregateId,
    event_id: EventId,
}

impl<'a> PersonalFields<'a> {
    /// For an event that is being put together, with the id and the aggregate that its draft will have.
    #[must_use]
    pub fn of_event(cipher: &'a dyn PayloadCipherPort, id: EventId, aggregate: (&str, &str)) -> Self {
        let (aggregate_type, aggregate_id) = aggregate;
        // The draft checks them.
        let (aggregate_type, aggregate_id) =
            (AggregateType::from_stored(aggregate_type), AggregateId::from_stored(aggregate_id));
        Self { cipher, aggregate_type, aggregate_id, event_id: id }
    }

    /// For a message that has arrived.
    #[must_use]
    pub fn of_message(cipher: &'a dyn PayloadCipherPort, message: &InboundMessage) -> Self {
        let (aggregate_type, aggregate_id) = (message.aggregate_type.clone(), message.aggregate_id.clone());
        Self { cipher, aggregate_type, aggregate_id, event_id: message.id }
    }

    /// Encrypts the JSON form of a value, which must hold the bounds of a payload. A ciphertext is longer than its value: the
    /// payload that it becomes part of is checked when the event is built.
    ///
    /// # Errors
    /// [`PersonalFieldError`].
    pub fn encrypt<T: Serialize + ?Sized>(&self, field: &str, value: &T) -> Result<Ciphertext, PersonalFieldError> {
        let json = Payload::of(value)
            .map_err(|source| PersonalFieldError::Value { field: field.to_owned(), source: unquoted(source) })?;
        let encrypted = self.cipher.encrypt(json.as_str().as_bytes(), &self.context(field));
        encrypted.map_err(|source| PersonalFieldError::Cipher { field: field.to_owned(), source })
    }

    /// Decrypts the value of a field.
    ///
    /// # Errors
    /// [`PersonalFieldError`]; a deleted key answers [`PersonalFieldError::is_unknown_key`].
    pub fn decrypt<T: DeserializeOwned>(&self, field: &str, ciphertext: &Ciphertext) -> Result<T, PersonalFieldError> {
        let decrypted = self.cipher.decrypt(ciphertext, &self.context(field));
        let json = decrypted.map_err(|source| PersonalFieldError::Cipher { field: field.to_owned(), source })?;
        serde_json::from_slice(&json).map_err(|error| {
            // The decoder's own words may quote the value, which must not get into logs.
            let (what, line, column) = (error.classify(), error.line(), error.column());
            PersonalFieldError::OtherForm { field: field.to_owned(), what, line, column }
        })
    }

    fn context(&self, field: &str) -> EncryptionContext {
        EncryptionContext {
            aggregate_type: self.aggregate_type.clone(),
            aggregate_id: self.aggregate_id.clone(),
            event_id: self.event_id,
            field: field.to_owned(),
        }
    }
}

/// The words of a type that refuses to become JSON are its own, and may quote the value.
fn unquoted(refused: InvalidEvent) -> InvalidEvent {
    match refused {
        InvalidEvent::NotJson { .. } => InvalidEvent::NotJson { reason: "its type refuses to become JSON".to_owned() },
        bound => bound,
    }
}

impl fmt::Debug for PersonalFields<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PersonalFields").field("event_id", &self.event_id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde::{Serializer, ser::Error};
    use uuid::Uuid;

    use super::*;
    use crate::{
        outbox::{EventField, bounds::MAX_PAYLOAD_BYTES},
        ports::{MockPayloadCipherPort, with_causes},
    };

    const ID: EventId = EventId::new(Uuid::from_u128(7));

    fn fields(cipher: &MockPayloadCipherPort) -> PersonalFields<'_> {
        PersonalFields::of_event(cipher, ID, ("customer", "c-1"))
    }

    fn is_of_email(context: &EncryptionContext) -> bool {
        *context
            == EncryptionContext {
                aggregate_type: AggregateType::from_stored("customer"),
                aggregate_id: AggregateId::from_stored("c-1"),
                event_id: ID,
                field: "email".to_owned(),
            }
    }

    #[test]
    fn the_json_of_a_value_is_encrypted_for_its_field_event_and_aggregate() {
        let mut cipher = MockPayloadCipherPort::new();
        cipher
            .expect_encrypt()
            .withf(|plaintext, context| plaintext == b"[\"a\",null]" && is_of_email(context))
            .times(1)
            .returning(|_, _| Ok(Ciphertext::new("opaque")));
        let encrypted = fields(&cipher).encrypt("email", &(Some("a"), None::<u8>)).expect("encrypted");
        assert_eq!(encrypted.as_str(), "opaque");
    }

    #[test]
    fn a_field_is_decrypted_to_the_type_that_is_asked_for_and_another_form_quotes_nothing() {
        let mut cipher = MockPayloadCipherPort::new();
        cipher
            .expect_decrypt()
            .withf(|ciphertext, context| ciphertext.as_str() == "opaque" && is_of_email(context))
            .returning(|_, _| Ok(b"\"hush\"".to_vec()));
        let (fields, opaque) = (fields(&cipher), Ciphertext::new("opaque"));
        assert_eq!(fields.decrypt::<String>("email", &opaque).expect("a text"), "hush");
        let error = fields.decrypt::<u8>("email", &opaque).expect_err("no number");
        assert!(error.to_string().starts_with("the value of email has another form: Data at 1:"), "{error}");
        assert!(!format!("{error:?}").contains("hush"), "{error:?}");
    }

    #[test]
    fn a_value_that_no_payload_could_hold_is_refused_by_its_field_before_it_is_encrypted() {
        let cipher = MockPayloadCipherPort::new();
        let error = fields(&cipher).encrypt("email", &"x".repeat(MAX_PAYLOAD_BYTES)).expect_err("too long");
        assert_eq!(
            with_causes(&error),
            "the value of email cannot be encrypted: payload takes 1048578 bytes, at most 1048576 are allowed"
        );
        let error = fields(&cipher).encrypt("email", "\0").expect_err("no text for a consumer");
        let PersonalFieldError::Value { source: InvalidEvent::Forbidden { field, .. }, .. } = error else {
            panic!("{error:?}");
        };
        assert_eq!(field, EventField::Payload);
    }

    #[test]
    fn a_value_whose_type_refuses_to_become_json_is_not_quoted() {
        struct Unwritable;
        impl Serialize for Unwritable {
            fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
                Err(S::Error::custom("hush is no address"))
            }
        }
        let error = fields(&MockPayloadCipherPort::new()).encrypt("email", &Unwritable).expect_err("no JSON");
        let words = "the value of email cannot be encrypted: payload is not JSON: its type refuses to become JSON";
        assert_eq!(with_causes(&error), words);
        assert!(!format!("{error:?}").contains("hush"), "{error:?}");
    }

    #[test]
    fn an_unknown_key_and_what_may_work_later_are_told_apart() {
        let failed = |source| PersonalFieldError::Cipher { field: "email".to_owned(), source };
        let unknown = failed(PayloadCipherError::UnknownKey { key_id: "2026_01".to_owned() });
        assert!(unknown.is_unknown_key() && !unknown.is_transient());
        assert_eq!(
            with_causes(&unknown),
            "email cannot be encrypted or decrypted: the key \"2026_01\" is not known here"
        );
        let later = failed(PayloadCipherError::NoRandomness);
        assert!(later.is_transient() && !later.is_unknown_key());
        assert!(!failed(PayloadCipherError::OtherContext).is_transient());
    }
}
