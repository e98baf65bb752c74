//! What a run found: raw measurements, medians, and which targets hold; as tables and as a document.

use std::{collections::BTreeSet, fs, path::Path};

use serde::{Deserialize, Serialize};

use crate::{
    conditions::Conditions,
    error::BenchError,
    figures::{Spread, readable},
    targets::TARGETS,
};

/// One figure of one round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The benchmark.
    pub benchmark: String,
    /// The figure, for example `drain.a.relay`.
    pub figure: String,
    /// Its unit.
    pub unit: String,
    /// Its value.
    pub value: f64,
}

/// A figure over all its rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FigureLine {
    /// The benchmark.
    pub benchmark: String,
    /// The figure.
    pub figure: String,
    /// Its unit.
    pub unit: String,
    /// Median, least and most.
    #[serde(flatten)]
    pub spread: Spread,
}

/// How a benchmark went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The benchmark.
    pub benchmark: String,
    /// When it began, UTC.
    pub begun: String,
    /// Processes that wanted to run before it began, as a mean of a minute; benchmarks before it count.
    pub load_average: f64,
    /// The part of all processors that others used in the second before it began, 0 to 1.
    pub busy_before: f64,
    /// Seconds that it took.
    pub took: f64,
    /// Why its figures do not count.
    pub failure: Option<String>,
}

/// A target and the figure that is held against it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SummaryLine {
    /// What is asked.
    pub name: String,
    /// The median; none if the benchmark failed or could not measure it.
    pub value: Option<f64>,
    /// The bound.
    pub target: String,
    /// The unit of both.
    pub unit: String,
    /// Whether the value is within the bound; without a value it is not.
    pub holds: bool,
}

/// Everything that is known after a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Under which conditions.
    pub conditions: Conditions,
    /// How the benchmarks went, in the order in which they were run.
    pub benchmarks: Vec<Outcome>,
    /// Every figure of every round.
    pub runs: Vec<Measurement>,
    /// The same as medians, in the order in which they were first taken.
    pub figures: Vec<FigureLine>,
    /// The targets of the benchmarks that were run.
    pub summary: Vec<SummaryLine>,
}

impl Report {
    /// Reads a report.
    ///
    /// # Errors
    /// [`BenchError::File`], [`BenchError::Report`].
    pub fn read(file: &Path) -> Result<Self, BenchError> {
        Ok(serde_json::from_str(&fs::read_to_string(file)?)?)
    }

    /// Writes it; a reader never sees half of it.
    ///
    /// # Errors
    /// [`BenchError::File`], [`BenchError::Report`].
    pub fn write(&self, file: &Path) -> Result<(), BenchError> {
        let draft = file.with_extension("draft");
        fs::write(&draft, serde_json::to_string_pretty(self)? + "\n")?;
        Ok(fs::rename(draft, file)?)
    }

    /// Takes in what a benchmark found, in place of what an earlier run of it found.
    pub(crate) fn take_in(&mut self, outcome: Outcome, runs: Vec<Measurement>) {
        self.benchmarks.retain(|earlier| earlier.benchmark != outcome.benchmark);
        self.runs.retain(|earlier| earlier.benchmark != outcome.benchmark);
        self.benchmarks.push(outcome);
        self.runs.extend(runs);
        self.figures = self.medians();
        let was_run = |name: &str| self.benchmarks.iter().any(|outcome| outcome.benchmark == name);
        self.summary = TARGETS.iter().filter(|target| was_run(target.benchmark)).map(|t| self.hold(t)).collect();
    }

    fn hold(&self, target: &crate::targets::Target) -> SummaryLine {
        let sound = |outcome: &&Outcome| outcome.benchmark == target.benchmark && outcome.failure.is_none();
        let value = self.benchmarks.iter().find(sound).and_then(|_| self.spread(target.figure)).map(|s| s.median);
        SummaryLine {
            name: target.name.to_owned(),
            value,
            target: target.bound.to_string(),
            unit: target.unit.to_owned(),
            holds: value.is_some_and(|value| target.bound.holds(value)),
        }
    }

    /// The spread of a figure over its rounds.
    #[must_use]
    pub fn spread(&self, figure: &str) -> Option<Spread> {
        Spread::of(&self.runs.iter().filter(|run| run.figure == figure).map(|run| run.value).collect::<Vec<_>>())
    }

