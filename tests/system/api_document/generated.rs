//! Requests made from the document itself: of each operation what it allows, and each kind of what it does not.

use proptest::{
    collection, option,
    prelude::{BoxedStrategy, Just, Strategy, any},
    sample::select,
    strategy::{Union, ValueTree},
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use serde_json::{Map, Value, json};

use super::{DEAD, PUBLISHED, UNKNOWN, validator};
use crate::commands::Outcome;

/// The same requests in every run.
const SEED: [u8; 32] = *b"a request that is seen once more";
/// So many allowed requests are made of each operation, each of its own.
const ALLOWED: usize = 4;
/// So many values are drawn for one that is as wanted.
const DRAWS: usize = 2_000;

/// What the document says of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    Taken,
    /// As far as the document can tell: where a range ends before it begins, it is refused.
    TakenUnlessEmpty,
    Refused,
    OtherType,
}

impl Expected {
    const fn of(is_allowed: bool, is_range: bool) -> Self {
        match (is_allowed, is_range) {
            (false, _) => Self::Refused,
            (true, false) => Self::Taken,
            (true, true) => Self::TakenUnlessEmpty,
        }
    }
}

/// A request and what the document says of it.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) method: String,
    /// As it stands in the document.
    pub(super) path: String,
    pub(super) id: &'static str,
    pub(super) query: Vec<(String, String)>,
    pub(super) content_type: Option<&'static str>,
    pub(super) body: Option<String>,
    pub(super) expected: Expected,
}

/// The requests of every operation of the document.
pub(super) fn requests(document: &Value) -> Outcome<Vec<Asked>> {
    let config = Config { failure_persistence: None, ..Config::default() };
    let runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &SEED));
    let mut maker = Maker { document, runner };
    let mut all = Vec::new();
    for (path, operations) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in operations.as_object().into_iter().flatten() {
            all.extend(maker.of_operation(method, path, operation)?);
        }
    }
    Ok(all)
}

struct Maker<'a> {
    document: &'a Value,
    runner: TestRunner,
}

