//! The demo: a story of one service whose relay is killed while it publishes, told on the terminal.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use application_core::outbox::EventId;
use futures_util::{StreamExt, stream};
use test_support::{
    checker::{DeliveryChecker, DeliveryReport, DuplicateReason},
    servers::{Options, Servers, ServersError, private},
};
use uuid::Uuid;

use crate::{
    AppEnvironment, AppProcess, ProcessError, TimedOut, pause,
    tally::{Counts, Tally},
    tap::Tap,
    work_load::{LoadError, WorkLoad},
};

/// Work logs that are created; each has three events.
const WORK_LOGS: u32 = 400;
/// Clients side by side.
const CLIENTS: usize = 8;
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
    #[error("the broker cannot be read")]
    Broker(#[from] lapin::Error),
    #[error("a client was not served")]
    Load(#[from] LoadError),
    #[error(transparent)]
    TimedOut(#[from] TimedOut),
    #[error("a file cannot be used")]
    File(#[from] std::io::Error),
    #[error("`app {command}` failed:\n{output}")]
    Command { command: &'static str, output: String },
}

/// Runs the demo; the exit code says whether everything arrived as promised.
#[expect(clippy::print_stderr, reason = "the demo talks to a person")]
pub async fn main() -> ExitCode {
    let run = async {
        tokio::select! {
            outcome = run() => outcome,
            // Servers and processes go when their values are dropped.
            _ = tokio::signal::ctrl_c() => Ok(false),
        }
    };
    match run.await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            let mut cause = std::error::Error::source(&error);
            while let Some(error) = cause {
                eprintln!("  because {error}");
                cause = error.source();
            }
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<bool, DemoError> {
    let stage = Stage::set().await?;
    let mut first = stage.environment.serve("relay-1").await?;
    let mut second = stage.environment.serve("relay-2").await?;
    say("two processes serve HTTP, relay events and consume them: relay-1 and relay-2");

    let load = WorkLoad::new(vec![first.url(""), second.url("")], Duration::from_mins(1));
    let portfolio = Uuid::from_u128(0x8b8a_d1f5_9a5c_4d0e_9d63_6a3a_6f0f_7a11);
    say(&format!(
        "{CLIENTS} clients create {WORK_LOGS} work logs and walk each to its end: three events each, in order"
    ));
    let clients = tokio::spawn(create_all(load.clone(), portfolio));

    let held = kill_in_mid_flight(&stage, &mut first).await?;
    say(&format!("killed relay-1 with SIGKILL while it held {held} events in flight; its lease runs {LEASE}"));
    load.turn_to(vec![second.url("")]);
    let mut third = stage.environment.serve("relay-3").await?;
    load.turn_to(vec![second.url(""), third.url("")]);
    say("started relay-3 in its place");

    let created = clients.await.map_err(std::io::Error::other)??;
    say(&format!("{} work logs were answered with 201", created.len()));
    let counts = stage.wait_until_settled().await?;
    stage.show_one(*created.first().unwrap_or(&Uuid::nil()));
    let report = stage.report().await?;
    print_table(&stage, &counts, &report);
    for process in [&mut second, &mut third] {
        process.signal(rustix::process::Signal::TERM)?;
        let status = process.ended(Duration::from_secs(30)).await?;
        if !status.success() {
            say(&format!("a process did not drain: {status}"));
            return Ok(false);
        }
    }
    say("the processes drained and exited at SIGTERM");
    Ok(report.is_clean() && counts.dead == 0)
}

/// Servers, the schema, and the environment of the processes.
struct Stage {
    // Dropped last: processes and the tap must be gone before their servers.
    environment: AppEnvironment,
    tap: Option<Tap>,
    lines: PathBuf,
    database_url: String,
    _directory: tempfile::TempDir,
    _servers: Arc<Servers>,
}

impl Stage {
    async fn set() -> Result<Self, DemoError> {
        let servers = Arc::new(private(Options::new().with_progress(say)));
        let database_url = servers.postgres().await?.url().to_owned();
        let amqp_url = match servers.rabbitmq().await {
            Ok(server) => Some(server.url().to_owned()),
            Err(error) if error.is_unavailable() => {
                say("no RabbitMQ can be had: events go to standard output instead, and nothing is consumed");
                None
            }
            Err(error) => return Err(error.into()),
        };
        let directory = tempfile::tempdir()?;
        let lines = directory.path().join("events.jsonl");
        let environment = environment(directory.path(), &lines, &database_url, amqp_url.as_deref());
        let (status, output) = environment.run(&["migrate"]).await?;
        if !status.success() {
            return Err(DemoError::Command { command: "migrate", output });
        }
        let applied = output.lines().filter(|line| line.starts_with("applied ")).count();
        say(&format!("applied {applied} migrations"));
        let tap = match &amqp_url {
            Some(url) => Some(Tap::open(url, "demo.tap").await?),
            None => None,
        };
        Ok(Self { environment, tap, lines, database_url, _directory: directory, _servers: servers })
    }

    fn delivered(&self) -> Vec<Uuid> {
        match &self.tap {
            Some(tap) => tap.seen().into_iter().map(|seen| seen.event).collect(),
            None => delivered_lines(&self.lines),
        }
    }

    async fn wait_until_settled(&self) -> Result<Counts, DemoError> {
        let begun = Instant::now();
        let mut tally = Tally::connect(&self.database_url).await?;
        let mut said = Instant::now();
        loop {
            let counts = tally.counts().await?;
            let delivered = i64::try_from(self.delivered().len()).unwrap_or(i64::MAX);
            let effects = self.tap.is_none() || counts.applied == counts.events;
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

    /// Shows the events of one work log as they arrived.
    fn show_one(&self, work_log: Uuid) {
        let Some(tap) = &self.tap else { return };
        let aggregate = format!("work-log/{work_log}");
        let seen = tap.seen();
        let events: Vec<_> =
            seen.iter().filter(|seen| seen.aggregate == aggregate).map(|seen| seen.event_type.as_str()).collect();
        say(&format!("{aggregate} arrived as {}", events.join(", ")));
    }

    async fn report(&self) -> Result<DeliveryReport, DemoError> {
        let checker = DeliveryChecker::new();
        checker.allow_duplicates(DuplicateReason::RelayKilled);
        if self.tap.is_some() {
            checker.watch_effects();
        }
        for event in self.delivered() {
            checker.delivered(EventId::new(event));
        }
        Tally::connect(&self.database_url).await?.tell(&checker).await?;
        Ok(checker.report())
    }
}

fn environment(directory: &Path, lines: &Path, database_url: &str, amqp_url: Option<&str>) -> AppEnvironment {
    let environment = AppEnvironment::new(directory, database_url, amqp_url)
        .with("APP__OUTBOX__RELAY__LEASE", LEASE)
        .with("APP__OUTBOUND__AMQP__CONFIRM_TIMEOUT", "2s")
        .with("APP__OUTBOX__REAPER__EVERY", "1s");
    match amqp_url {
        Some(_) => environment.with_topology(),
        None => environment.with_stdout_to(lines),
    }
}

/// Waits until the process holds a lease, and kills it then and there.
async fn kill_in_mid_flight(stage: &Stage, process: &mut AppProcess) -> Result<i64, DemoError> {
    let mut tally = Tally::connect(&stage.database_url).await?;
    let begun = Instant::now();
    loop {
        let (counts, held) = (tally.counts().await?, tally.held_by("relay-1").await?);
        if held > 0 && counts.published > i64::from(WORK_LOGS / 2) {
            process.kill().await?;
            return Ok(held);
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

fn delivered_lines(lines: &Path) -> Vec<Uuid> {
    let text = std::fs::read_to_string(lines).unwrap_or_default();
    let id = |line: &str| {
        let envelope: serde_json::Value = serde_json::from_str(line).ok()?;
        Uuid::parse_str(envelope.get("eventId")?.as_str()?).ok()
    };
    text.lines().filter_map(id).collect()
}

#[expect(clippy::print_stdout, reason = "the demo talks to a person")]
fn say(text: &str) {
    println!("[demo] {text}");
}

#[expect(clippy::print_stdout, reason = "the demo talks to a person")]
fn print_table(stage: &Stage, counts: &Counts, report: &DeliveryReport) {
    let duplicates: u64 = report.allowed_duplicates.values().sum();
    let applied = if stage.tap.is_some() { counts.applied.to_string() } else { "not consumed".to_owned() };
    println!();
    for (label, value) in [
        ("work logs created (rows committed)", counts.work_logs.to_string()),
        ("events committed with them", report.committed.to_string()),
        ("events published", counts.published.to_string()),
        ("events delivered", report.delivered.to_string()),
        ("delivered again (allowed: a relay was killed)", duplicates.to_string()),
        ("effects applied", applied),
        ("order violations", (report.out_of_order.count + report.effect_out_of_order.count).to_string()),
        ("lost", (report.lost.count + report.stuck.count).to_string()),
        ("effects missing or repeated", (report.effect_missing.count + report.effect_repeated.count).to_string()),
        ("delivered without a commit", report.phantom.count.to_string()),
    ] {
        println!("  {label:<52}{value:>8}");
    }
    println!();
    if !report.is_clean() {
        println!("{report}");
    }
}
