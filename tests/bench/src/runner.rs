//! Runs benchmarks one after the other, each within its time, and keeps what they measure.

use std::{path::PathBuf, time::Duration};

use app_bootstrap::clock::SystemClock;
use application_core::ports::Clock;
use test_support::servers::Servers;
use tokio::time::Instant;

use crate::{
    benchmarks::{BENCHMARKS, Benchmark},
    conditions::{Conditions, now},
    error::BenchError,
    figures::readable,
    report::{ExplainedStatement, Measurement, Outcome, Report},
    resources::{Processors, busy_since, load_average},
    stage::Stage,
};

/// What to run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// The benchmarks; all if empty.
    pub only: Vec<String>,
    /// Cut sizes down to what shows that everything works, and measure one round.
    pub quick: bool,
    /// Where the report is written, after each benchmark; a part of it that is not run again is kept.
    pub json: Option<PathBuf>,
    /// A fault to plant.
    pub plant: Option<Plant>,
}

/// A fault that the checker must find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plant {
    /// The publisher of `noop` delivers two events of an aggregate in the wrong order.
    WrongOrder,
    /// The publisher of `noop` acknowledges an event that it does not deliver.
    Loss,
}

/// What a benchmark has to work with.
pub(crate) struct Bench<'a> {
    pub(crate) stage: &'a Stage<'a>,
    pub(crate) quick: bool,
    pub(crate) plant: Option<Plant>,
    benchmark: &'static str,
    runs: Vec<Measurement>,
    plans: Vec<ExplainedStatement>,
}

impl Bench<'_> {
    /// Keeps the plan of a statement.
    pub(crate) fn keep_plan(&mut self, call: &str, query: String, plan: serde_json::Value) {
        let (benchmark, call) = (self.benchmark.to_owned(), call.to_owned());
        self.plans.push(ExplainedStatement { benchmark, call, query, plan });
    }

    /// Keeps a figure of one round.
    pub(crate) fn record(&mut self, figure: &str, unit: &str, value: f64) {
        say(&format!("{figure} {} {unit}", readable(value)));
        self.runs.push(Measurement {
            benchmark: self.benchmark.to_owned(),
            figure: figure.to_owned(),
            unit: unit.to_owned(),
            value,
        });
    }

    /// Keeps a figure that may not be there: a server on another machine shows no processor time.
    pub(crate) fn record_known(&mut self, figure: &str, unit: &str, value: Option<f64>) {
        match value {
            Some(value) => self.record(figure, unit, value),
            None => say(&format!("{figure} cannot be measured here")),
        }
    }

    /// Rounds of which the median is taken.
    pub(crate) const fn rounds(&self) -> usize {
        if self.quick { 1 } else { 3 }
    }

    /// The size in earnest, or the one that only shows that everything works.
    pub(crate) const fn size(&self, earnest: usize, quick: usize) -> usize {
        if self.quick { quick } else { earnest }
    }

    /// As [`Self::size`], for a time.
    pub(crate) const fn time(&self, earnest: Duration, quick: Duration) -> Duration {
        if self.quick { quick } else { earnest }
    }
}

/// Runs the plan on these servers. A benchmark that fails does not keep the later ones from running.
///
/// # Errors
/// [`BenchError`] when nothing can be run at all; the failure of a benchmark is part of the report.
pub async fn run(servers: &Servers, plan: &Plan) -> Result<Report, BenchError> {
    let chosen = choose(&plan.only)?;
    let stage = Stage::new(servers)?;
    let (mut report, conditions) = begin(&stage, plan, &chosen).await?;
    for line in conditions.lines() {
        say(&line);
    }
    for benchmark in chosen {
        let (outcome, bench) = run_one(&stage, plan, &conditions, benchmark).await;
        report.take_in_plans(benchmark.name, bench.plans);
        report.take_in(outcome, bench.runs);
        if let Some(file) = &plan.json {
            report.write(file)?;
        }
    }
    Ok(report)
}

fn choose(only: &[String]) -> Result<Vec<&'static Benchmark>, BenchError> {
    if let Some(unknown) = only.iter().find(|name| BENCHMARKS.iter().all(|benchmark| benchmark.name != *name)) {
        let names: Vec<_> = BENCHMARKS.iter().map(|benchmark| benchmark.name).collect();
        return Err(BenchError::Usage(format!("there is no benchmark `{unknown}`, only {}", names.join(", "))));
    }
    let chosen = |benchmark: &&Benchmark| only.is_empty() || only.iter().any(|name| name == benchmark.name);
    Ok(BENCHMARKS.iter().filter(chosen).collect())
}

/// The report that is gone on with, or a new one, and the conditions of what is run now.
async fn begin(stage: &Stage<'_>, plan: &Plan, chosen: &[&Benchmark]) -> Result<(Report, Conditions), BenchError> {
    let broker = chosen.iter().any(|benchmark| benchmark.needs_broker);
    let amqp_url = if broker { Some(stage.amqp_url().await?) } else { None };
    let conditions = Conditions::of(stage.postgres_url().await?, amqp_url, plan.quick).await?;
    let earlier = plan.json.as_ref().filter(|file| !plan.only.is_empty() && file.exists());
    let report = earlier.map_or_else(|| Ok(Report::default()), |file| Report::read(file))?;
    if report.conditions.quick != conditions.quick && !report.benchmarks.is_empty() {
        return Err(BenchError::Usage("the file holds a report of the other kind: quick or in earnest".to_owned()));
    }
    Ok((report, conditions))
}

async fn run_one<'a>(
    stage: &'a Stage<'a>,
    plan: &Plan,
    conditions: &Conditions,
    benchmark: &'static Benchmark,
) -> (Outcome, Bench<'a>) {
    let (begun, load_average) = (now(), load_average());
    let busy_before = busy().await;
    say(&format!("{}: {}", benchmark.name, benchmark.about));
    if busy_before > 0.15 {
        say(&format!("WARNING: others use {:.0} % of the processors", busy_before * 100.0));
    }
    let Plan { quick, plant, .. } = *plan;
    let mut bench = Bench { stage, quick, plant, benchmark: benchmark.name, runs: Vec::new(), plans: Vec::new() };
    let started = Instant::now();
    let failure = match tokio::time::timeout(benchmark.within, (benchmark.run)(&mut bench)).await {
        Ok(Ok(())) => None,
        Ok(Err(error)) => Some(error.chain()),
        Err(_) => Some(format!("it did not end within {:?}", benchmark.within)),
    };
    if let Some(failure) = &failure {
        say(&format!("{} FAILED: {failure}", benchmark.name));
    }
    let took = started.elapsed().as_secs_f64();
    let outcome = Outcome {
        benchmark: benchmark.name.to_owned(),
        begun,
        load_average,
        busy_before,
        took,
        failure,
        conditions: Some(conditions.clone()),
        differs: Vec::new(),
        targets: Vec::new(),
    };
    (outcome, bench)
}

/// The part of all processors that is used while we do nothing.
async fn busy() -> f64 {
    let before = Processors::now();
    SystemClock::new().sleep(Duration::from_secs(1)).await;
    busy_since(before).unwrap_or(f64::NAN)
}

/// Tells the reader how far it is.
#[expect(clippy::print_stderr, reason = "a benchmark of many minutes tells its reader how far it is")]
pub(crate) fn say(text: &str) {
    eprintln!("[bench] {text}");
}