impl Maker<'_> {
    fn of_operation(&mut self, method: &str, path: &str, operation: &Value) -> Outcome<Vec<Asked>> {
        let query = query_schema(operation);
        let body = operation.pointer("/requestBody/content/application~1json/schema");
        let mut all = Vec::new();
        for _ in 0..ALLOWED {
            let id = self.draw(&select(vec![DEAD, PUBLISHED, UNKNOWN]).boxed())?;
            let asked = self.valid(&query, |_| true)?;
            let sent = body.map(|schema| self.valid(schema, |_| true)).transpose()?;
            let is_range = holds_a_range(&asked) || sent.as_ref().is_some_and(holds_a_range);
            all.push(Asked {
                method: method.to_owned(),
                path: path.to_owned(),
                id,
                query: as_texts(&asked),
                content_type: sent.is_some().then_some("application/json"),
                body: sent.map(|sent| sent.to_string()),
                expected: Expected::of(true, is_range),
            });
        }
        let good = |of: &[Asked]| of.first().map(Asked::copied).ok_or("no allowed request");
        let mut wrong = Vec::new();
        if path.contains("{id}") {
            wrong.push(Asked { id: "7", ..good(&all)? });
        }
        for asked in self.violations(&query)? {
            if let Some(expected) = self.expected_of_query(&query, &asked)? {
                wrong.push(Asked { query: as_texts(&asked), expected, ..good(&all)? });
            }
        }
        if let Some(schema) = body {
            let validator = validator(self.document, schema)?;
            for sent in self.violations(schema)? {
                let expected = Expected::of(validator.is_valid(&sent), holds_a_range(&sent));
                wrong.push(Asked { body: Some(sent.to_string()), expected, ..good(&all)? });
            }
            for text in ["", "{", "[]", "null", "{} {}"] {
                wrong.push(Asked { body: Some(text.to_owned()), ..good(&all)? });
            }
            let other = ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-16"];
            for content_type in other.map(Some).into_iter().chain([None]) {
                wrong.push(Asked { content_type, expected: Expected::OtherType, ..good(&all)? });
            }
        }
        all.append(&mut wrong);
        Ok(all)
    }

    fn draw<T: std::fmt::Debug>(&mut self, strategy: &BoxedStrategy<T>) -> Outcome<T> {
        let tree = strategy.new_tree(&mut self.runner);
        Ok(tree.map_err(|reason| format!("nothing can be drawn: {reason}"))?.current())
    }

    /// A value that the schema allows and that is as wanted. What goes together in an object is left to the validator.
    fn valid(&mut self, schema: &Value, is_wanted: impl Fn(&Value) -> bool) -> Outcome<Value> {
        let (strategy, validator) = (values(self.document, schema), validator(self.document, schema)?);
        for _ in 0..DRAWS {
            let value = self.draw(&strategy)?;
            if is_wanted(&value) && validator.is_valid(&value) {
                return Ok(value);
            }
        }
        Err(format!("no value was drawn that the document allows: {schema}").into())
    }

    /// Objects with one thing wrong each: a field that is missing, unknown, or not as its schema says.
    fn violations(&mut self, schema: &Value) -> Outcome<Vec<Value>> {
        let (whole, fields) = (schema, fields(self.document, schema));
        let mut all = Vec::new();
        for (name, field) in fields["properties"].as_object().into_iter().flatten() {
            // An object that has the field, or another field could be what is refused.
            let good = self.valid(whole, |value| !value[name.as_str()].is_null())?;
            if list(fields, "required").iter().any(|required| required == name) {
                all.push(without(&good, name));
            }
            for wrong in self.wrongs(field)? {
                all.push(with(&good, name, wrong));
            }
        }
        if fields["additionalProperties"] == false {
            let good = self.valid(whole, Value::is_object)?;
            all.push(with(&good, "nonsense", json!(1)));
        }
        Ok(all)
    }

    /// Values that the schema does not allow, one for each bound that it sets.
    fn wrongs(&mut self, schema: &Value) -> Outcome<Vec<Value>> {
        let document = self.document;
        let schema = fields(document, schema);
        let alternatives = alternatives(schema);
        if !alternatives.is_empty() {
            let mut all = vec![json!(7), json!([1])];
            let is_object = |schema: &Value| fields(document, schema)["type"] == "object";
            for alternative in alternatives.iter().filter(|alternative| is_object(alternative)) {
                all.extend(self.violations(alternative)?);
            }
            return Ok(all);
        }
        let types = types(schema);
        let is = |name: &str| types.contains(&name);
        let mut all = Vec::new();
        let others = [("integer", json!(7)), ("array", json!([1])), ("object", json!({})), ("null", Value::Null)];
        all.extend(others.into_iter().filter(|(name, _)| !is(name)).map(|(_, value)| value));
        if is("string") {
            all.extend((!list(schema, "enum").is_empty()).then(|| json!("nonsense")));
            all.extend(schema.get("format").map(|_| json!("7")));
            all.extend(number(schema, "minLength").filter(|least| *least > 0).map(|_| json!("")));
            all.extend(number(schema, "maxLength").map(|most| Value::from(text_of(most + 1))));
            all.extend(schema.get("pattern").map(|_| json!("a\u{7}b")));
        }
        if is("integer") {
            all.push(json!("many"));
            all.push(json!(1.5));
            all.extend(number(schema, "minimum").map(|least| json!(least - 1)));
            all.extend(number(schema, "maximum").map(|most| json!(most + 1)));
        }
        if is("boolean") {
            all.push(json!("maybe"));
        }
        if is("array") {
            let item = self.valid(&schema["items"], |_| true)?;
            all.extend(number(schema, "minItems").filter(|least| *least > 0).map(|_| json!([])));
            let too_many = number(schema, "maxItems").and_then(|most| usize::try_from(most + 1).ok());
            all.extend(too_many.map(|count| Value::from(vec![item; count])));
            all.extend(self.wrongs(&schema["items"])?.into_iter().map(|wrong| json!([wrong])));
        }
        if is("object") {
            all.extend(self.violations(schema)?);
        }
        Ok(all)
    }

    /// A query is text: what has the wrong type there is another text. None: it cannot be said in a query.
    fn expected_of_query(&self, schema: &Value, asked: &Value) -> Outcome<Option<Expected>> {
        let mut seen = Map::new();
        for (name, value) in asked.as_object().into_iter().flatten() {
            let is_text =
                types(schema.get("properties").and_then(|properties| properties.get(name)).unwrap_or(&Value::Null))
                    .contains(&"string");
            let value = match value {
                Value::Null | Value::Array(_) | Value::Object(_) => return Ok(None),
                value if is_text => Value::from(as_text(value)),
                value => value.clone(),
            };
            seen.insert(name.clone(), value);
        }
        let seen = Value::Object(seen);
        let is_allowed = validator(self.document, schema)?.is_valid(&seen);
        Ok(Some(Expected::of(is_allowed, holds_a_range(&seen))))
    }
}

impl Asked {
    /// The same request, of which one thing is about to be made wrong.
    fn copied(&self) -> Self {
        Self {
            method: self.method.clone(),
            path: self.path.clone(),
            query: self.query.clone(),
            body: self.body.clone(),
            expected: Expected::Refused,
            ..*self
        }
    }
}

