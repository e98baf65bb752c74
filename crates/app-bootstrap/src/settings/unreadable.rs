//! What is said of a value that cannot be read: the value, unless it may be a secret, and what can stand there.

use std::net::SocketAddr;

use application_core::SettingProblem;
use config::{ConfigError, Map, Value, ValueKind};

use super::Settings;

/// The problem of the key at which reading stopped.
pub(super) fn unreadable_key(
    error: &serde_path_to_error::Error<ConfigError>,
    root: &Map<String, Value>,
) -> SettingProblem {
    let key = error.path().to_string();
    let given = value_at(root, &key);
    if let Some(Expected { takes_text, bound }) = expected(&key) {
        let given = given.map_or_else(|| "missing".to_owned(), |given| shown(given, takes_text));
        return SettingProblem::new(key, given, bound);
    }
    let words = without_texts(error.inner().to_string(), root);
    let bound = match words.split_once(", expected ") {
        Some((begin, keys)) if begin.starts_with("unknown field") => {
            let keys = keys.split(" for key ").next().unwrap_or(keys).trim_start_matches("one of ");
            format!("there is no such key; known here: {}", keys.replace('`', ""))
        }
        _ => format!("it cannot be read: {words}"),
    };
    SettingProblem::new(key, "set", bound)
}

/// What may stand at a key.
struct Expected {
    /// Whether a word, a duration or an address is expected.
    takes_text: bool,
    /// What the value must be, as [`SettingProblem::bound`].
    bound: String,
}

/// What may stand at a key, as its default and the reader of its type tell; `None`: the key has no default.
fn expected(key: &str) -> Option<Expected> {
    let mut tree = toml::Table::try_from(Settings::default()).ok()?;
    let place = toml_at(&mut tree, key)?;
    let bound = match place {
        toml::Value::Integer(default) => format!("it must be a whole number, for example {default}"),
        toml::Value::Boolean(_) => "it must be true or false".to_owned(),
        toml::Value::Table(_) => "it must be a section with keys of its own".to_owned(),
        toml::Value::Array(_) => "it must be a list as in a file, [\"a\", \"b\"]".to_owned(),
        toml::Value::String(default) => {
            let default = std::mem::replace(default, NO_VALUE.to_owned());
            return Some(Expected { takes_text: true, bound: bound_of_text(tree, &default)? });
        }
        toml::Value::Float(default) => format!("it must be a number, for example {default}"),
        toml::Value::Datetime(_) => return None,
    };
    Some(Expected { takes_text: false, bound })
}

/// A text that is no word, duration or address of any setting.
const NO_VALUE: &str = "?";

/// What the reader says to [`NO_VALUE`] in this tree.
fn bound_of_text(tree: toml::Table, default: &str) -> Option<String> {
    let error = tree.try_into::<Settings>().err()?;
    Some(match error.message().split_once(", expected ") {
        Some((_, choices)) if choices.contains('`') => format!("it must be {}", choices.replace('`', "")),
        Some((_, kind)) => format!("it must be {kind}, for example {default}"),
        None if default.parse::<SocketAddr>().is_ok() => {
            format!("it must be an IP address with a port, for example {default}")
        }
        None => format!("it cannot be read ({}); by default it is {default}", error.message()),
    })
}

fn toml_at<'a>(table: &'a mut toml::Table, key: &str) -> Option<&'a mut toml::Value> {
    match key.split_once('.') {
        None => table.get_mut(key),
        Some((section, rest)) => toml_at(table.get_mut(section)?.as_table_mut()?, rest),
    }
}

fn value_at<'a>(table: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    match key.split_once('.') {
        None => table.get(key),
        Some((section, rest)) => match &table.get(section)?.kind {
            ValueKind::Table(inner) => value_at(inner, rest),
            _ => None,
        },
    }
}

fn shown(value: &Value, takes_text: bool) -> String {
    match &value.kind {
        ValueKind::String(text) if is_tellable(text, takes_text) => format!("{text:?}"),
        ValueKind::String(_) => "a text that is not shown here".to_owned(),
        ValueKind::Table(_) => "a section".to_owned(),
        ValueKind::Array(_) => "a list".to_owned(),
        ValueKind::Nil => "empty".to_owned(),
        number => number.to_string(),
    }
}

/// A secret may stand under the wrong key. Shown are short texts and, where a text is expected, what may be a mistyped
/// word, duration or address; no URL and nothing long.
fn is_tellable(text: &str, takes_text: bool) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || " .,:_[]-".contains(c);
    text.len() < SHORTEST_SECRET || (takes_text && text.len() <= LONGEST_WORD && text.chars().all(plain))
}

/// Shorter texts are numbers, times and words of ours, and it helps to see them.
const SHORTEST_SECRET: usize = 6;
/// Words, durations and addresses are hardly longer.
const LONGEST_WORD: usize = 32;

/// A secret that stands under the wrong key would otherwise be told: the reader's words quote what they met.
fn without_texts(mut words: String, root: &Map<String, Value>) -> String {
    let mut texts = Vec::new();
    for value in root.values() {
        collect_texts(value, &mut texts);
    }
    texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
    for text in texts.into_iter().filter(|text| text.len() >= SHORTEST_SECRET) {
        let quoted = format!("{text:?}");
        let escaped = quoted.get(1..quoted.len() - 1).unwrap_or(text);
        words = words.replace(escaped, "…").replace(text, "…");
    }
    words
}

fn collect_texts<'a>(value: &'a Value, texts: &mut Vec<&'a str>) {
    match &value.kind {
        ValueKind::String(text) => texts.push(text),
        ValueKind::Table(table) => {
            for value in table.values() {
                collect_texts(value, texts);
            }
        }
        ValueKind::Array(values) => {
            for value in values {
                collect_texts(value, texts);
            }
        }
        _ => {}
    }
}
