//! Histograms of a metrics page.

use crate::figures::{number, wide};

/// Counts of observations up to a bound, bounds growing; the last is infinite.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Histogram(Vec<(f64, i64)>);

impl Histogram {
    /// Reads a histogram without labels of its own from a page.
    pub(crate) fn read(page: &str, name: &str) -> Self {
        let lines = page.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix("_bucket{le=\""));
        let bucket = |line: &str| {
            let (bound, count) = line.split_once("\"} ")?;
            let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().ok()? };
            Some((bound, count.trim().parse().ok()?))
        };
        Self(lines.filter_map(bucket).collect())
    }

    /// Both together.
    pub(crate) fn and(&self, other: &Self) -> Self {
        self.with(other, 1)
    }

    /// What came since an earlier look.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        self.with(earlier, -1)
    }

    fn with(&self, other: &Self, sign: i64) -> Self {
        if self.0.is_empty() {
            return Self(other.0.iter().map(|(bound, count)| (*bound, sign * count)).collect());
        }
        let of = |bound: f64| {
            other.0.iter().find(|(other, _)| other.total_cmp(&bound).is_eq()).map_or(0, |(_, count)| *count)
        };
        Self(self.0.iter().map(|(bound, count)| (*bound, count + sign * of(*bound))).collect())
    }

    /// The value below which this part of the observations lies, within its bucket in proportion; `None` without any, or
    /// if it lies beyond the last bound.
    pub(crate) fn percentile(&self, part: f64) -> Option<f64> {
        let all = self.0.last()?.1;
        if all <= 0 {
            return None;
        }
        let wanted = part * wide(all);
        let (mut lower, mut below) = (0.0, 0);
        for (bound, count) in &self.0 {
            if wide(*count) >= wanted {
                let inside = (wanted - wide(below)) / wide((count - below).max(1));
                return bound.is_finite().then_some(lower + (bound - lower) * inside.max(number(0)));
            }
            (lower, below) = (*bound, *count);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# TYPE t_seconds histogram\n\
        t_seconds_bucket{le=\"0.001\"} 10\nt_seconds_bucket{le=\"0.01\"} 30\nt_seconds_bucket{le=\"+Inf\"} 40\n\
        t_seconds_sum 1\nt_seconds_count 40\nother_bucket{le=\"1\"} 5\n";

    #[test]
    fn a_percentile_lies_in_its_bucket_in_proportion() {
        let histogram = Histogram::read(PAGE, "t_seconds");
        assert!((histogram.percentile(0.5).unwrap() - 0.0055).abs() < 1e-9);
        assert_eq!(histogram.percentile(0.25), Some(0.001));
        assert_eq!(histogram.percentile(0.99), None, "beyond the last bound nothing is known");
        assert_eq!(Histogram::default().percentile(0.5), None);
    }

    #[test]
    fn histograms_are_added_and_an_earlier_look_is_taken_off() {
        let once = Histogram::read(PAGE, "t_seconds");
        let twice = once.and(&once);
        assert_eq!(twice.0.last(), Some(&(f64::INFINITY, 80)));
        assert_eq!(twice.since(&once), once);
        assert_eq!(Histogram::default().and(&once), once);
    }
}
