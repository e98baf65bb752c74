//! The demo: a story of one service whose relay is killed while it publishes, told on the terminal.
//!
//! It works on servers that `DATABASE_URL` and `AMQP_URL` name as on those that are started for it: in a database and
//! under names of its own, which go at the end, also after a failure, Ctrl-C or SIGTERM. It breaks processes of its own
//! only, never a server. After a SIGKILL a given server keeps that database and those names, which the demo has said.

mod arrivals;
mod deliveries;
mod signals;
mod stage;
mod verdict;

use std::{
    io::Write,
    process::ExitCode,
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream};
use test_support::servers::{Options, Servers, ServersError};
use uuid::Uuid;

use self::{arrivals::Arrivals, deliveries::Deliveries, signals::Signals, stage::Stage, verdict::Verdict};
use crate::{
    AppProcess, ProcessError, TimedOut, pause,
    tally::Counts,
    work_load::{LoadError, WorkLoad},
};

/// Work logs that are created.
const WORK_LOGS: u32 = 400;
/// Clients side by side.
const CLIENTS: usize = 8;
/// Work logs with events in flight at the kill that are followed afterwards.
const HELD: i64 = 4;
/// How long the relay of a killed process keeps its lease; short, so that the demo is.
const LEASE: &str = "6s";
/// How long everything may take to arrive after the last request.
const PATIENCE: Duration = Duration::from_mins(2);

