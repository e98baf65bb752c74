//! Statements with their arguments as SQL text, safe by construction.
//!
//! The text goes to the server in one message together with its transaction ([`crate::short_transaction`]), and such a
//! message carries no parameters. So every value becomes a literal here, from types that cannot hold a quote: numbers,
//! identifiers, and text as hexadecimal digits.

use std::{fmt::Write, time::Duration};

use time::{OffsetDateTime, UtcOffset};
use uuid::Uuid;

/// The arguments of a statement as literals, in their order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Arguments(Vec<String>);

impl Arguments {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    fn argument(mut self, literal: impl Into<String>) -> Self {
        self.0.push(literal.into());
        self
    }

    pub(crate) fn uuid(self, value: Uuid) -> Self {
        self.argument(format!("'{}'::uuid", value.hyphenated()))
    }

    pub(crate) fn optional_uuid(self, value: Option<Uuid>) -> Self {
        match value {
            Some(value) => self.uuid(value),
            None => self.argument("NULL::uuid"),
        }
    }

    pub(crate) fn uuids(self, values: &[Uuid]) -> Self {
        let list = join(values.iter().map(|value| value.hyphenated().to_string()));
        self.argument(format!("'{{{list}}}'::uuid[]"))
    }

    pub(crate) fn int(self, value: u32) -> Self {
        // The functions take int; more than that is as good as no bound.
        self.argument(value.min(i32::MAX.unsigned_abs()).to_string())
    }

    pub(crate) fn bigint(self, value: i64) -> Self {
        self.argument(format!("'{value}'::bigint"))
    }

    pub(crate) fn optional_bigint(self, value: Option<i64>) -> Self {
        self.argument(value.map_or_else(|| "NULL::bigint".to_owned(), |value| format!("'{value}'::bigint")))
    }

    pub(crate) fn bigints(self, values: &[i64]) -> Self {
        let list = join(values.iter().map(ToString::to_string));
        self.argument(format!("'{{{list}}}'::bigint[]"))
    }

    pub(crate) fn boolean(self, value: bool) -> Self {
        self.argument(if value { "true" } else { "false" })
    }

    pub(crate) fn text(self, value: &str) -> Self {
        self.argument(text(value))
    }

    /// A part of the statement that is the program's own text.
    pub(crate) fn own(self, sql: &'static str) -> Self {
        self.argument(sql)
    }

    pub(crate) fn optional_text(self, value: Option<&str>) -> Self {
        self.argument(value.map_or_else(|| "NULL::text".to_owned(), text))
    }

    pub(crate) fn texts<'a>(self, values: impl IntoIterator<Item = &'a str>) -> Self {
        let list = join(values.into_iter().map(text));
        self.argument(format!("ARRAY[{list}]::text[]"))
    }

    pub(crate) fn interval(self, value: Duration) -> Self {
        self.argument(interval(value))
    }

    pub(crate) fn optional_interval(self, value: Option<Duration>) -> Self {
        self.argument(value.map_or_else(|| "NULL::interval".to_owned(), interval))
    }

    pub(crate) fn intervals(self, values: impl IntoIterator<Item = Duration>) -> Self {
        let list = join(values.into_iter().map(interval));
        self.argument(format!("ARRAY[{list}]::interval[]"))
    }

    /// Microseconds since 1970, as the functions' timestamps.
    pub(crate) fn optional_timestamp(self, micros: Option<i64>) -> Self {
        let literal = micros.map_or_else(
            || "NULL::timestamptz".to_owned(),
            |micros| format!("timestamptz 'epoch' + {micros} * interval '1 microsecond'"),
        );
        self.argument(literal)
    }

    /// A constant, so that a comparison with it can be the condition of an index; to the microsecond, as columns have it.
    pub(crate) fn optional_time(self, value: Option<OffsetDateTime>) -> Self {
        self.argument(value.map_or_else(|| "NULL::timestamptz".to_owned(), timestamp))
    }

    /// The statement that calls the function with these arguments and returns these columns of its result.
    pub(crate) fn call(self, function: &'static str, columns: &'static str) -> Statement {
        Statement(format!("SELECT {columns} FROM {function}({})", self.0.join(", ")))
    }

    /// The statement with its `$1`, `$2`, … replaced; a number without an argument stays and is refused by the server.
    pub(crate) fn fill(self, template: &'static str) -> Statement {
        let mut parts = template.split('$');
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let digits = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let (number, rest) = part.split_at(digits);
            let literal = number.parse::<usize>().ok().and_then(|n| self.0.get(n.checked_sub(1)?));
            if let Some(literal) = literal {
                text.push_str(literal);
            } else {
                text.push('$');
                text.push_str(number);
            }
            text.push_str(rest);
        }
        Statement(text)
    }
}

