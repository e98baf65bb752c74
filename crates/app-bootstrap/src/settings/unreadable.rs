//! What is said of a value that cannot be read: the value, unless it may be a secret, and what can stand there.

use std::net::SocketAddr;

use application_core::SettingProblem;
use config::{ConfigError, Map, Value, ValueKind};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{Settings, load::within};

/// The problem of the key at which reading stopped.
pub(super) fn unreadable_key(
    error: &serde_path_to_error::Error<ConfigError>,
    root: &Map<String, Value>,
) -> SettingProblem {
    let key = error.path().to_string();
    let given = value_at(root, &key);
    if let Some(Expected { kind, bound }) = expected(&key) {
        let is_too_large = kind == Kind::Number && given.is_some_and(is_whole);
        let bound = if is_too_large { format!("{bound}; this one is out of range") } else { bound };
        let given = given.map_or_else(|| "missing".to_owned(), |given| shown(given, kind));
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
    kind: Kind,
    /// What the value must be, as [`SettingProblem::bound`].
    bound: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A word, a duration or an address.
    Text,
    /// A number.
    Number,
    /// Neither.
    Other,
}

/// What may stand at a key, as its default and the reader of its type tell; `None`: the key has no default.
fn expected(key: &str) -> Option<Expected> {
    let mut tree = toml::Table::try_from(Settings::default()).ok()?;
    let place = toml_at(&mut tree, key)?;
    let (kind, bound) = match place {
        toml::Value::Integer(default) => (Kind::Number, format!("it must be a whole number, for example {default}")),
        toml::Value::Boolean(_) => (Kind::Other, "it must be true or false".to_owned()),
        toml::Value::Table(_) => (Kind::Other, "it must be a section with keys of its own".to_owned()),
        toml::Value::Array(_) => (Kind::Other, "it must be a list as in a file, [\"a\", \"b\"]".to_owned()),
        toml::Value::String(default) => {
            let default = std::mem::replace(default, NO_VALUE.to_owned());
            (Kind::Text, bound_of_text(tree, &default)?)
        }
        toml::Value::Float(default) => (Kind::Number, format!("it must be a number, for example {default}")),
        toml::Value::Datetime(_) => return None,
    };
    Some(Expected { kind, bound })
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

fn shown(value: &Value, kind: Kind) -> String {
    match &value.kind {
        ValueKind::String(text) if is_tellable(text, kind) => format!("{text:?}"),
        ValueKind::String(_) => "a text that is not shown here".to_owned(),
        ValueKind::Table(_) => "a section".to_owned(),
        ValueKind::Array(_) => "a list".to_owned(),
        ValueKind::Nil => "empty".to_owned(),
        number => number.to_string(),
    }
}

/// A secret may stand under the wrong key. Shown are short texts; where a text is expected, what may be a mistyped word,
/// duration or address, no URL; and where a number is expected, one that is out of its range. Nothing long is shown.
fn is_tellable(text: &str, kind: Kind) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || " .,:_[]-".contains(c);
    let of_number = |c: char| c.is_ascii_digit() || "+-._eE".contains(c);
    let fits = match kind {
        Kind::Text => text.chars().all(plain),
        Kind::Number => text.chars().all(of_number) && text.contains(|c: char| c.is_ascii_digit()),
        Kind::Other => false,
    };
    text.len() < SHORTEST_SECRET || (text.len() <= LONGEST_WORD && fits)
}

/// Whether it is a whole number as it stands, whatever its size.
fn is_whole(value: &Value) -> bool {
    match &value.kind {
        ValueKind::String(text) => {
            let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
            !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit())
        }
        ValueKind::I64(_) | ValueKind::I128(_) | ValueKind::U64(_) | ValueKind::U128(_) => true,
        _ => false,
    }
}

/// The numbers of a file that 64 bits do not hold, by their lines and keys, which the reader of files does not tell; none:
/// something else is wrong with it. Digits are told where the key is known to be no secret, and they are few.
pub(super) fn numbers_out_of_range(text: &str) -> Option<String> {
    let table = DeTable::parse(text).ok()?;
    let mut found = Vec::new();
    find_out_of_range(table.get_ref(), "", &mut found);
    found.sort();
    let told = found.into_iter().map(|OutOfRange { at, key, digits }| {
        let line = text.get(..at).unwrap_or_default().matches('\n').count() + 1;
        let (value, bound) = match expected(&key) {
            Some(Expected { bound, .. }) => {
                let shown = if digits.len() <= LONGEST_WORD { digits } else { HIDDEN_NUMBER.to_owned() };
                (shown, format!("{bound}, and 64 bits must hold a number"))
            }
            None => (HIDDEN_NUMBER.to_owned(), "64 bits must hold it".to_owned()),
        };
        format!("line {line}: {}", SettingProblem::new(key, value, bound))
    });
    let told: Vec<_> = told.collect();
    (!told.is_empty()).then(|| told.join("; "))
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct OutOfRange {
    at: usize,
    key: String,
    digits: String,
}

fn find_out_of_range(table: &DeTable<'_>, path: &str, found: &mut Vec<OutOfRange>) {
    for (name, value) in table {
        let name = name.get_ref();
        let is_quoted = name.is_empty() || name.contains(['.', '[', ']']);
        let key = if is_quoted { within(path, &format!("{name:?}")) } else { within(path, name) };
        look_at(value, key, found);
    }
}

fn look_at(value: &Spanned<DeValue<'_>>, key: String, found: &mut Vec<OutOfRange>) {
    let (at, digits) = match value.get_ref() {
        DeValue::Table(inner) => {
            find_out_of_range(inner, &key, found);
            return;
        }
        DeValue::Array(items) => {
            for (place, item) in items.iter().enumerate() {
                look_at(item, format!("{key}[{place}]"), found);
            }
            return;
        }
        DeValue::Integer(number) if i64::from_str_radix(number.as_str(), number.radix()).is_err() => {
            (value.span().start, number.to_string())
        }
        DeValue::Float(number) if is_infinite(number.as_str()) => (value.span().start, number.to_string()),
        _ => return,
    };
    found.push(OutOfRange { at, key, digits });
}

/// Whether digits are taken for infinity, which a file can also name.
fn is_infinite(number: &str) -> bool {
    !number.contains("inf") && number.parse::<f64>().is_ok_and(f64::is_infinite)
}

/// Shorter texts are numbers, times and words of ours, and it helps to see them.
const SHORTEST_SECRET: usize = 6;
/// Words, durations, addresses and numbers are hardly longer.
const LONGEST_WORD: usize = 32;
const HIDDEN_NUMBER: &str = "a number that is not shown here";

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
