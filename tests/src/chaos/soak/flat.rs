//! Whether what a soak has sampled stayed flat: its last third against its first, never against another machine.

use std::fmt;

use super::Sample;
use crate::chaos::options::LONG;

/// Samples that are not compared: nothing is cleaned in the first minutes.
const SETTLING: usize = 2;
const MIB: u64 = 1024 * 1024;

/// A figure in the first and in the last third of the samples, the middle one of each, and the most that is flat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trend {
    pub(crate) name: &'static str,
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// None for a figure that is told and not judged.
    bound: Option<u64>,
}

impl Trend {
    pub(crate) fn has_grown(&self) -> bool {
        self.bound.is_some_and(|bound| self.last > bound)
    }
}

impl fmt::Display for Trend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.first, self.last)?;
        match self.bound {
            Some(bound) if self.last > bound => write!(f, ", more than {bound}: grown"),
            Some(bound) => write!(f, ", at most {bound}: flat"),
            None => Ok(()),
        }
    }
}

/// One figure of a sample.
type Figure = fn(&Sample) -> u64;

/// The first and the last third of the samples that are compared.
#[derive(Debug, Clone, Copy)]
struct Thirds<'a> {
    first: &'a [Sample],
    last: &'a [Sample],
}

impl<'a> Thirds<'a> {
    /// None of a soak shorter than the long form: a third of it would be a minute or two.
    fn of(samples: &'a [Sample]) -> Option<Self> {
        if (samples.len() as u64) < LONG.as_secs() / 60 {
            return None;
        }
        let settled = samples.get(SETTLING..)?;
        let third = settled.len() / 3;
        Some(Self { first: settled.get(..third)?, last: settled.get(settled.len() - third..)? })
    }

    fn trend(self, name: &'static str, figure: Figure, bound: impl Fn(u64) -> u64) -> Option<Trend> {
        let (first, last) = (middle(self.first.iter(), figure)?, middle(self.last.iter(), figure)?);
        Some(Trend { name, first, last, bound: Some(bound(first)) })
    }

    /// The same of the minutes without faults, where a fault's own delay does not count.
    fn quiet_trend(self, name: &'static str, figure: Figure, bound: impl Fn(u64) -> u64) -> Option<Trend> {
        let quiet = |samples: &'a [Sample]| middle(samples.iter().filter(|sample| sample.is_quiet), figure);
        let (first, last) = (quiet(self.first)?, quiet(self.last)?);
        Some(Trend { name, first, last, bound: Some(bound(first)) })
    }
}

fn middle<'a>(samples: impl Iterator<Item = &'a Sample>, figure: Figure) -> Option<u64> {
    let mut figures: Vec<u64> = samples.map(figure).collect();
    figures.sort_unstable();
    figures.get(figures.len() / 2).copied()
}