/// One statement as text.
#[derive(Debug, Clone)]
pub(crate) struct Statement(String);

impl Statement {
    pub(crate) fn fixed(text: &'static str) -> Self {
        Self(text.to_owned())
    }

    /// Lets it find rows by indexes, in their order: whatever the planner believes of a table, it is neither read through
    /// nor sorted for the first rows of it.
    pub(crate) fn by_index(self) -> Self {
        let settings = ["enable_seqscan", "enable_bitmapscan", "enable_sort", "jit"];
        let settings: String = settings.map(|name| format!("SET LOCAL {name} = off;")).concat();
        Self(settings + &self.0)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

fn join(parts: impl Iterator<Item = String>) -> String {
    let mut list = String::new();
    for part in parts {
        if !list.is_empty() {
            list.push(',');
        }
        list.push_str(&part);
    }
    list
}

fn text(value: &str) -> String {
    let mut literal = String::with_capacity(value.len() * 2 + 40);
    literal.push_str("convert_from(decode('");
    for byte in value.bytes() {
        // Writing to a String cannot fail.
        let _infallible = write!(literal, "{byte:02x}");
    }
    literal.push_str("', 'hex'), 'UTF8')");
    literal
}

fn timestamp(value: OffsetDateTime) -> String {
    // Years that the columns do not take are before or behind any event.
    let ends = if value.year() < 5_000 { "timestamptz '-infinity'" } else { "timestamptz 'infinity'" };
    let Some(value) = value.checked_to_offset(UtcOffset::UTC).filter(|value| value.year() > 0) else {
        return ends.to_owned();
    };
    let (date, micros) = (value.date(), value.microsecond());
    let (hour, minute, second) = value.to_hms();
    format!("timestamptz '{date} {hour:02}:{minute:02}:{second:02}.{micros:06}+00'")
}

fn interval(value: Duration) -> String {
    // A century is as good as for ever, and far from where dates overflow.
    const LONGEST: Duration = Duration::from_hours(24 * 365 * 100);
    format!("'{} microseconds'::interval", value.min(LONGEST).as_micros())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_text_becomes_hexadecimal_digits_that_read_back(value in any::<String>()) {
            let literal = text(&value);
            let digits = literal
                .strip_prefix("convert_from(decode('")
                .and_then(|rest| rest.strip_suffix("', 'hex'), 'UTF8')"))
                .expect("the frame");
            prop_assert!(digits.bytes().all(|b| b.is_ascii_hexdigit()));
            let bytes: Vec<u8> = digits
                .as_bytes()
                .chunks(2)
                .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).expect("ascii"), 16).expect("digits"))
                .collect();
            prop_assert_eq!(bytes, value.into_bytes());
        }
    }

    #[test]
    fn a_call_is_written_argument_by_argument() {
        let statement = Arguments::new()
            .bigints(&[-1, 2])
            .uuids(&[])
            .texts(["'"])
            .interval(Duration::from_millis(1))
            .int(u32::MAX)
            .boolean(true)
            .call("f", "a, b");
        assert_eq!(
            statement.as_str(),
            "SELECT a, b FROM f('{-1,2}'::bigint[], '{}'::uuid[], ARRAY[convert_from(decode('27', 'hex'), 'UTF8')]::text[], \
             '1000 microseconds'::interval, 2147483647, true)"
        );
    }

    #[test]
    fn a_time_is_written_in_utc_to_the_microsecond() {
        use time::macros::datetime;
        let written = |value| Arguments::new().optional_time(value).fill("$1").as_str().to_owned();
        let (east, early) = (datetime!(2026-01-02 03:04:05.0000067 +9), datetime!(-0001-01-01 00:00 UTC));
        let late = datetime!(9999-12-31 23:59 -5);
        assert_eq!(written(Some(east)), "timestamptz '2026-01-01 18:04:05.000006+00'");
        assert_eq!(written(Some(early)), "timestamptz '-infinity'");
        assert_eq!(written(Some(late)), "timestamptz 'infinity'");
        assert_eq!(written(None), "NULL::timestamptz");
    }

    #[test]
    fn a_template_is_filled_once_and_never_from_its_arguments() {
        let arguments = Arguments::new().bigint(7).optional_text(None);
        let statement = arguments.fill("SELECT $2, $1, $1, $9");
        assert_eq!(statement.as_str(), "SELECT NULL::text, '7'::bigint, '7'::bigint, $9");
    }
}
