//! Whether today's schema of a published version still says what its readers were told.

use serde_json::{Map, Value};

/// Keywords that tell people something, and programs nothing.
const ANNOTATIONS: &[&str] =
    &["$schema", "default", "deprecated", "description", "examples", "title", "x-allowed-because", "x-classification"];
/// Keywords that are compared by what they hold.
const TAKEN_APART: &[&str] = &["items", "properties", "required"];

/// What readers of the published schema would notice if payloads followed the derived one; nothing, if they would not.
///
/// A field may be added if it is not required, and words may change. Everything else is a break: a field that is gone, is
/// new and required, is required and was not, need not be there any more, or has another type, format or bound.
#[must_use]
pub fn breaks(published: &Value, derived: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare("", published, derived, &mut found);
    found
}

fn compare(path: &str, published: &Value, derived: &Value, found: &mut Vec<String>) {
    let (Value::Object(old), Value::Object(new)) = (published, derived) else {
        if published != derived {
            found.push(format!("{} was `{published}` and is `{derived}`", place(path)));
        }
        return;
    };
    compare_fields(path, old, new, found);
    if let (Some(old), Some(new)) = (old.get("items"), new.get("items")) {
        compare(&format!("{path}[]"), old, new, found);
    }
    let taken_apart = |keyword: &str| {
        ANNOTATIONS.contains(&keyword)
            || TAKEN_APART.contains(&keyword)
                && (keyword != "items" || old.contains_key("items") == new.contains_key("items"))
    };
    let keywords = old.keys().chain(new.keys().filter(|keyword| !old.contains_key(*keyword)));
    for keyword in keywords.filter(|keyword| !taken_apart(keyword)) {
        let (was, is) = (old.get(keyword).map(bare), new.get(keyword).map(bare));
        if was != is {
            let show = |value: Option<Value>| value.map_or_else(|| "absent".to_owned(), |value| format!("`{value}`"));
            found.push(format!("{}: `{keyword}` was {} and is {}", place(path), show(was), show(is)));
        }
    }
}

fn compare_fields(path: &str, old: &Map<String, Value>, new: &Map<String, Value>, found: &mut Vec<String>) {
    let none = Map::new();
    let fields = |schema: &'_ Map<String, Value>| schema.get("properties").and_then(Value::as_object).cloned();
    let (old_fields, new_fields) = (fields(old).unwrap_or_else(|| none.clone()), fields(new).unwrap_or(none));
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    for (name, was) in &old_fields {
        let Some(is) = new_fields.get(name) else {
            found.push(format!("{} is gone", below(name)));
            continue;
        };
        match (is_required(old, name), is_required(new, name)) {
            (false, true) => found.push(format!("{} is required and was not", below(name))),
            (true, false) => found.push(format!("{} was required and is not", below(name))),
            _ => {}
        }
        compare(&below(name), was, is, found);
    }
    for name in new_fields.keys().filter(|name| !old_fields.contains_key(*name) && is_required(new, name)) {
        found.push(format!("{} is new and required", below(name)));
    }
}

fn is_required(schema: &Map<String, Value>, name: &str) -> bool {
    schema.get("required").and_then(Value::as_array).is_some_and(|names| names.iter().any(|required| required == name))
}

/// The schema without annotations. Names of fields stay, also those that read like a keyword.
fn bare(schema: &Value) -> Value {
    match schema {
        Value::Object(keywords) => keywords
            .iter()
            .filter(|(keyword, _)| !ANNOTATIONS.contains(&keyword.as_str()))
            .map(|(keyword, value)| match value {
                Value::Object(fields) if keyword == "properties" => {
                    let fields = fields.iter().map(|(name, field)| (name.clone(), bare(field)));
                    (keyword.clone(), Value::Object(fields.collect()))
                }
                value => (keyword.clone(), bare(value)),
            })
            .collect(),
        Value::Array(schemas) => schemas.iter().map(bare).collect(),
        other => other.clone(),
    }
}

fn place(path: &str) -> &str {
    if path.is_empty() { "the payload" } else { path }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn published() -> Value {
        json!({
            "title": "Placed", "type": "object", "required": ["id", "lines"],
            "properties": {
                "id": {"type": "string", "format": "uuid", "description": "Which one."},
                "title": {"type": "string"},
                "lines": {"type": "array", "items": {
                    "type": "object", "required": ["cents"], "properties": {"cents": {"type": "integer"}}}},
                "kind": {"anyOf": [{"enum": ["a", "b"], "description": "x"}, {"type": "null"}]},
            }
        })
    }

    fn after(change: impl FnOnce(&mut Value)) -> Vec<String> {
        let mut derived = published();
        change(&mut derived);
        breaks(&published(), &derived)
    }

    #[test]
    fn words_a_class_and_a_field_that_is_not_required_may_change() {
        let found = after(|schema| {
            schema["title"] = json!("OrderPlaced");
            schema["properties"]["id"]["description"] = json!("The order.");
            schema["properties"]["id"]["x-classification"] = json!("none");
            schema["properties"]["kind"]["anyOf"][0]["description"] = json!("y");
            schema["properties"]["added"] = json!({"type": "string"});
        });
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn a_field_that_is_gone_is_a_break_also_if_it_is_called_like_a_keyword() {
        let found = after(|schema| {
            schema["properties"].as_object_mut().expect("fields").remove("title");
            schema["properties"]["lines"]["items"]["properties"] = json!({});
        });
        assert_eq!(found, ["lines[].cents is gone", "title is gone"]);
    }

    #[test]
    fn a_new_required_field_and_a_change_of_what_is_required_are_breaks() {
        let found = after(|schema| {
            schema["properties"]["more"] = json!({"type": "string"});
            schema["required"] = json!(["lines", "more", "title"]);
        });
        assert_eq!(found, ["id was required and is not", "title is required and was not", "more is new and required"]);
    }

    #[test]
    fn a_field_that_becomes_encrypted_is_a_break() {
        let found = after(|schema| {
            let encrypted = schemars::schema_for!(crate::Encrypted).to_value();
            schema["properties"]["title"]["pattern"] = encrypted["pattern"].clone();
            schema["properties"]["title"]["x-encrypted"] = encrypted["x-encrypted"].clone();
        });
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[1].starts_with("title: `x-encrypted` was absent"), "{found:?}");
    }

    #[test]
    fn another_type_format_bound_or_value_is_a_break() {
        let found = after(|schema| {
            schema["properties"]["id"]["format"] = json!("uri");
            schema["properties"]["title"]["type"] = json!("integer");
            schema["properties"]["title"]["minimum"] = json!(0);
            schema["properties"]["kind"]["anyOf"][0]["enum"] = json!(["a"]);
            schema["properties"]["lines"]["items"] = json!(true);
        });
        assert_eq!(
            found,
            [
                "id: `format` was `\"uuid\"` and is `\"uri\"`",
                "kind: `anyOf` was `[{\"enum\":[\"a\",\"b\"]},{\"type\":\"null\"}]` and is `[{\"enum\":[\"a\"]},{\"type\":\"null\"}]`",
                "lines[] was `{\"properties\":{\"cents\":{\"type\":\"integer\"}},\"required\":[\"cents\"],\"type\":\"object\"}` and is `true`",
                "title: `type` was `\"string\"` and is `\"integer\"`",
                "title: `minimum` was absent and is `0`",
            ]
        );
    }
}
