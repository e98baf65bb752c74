//! Chaos: processes, servers and the network between them fail, as a seed says, while events flow.
//!
//! A round appends through two services, lets the faults of its `plan` happen, waits until everything is at rest, and
//! compares what was committed, delivered and applied since the beginning of the run. A plan depends on the seed, the
//! number of the round and the options that are told with it, so that one round can be repeated; when exactly a fault meets
//! what is under way cannot.

mod appenders;
mod dice;
mod error;
mod fault;
mod fleet;
mod history;
mod options;
mod pace;
mod plan;
pub mod proxy;
mod report;
mod soak;
mod stage;
mod timer;
mod topology;
mod verdict;
mod writer;

use std::{
    collections::BTreeMap,
    process::ExitCode,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use tokio::signal::unix::{SignalKind, signal};

use self::{
    appenders::{Appenders, EVENTS},
    error::ChaosError,
    options::{Options, USAGE},
    pace::Progress,
    plan::{Plan, Strike},
    report::{Round, Summary, say},
    stage::{BrokerUse, Stage},
    verdict::{Window, Windows},
    writer::Writer,
};
use crate::TimedOut;

/// Clients side by side, and how often each begins a work log.
const CLIENTS: u32 = 4;
const EVERY: Duration = Duration::from_millis(80);
/// How often another writer inserts the events of a new aggregate.
const EVERY_INSERT: Duration = Duration::from_millis(100);
/// Clients, and how often they and the other writer begin, during an outage of minutes: what waits meanwhile must be
/// delivered and applied in the time that a round has to come to rest.
const CALM_CLIENTS: u32 = 2;
const CALM_EVERY: Duration = Duration::from_secs(1);
/// Which part of a long run goes by before its outage: early, so that the kills that it costs can be made up for.
const BEFORE_THE_OUTAGE: u32 = 4;
/// Deliveries before the faults begin.
const UNDISTURBED: usize = 20;
/// How long a fault and its repair may take, the new start of a process included.
const FAULT: Duration = Duration::from_mins(5);
/// The exit code for a wrong command line.
const USAGE_CODE: u8 = 64;

/// Runs chaos; the exit code says whether no violation was found, and whether the long form did all that belongs to it.
#[expect(clippy::print_stderr, reason = "chaos talks to a person")]
pub async fn main(arguments: Vec<String>) -> ExitCode {
    let options = match Options::parse(&arguments) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("error: {error}\n\n{USAGE}");
            return ExitCode::from(USAGE_CODE);
        }
    };
    let run = async {
        tokio::select! {
            outcome = run(&options) => outcome,
            // Servers and processes go when their values are dropped.
            outcome = asked_to_stop() => outcome.map(|()| false),
        }
    };
    match run.await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {}", error.chain());
            ExitCode::FAILURE
        }
    }
}

async fn asked_to_stop() -> Result<(), ChaosError> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        _ = terminate.recv() => {}
    }
    say("stopped before the end: servers and processes are taken down");
    Ok(())
}

async fn run(options: &Options) -> Result<bool, ChaosError> {
    let summary = if options.soak { Box::pin(soak::soak(options)).await? } else { Box::pin(rounds(options)).await? };
    report::print(&summary);
    if let Some(file) = &options.json {
        std::fs::write(file, serde_json::to_vec_pretty(&summary)?)?;
    }
    if let Some(file) = &options.report {
        report::write_section(file, &summary)?;
    }
    Ok(summary.is_fulfilled())
}

/// What a run remembers from round to round.
struct Run {
    stage: Stage,
    windows: Windows,
    /// Aggregates whose events must exist: work logs that were answered, and those of the other writer.
    answered: i64,
    baseline: BrokerUse,
    /// KiB of each process after each round.
    memory: Vec<BTreeMap<&'static str, u64>>,
    plant: bool,
}

async fn rounds(options: &Options) -> Result<Summary, ChaosError> {
    let begun = Instant::now();
    let mut summary = Summary::new(options.seed);
    let stage = Stage::set(options, &[]).await?;
    let mut run = Run::warm_up(stage, options.plant).await?;
    let prepared = begun.elapsed();
    let is_long = options.is_long_form();
    let mut owes_an_outage = is_long || options.outage;
    for (rounds, number) in (0_u32..options.rounds).zip(options.first_round..) {
        let elapsed = begun.elapsed();
        if elapsed >= options.time || !summary.is_clean() {
            break;
        }
        let plan = if owes_an_outage && (options.outage || elapsed >= options.time / BEFORE_THE_OUTAGE) {
            owes_an_outage = false;
            Plan::outage(options.seed, number)
        } else {
            let plan = Plan::draw(options.seed, number);
            let kills = run.stage.kills.counts().all;
            let progress = Progress { rounds, took: elapsed.saturating_sub(prepared), kills };
            let paced =
                if is_long { progress.more_kills(plan.kills(), options.time.saturating_sub(elapsed)) } else { 0 };
            plan.with_more_kills(options.more_kills.saturating_add(paced))
        };
        say(&plan.to_string());
        let round = Box::pin(run.round(&plan)).await;
        say(&round.to_string());
        summary.add(&plan, round);
    }
    summary.waited(run.stage.waited.load(Ordering::Relaxed));
    summary.end(begun.elapsed(), run.stage.kills.counts());
    if is_long {
        summary.judge_long_form(owes_an_outage);
    }
    Ok(summary)
}

