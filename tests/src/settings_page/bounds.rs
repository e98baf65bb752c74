//! The bounds on the page, tried on the settings themselves: what a bound lets pass is taken, and the next value is not.

use std::collections::BTreeSet;

use app_bootstrap::settings::Settings;
use serde_json::{Value, json};

use super::{Facts, Kind, NAME, NAMED, codes, settings_with};

/// A secret of webhooks, as long as one must be.
pub(super) const WEBHOOK_SECRET: &str = "whsec_dGhlIG5ld2VyIHNlY3JldCBvZiB0ZXN0cw==";

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;

/// Nanoseconds of the units, as the page writes them and as defaults are written.
const UNITS: [(&str, u64); 12] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", SECOND),
    ("m", 60 * SECOND),
    ("min", 60 * SECOND),
    ("h", 3_600 * SECOND),
    ("d", DAY),
    ("day", DAY),
    ("days", DAY),
    ("year", 365 * DAY),
    ("years", 365 * DAY),
];

const UNTRIED: &str = "has a bound that cannot be tried: write `A to B`, `at most B`, `A or more` or all its words, or list \
                       values to try in tests/src/settings_page/bounds.rs";

/// Of bounds that are neither a range nor words: a value that passes, and one that does not.
fn examples() -> Vec<(&'static str, Value, Value)> {
    let postgres = || (json!("postgres://host/database"), json!("mysql://host/database"));
    let amqp = || (json!("amqp://host"), json!("http://host"));
    let of = |key, (passes, fails): (Value, Value)| (key, passes, fails);
    let queue = Settings::default().consumer.queue;
    vec![
        of("logs.filter", (json!("info,a=debug"), json!("a=b=c"))),
        of("telemetry.otlp.endpoint", (json!("http://host:4318"), json!("https://host"))),
        of("operations.ops_listen", (json!("127.0.0.1:1"), json!("0.0.0.0:1"))),
        of("operations.payloads", (json!(false), json!(true))),
        of("database.url", postgres()),
        of("database.direct_url", postgres()),
        // A file that is there, and that nothing verifies with.
        of("database.tls.ca_file", (Value::Null, json!("Cargo.toml"))),
        of("outbox.relay.lease", (json!("30s"), json!("29s"))),
        of("outbox.relay.lease", (json!("1h"), json!("1h 1s"))),
        of("outbox.dead_head.skip", (json!(["a"]), json!([1]))),
        of("encryption.active_key", (Value::Null, json!("a"))),
        of("encryption.keys.<id>", (json!("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="), json!("AAEC"))),
        of("outbound.route.overrides", (json!([{"event_type": "a", "exchange": "b"}]), json!([{"exchange": "b"}]))),
        of("outbound.amqp.url", amqp()),
        of("outbound.amqp.topology.binding_keys", (json!(["x".repeat(255)]), json!(["x".repeat(256)]))),
        of("outbound.webhook.url", (json!("https://host/x"), json!("http://host/x"))),
        of("outbound.webhook.secrets", (json!(WEBHOOK_SECRET), json!("x"))),
        of(
            "outbound.webhook.overrides",
            (json!([{"event_type": "a", "url": "https://hooks.example.com/b"}]), json!([{}])),
        ),
        of("consumer.url", amqp()),
        of("consumer.parking_queue", (json!("x".repeat(255)), json!("x".repeat(256)))),
        of("consumer.parking_queue", (json!("another"), json!(queue))),
    ]
}

/// The keys with examples that the types do not have.
pub(super) fn unknown(facts: &Facts) -> impl Iterator<Item = &'static str> {
    examples().into_iter().map(|(key, ..)| key).filter(move |key| !facts.contains_key(*key))
}

/// What of the bound is not so; `None`: it was tried, or there is nothing to try.
pub(super) fn untrue(key: &str, bound: &str, facts: &Facts) -> Option<String> {
    let fact = facts.get(key)?;
    let examples: Vec<_> = examples().into_iter().filter(|(of, ..)| *of == key).collect();
    if !examples.is_empty() {
        return examples.into_iter().find_map(|(_, passes, fails)| tried(key, &[passes], &[fails]));
    }
    match (&fact.kind, bound) {
        (Kind::Boolean, "") | (Kind::File, "a PEM file") | (Kind::Address, "an address with port") => None,
        (Kind::Word(words), _) => {
            let known: BTreeSet<&str> = words.iter().map(String::as_str).collect();
            (codes(bound).collect::<BTreeSet<_>>() != known).then(|| format!("takes exactly {}", words.join(", ")))
        }
        (kind, _) => match Range::read(bound, key, facts).and_then(|range| range.values(kind)) {
            Some([passes, fails]) => tried(key, &passes, &fails),
            None => Some(UNTRIED.to_owned()),
        },
    }
}