/// The parameters of a query as the fields of an object.
fn query_schema(operation: &Value) -> Value {
    let parameters = list(operation, "parameters").iter().filter(|parameter| parameter["in"] == "query");
    let named = parameters.filter_map(|parameter| Some((parameter["name"].as_str()?, parameter)));
    let required: Vec<_> = named.clone().filter(|(_, is)| is["required"] == true).map(|(name, _)| name).collect();
    let properties: Map<_, _> = named.map(|(name, is)| (name.to_owned(), is["schema"].clone())).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

/// Values that the schema allows by itself, those at its bounds among them.
fn values(document: &Value, schema: &Value) -> BoxedStrategy<Value> {
    let schema = fields(document, schema);
    let alternatives = alternatives(schema);
    if !alternatives.is_empty() {
        return Union::new(alternatives.iter().map(|schema| values(document, schema))).boxed();
    }
    let names = list(schema, "enum");
    if !names.is_empty() {
        return select(names.to_vec()).boxed();
    }
    Union::new(types(schema).into_iter().map(|name| match name {
        "boolean" => any::<bool>().prop_map(Value::from).boxed(),
        "integer" => {
            let least = number(schema, "minimum").unwrap_or_default();
            let most = number(schema, "maximum").unwrap_or(i32::MAX.into());
            select(vec![least, least + 1, most]).prop_map(Value::from).boxed()
        }
        "string" => select(texts(schema)).prop_map(Value::from).boxed(),
        "array" => {
            let least = number(schema, "minItems").and_then(|least| usize::try_from(least).ok()).unwrap_or_default();
            collection::vec(values(document, &schema["items"]), least..least + 3).prop_map(Value::from).boxed()
        }
        "object" => objects(document, schema),
        _ => Just(Value::Null).boxed(),
    }))
    .boxed()
}

fn objects(document: &Value, schema: &Value) -> BoxedStrategy<Value> {
    let required = list(schema, "required");
    let properties = schema["properties"].as_object().into_iter().flatten();
    let empty = Just(Map::new()).boxed();
    let all = properties.fold(empty, |object: BoxedStrategy<Map<String, Value>>, (name, field)| {
        let (name, value) = (name.clone(), values(document, field));
        let value = if required.iter().any(|required| *required == name) {
            value.prop_map(Some).boxed()
        } else {
            option::of(value).boxed()
        };
        let joined = (object, value).prop_map(move |(mut object, value)| {
            object.extend(value.map(|value| (name.clone(), value)));
            object
        });
        joined.boxed()
    });
    all.prop_map(Value::Object).boxed()
}

fn texts(schema: &Value) -> Vec<String> {
    let known: &[&str] = match schema["format"].as_str() {
        Some("uuid") => &[DEAD, PUBLISHED, UNKNOWN],
        Some("date-time") => &["2026-01-02T03:04:05Z", "2026-07-01T00:00:00.5+09:00", "2036-12-31T23:59:59-01:00"],
        _ => &["order"],
    };
    let bounds = [number(schema, "minLength"), number(schema, "maxLength")].into_iter().flatten();
    known.iter().map(|text| (*text).to_owned()).chain(bounds.map(text_of)).collect()
}

fn text_of(length: i64) -> String {
    "x".repeat(usize::try_from(length).unwrap_or_default())
}

/// The schema behind a reference; of one whose fields must go together, the fields.
fn fields<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    let named = schema["$ref"].as_str().and_then(|reference| document.pointer(reference.strip_prefix('#')?));
    match named.or_else(|| list(schema, "allOf").first()) {
        Some(inner) => fields(document, inner),
        None => schema,
    }
}

fn alternatives(schema: &Value) -> &[Value] {
    match list(schema, "oneOf") {
        [] => list(schema, "anyOf"),
        alternatives => alternatives,
    }
}

fn types(schema: &Value) -> Vec<&str> {
    match &schema["type"] {
        Value::Array(types) => types.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    }
}

fn list<'a>(schema: &'a Value, key: &str) -> &'a [Value] {
    schema[key].as_array().map_or(&[], Vec::as_slice)
}

/// A bound, which may be written as a fraction.
fn number(schema: &Value, key: &str) -> Option<i64> {
    schema.get(key)?.to_string().trim_end_matches(".0").parse().ok()
}

fn with(object: &Value, name: &str, value: Value) -> Value {
    let mut changed = object.clone();
    if let Some(fields) = changed.as_object_mut() {
        fields.insert(name.to_owned(), value);
    }
    changed
}

fn without(object: &Value, name: &str) -> Value {
    let mut changed = object.clone();
    if let Some(fields) = changed.as_object_mut() {
        fields.remove(name);
    }
    changed
}

/// Both ends of a range: no schema can say which of them must come first.
fn holds_a_range(value: &Value) -> bool {
    let has = |name: &str| value.get(name).is_some_and(|end| !end.is_null());
    let is_in_filter = value.get("filter").is_some_and(holds_a_range);
    (has("from") && has("to")) || (has("publishedFrom") && has("publishedUntil")) || is_in_filter
}

fn as_texts(asked: &Value) -> Vec<(String, String)> {
    let asked = asked.as_object().into_iter().flatten();
    asked.map(|(name, value)| (name.clone(), as_text(value))).collect()
}

fn as_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}