    /// Whether every benchmark came to its end and was right, however fast.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.benchmarks.iter().all(|outcome| outcome.failure.is_none())
    }

    /// The tables for a terminal.
    #[must_use]
    pub fn tables(&self) -> String {
        let mut lines: Vec<String> = self.conditions.lines();
        for outcome in &self.benchmarks {
            lines.push(String::new());
            let Outcome { benchmark, took, load_average, busy_before, .. } = outcome;
            lines.push(format!(
                "{benchmark}: {took:.0} s; before it load {load_average:.2}, processors {:.0} % busy{}",
                busy_before * 100.0,
                if *busy_before > BUSY { " (TOO BUSY: measure again)" } else { "" },
            ));
            if let Some(failure) = &outcome.failure {
                lines.push(format!("  FAILED: {failure}"));
            }
            lines.push(format!("  {:<44}{:>12}{:>12}{:>12}{:>6}  unit", "figure", "median", "min", "max", "runs"));
            let own = self.figures.iter().filter(|line| line.benchmark == *benchmark);
            lines.extend(own.map(|FigureLine { figure, unit, spread, .. }| {
                let [median, min, max] = [spread.median, spread.min, spread.max].map(readable);
                format!("  {figure:<44}{median:>12}{min:>12}{max:>12}{:>6}  {unit}", spread.runs)
            }));
        }
        lines.push(String::new());
        lines.push(format!("{:<60}{:>10}{:>10}  {:<16}holds", "target", "value", "bound", "unit"));
        lines.extend(self.summary.iter().map(|line| {
            let value = line.value.map_or_else(|| "none".to_owned(), readable);
            let holds = if line.holds { "yes" } else { "NO" };
            format!("{:<60}{value:>10}{:>10}  {:<16}{holds}", line.name, line.target, line.unit)
        }));
        lines.join("\n")
    }

    fn medians(&self) -> Vec<FigureLine> {
        let mut known = BTreeSet::new();
        let first = self.runs.iter().filter(|run| known.insert(run.figure.as_str()));
        let line = |run: &Measurement| {
            let Measurement { benchmark, figure, unit, .. } = run.clone();
            self.spread(&figure).map(|spread| FigureLine { benchmark, figure, unit, spread })
        };
        first.filter_map(line).collect()
    }
}

/// From which part on others use so much of the machine that figures are worth little.
const BUSY: f64 = 0.15;

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(benchmark: &str, failure: Option<&str>) -> Outcome {
        Outcome {
            benchmark: benchmark.to_owned(),
            begun: String::new(),
            load_average: 0.5,
            busy_before: 0.0,
            took: 1.0,
            failure: failure.map(str::to_owned),
        }
    }

    fn ratio(value: f64) -> Measurement {
        Measurement {
            benchmark: "drain".to_owned(),
            figure: "drain.a.ratio".to_owned(),
            unit: "ratio".to_owned(),
            value,
        }
    }

    fn line(report: &Report) -> &SummaryLine {
        report.summary.iter().find(|line| line.name.starts_with("1a ")).unwrap()
    }

    #[test]
    fn a_target_holds_by_the_median_of_the_rounds() {
        let mut report = Report::default();
        report.take_in(outcome("drain", None), [0.95, 0.10, 0.91].map(ratio).to_vec());
        assert_eq!((line(&report).value, line(&report).holds), (Some(0.91), true));
        report.take_in(outcome("drain", None), [0.95, 0.10, 0.12].map(ratio).to_vec());
        assert_eq!((line(&report).value, line(&report).holds), (Some(0.12), false), "the later run counts alone");
        assert_eq!(report.benchmarks.len(), 1);
    }

    #[test]
    fn a_failed_benchmark_holds_nothing_whatever_its_figures() {
        let mut report = Report::default();
        report.take_in(outcome("drain", Some("two events were lost")), [2.0].map(ratio).to_vec());
        assert_eq!((line(&report).value, line(&report).holds), (None, false));
        assert!(!report.is_sound());
        assert!(report.tables().contains("FAILED: two events were lost"));
    }

    #[test]
    fn targets_of_benchmarks_that_were_not_run_are_left_out() {
        let mut report = Report::default();
        report.take_in(outcome("noop", None), Vec::new());
        assert!(report.summary.iter().all(|line| !line.name.contains("aggregate")));
    }

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("bench.json");
        let mut report = Report::default();
        report.take_in(outcome("drain", None), vec![ratio(0.93)]);
        report.write(&file).unwrap();
        assert_eq!(Report::read(&file).unwrap(), report);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
    }

    #[test]
    fn a_busy_machine_is_told() {
        let mut report = Report::default();
        report.take_in(Outcome { busy_before: 0.5, ..outcome("drain", None) }, Vec::new());
        assert!(report.tables().contains("TOO BUSY"));
    }
}
