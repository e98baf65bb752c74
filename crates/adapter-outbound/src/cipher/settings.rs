//! The key ring of personal fields, as it is set.

use std::collections::BTreeMap;

use application_core::SettingProblem;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use secrecy::{ExposeSecret, SecretSlice, SecretString};
use serde::{Deserialize, Serialize, Serializer};

/// The bytes of a key.
const KEY_BYTES: usize = 32;
/// The most keys.
const MAX_KEYS: usize = 100;
/// Longest identifier of a key, in bytes; a UUID has 36.
const MAX_KEY_ID_BYTES: usize = 64;

/// What an identifier must be.
const KEY_ID_BOUND: &str = "an identifier must be 1 to 64 lower-case letters, digits, - or _";

/// The keys of personal fields.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EncryptionSettings {
    /// The identifier of the key that encrypts; none: this process only decrypts.
    pub active_key: Option<String>,
    /// Keys by their identifiers, which are 1 to 64 lower-case letters, digits, `-` or `_`: each 32 bytes in base64, no two
    /// the same. Up to 100.
    #[serde(serialize_with = "redacted")]
    pub keys: BTreeMap<String, SecretString>,
}

impl EncryptionSettings {
    /// Everything that is wrong, at once; empty when the settings can be used. No problem tells anything of a key.
    #[must_use]
    pub fn problems(&self) -> Vec<SettingProblem> {
        let mut problems = Vec::new();
        if self.keys.len() > MAX_KEYS {
            problems.push(SettingProblem::new("keys", self.keys.len(), format!("it must have at most {MAX_KEYS}")));
        }
        let mut known: Vec<(&str, SecretSlice<u8>)> = Vec::new();
        for (id, text) in &self.keys {
            if !is_key_id(id) {
                problems.push(SettingProblem::new("keys", shown(id), KEY_ID_BOUND));
                continue;
            }
            let key = format!("keys.{id}");
            match key_bytes(text) {
                Err(met) => {
                    let bound = "it must be 32 bytes in base64, as `openssl rand -base64 32` prints them";
                    problems.push(SettingProblem::new(key, met, bound));
                }
                Ok(bytes) => {
                    if let Some((first, _)) = known.iter().find(|(_, other)| same(other, &bytes)) {
                        let bound = "each must be a key of its own: deleting one would leave the other";
                        problems.push(SettingProblem::new(key, format!("the same as keys.{first}"), bound));
                    }
                    known.push((id, bytes));
                }
            }
        }
        if let Some(active) = self.active_key.as_ref().filter(|active| !self.keys.contains_key(*active)) {
            let ids: Vec<&str> = self.keys.keys().map(String::as_str).filter(|id| is_key_id(id)).collect();
            let bound = match ids.as_slice() {
                [] => "it must name one of `keys`, which are none".to_owned(),
                ids => format!("it must name one of `keys`: {}", ids.join(", ")),
            };
            problems.push(SettingProblem::new("active_key", shown(active), bound));
        }
        problems
    }
}

/// Whether a text can be the identifier of a key. Environment variables reach lower-case names alone.
pub(super) fn is_key_id(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
    (1..=MAX_KEY_ID_BYTES).contains(&text.len()) && text.bytes().all(allowed)
}

/// What is no identifier may be a key at the wrong place.
fn shown(id: &str) -> String {
    if is_key_id(id) { format!("{id:?}") } else { format!("a text of {} bytes", id.len()) }
}

/// The bytes of a key, or what was met instead.
pub(super) fn key_bytes(text: &SecretString) -> Result<SecretSlice<u8>, String> {
    let bytes = STANDARD.decode(text.expose_secret().trim()).map_err(|_may_quote| "no base64".to_owned())?;
    let bytes = SecretSlice::from(bytes);
    let length = bytes.expose_secret().len();
    if length == KEY_BYTES { Ok(bytes) } else { Err(format!("{length} bytes")) }
}

fn same(one: &SecretSlice<u8>, other: &SecretSlice<u8>) -> bool {
    one.expose_secret() == other.expose_secret()
}

