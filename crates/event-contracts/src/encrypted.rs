//! Fields whose values are encrypted: how a schema says so, and whether a payload keeps to it.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

/// The keyword that marks a field whose values are encrypted.
pub(crate) const ENCRYPTED: &str = "x-encrypted";

/// A compact JWE whose key encrypts the value itself: five parts, the second empty, an initialisation vector of 12 bytes and
/// a tag of 16. The header is a JSON object, which in base64url begins with `eyJ`.
const PATTERN: &str = "^eyJ[A-Za-z0-9_-]+\\.\\.[A-Za-z0-9_-]{16}\\.[A-Za-z0-9_-]+\\.[A-Za-z0-9_-]{22}$";

/// Stands in a schema for a value that is encrypted, and marks its field so. Given at the field, which holds a ciphertext:
/// `#[schemars(with = "Encrypted", extend("x-classification" = Classification::Personal))]`, or `with = "Option<Encrypted>"`.
///
/// A list or an object is encrypted as one value.
#[derive(Debug, Clone, Copy)]
pub enum Encrypted {}

impl Encrypted {
    /// A ciphertext for examples. Nobody has its key.
    pub const EXAMPLE: &'static str = concat!(
        "eyJhbGciOiJkaXIiLCJlbmMiOiJBMjU2R0NNIiwia2lkIjoiZXhhbXBsZSIsImNvbnRleHQiOlsiY3VzdG9tZXIiLCIxIiwiMDE5MGIyYzMt",
        "MDAwMC03MDAwLTgwMDAtMDAwMDAwMDAwMDAxIiwiZW1haWwiXX0..9MEmH4AC_jPwWoRW.4UUQGVTHWaWZox-1r_ORCdgYeyI.",
        "CQ0P28CK15ayJS9ep6CqAg"
    );
}

impl JsonSchema for Encrypted {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Encrypted".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": PATTERN, "x-encrypted": true })
    }
}

/// Whether a field is marked.
pub(crate) fn is_marked(field: &Value) -> bool {
    field.get(ENCRYPTED).is_some()
}

/// Whether the schema of a marked field is that of [`Encrypted`], by hand or not.
pub(crate) fn is_schema_of_ciphertext(field: &Value) -> bool {
    let is_text = |kind: &Value| *kind == json!("string") || *kind == json!(["string", "null"]);
    field.get(ENCRYPTED) == Some(&Value::Bool(true))
        && field.get("pattern").and_then(Value::as_str) == Some(PATTERN)
        && field.get("type").is_some_and(is_text)
}

/// The fields that a schema marks as encrypted and whose values in the payload are no ciphertexts; none, if it keeps its word.
#[must_use]
pub fn plaintexts(schema: &Value, payload: &Value) -> Vec<String> {
    let mut found = Vec::new();
    visit("", schema, payload, &mut found);
    found
}

fn visit(path: &str, schema: &Value, value: &Value, found: &mut Vec<String>) {
    if is_marked(schema) && !value.is_null() && !value.as_str().is_some_and(is_ciphertext) {
        found.push(format!("{path} is marked {ENCRYPTED} and is no ciphertext"));
    }
    let none = Map::new();
    let fields = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
    for (name, field) in fields {
        if let Some(value) = value.get(name) {
            visit(&below(path, name), field, value, found);
        }
    }
    if let (Some(items), Some(values)) = (schema.get("items"), value.as_array()) {
        for value in values {
            visit(path, items, value, found);
        }
    }
    if let (Some(others), Some(values)) = (schema.get("additionalProperties"), value.as_object()) {
        let values = values.iter().filter(|(name, _)| !fields.contains_key(*name));
        values.for_each(|(name, value)| visit(&below(path, name), others, value, found));
    }
    for choice in ["allOf", "anyOf", "oneOf"] {
        let schemas = schema.get(choice).and_then(Value::as_array).into_iter().flatten();
        schemas.for_each(|schema| visit(path, schema, value, found));
    }
}

