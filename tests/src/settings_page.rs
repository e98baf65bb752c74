//! The page of settings, `docs/settings.md`: keys, types, defaults and variables come from the types of the settings; bounds
//! and meanings are written on the page, and ranges, words and examples of other bounds are tried. `cargo xtask settings`
//! writes, `--check` compares.

mod bounds;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, io,
};

use app_bootstrap::settings::{ENVIRONMENT_PREFIX, Settings};
use secrecy::ExposeSecret;
use serde_json::{Map, Value, json};

/// Where the page is, from the workspace's root.
pub const PAGE: &str = "docs/settings.md";

const HEADER: &str = "| key | type | default | bound | meaning | environment |";
const RULE: &str = "| --- | --- | --- | --- | --- | --- |";

/// Stands in a key for a name that operators give.
const NAMED: &str = "<id>";
/// Such a name.
const NAME: &str = "a";

/// The setting whose default is another one in every process, and what the page says of it.
const DERIVED: (&str, &str) = ("service.instance", "host name and process id");

/// A text that is no word, duration or address of any setting.
const NO_VALUE: &str = "?";

/// Why the page could not be compared or written.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// It cannot be read or written.
    #[error("{PAGE} cannot be read or written")]
    File(#[source] io::Error),
    /// The defaults cannot be shown.
    #[error("the settings have no JSON form")]
    Settings(#[from] serde_json::Error),
}

/// What a value is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// True or false.
    Boolean,
    /// A whole number.
    Integer,
    /// A whole number of bytes.
    Bytes,
    /// A number with a fraction.
    Number,
    /// A time, with its unit.
    Duration,
    /// One of these words.
    Word(Vec<String>),
    /// An address with a port.
    Address,
    /// The path of a file.
    File,
    /// Any other text.
    Text,
    /// A list.
    List,
}

impl Kind {
    fn of(key: &str, default: &Value) -> Self {
        match default {
            Value::Bool(_) => Self::Boolean,
            Value::Number(number) if number.is_f64() => Self::Number,
            Value::Number(_) if key.ends_with("_bytes") => Self::Bytes,
            Value::Number(_) => Self::Integer,
            Value::Array(_) => Self::List,
            Value::String(_) | Value::Null | Value::Object(_) => Self::of_text(key),
        }
    }

    /// What the reader of a key says to a text that is none of its own tells what it reads.
    fn of_text(key: &str) -> Self {
        let said = |value: Value| settings_with(key, value).err().map(|error| error.to_string()).unwrap_or_default();
        let words = said(json!(NO_VALUE));
        if words.contains("expected a duration") {
            Self::Duration
        } else if words.contains("socket address") {
            Self::Address
        } else if let Some((_, known)) = words.split_once(", expected ").filter(|_| words.contains("unknown variant")) {
            Self::Word(codes(known).map(str::to_owned).collect())
        } else if said(json!(true)).contains("path string") {
            Self::File
        } else {
            Self::Text
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Bytes => "bytes",
            Self::Number => "number",
            Self::Duration => "duration",
            Self::Word(_) => "word",
            Self::Address => "address",
            Self::File => "file",
            Self::Text => "text",
            Self::List => "list",
        })
    }
}

/// What the types say of a key.
#[derive(Debug, Clone, PartialEq)]
pub struct Fact {
    /// What its value is.
    pub kind: Kind,
    /// Its default; null: without one the key is absent.
    pub default: Value,
}

/// All keys, with what the types say of them.
pub type Facts = BTreeMap<String, Fact>;

/// Reads the keys, their types and their defaults from the types.
///
/// # Errors
/// When a default has no JSON form.
pub fn facts() -> Result<Facts, serde_json::Error> {
    let settings = Settings::default();
    let mut defaults = BTreeMap::new();
    flatten("", &settings.redacted_json()?, &mut defaults);
    // The defaults of URLs are public, and redacted like all others.
    for (key, url) in [
        ("database.url", &settings.database.url),
        ("outbound.amqp.url", &settings.outbound.amqp.url),
        ("consumer.url", &settings.consumer.url),
    ] {
        defaults.insert(key.to_owned(), json!(url.expose_secret()));
    }
    let fact = |(key, default): (String, Value)| {
        let kind = Kind::of(&key, &default);
        (key, Fact { kind, default })
    };
    Ok(defaults.into_iter().map(fact).collect())
}

fn flatten(path: &str, value: &Value, found: &mut BTreeMap<String, Value>) {
    match value {
        // A section without keys has those that operators name.
        Value::Object(section) if section.is_empty() => {
            found.insert(format!("{path}.{NAMED}"), Value::Null);
        }
        Value::Object(section) => {
            for (name, value) in section {
                let key = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                flatten(&key, value, found);
            }
        }
        value => {
            found.insert(path.to_owned(), value.clone());
        }
    }
}

