//! Arithmetic over measurements: medians, percentiles, rates, and the bounds they are held against.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

/// The median of some runs with the least and the most of them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The median; between two runs in the middle, their mean.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
    /// How many runs.
    pub runs: usize,
}

impl Spread {
    /// The spread of these values; `None` without any.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        Some(Self { median: percentile(&sorted, 0.5)?, min, max, runs: sorted.len() })
    }
}

/// The value below which this part (0 to 1) of the sorted values lies, between two of them in proportion.
pub(crate) fn percentile(sorted: &[f64], part: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = part.clamp(0.0, 1.0) * number(last);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a place in the slice")]
    let below = place.floor() as usize;
    let (low, high) = (*sorted.get(below)?, *sorted.get((below + 1).min(last))?);
    Some(low + (high - low) * (place - place.floor()))
}

/// A bound that a figure is held against.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

impl Bound {
    pub(crate) fn holds(self, value: f64) -> bool {
        match self {
            Self::AtLeast(bound) => value >= bound,
            Self::AtMost(bound) => value <= bound,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(bound) => write!(f, "≥ {bound}"),
            Self::AtMost(bound) => write!(f, "≤ {bound}"),
        }
    }
}

/// A count as a number to calculate with.
#[expect(clippy::cast_precision_loss, reason = "counts of a benchmark are far below 2^52")]
pub(crate) const fn number(count: usize) -> f64 {
    count as f64
}

/// As [`number`], for a count of the database.
#[expect(clippy::cast_precision_loss, reason = "counts of a benchmark are far below 2^52")]
pub(crate) const fn wide(count: i64) -> f64 {
    count as f64
}

/// Things a second.
pub(crate) fn rate(count: usize, took: Duration) -> f64 {
    number(count) / took.as_secs_f64().max(1e-9)
}

/// Milliseconds.
pub(crate) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// A number as a reader wants it: three digits that matter, thousands apart.
#[must_use]
pub fn readable(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 || size == 0.0 => 2,
        size if size >= 0.01 => 3,
        _ => 5,
    };
    let text = format!("{value:.digits$}");
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), ""), |(whole, rest)| (whole, rest));
    let (sign, whole) = whole.strip_prefix('-').map_or(("", whole), |whole| ("-", whole));
    let mut grouped = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if rest.is_empty() { format!("{sign}{grouped}") } else { format!("{sign}{grouped}.{rest}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_the_median_and_both_ends_in_whatever_order_the_runs_came() {
        let spread = Spread::of(&[3.0, 9.0, 1.0]).unwrap();
        assert_eq!(spread, Spread { median: 3.0, min: 1.0, max: 9.0, runs: 3 });
        assert_eq!(Spread::of(&[4.0, 1.0, 2.0, 3.0]).map(|spread| spread.median), Some(2.5));
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn a_percentile_lies_between_its_neighbours_in_proportion() {
        let sorted: Vec<f64> = (0..=100).map(f64::from).collect();
        for (part, value) in [(0.0, 0.0), (0.5, 50.0), (0.99, 99.0), (1.0, 100.0), (2.0, 100.0)] {
            assert_eq!(percentile(&sorted, part), Some(value));
        }
        assert_eq!(percentile(&[10.0, 20.0], 0.25), Some(12.5));
        assert_eq!(percentile(&[], 0.5), None);
    }

    #[test]
    fn a_bound_counts_from_its_own_value_on() {
        assert!(Bound::AtLeast(0.9).holds(0.9) && !Bound::AtLeast(0.9).holds(0.89));
        assert!(Bound::AtMost(1.2).holds(1.2) && !Bound::AtMost(1.2).holds(1.21));
        assert!(!Bound::AtMost(1.2).holds(f64::NAN), "a figure that is no number holds nothing");
        assert_eq!(Bound::AtMost(1.2).to_string(), "≤ 1.2");
    }

    #[test]
    fn a_rate_is_per_second() {
        assert_eq!(Some(rate(500, Duration::from_millis(250))), Some(2_000.0));
        assert_eq!(Some(millis(Duration::from_micros(2_500))), Some(2.5));
    }

    #[test]
    fn numbers_are_readable() {
        let shown = [12_345.6, 1_234_567.0, 0.0, 12.34, 1.234, 0.0312, -1_000.0, 0.00012].map(readable);
        assert_eq!(shown, ["12,346", "1,234,567", "0.00", "12.3", "1.23", "0.031", "-1,000", "0.00012"]);
    }
}