impl Run {
    /// Lets every process publish once and takes the measure of connections.
    async fn warm_up(stage: Stage, plant: bool) -> Result<Self, ChaosError> {
        let appenders = Appenders::start(&stage.fleet.clients, "warm-up", CLIENTS, EVERY);
        stage.fleet.until_all_have_published().await?;
        let answered = appenders.finish().await?;
        let baseline = stage.broker_use().await?;
        let BrokerUse { connections, channels } = baseline;
        say(&format!("undisturbed, there are {connections} connections with {channels} channels at the broker"));
        Ok(Self { stage, windows: Windows::default(), answered, baseline, memory: Vec::new(), plant })
    }

    async fn round(&mut self, plan: &Plan) -> Round {
        let begun = Instant::now();
        let mut round = Round::of(plan);
        let charged = self.charged().await;
        match self.disturb(plan).await {
            Ok(()) => {
                round.violations = verdict::until_at_rest(&self.stage, self.answered, self.baseline).await;
                if plan.is_outage() {
                    round.violations.extend(uncharged(charged, self.charged().await).err());
                }
            }
            // A fault may still be there: nothing would come to rest.
            Err(error) => {
                round.violations.push(format!("the round could not be played to its end: {}", error.chain()));
            }
        }
        match verdict::check(&self.stage, &self.windows, std::mem::take(&mut self.plant)).await {
            Ok(delivery) => round.judge(delivery, self.answered * i64::from(EVENTS)),
            Err(error) => round.violations.push(format!("nothing could be checked: {}", error.chain())),
        }
        match verdict::stuck(&self.stage).await {
            Ok(stuck) => round.violations.extend(stuck),
            Err(error) => round.violations.push(format!("nothing could be checked: {}", error.chain())),
        }
        round.memory = self.stage.fleet.memory().await.into_iter().collect();
        self.memory.push(round.memory.clone());
        round.violations.extend(verdict::grown(&self.memory));
        round.seconds = begun.elapsed().as_secs();
        round
    }

    /// Appends, lets the faults happen, and waits until all clients were answered and all processes are ready.
    async fn disturb(&mut self, plan: &Plan) -> Result<(), ChaosError> {
        let label = format!("round-{}", plan.round);
        let (clients, every, every_insert) =
            if plan.is_outage() { (CALM_CLIENTS, CALM_EVERY, CALM_EVERY) } else { (CLIENTS, EVERY, EVERY_INSERT) };
        let appenders = Appenders::start(&self.stage.fleet.clients, &label, clients, every);
        let writer = Writer::start(self.stage.database_url(), plan.round, every_insert);
        self.stage.until_delivered_more(UNDISTURBED).await?;
        self.windows.0.extend(strike(&self.stage, plan).await?);
        self.stage.fleet.until_ready().await?;
        self.answered += appenders.finish().await?;
        self.answered += writer.finish().await?;
        Ok(())
    }

    /// Attempts that all events together were charged with so far: a confirm leaves them as they are.
    async fn charged(&self) -> Result<i64, sqlx::Error> {
        self.stage.number("SELECT coalesce(sum(attempts), 0)::bigint FROM outbox_event").await
    }
}

/// An outage is no event's fault: as many attempts are charged after it as before.
fn uncharged(before: Result<i64, sqlx::Error>, after: Result<i64, sqlx::Error>) -> Result<(), String> {
    match (before, after) {
        (Ok(before), Ok(after)) if before == after => Ok(()),
        (Ok(before), Ok(after)) => {
            Err(format!("attempts were charged while RabbitMQ was down: {before} before, {after} afterwards"))
        }
        (Err(error), _) | (_, Err(error)) => Err(format!("charged attempts could not be counted: {error}")),
    }
}

/// Lets the faults of a plan happen; returns when they were.
async fn strike(stage: &Stage, plan: &Plan) -> Result<Vec<Window>, ChaosError> {
    let begun = Instant::now();
    let targets = plan.by_target();
    let all = targets.iter().map(|strikes| Box::pin(strike_one_target(stage, strikes, begun)));
    let mut windows = futures_util::future::try_join_all(all).await?.concat();
    windows.sort_by_key(|window| window.begun);
    Ok(windows)
}

async fn strike_one_target(stage: &Stage, strikes: &[Strike], begun: Instant) -> Result<Vec<Window>, ChaosError> {
    let mut windows = Vec::new();
    for strike in strikes {
        timer::lasting(strike.at.saturating_sub(begun.elapsed())).await;
        let begun = Instant::now();
        let happened = tokio::time::timeout(FAULT, Box::pin(strike.fault.happen(stage))).await;
        happened.map_err(|_elapsed| TimedOut::new(&format!("the end of the fault `{}`", strike.fault), FAULT))??;
        windows.push(Window { begun, ended: Instant::now(), allows: strike.fault.allows() });
    }
    Ok(windows)
}

#[cfg(test)]
mod tests {
    use super::uncharged;

    #[test]
    fn an_attempt_that_was_charged_in_the_outage_is_told_with_the_numbers() {
        assert_eq!(uncharged(Ok(7), Ok(7)), Ok(()));
        let told = uncharged(Ok(7), Ok(9)).unwrap_err();
        assert!(told.contains("7 before, 9 afterwards"), "{told}");
        assert!(uncharged(Ok(7), Err(sqlx::Error::RowNotFound)).is_err());
    }
}