/// Compares the last third with the first. What growth each figure is allowed, and why:
///
/// - Latencies of the minutes without faults: twice as much, and 20 ms for the p50, 100 ms for the p99. On a machine where
///   compilers came and went, the middle ones of two thirds lay up to a half apart, with nothing wrong. The milliseconds are
///   the grain of timers and polls, which counts where latencies are small; a p99 is made by some sixty deliveries of a
///   minute, a few of which wait for a poll. If a commit that touches no table takes longer in the last third, the machine
///   became slower, and the latencies may as well, by as much; a faster machine is not held against them.
/// - Memory: a tenth and 8 MiB, the bound on the bytes of one claim (`outbox.relay.max_bytes`): what a process keeps of
///   its largest one.
/// - Dead tuples: as many as a minute delivers events. Each leaves two, at its settlement and at its deletion, and
///   autovacuum looks once a minute: they go up and down by two for each event, and the middle of a third lies within half
///   of that.
/// - Tables and indexes: a quarter, and 1 MiB or 512 KiB. The rows that are kept are those of the last minute, so that sizes
///   breathe with the load of a minute; vacuum gives pages back at the end of a file alone.
pub(crate) fn trends(samples: &[Sample]) -> Vec<Trend> {
    let Some(thirds) = Thirds::of(samples) else { return Vec::new() };
    let commit = thirds.quiet_trend("a commit in quiet minutes (µs)", |sample| sample.commit, |first| first);
    let commit = commit.map(|trend| Trend { bound: None, ..trend });
    let slower = |bound: u64| match &commit {
        Some(Trend { first, last, .. }) if last > first => bound.saturating_mul(*last) / (*first).max(1),
        _ => bound,
    };
    let a_minute = middle(thirds.first.iter(), |sample| sample.delivered as u64).unwrap_or_default();
    let rows = [
        thirds.quiet_trend("p50 of quiet minutes (ms)", |sample| sample.p50, |first| slower(2 * first + 20)),
        thirds.quiet_trend("p99 of quiet minutes (ms)", |sample| sample.p99, |first| slower(2 * first + 100)),
        thirds.trend(
            "memory of the largest process (KiB)",
            |sample| sample.memory,
            |first| first + first / 10 + 8 * 1024,
        ),
        thirds.trend("dead tuples", |sample| sample.dead_tuples, |first| first + a_minute),
        thirds.trend("bytes of tables", |sample| sample.table_bytes, |first| first + first / 4 + MIB),
        thirds.trend("bytes of indexes", |sample| sample.index_bytes, |first| first + first / 4 + MIB / 2),
    ];
    rows.into_iter().chain([commit]).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::{MIB, Sample, Trend, trends};

    /// Figures as a soak of 21 minutes has them, with the noise of a busy machine.
    fn samples() -> Vec<Sample> {
        let noise = |minute: u32, one_of: u64| u64::from(minute * 7 % 5) * one_of / 4;
        let sample = |minute| Sample {
            minute,
            is_quiet: minute % 2 == 0,
            delivered: 6_000,
            p50: 40 + noise(minute, 20),
            p95: 150,
            p99: 200 + noise(minute, 100),
            longest: 5_000,
            commit: 2_000 + noise(minute, 500),
            memory: 52_000 + noise(minute, 2_000),
            dead_tuples: 8_000 + noise(minute, 3_000),
            table_bytes: 6 * MIB + noise(minute, MIB),
            index_bytes: 2 * MIB + noise(minute, MIB / 8),
        };
        (1..=21).map(sample).collect()
    }

    /// What is found when every minute adds so much to a figure.
    fn found(drift: impl Fn(&mut Sample, u64)) -> Vec<&'static str> {
        let mut samples = samples();
        for sample in &mut samples {
            let minute = u64::from(sample.minute);
            drift(sample, minute);
        }
        trends(&samples).into_iter().filter(Trend::has_grown).map(|trend| trend.name).collect()
    }

    #[test]
    fn noise_alone_is_flat() {
        assert_eq!(found(|_, _| {}), Vec::<&str>::new());
        assert_eq!(trends(&samples()).len(), 7);
    }

    #[test]
    fn a_drift_of_each_figure_is_found_and_no_other_figure_is_blamed() {
        assert_eq!(found(|sample, minute| sample.p50 += 20 * minute), ["p50 of quiet minutes (ms)"]);
        assert_eq!(found(|sample, minute| sample.p99 += 100 * minute), ["p99 of quiet minutes (ms)"]);
        let memory = "memory of the largest process (KiB)";
        assert_eq!(found(|sample, minute| sample.memory += 1_500 * minute), [memory]);
        assert_eq!(found(|sample, minute| sample.dead_tuples += 800 * minute), ["dead tuples"]);
        assert_eq!(found(|sample, minute| sample.table_bytes += MIB / 3 * minute), ["bytes of tables"]);
        assert_eq!(found(|sample, minute| sample.index_bytes += MIB / 8 * minute), ["bytes of indexes"]);
    }

    #[test]
    fn latencies_that_rise_as_much_as_the_machine_slows_down_are_flat_and_more_is_not() {
        let slower = |times: u64| {
            found(move |sample, minute| {
                if minute > 10 {
                    sample.commit *= 4;
                    sample.p50 *= times;
                }
            })
        };
        assert_eq!(slower(4), Vec::<&str>::new());
        assert_eq!(slower(12), ["p50 of quiet minutes (ms)"]);
    }

    #[test]
    fn minutes_with_faults_say_nothing_about_latency() {
        let late_in_faults = |sample: &mut Sample, minute: u64| {
            if !sample.is_quiet && minute > 10 {
                sample.p50 = 9_000;
                sample.p99 = 12_000;
            }
        };
        assert_eq!(found(late_in_faults), Vec::<&str>::new());
    }

    #[test]
    fn a_soak_shorter_than_twenty_minutes_is_not_judged() {
        let samples = samples();
        assert!(trends(&samples[..19]).is_empty());
        assert!(!trends(&samples[..20]).is_empty());
    }
}