fn below(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Whether a text fits [`PATTERN`].
fn is_ciphertext(text: &str) -> bool {
    let is_base64url =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte));
    let parts: Vec<&str> = text.split('.').collect();
    let [header, "", iv, ciphertext, tag] = *parts.as_slice() else { return false };
    header.starts_with("eyJ")
        && header.len() > 3
        && (iv.len(), tag.len()) == (16, 22)
        && [header, iv, ciphertext, tag].into_iter().all(is_base64url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked() -> Value {
        json!({"type": "string", "pattern": PATTERN, "x-encrypted": true})
    }

    fn of(fields: &Value, payload: &Value) -> Vec<String> {
        plaintexts(&json!({"type": "object", "properties": fields}), payload)
    }

    #[test]
    fn a_marked_field_holds_a_ciphertext_or_nothing() {
        let fields = json!({"email": marked(), "name": {"type": "string"}});
        for payload in [json!({"email": Encrypted::EXAMPLE, "name": "a"}), json!({"email": null}), json!({})] {
            assert_eq!(of(&fields, &payload), [""; 0], "{payload}");
        }
        for value in [json!("ada@example.org"), json!(""), json!(7), json!([Encrypted::EXAMPLE]), json!({"ct": "x"})] {
            assert_eq!(of(&fields, &json!({ "email": value })), ["email is marked x-encrypted and is no ciphertext"]);
        }
    }

    #[test]
    fn a_marked_field_is_looked_at_however_deep_it_is() {
        let person = json!({"type": "object", "properties": {"email": marked()}});
        let fields = json!({
            "list": {"type": "array", "items": person},
            "map": {"type": "object", "additionalProperties": person},
            "maybe": {"anyOf": [person, {"type": "null"}]},
        });
        let plain = json!({"email": "plain"});
        assert_eq!(
            of(&fields, &json!({"list": [{"email": Encrypted::EXAMPLE}, plain], "map": {"a": plain}, "maybe": plain})),
            [
                "list.email is marked x-encrypted and is no ciphertext",
                "map.a.email is marked x-encrypted and is no ciphertext",
                "maybe.email is marked x-encrypted and is no ciphertext",
            ]
        );
    }

    #[test]
    fn what_is_marked_inside_a_list_or_a_choice_is_looked_at_as_well() {
        let fields = json!({
            "list": {"type": "array", "items": marked()},
            "map": {"type": "object", "additionalProperties": marked()},
            "maybe": {"anyOf": [marked(), {"type": "null"}]},
        });
        let kept = json!({"list": [Encrypted::EXAMPLE], "map": {"a": Encrypted::EXAMPLE}, "maybe": null});
        assert_eq!(of(&fields, &kept), [""; 0]);
        let broken = json!({"list": [Encrypted::EXAMPLE, "plain"], "map": {"a": "plain"}, "maybe": "plain"});
        let words = |path: &str| format!("{path} is marked x-encrypted and is no ciphertext");
        assert_eq!(of(&fields, &broken), ["list", "map.a", "maybe"].map(words));
    }

    #[test]
    fn what_only_looks_like_a_ciphertext_is_none() {
        assert!(is_ciphertext(Encrypted::EXAMPLE));
        for (from, to) in [("eyJ", "eyK"), ("..", ".AAAA."), ("..", "."), ("9MEmH4AC_jPw", "9MEm"), ("_jPw", "+jPw")] {
            let text = Encrypted::EXAMPLE.replacen(from, to, 1);
            assert!(!is_ciphertext(&text), "{from} as {to}");
        }
        assert!(!is_ciphertext("eyJ.....") && !is_ciphertext(""));
    }

    #[test]
    fn a_schema_marks_a_field_with_the_pattern_of_a_ciphertext_alone() {
        assert!(is_schema_of_ciphertext(&marked()));
        for (keyword, value, fits) in [
            ("type", json!(["string", "null"]), true),
            ("type", json!(["string", "integer"]), false),
            ("type", json!("integer"), false),
            ("pattern", json!("^.*$"), false),
            ("x-encrypted", json!("yes"), false),
        ] {
            let mut schema = marked();
            schema[keyword] = value;
            assert_eq!(is_schema_of_ciphertext(&schema), fits, "{schema}");
        }
    }
}