fn tried(key: &str, passes: &[Value], fails: &[Value]) -> Option<String> {
    for value in passes {
        if let Some(why) = refusal(key, value) {
            return Some(format!("is refused as {value}, though its bound lets it pass: {why}"));
        }
    }
    let taken = fails.iter().find(|value| refusal(key, value).is_none())?;
    Some(format!("is taken as {taken}, though its bound refuses it"))
}

/// Why the settings refuse a value.
fn refusal(key: &str, value: &Value) -> Option<String> {
    let settings = match settings_with(key, value.clone()) {
        Ok(settings) => settings,
        Err(error) => return Some(error.to_string()),
    };
    let key = key.replace(NAMED, NAME);
    let items = format!("{key}[");
    let mut problems = settings.problems().into_iter();
    problems.find(|problem| problem.key == key || problem.key.starts_with(&items)).map(|problem| problem.to_string())
}

/// A bound from `least` to `most`, both of which pass.
#[derive(Debug, PartialEq, Eq)]
struct Range {
    least: Option<u64>,
    most: Option<u64>,
    /// From one value to the next.
    step: u64,
}

impl Range {
    fn read(bound: &str, key: &str, facts: &Facts) -> Option<Self> {
        let kind = &facts.get(key)?.kind;
        let end = |text: &str| end(text, kind).or_else(|| other(text, key, facts));
        let clause = bound.split(';').next()?;
        let (clause, step) = clause.strip_prefix("whole seconds, ").map_or((clause, 1), |rest| (rest, SECOND));
        let (least, most) = if let Some(most) = clause.strip_prefix("above 0, up to ") {
            (Some(step), Some(end(most)?))
        } else if let Some(most) = clause.strip_prefix("at most ") {
            (None, Some(end(most)?))
        } else if let Some((least, _)) = clause.split_once(" or more") {
            (Some(end(least)?), None)
        } else {
            let (least, most) = clause.split_once(" to ")?;
            (Some(end(least)?), Some(end(most)?))
        };
        Some(Self { least, most, step })
    }

    /// The ends, and what lies just beyond them.
    fn values(&self, kind: &Kind) -> Option<[Vec<Value>; 2]> {
        let values = |ends: [Option<u64>; 2]| {
            ends.into_iter().flatten().map(|end| value(end, kind)).collect::<Option<Vec<Value>>>()
        };
        let below = self.least.and_then(|least| least.checked_sub(self.step));
        let above = self.most.and_then(|most| most.checked_add(self.step));
        Some([values([self.least, self.most])?, values([below, above])?])
    }
}

/// A value of the setting: a number, a time, or a text of this length. `None`: the setting is none of these.
fn value(number: u64, kind: &Kind) -> Option<Value> {
    Some(match kind {
        Kind::Integer | Kind::Bytes => json!(number),
        Kind::Number => json!(f64::from(u32::try_from(number).ok()?) / 1_000.0),
        Kind::Duration => json!(format!("{number}ns")),
        Kind::Text => json!("x".repeat(usize::try_from(number).ok()?)),
        Kind::Boolean | Kind::Word(_) | Kind::Address | Kind::File | Kind::List => return None,
    })
}

/// An end as the page writes it: `1,024`, `1 MiB`, `100 ms`, `255 bytes`.
fn end(text: &str, kind: &Kind) -> Option<u64> {
    let mut words = text.split_whitespace();
    let number: u64 = words.next()?.replace(',', "").parse().ok()?;
    let unit = words.next().unwrap_or_default().trim_end_matches(',');
    let times = match (kind, unit) {
        _ if number == 0 => 1,
        (Kind::Duration, _) => nanos(unit)?,
        (Kind::Bytes, "KiB") => 1 << 10,
        (Kind::Bytes, "MiB") => 1 << 20,
        (Kind::Bytes, "GiB") => 1 << 30,
        (Kind::Number, _) => 1_000,
        _ => 1,
    };
    number.checked_mul(times)
}

/// An end that is the default of another setting: of the same section, or by its whole key.
fn other(text: &str, key: &str, facts: &Facts) -> Option<u64> {
    let name = codes(text).next().filter(|_| text.starts_with('`'))?;
    let (parent, _) = key.rsplit_once('.')?;
    let (section, _) = key.split_once('.')?;
    let keys = [format!("{parent}.{name}"), format!("{section}.{name}"), name.to_owned()];
    match &keys.iter().find_map(|key| facts.get(key))?.default {
        Value::String(text) => written(text),
        number => number.as_u64(),
    }
}

/// Nanoseconds of a default such as `1m 30s`.
fn written(text: &str) -> Option<u64> {
    let part = |part: &str| {
        let (number, unit) = part.split_at(part.find(|c: char| !c.is_ascii_digit())?);
        number.parse::<u64>().ok()?.checked_mul(nanos(unit)?)
    };
    text.split_whitespace().map(part).sum()
}

fn nanos(unit: &str) -> Option<u64> {
    UNITS.iter().find(|(name, _)| *name == unit).map(|(_, nanos)| *nanos)
}