fn redacted<S: Serializer>(keys: &BTreeMap<String, SecretString>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(keys.keys().map(|id| (id, "***")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 32 bytes, all of them this one.
    fn key(byte: u8) -> String {
        STANDARD.encode([byte; KEY_BYTES])
    }

    fn settings(active_key: Option<&str>, keys: &[(&str, &str)]) -> EncryptionSettings {
        let keys = keys.iter().map(|(id, text)| ((*id).to_owned(), SecretString::from(*text))).collect();
        EncryptionSettings { active_key: active_key.map(str::to_owned), keys }
    }

    fn told(settings: &EncryptionSettings) -> Vec<String> {
        settings.problems().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_key_ring_with_or_without_an_active_key_has_no_problem() {
        assert_eq!(EncryptionSettings::default().problems(), []);
        let keys = [("2026_01", key(1)), ("2026-07", format!("{}\n", key(2)))];
        let keys = keys.each_ref().map(|(id, text)| (*id, text.as_str()));
        assert_eq!(settings(None, &keys).problems(), []);
        assert_eq!(settings(Some("2026_01"), &keys).problems(), []);
    }

    #[test]
    fn all_problems_are_told_at_once_with_their_keys_and_bounds() {
        let (one, short) = (key(1), STANDARD.encode([7_u8; 16]));
        let (one, short) = (one.as_str(), short.as_str());
        let keys = [("a", one), ("b", one), ("c", "no base64!"), ("d", short), ("E2", one)];
        assert_eq!(
            told(&settings(Some("z"), &keys)),
            [
                "keys is a text of 2 bytes, but an identifier must be 1 to 64 lower-case letters, digits, - or _",
                "keys.b is the same as keys.a, but each must be a key of its own: deleting one would leave the other",
                "keys.c is no base64, but it must be 32 bytes in base64, as `openssl rand -base64 32` prints them",
                "keys.d is 16 bytes, but it must be 32 bytes in base64, as `openssl rand -base64 32` prints them",
                "active_key is \"z\", but it must name one of `keys`: a, b, c, d",
            ]
        );
        assert_eq!(
            told(&settings(Some("z"), &[])),
            ["active_key is \"z\", but it must name one of `keys`, which are none"]
        );
    }

    #[test]
    fn the_number_of_keys_and_the_length_of_an_identifier_are_bounded() {
        let ring = |keys: usize| {
            let keys = (0..keys).map(|n| (format!("k{n}"), SecretString::from(key(u8::try_from(n).expect("few")))));
            EncryptionSettings { active_key: None, keys: keys.collect() }
        };
        assert_eq!(ring(MAX_KEYS).problems(), []);
        assert_eq!(told(&ring(MAX_KEYS + 1)), ["keys is 101, but it must have at most 100"]);
        assert!(is_key_id(&"x".repeat(64)) && !is_key_id(&"x".repeat(65)) && !is_key_id(""));
    }

    #[test]
    fn no_key_is_told_by_debug_by_what_is_shown_or_by_a_problem_wherever_it_stands() {
        let (secret, other) = (key(9), key(8));
        let more = format!("{secret}?");
        let (secret, other, more) = (secret.as_str(), other.as_str(), more.as_str());
        let at_its_place = settings(Some("a"), &[("a", secret)]);
        assert!(!format!("{at_its_place:?}").contains(secret), "{at_its_place:?}");
        let shown = serde_json::to_value(&at_its_place).expect("JSON");
        assert_eq!(shown, serde_json::json!({"active_key": "a", "keys": {"a": "***"}}));
        for wrong in [
            settings(Some(secret), &[("a", other)]),
            settings(None, &[(secret, other)]),
            settings(None, &[("a", secret), ("b", secret)]),
            settings(None, &[("a", more)]),
        ] {
            let problems = told(&wrong);
            assert_eq!(problems.len(), 1, "{problems:?}");
            assert!(!problems.concat().contains(secret), "{problems:?}");
        }
    }
}
