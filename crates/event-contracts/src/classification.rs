//! What a field may tell about a person. A payload is copied to whoever listens and stays there.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::encrypted::{ENCRYPTED, is_marked, is_schema_of_ciphertext};

/// What a field may tell about a person; given at the field:
/// `#[schemars(extend("x-classification" = Classification::None))]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Classification {
    /// Nothing.
    None,
    /// Something personal. It may leave the service encrypted, as [`Encrypted`](crate::Encrypted) says, or with a reason
    /// beside it: `extend("x-classification" = Classification::Personal, "x-allowed-because" = "…")`.
    Personal,
    /// A credential, or what is kept like one. It never leaves.
    Secret,
}

const CLASS: &str = "x-classification";
const REASON: &str = "x-allowed-because";

/// Keywords of a schema whose values are data and no schemas.
const DATA: &[&str] = &["const", "default", "enum", "examples"];

/// What is wrong with the fields of a schema: nothing, if each is classified and may leave.
#[must_use]
pub fn complaints(schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let fields = schema.get("properties").and_then(Value::as_object);
    if fields.is_none_or(serde_json::Map::is_empty) {
        found.push("the payload is no object with fields".to_owned());
    }
    visit("", schema, &mut found);
    found
}

fn visit(path: &str, schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(keywords) => {
            for (keyword, value) in keywords.iter().filter(|(keyword, _)| !DATA.contains(&keyword.as_str())) {
                match value {
                    Value::Object(fields) if keyword == "properties" => visit_fields(path, fields, found),
                    value => visit(path, value, found),
                }
            }
        }
        Value::Array(schemas) => schemas.iter().for_each(|schema| visit(path, schema, found)),
        _ => {}
    }
}

fn visit_fields(path: &str, fields: &Map<String, Value>, found: &mut Vec<String>) {
    for (name, field) in fields {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let reason = field.get(REASON).and_then(Value::as_str).map(str::trim);
        let (encrypted, reasoned) = (is_marked(field), reason.is_some_and(|reason| !reason.is_empty()));
        if encrypted && !is_schema_of_ciphertext(field) {
            found.push(format!("{path} is marked {ENCRYPTED}, but its schema is not that of `Encrypted`"));
        }
        match field.get(CLASS).and_then(Value::as_str) {
            Some("none") if encrypted => found.push(format!("{path} is encrypted, but its class is `none`")),
            Some("none") => {}
            Some("personal") if encrypted || reasoned => {}
            Some("personal") => found.push(format!(
                "{path} is personal: neither encrypted ({ENCRYPTED}) nor allowed with a reason ({REASON})"
            )),
            Some("secret") => found.push(format!("{path} is secret")),
            Some(other) => found.push(format!("{path} has the class `{other}`, which there is not")),
            None => found.push(format!("{path} is not classified ({CLASS})")),
        }
        visit(&path, field, found);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(fields: &Value) -> Vec<String> {
        complaints(&json!({"type": "object", "properties": fields}))
    }

    #[test]
    fn a_field_without_a_class_is_found_however_deep_it_is() {
        let fields = json!({
            "id": {"type": "string", "x-classification": "none"},
            "owner": {"type": "string"},
            "lines": {"x-classification": "none", "items": {"properties": {"name": true}}},
            "properties": {"x-classification": "none", "anyOf": [{"properties": {"a": {}}}, {"type": "null"}]},
        });
        assert_eq!(
            of(&fields),
            [
                "lines.name is not classified (x-classification)",
                "owner is not classified (x-classification)",
                "properties.a is not classified (x-classification)"
            ]
        );
    }

    #[test]
    fn personal_needs_a_reason_secret_is_refused_and_a_class_must_be_one() {
        let name = |field: Value| of(&json!({ "name": field }));
        let reason = "name is personal: neither encrypted (x-encrypted) nor allowed with a reason (x-allowed-because)";
        assert_eq!(name(json!({"x-classification": Classification::Personal})), [reason]);
        assert_eq!(name(json!({"x-classification": "personal", "x-allowed-because": " "})), [reason]);
        assert_eq!(name(json!({"x-classification": "personal", "x-allowed-because": "consent, register 4"})), [""; 0]);
        assert_eq!(name(json!({"x-classification": Classification::Secret})), ["name is secret"]);
        assert_eq!(name(json!({"x-classification": "public"})), ["name has the class `public`, which there is not"]);
        assert_eq!(name(json!({"x-classification": Classification::None})), [""; 0]);
    }

    #[test]
    fn an_encrypted_field_is_personal_needs_no_reason_and_has_the_schema_of_a_ciphertext() {
        let name = |keyword: &str, value: Value| {
            let mut field = schemars::schema_for!(crate::Encrypted).to_value();
            field["x-classification"] = json!("personal");
            field[keyword] = value;
            of(&json!({ "name": field }))
        };
        assert_eq!(name("description", json!("Who it is.")), [""; 0]);
        assert_eq!(name("x-classification", json!("none")), ["name is encrypted, but its class is `none`"]);
        assert_eq!(name("x-classification", json!("secret")), ["name is secret"]);
        let other = ["name is marked x-encrypted, but its schema is not that of `Encrypted`"];
        assert_eq!(name("pattern", json!("^.*$")), other);
        assert_eq!(name("x-encrypted", json!(false)), other);
    }

    #[test]
    fn a_payload_without_fields_is_refused_and_values_are_no_fields() {
        assert_eq!(complaints(&json!({"type": "string"})), ["the payload is no object with fields"]);
        let fields = json!({"a": {"x-classification": "none", "default": {"properties": {"b": {}}}}});
        assert_eq!(of(&fields), [""; 0]);
    }
}