/// The defaults with this value, and with what makes the check look at it.
fn settings_with(key: &str, value: Value) -> Result<Settings, serde_json::Error> {
    let mut root = Map::new();
    if key.starts_with("outbound.webhook.") {
        put(&mut root, "outbound.publisher", json!("webhook"));
        put(&mut root, "outbound.webhook.url", json!("https://hooks.example.com/in"));
        put(&mut root, "outbound.webhook.secrets", json!(bounds::WEBHOOK_SECRET));
    }
    put(&mut root, &key.replace(NAMED, NAME), value);
    serde_json::from_value(Value::Object(root))
}

fn put(section: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        None => {
            section.insert(path.to_owned(), value);
        }
        Some((name, rest)) => {
            if let Value::Object(inner) = section.entry(name).or_insert_with(|| Value::Object(Map::new())) {
                put(inner, rest, value);
            }
        }
    }
}

/// The code spans of a text.
fn codes(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// A line of a table: what stands there by hand, and the default, behind which a word may stand.
struct Row<'a> {
    key: &'a str,
    default: &'a str,
    bound: &'a str,
    meaning: &'a str,
}

impl<'a> Row<'a> {
    fn read(line: &'a str) -> Option<Self> {
        if !is_row(line) {
            return None;
        }
        let cells: Vec<&str> = line.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect();
        let &[key, _, default, bound, meaning, _] = cells.as_slice() else { return None };
        Some(Self { key: key.trim_matches('`'), default, bound, meaning })
    }

    fn section(&self) -> Option<&'a str> {
        self.key.split('.').next()
    }

    /// The line as it must be.
    fn line(&self, fact: &Fact) -> String {
        let key = self.key;
        let default = match &fact.default {
            Value::Null if self.default.starts_with("none: ") => self.default.to_owned(),
            Value::Null => "none".to_owned(),
            _ if key == DERIVED.0 => DERIVED.1.to_owned(),
            Value::String(text) => format!("`{text}`"),
            Value::Number(number) => number.to_string(),
            other => format!("`{other}`"),
        };
        let variable = format!("{ENVIRONMENT_PREFIX}__{}", key.to_uppercase().replace('.', "__"));
        let (key, kind, variable) = (format!("`{key}`"), fact.kind.to_string(), format!("`{variable}`"));
        let cells: [&str; 6] = [&key, &kind, &default, self.bound, self.meaning, &variable];
        let cell = |cell: &str| if cell.is_empty() { " |".to_owned() } else { format!(" {cell} |") };
        format!("|{}", cells.map(cell).concat())
    }
}

fn is_row(line: &str) -> bool {
    line.starts_with("| `")
}

/// Everything that is wrong with the page, a line each.
#[must_use]
pub fn problems(page: &str, facts: &Facts) -> Vec<String> {
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    for (index, line) in page.lines().enumerate().filter(|(_, line)| is_row(line)) {
        let place = format!("{PAGE}:{}", index + 1);
        let Some(row) = Row::read(line) else {
            found.push(format!("{place}: the columns must be {HEADER}"));
            continue;
        };
        let key = row.key;
        let Some(fact) = facts.get(key) else {
            found.push(format!("{place}: there is no key {key}"));
            continue;
        };
        if !seen.insert(key) {
            found.push(format!("{place}: {key} is there twice"));
        }
        let expected = row.line(fact);
        if line != expected {
            found.push(format!("{place}: by the types it must be {expected}"));
        }
        if row.meaning.is_empty() {
            found.push(format!("{place}: {key} has no meaning"));
        }
        found.extend(bounds::untrue(key, row.bound, facts).map(|what| format!("{place}: {key} {what}")));
    }
    let missing = facts.keys().filter(|key| !seen.contains(key.as_str()));
    found.extend(missing.map(|key| format!("{PAGE}: {key} is missing")));
    found.extend(bounds::unknown(facts).map(|key| format!("{key} has values to try, and is no key")));
    found
}

/// The page as the types say: every key once, without those that are gone. New ones wait for a bound and a meaning.
#[must_use]
pub fn rewritten(page: &str, facts: &Facts) -> String {
    let (mut lines, mut seen): (Vec<String>, _) = (Vec::new(), BTreeSet::new());
    for line in page.lines() {
        match Row::read(line) {
            Some(row) => {
                seen.insert(row.key);
                lines.extend(facts.get(row.key).map(|fact| row.line(fact)));
            }
            None => lines.push(line.to_owned()),
        }
    }
    for (key, fact) in facts.iter().filter(|(key, _)| !seen.contains(key.as_str())) {
        let row = Row { key, default: "", bound: "", meaning: "" };
        let is_beside = |line: &String| Row::read(line).is_some_and(|other| other.section() == row.section());
        let new = row.line(fact);
        if let Some(last) = lines.iter().rposition(is_beside) {
            lines.insert(last + 1, new);
        } else {
            let heading = format!("## {}", row.section().unwrap_or_default());
            lines.extend([String::new(), heading, String::new(), HEADER.to_owned(), RULE.to_owned(), new]);
        }
    }
    lines.join("\n") + "\n"
}