#[derive(Debug, thiserror::Error)]
enum DemoError {
    #[error("the servers cannot be had")]
    Servers(#[from] ServersError),
    #[error("a process failed")]
    Process(#[from] ProcessError),
    #[error("the database cannot be read")]
    Database(#[from] sqlx::Error),
    #[error(
        "the broker gives no exchange and queue; its user must be allowed to configure, write and read names that begin \
         with `{prefix}.`"
    )]
    Broker { prefix: String, source: lapin::Error },
    #[error("a client was not served")]
    Load(#[from] LoadError),
    #[error(transparent)]
    TimedOut(#[from] TimedOut),
    #[error("a file cannot be used")]
    File(#[from] std::io::Error),
    #[error("`app {command}` failed:\n{output}")]
    Command { command: &'static str, output: String },
    #[error("something may be left on a server")]
    Left(#[source] ServersError),
}

/// Runs the demo; the exit code says whether everything arrived as promised, or which signal has ended it.
pub async fn main() -> ExitCode {
    match run().await {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            say_error(&error);
            ExitCode::FAILURE
        }
    }
}

/// Tells the story between making a place for it and clearing that away; the exit code.
async fn run() -> Result<u8, DemoError> {
    let mut signals = Signals::listen()?;
    let servers = Servers::new(Options::new().with_progress(say));
    let with_broker = tokio::select! {
        obtained = Box::pin(stage::obtain(&servers)) => obtained?,
        code = signals.next() => return Ok(code),
    };
    // A signal waits for these moments: a database that is being created could not be removed.
    let stage = Box::pin(Stage::set(servers, with_broker)).await?;
    let outcome = tokio::select! {
        // Its processes go with it.
        outcome = Box::pin(story(&stage)) => outcome,
        code = signals.next() => {
            say("stopped before the end: everything is taken down");
            Ok(code)
        }
    };
    let cleared = stage.clear().map_err(DemoError::Left);
    match outcome {
        Ok(code) => cleared.map(|()| code),
        Err(error) => {
            if let Err(left) = cleared {
                say_error(&left);
            }
            Err(error)
        }
    }
}

async fn story(stage: &Stage) -> Result<u8, DemoError> {
    stage.migrate().await?;
    let (deliveries, arrivals) = (stage.deliveries().await?, Arrivals::default());
    tokio::select! {
        outcome = Box::pin(play(stage, &deliveries, &arrivals)) => outcome,
        never = arrivals.show(&deliveries) => match never {},
    }
}

/// The exit code: whether everything arrived as promised.
async fn play(stage: &Stage, deliveries: &Deliveries, arrivals: &Arrivals) -> Result<u8, DemoError> {
    let mut first = stage.serve("relay-1").await?;
    let mut second = stage.serve("relay-2").await?;
    say("two processes serve HTTP, relay events and consume them: relay-1 and relay-2");

    let load = WorkLoad::new(vec![first.url(""), second.url("")], Duration::from_mins(1));
    let portfolio = Uuid::from_u128(0x8b8a_d1f5_9a5c_4d0e_9d63_6a3a_6f0f_7a11);
    say(&format!(
        "{CLIENTS} clients create {WORK_LOGS} work logs and walk each to its end: three events each, in order"
    ));
    say(
        "the first work logs are shown with each event that arrives (#: its place in the order), the others are counted",
    );
    let clients = tokio::spawn(create_all(load.clone(), portfolio));

    let (held, aggregates) = kill_in_mid_flight(stage, &mut first).await?;
    say(&format!("killed relay-1 with SIGKILL while it held {held} events in flight; its lease runs {LEASE}"));
    let followed = arrivals.follow(aggregates);
    if !followed.is_empty() {
        say(&format!("followed from here on, for they have events in flight: work logs {}", followed.join(", ")));
    }
    load.turn_to(vec![second.url("")]);
    let mut third = stage.serve("relay-3").await?;
    load.turn_to(vec![second.url(""), third.url("")]);
    say("started relay-3 in its place");

    let created = clients.await.map_err(std::io::Error::other)??;
    say(&format!("{} work logs were answered with 201", created.len()));
    let counts = wait_until_settled(stage, deliveries).await?;
    arrivals.show_new(deliveries);
    arrivals.sum_up();
    let verdict = Verdict::new(counts, stage.report(deliveries).await?, deliveries.are_consumed());
    tell(&verdict.to_string());
    for process in [&mut second, &mut third] {
        process.signal(rustix::process::Signal::TERM)?;
        let status = process.ended(Duration::from_secs(30)).await?;
        if !status.success() {
            say(&format!("a process did not drain: {status}"));
            return Ok(1);
        }
    }
    say("the processes drained and exited at SIGTERM");
    Ok(verdict.code())
}

async fn wait_until_settled(stage: &Stage, deliveries: &Deliveries) -> Result<Counts, DemoError> {
    let begun = Instant::now();
    let mut tally = stage.tally().await?;
    let mut said = Instant::now();
    loop {
        let counts = tally.counts().await?;
        let delivered = i64::try_from(deliveries.count()).unwrap_or(i64::MAX);
        let effects = !deliveries.are_consumed() || counts.applied == counts.events;
        if counts.published == counts.events && effects && delivered >= counts.events {
            return Ok(counts);
        }
        if begun.elapsed() > PATIENCE {
            say("not everything arrived in time");
            return Ok(counts);
        }
        if said.elapsed() > Duration::from_secs(2) {
            said = Instant::now();
            let Counts { events, published, in_flight, applied, .. } = counts;
            say(&format!("{events} events: {published} published, {in_flight} in flight, {applied} applied"));
        }
        pause().await;
    }
}

/// Waits until the process holds a lease, and kills it then and there. How many events it held, and some of the aggregates
/// whose events are in flight since.
async fn kill_in_mid_flight(stage: &Stage, process: &mut AppProcess) -> Result<(i64, Vec<String>), DemoError> {
    let mut tally = stage.tally().await?;
    let begun = Instant::now();
    loop {
        let (counts, held) = (tally.counts().await?, tally.held_by("relay-1").await?);
        if held > 0 && counts.published > i64::from(WORK_LOGS / 2) {
            process.kill().await?;
            return Ok((held, tally.aggregates_held_by("relay-1", HELD).await?));
        }
        if begun.elapsed() > Duration::from_secs(60) {
            return Err(TimedOut::new("a lease of relay-1", Duration::from_secs(60)).into());
        }
    }
}

async fn create_all(load: WorkLoad, portfolio: Uuid) -> Result<Vec<Uuid>, LoadError> {
    let requests = (0..WORK_LOGS).map(|n| {
        let load = load.clone();
        async move { load.complete_one(portfolio, &format!("demo-{n}"), 30).await }
    });
    stream::iter(requests).buffer_unordered(CLIENTS).collect::<Vec<_>>().await.into_iter().collect()
}

fn say(text: &str) {
    tell(&format!("[demo] {text}"));
}

fn tell(line: &str) {
    // A reader that goes away must not keep the demo from tidying up.
    let _unheard = writeln!(std::io::stdout(), "{line}");
}

fn say_error(error: &DemoError) {
    let mut text = format!("error: {error}");
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}\n  because {error}");
        cause = error.source();
    }
    let _unheard = writeln!(std::io::stderr(), "{text}");
}
