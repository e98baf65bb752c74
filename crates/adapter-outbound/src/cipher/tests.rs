//! What is encrypted comes back in its place and under its key, and nowhere else.

use std::collections::HashSet;

use application_core::{
    outbox::{AggregateId, AggregateType, EventId, InvalidEvent, NewOutboxEvent, Payload},
    usecases::{PersonalFieldError, PersonalFields},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use proptest::prelude::*;
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;

/// A JWE that another program made, under the key whose bytes are 0 to 31: the text `"ada@example.org"` for [`context`].
const MADE_ELSEWHERE: &str = concat!(
    "eyJhbGciOiJkaXIiLCJlbmMiOiJBMjU2R0NNIiwia2lkIjoiMjAyNl8wMSIsImNvbnRleHQiOlsiY3VzdG9tZXIiLCJjLTEiLCIwMTkyYTAwMC0w",
    "MDAwLTcwMDAtODAwMC0wMDAwMDAwMDAwMDEiLCJlbWFpbCJdfQ..yv66vvrO263eyviI.qMLER-ofN3orezG4VXL7WC8.",
    "ke3Yq-lQaLzrw5HsE_9mBQ"
);

const ID: EventId = EventId::new(Uuid::from_u128(0x0192_a000_0000_7000_8000_0000_0000_0001));

/// The key whose bytes count up from this one.
fn key(first: u8) -> String {
    STANDARD.encode((first..first + 32).collect::<Vec<u8>>())
}

fn cipher(active: Option<&str>, keys: &[(&str, u8)]) -> JwePayloadCipher {
    let keys = keys.iter().map(|(id, first)| ((*id).to_owned(), key(*first).into()));
    let settings = EncryptionSettings { active_key: active.map(str::to_owned), keys: keys.collect() };
    assert_eq!(settings.problems(), []);
    JwePayloadCipher::new(&settings)
}

fn of_january() -> JwePayloadCipher {
    cipher(Some("2026_01"), &[("2026_01", 0)])
}

fn context() -> EncryptionContext {
    EncryptionContext {
        aggregate_type: AggregateType::from_stored("customer"),
        aggregate_id: AggregateId::from_stored("c-1"),
        event_id: ID,
        field: "email".to_owned(),
    }
}

fn encrypted(cipher: &JwePayloadCipher, value: &str) -> Ciphertext {
    cipher.encrypt(value.as_bytes(), &context()).expect("encrypted")
}

fn refused(cipher: &JwePayloadCipher, text: &str) -> PayloadCipherError {
    cipher.decrypt(&Ciphertext::new(text), &context()).expect_err("refused")
}

#[test]
fn what_another_program_encrypted_by_the_standard_is_decrypted() {
    let value = of_january().decrypt(&Ciphertext::new(MADE_ELSEWHERE), &context()).expect("decrypted");
    assert_eq!(value, b"\"ada@example.org\"");
}

#[test]
fn a_ciphertext_names_algorithm_key_and_context_and_hides_the_value() {
    let encrypted = encrypted(&of_january(), "\"ada@example.org\"");
    let parts: Vec<&str> = encrypted.as_str().split('.').collect();
    let header = MADE_ELSEWHERE.split('.').next().expect("a header");
    assert_eq!((parts.len(), parts[0], parts[1]), (5, header, ""));
    assert_eq!(parts[3].len(), MADE_ELSEWHERE.split('.').nth(3).expect("a ciphertext").len());
    assert_ne!(encrypted.as_str(), MADE_ELSEWHERE, "the nonce is another one");
}

#[test]
fn another_key_of_the_same_name_decrypts_nothing() {
    let other = cipher(Some("2026_01"), &[("2026_01", 1)]);
    let wrong = PayloadCipherError::NotAuthentic { key_id: "2026_01".to_owned() };
    assert_eq!(refused(&other, encrypted(&of_january(), "1").as_str()), wrong);
}

#[test]
fn a_key_that_was_deleted_is_named_and_without_an_active_key_nothing_is_encrypted() {
    let encrypted = encrypted(&of_january(), "1");
    for without in [cipher(Some("2026_07"), &[("2026_07", 0)]), cipher(None, &[])] {
        let error = without.decrypt(&encrypted, &context()).expect_err("no key");
        assert_eq!(error, PayloadCipherError::UnknownKey { key_id: "2026_01".to_owned() });
    }
    for without in [cipher(None, &[("2026_01", 0)]), JwePayloadCipher::new(&EncryptionSettings::default())] {
        assert_eq!(without.encrypt(b"1", &context()), Err(PayloadCipherError::NoActiveKey));
    }
}

#[test]
fn after_a_rotation_the_new_key_encrypts_and_the_old_one_still_decrypts() {
    let old = encrypted(&of_january(), "\"old\"");
    let rotated = cipher(Some("2026_07"), &[("2026_01", 0), ("2026_07", 40)]);
    let new = encrypted(&rotated, "\"new\"");
    assert_eq!(rotated.decrypt(&old, &context()).expect("the old key"), b"\"old\"");
    assert_eq!(rotated.decrypt(&new, &context()).expect("the new key"), b"\"new\"");
    let behind = PayloadCipherError::UnknownKey { key_id: "2026_07".to_owned() };
    assert_eq!(of_january().decrypt(&new, &context()), Err(behind));
}

#[test]
fn a_ciphertext_that_is_moved_to_another_field_event_or_aggregate_is_refused() {
    let (cipher, here) = (of_january(), context());
    let encrypted = encrypted(&cipher, "1");
    let elsewhere = [
        EncryptionContext { field: "phone".to_owned(), ..here.clone() },
        EncryptionContext { event_id: EventId::new(Uuid::from_u128(1)), ..here.clone() },
        EncryptionContext { aggregate_id: AggregateId::from_stored("c-2"), ..here.clone() },
        EncryptionContext { aggregate_type: AggregateType::from_stored("user"), ..here },
    ];
    for context in elsewhere {
        assert_eq!(cipher.decrypt(&encrypted, &context), Err(PayloadCipherError::OtherContext), "{context:?}");
    }
    // A header that says it belongs there is not the one that was authenticated.
    let moved = EncryptionContext { field: "phone".to_owned(), ..context() };
    let header = Header::new("2026_01", &moved).encoded();
    let (_, rest) = encrypted.as_str().split_once('.').expect("a header");
    let error = cipher.decrypt(&Ciphertext::new(format!("{header}.{rest}")), &moved).expect_err("refused");
    assert_eq!(error, PayloadCipherError::NotAuthentic { key_id: "2026_01".to_owned() });
}

#[test]
fn a_ciphertext_at_the_wrong_place_is_not_taken_for_forgotten_when_its_key_is_deleted() {
    let (encrypted, without) = (encrypted(&of_january(), "1"), cipher(None, &[]));
    let moved = EncryptionContext { field: "phone".to_owned(), ..context() };
    assert_eq!(without.decrypt(&encrypted, &moved), Err(PayloadCipherError::OtherContext));
    let gone = PayloadCipherError::UnknownKey { key_id: "2026_01".to_owned() };
    assert_eq!(without.decrypt(&encrypted, &context()), Err(gone));
}

#[test]
fn what_is_no_ciphertext_is_refused_with_the_reason() {
    let cipher = of_january();
    let header = MADE_ELSEWHERE.split('.').next().expect("a header");
    let encoded = |json: &Value| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(json.to_string());
    let known = json!({"alg": "dir", "enc": "A256GCM", "kid": "k", "context": ["t", "a", "e", "f"]});
    let changed = |name: &str, value: Value| {
        let mut header = known.clone();
        header[name] = value;
        format!("{}..yv66vvrO263eyviI.AA.ke3Yq-lQaLzrw5HsE_9mBQ", encoded(&header))
    };
    for (text, words) in [
        ("ada@example.org".to_owned(), "five parts"),
        (MADE_ELSEWHERE.replace("..", ".AAAA."), "second is empty"),
        (format!("{MADE_ELSEWHERE}.x"), "five parts"),
        (format!("{header}..yv66vvrO263eyvi.AA.ke3Yq-lQaLzrw5HsE_9mBQ"), "vector"),
        (format!("{header}..yv66vvrO263eyviI.A+A.ke3Yq-lQaLzrw5HsE_9mBQ"), "no base64url"),
        (format!("{header}..yv66vvrO263eyviI.AA.ke3Yq-lQ"), "tag"),
        (changed("alg", json!("RSA-OAEP")), "header"),
        (changed("enc", json!("A128GCM")), "header"),
        (changed("crit", json!(["exp"])), "header"),
        (changed("zip", json!("DEF")), "header"),
        (changed("kid", json!("../k")), "names no key"),
        ("x".repeat(MAX_PAYLOAD_BYTES + 1), "longer than any payload"),
    ] {
        let error = refused(&cipher, &text);
        let PayloadCipherError::NotCiphertext { reason } = error else { panic!("{words}: {error:?}") };
        assert!(reason.contains(words), "{words}: {reason}");
    }
    assert_eq!(refused(&cipher, &changed("kid", json!("k"))), PayloadCipherError::OtherContext);
}

#[test]
fn no_nonce_of_many_is_used_twice() {
    const MANY: usize = 10_000;
    let cipher = of_january();
    let nonces: HashSet<String> =
        (0..MANY).map(|_| encrypted(&cipher, "1").as_str().split('.').nth(2).expect("a vector").to_owned()).collect();
    assert_eq!(nonces.len(), MANY);
}

#[test]
fn debug_names_the_keys_and_shows_none() {
    let shown = format!("{:?}", cipher(Some("2026_01"), &[("2026_01", 0), ("2026_07", 40)]));
    assert_eq!(shown, r#"JwePayloadCipher { active: Some("2026_01"), keys: ["2026_01", "2026_07"], .. }"#);
}

#[test]
fn a_value_over_the_bound_is_refused_and_so_is_a_payload_that_its_ciphertext_makes_too_large() {
    let cipher = of_january();
    let (bound, actual) = (MAX_PAYLOAD_BYTES, MAX_PAYLOAD_BYTES + 1);
    let error = cipher.encrypt(&vec![b'1'; actual], &context()).expect_err("too long");
    assert_eq!(error, PayloadCipherError::TooLong { bound, actual });
    // As JSON it fills a payload to its last byte; encrypted it is larger.
    let fields = PersonalFields::of_event(&cipher, ID, ("customer", "c-1"));
    let note = fields.encrypt("note", &"x".repeat(MAX_PAYLOAD_BYTES - 2)).expect("encrypted");
    let built = NewOutboxEvent::draft(ID, ("customer", "c-1"), "Noted", &json!({ "note": note })).build();
    assert!(matches!(built, Err(InvalidEvent::TooLong { .. })), "{built:?}");
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_json_value_that_a_payload_may_hold_comes_back_as_it_was(value in any_json(), field in any::<String>()) {
        let cipher = of_january();
        let fields = PersonalFields::of_event(&cipher, ID, ("customer", "c-1"));
        match (fields.encrypt(&field, &value), Payload::of(&value)) {
            (Ok(encrypted), Ok(_)) => {
                prop_assert_eq!(fields.decrypt::<Value>(&field, &encrypted).expect("decrypted"), value);
            }
            (Err(PersonalFieldError::Value { source, .. }), Err(refused)) => prop_assert_eq!(source, refused),
            other => return Err(TestCaseError::fail(format!("{other:?}"))),
        }
    }

    #[test]
    fn a_ciphertext_of_which_any_character_was_changed_is_refused(at in any::<prop::sample::Index>(), to in "[A-Za-z0-9_.-]") {
        let (cipher, mut text) = (of_january(), MADE_ELSEWHERE.to_owned());
        let at = at.index(text.len());
        prop_assume!(text.get(at..=at) != Some(to.as_str()));
        text.replace_range(at..=at, &to);
        prop_assert!(cipher.decrypt(&Ciphertext::new(text), &context()).is_err());
    }

    #[test]
    fn any_text_that_is_no_ciphertext_is_refused(text in "\\PC{0,60}") {
        prop_assert!(of_january().decrypt(&Ciphertext::new(text), &context()).is_err());
    }
}
