//! What a run found: raw measurements, medians, and which targets hold; as tables and as a document.

use std::{collections::BTreeSet, fs, path::Path};

use serde::{Deserialize, Serialize};
use serde_json::Value;

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
    /// Under which conditions it ran; none in reports that did not keep them for each benchmark.
    #[serde(default)]
    pub conditions: Option<Conditions>,
    /// What of them differs from those of the report: such figures stand beside the others and not among them.
    #[serde(default)]
    pub differs: Vec<String>,
    /// The names of its targets.
    #[serde(default)]
    pub targets: Vec<String>,
}

/// A statement of a call and the plan that the database had for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExplainedStatement {
    /// The benchmark.
    pub benchmark: String,
    /// The call that it was part of, for example `claim`.
    pub call: String,
    /// Its text.
    pub query: String,
    /// Its plan, as `EXPLAIN (FORMAT JSON)` tells it.
    pub plan: Value,
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
    /// The conditions that most benchmarks share; each has its own.
    pub conditions: Conditions,
    /// How the benchmarks went, in the order in which they were run.
    pub benchmarks: Vec<Outcome>,
    /// Every figure of every round.
    pub runs: Vec<Measurement>,
    /// The same as medians, in the order in which they were first taken.
    pub figures: Vec<FigureLine>,
    /// The targets of the benchmarks that were run.
    pub summary: Vec<SummaryLine>,
    /// Plans that were looked at.
    #[serde(default)]
    pub plans: Vec<ExplainedStatement>,
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

    /// Takes in the plans of a benchmark, in place of earlier ones.
    pub(crate) fn take_in_plans(&mut self, benchmark: &str, plans: Vec<ExplainedStatement>) {
        self.plans.retain(|earlier| earlier.benchmark != benchmark);
        self.plans.extend(plans);
    }

    /// Takes in what a benchmark found, in place of what an earlier run of it found.
    pub(crate) fn take_in(&mut self, outcome: Outcome, runs: Vec<Measurement>) {
        self.benchmarks.retain(|earlier| earlier.benchmark != outcome.benchmark);
        self.runs.retain(|earlier| earlier.benchmark != outcome.benchmark);
        self.benchmarks.push(outcome);
        self.runs.extend(runs);
        self.figures = self.medians();
        self.compare_conditions();
        let was_run = |name: &str| self.benchmarks.iter().any(|outcome| outcome.benchmark == name);
        self.summary = TARGETS.iter().filter(|target| was_run(target.benchmark)).map(|t| self.hold(t)).collect();
    }

    /// Finds the conditions that most benchmarks share, and what each has instead.
    fn compare_conditions(&mut self) {
        let known: Vec<&Conditions> =
            self.benchmarks.iter().filter_map(|outcome| outcome.conditions.as_ref()).collect();
        let alike = |one: &Conditions| known.iter().filter(|other| one.differences(other).is_empty()).count();
        // Of equals the newest, but one that knows the broker.
        let shared = known.iter().max_by_key(|one| (alike(one), one.knows_the_broker()));
        if let Some(shared) = shared.map(|one| (*one).clone()) {
            self.conditions = shared;
        }
        for outcome in &mut self.benchmarks {
            let unknown = || vec!["commit and conditions were not kept".to_owned()];
            let differences = |own: &Conditions| own.differences(&self.conditions);
            outcome.differs = outcome.conditions.as_ref().map_or_else(unknown, differences);
            let own = TARGETS.iter().filter(|target| target.benchmark == outcome.benchmark);
            outcome.targets = own.map(|target| target.name.to_owned()).collect();
        }
    }

    /// Whether a target's figure was measured under other conditions than most.
    fn stands_apart(&self, target: &str) -> bool {
        let has = |outcome: &&Outcome| outcome.targets.iter().any(|name| name == target);
        self.benchmarks.iter().find(has).is_some_and(|outcome| !outcome.differs.is_empty())
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
            if !outcome.differs.is_empty() {
                lines.push(format!("  OTHER CONDITIONS: {}", outcome.differs.join("; ")));
            }
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
            let apart = if self.stands_apart(&line.name) { " (other conditions)" } else { "" };
            format!("{:<60}{value:>10}{:>10}  {:<16}{holds}{apart}", line.name, line.target, line.unit)
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
            conditions: Some(Conditions::default()),
            differs: Vec::new(),
            targets: Vec::new(),
        }
    }

    /// As [`outcome`], of a commit.
    fn of_commit(benchmark: &str, commit: &str) -> Outcome {
        let conditions = Conditions { commit: commit.to_owned(), ..Conditions::default() };
        Outcome { conditions: Some(conditions), ..outcome(benchmark, None) }
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
    fn a_benchmark_of_another_commit_is_marked_with_its_targets() {
        let mut report = Report::default();
        report.take_in(of_commit("noop", "old"), Vec::new());
        report.take_in(of_commit("drain", "old"), vec![ratio(0.93)]);
        report.take_in(of_commit("idle", "new"), Vec::new());
        assert_eq!(report.conditions.commit, "old", "most are of it");
        let differing: Vec<_> = report.benchmarks.iter().map(|outcome| outcome.differs.join("; ")).collect();
        assert_eq!(differing, ["", "", "commit new instead of old"]);
        let tables = report.tables();
        let marked: Vec<_> = tables.lines().filter(|line| line.ends_with("(other conditions)")).collect();
        assert!(!marked.is_empty() && marked.iter().all(|line| line.contains("idle relay")), "{marked:?}");

        report.take_in(of_commit("noop", "new"), Vec::new());
        assert_eq!(report.conditions.commit, "new");
        let apart: Vec<_> = report.benchmarks.iter().filter(|outcome| !outcome.differs.is_empty()).collect();
        assert_eq!(apart.iter().map(|outcome| outcome.benchmark.as_str()).collect::<Vec<_>>(), ["drain"]);
    }

    #[test]
    fn a_benchmark_of_a_report_that_kept_no_conditions_is_marked() {
        let mut report = Report::default();
        report.take_in(Outcome { conditions: None, ..outcome("drain", None) }, vec![ratio(0.93)]);
        report.take_in(of_commit("noop", "new"), Vec::new());
        assert_eq!(report.conditions.commit, "new");
        assert!(report.tables().contains("OTHER CONDITIONS: commit and conditions were not kept"));
    }

    #[test]
    fn a_report_without_conditions_of_its_benchmarks_can_be_read() {
        let old =
            r#"{"benchmark": "drain", "begun": "", "load_average": 0, "busy_before": 0, "took": 1, "failure": null}"#;
        let outcome: Outcome = serde_json::from_str(old).unwrap();
        assert_eq!((outcome.conditions, outcome.differs), (None, Vec::new()));
    }

    #[test]
    fn a_busy_machine_is_told() {
        let mut report = Report::default();
        report.take_in(Outcome { busy_before: 0.5, ..outcome("drain", None) }, Vec::new());
        assert!(report.tables().contains("TOO BUSY"));
    }
}
