//! Soak: a steady load at half of what the processes carry, faults in every second minute, and a sample of what may grow.
//!
//! The minutes between are without faults, so that latencies of like minutes can be compared. Published events are kept for
//! a minute alone, so that cleanup runs all the time and sizes can be compared. What was committed is therefore noted while
//! it is there, more often than it is cleaned.

mod flat;

use std::{
    collections::HashMap,
    fmt,
    time::{Duration, Instant},
};

use application_core::outbox::EventId;
use serde::Serialize;
use sqlx::Row;
use test_support::checker::DeliveryChecker;
use uuid::Uuid;

pub(crate) use self::flat::{Trend, trends};
use super::{
    appenders::{Appenders, EVENTS},
    error::ChaosError,
    options::Options,
    plan::Plan,
    report::{Round, Summary, say},
    stage::Stage,
    strike,
    timer::lasting,
    verdict::{self, Windows},
};
use crate::eventually;

/// What differs from the rounds' settings.
pub(super) const SETTINGS: &[(&str, &str)] =
    &[("OUTBOX__RETENTION__PUBLISHED", "1m"), ("OUTBOX__RETENTION__BATCH", "1000")];
/// Clients side by side while the rate is measured, and afterwards.
const CLIENTS: u32 = 8;
/// How long the rate is measured.
const MEASURED: Duration = Duration::from_secs(20);
/// How often commits are noted: well within the minute that they are kept.
const NOTED: Duration = Duration::from_secs(20);
/// Samples a minute apart.
const NOTES_IN_A_SAMPLE: u32 = 3;
/// How long the database may be away when commits are noted.
const PATIENCE: Duration = Duration::from_secs(30);
/// Faults in a minute that has some: two a minute over the whole soak.
const STRIKES: usize = 4;
/// Commits that are timed at a time.
const COMMITS: usize = 21;

/// One minute.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Sample {
    minute: u32,
    /// Whether no fault was drawn for it.
    is_quiet: bool,
    delivered: usize,
    /// Milliseconds from the insert of an event to its delivery.
    p50: u64,
    p95: u64,
    p99: u64,
    longest: u64,
    /// Microseconds that a commit took which touches no table, the middle one of some: how fast the machine is now.
    commit: u64,
    /// KiB of the largest process.
    memory: u64,
    dead_tuples: u64,
    table_bytes: u64,
    index_bytes: u64,
}

impl Sample {
    pub(crate) const fn is_first(&self) -> bool {
        self.minute == 1
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "minute {}{}: {} delivered, insert to delivery p50 {} ms, p95 {} ms, p99 {} ms, longest {} ms; a commit {} µs; \
             {} KiB; {} dead tuples, {} KiB of tables, {} KiB of indexes",
            self.minute,
            if self.is_quiet { ", quiet" } else { "" },
            self.delivered,
            self.p50,
            self.p95,
            self.p99,
            self.longest,
            self.commit,
            self.memory,
            self.dead_tuples,
            self.table_bytes / 1024,
            self.index_bytes / 1024
        )
    }
}

/// Committed events by id: aggregate, sequence, and when they were inserted, in seconds of the database's clock.
type Commits = HashMap<Uuid, (String, i64, f64)>;

/// Runs the soak for the time of the options.
pub(super) async fn soak(options: &Options) -> Result<Summary, ChaosError> {
    let begun = Instant::now();
    let mut summary = Summary::new(options.seed);
    let stage = Stage::set(options, SETTINGS).await?;
    let (mut commits, mut windows) = (Commits::new(), Windows::default());
    let (carried, mut answered) = measure(&stage).await?;
    note_commits(&stage, &mut commits).await?;
    let baseline = stage.broker_use().await?;
    let every = Duration::from_secs(1).mul_f64(f64::from(CLIENTS) * f64::from(EVENTS) / (carried / 2.0).max(1.0));
    say(&format!("{carried:.0} events a second are carried without pauses; the load is half of that"));
    summary.steady_load(carried / 2.0);

    let appenders = Appenders::start(&stage.fleet.clients, "soak", CLIENTS, every);
    let minutes = u32::try_from(options.time.as_secs() / 60).unwrap_or(u32::MAX);
    for minute in 1..=minutes {
        let is_quiet = minute % 2 == 0;
        let plan = Plan::draw(options.seed, minute).first(if is_quiet { 0 } else { STRIKES });
        say(&plan.to_string());
        let from = stage.tap.count();
        let (struck, noted) =
            tokio::join!(Box::pin(strike(&stage, &plan)), Box::pin(note_for_a_minute(&stage, &mut commits)));
        windows.0.extend(struck?);
        noted?;
        stage.fleet.until_ready().await?;
        let sample = Sample { minute, is_quiet, ..sample(&stage, &commits, from).await? };
        say(&sample.to_string());
        summary.add_sample(&plan, sample);
    }
    answered += appenders.finish().await?;
    note_commits(&stage, &mut commits).await?;

    let mut round = Round::of(&Plan::draw(options.seed, minutes).first(0));
    round.violations.extend(verdict::until_at_rest(&stage, answered, baseline).await);
    note_commits(&stage, &mut commits).await?;
    let checker = DeliveryChecker::new();
    for (id, (aggregate, sequence, _)) in &commits {
        checker.committed(aggregate, EventId::new(*id), *sequence);
    }
    verdict::tell_deliveries(&checker, &stage.tap.seen(), &windows);
    stage.tally().await?.tell_effects(&checker).await?;
    round.judge(checker.report(), answered * i64::from(EVENTS));
    round.violations.extend(verdict::stuck(&stage).await?);
    summary.add(&Plan::draw(options.seed, minutes).first(0), round);
    summary.end(begun.elapsed(), stage.kills.counts());
    Ok(summary)
}

/// Events a second when clients do not pause, and the work logs that were answered meanwhile.
async fn measure(stage: &Stage) -> Result<(f64, i64), ChaosError> {
    let appenders = Appenders::start(&stage.fleet.clients, "measure", CLIENTS, Duration::ZERO);
    stage.fleet.until_all_have_published().await?;
    let (begun, before) = (Instant::now(), stage.tap.count());
    lasting(MEASURED).await;
    let delivered = u32::try_from(stage.tap.count() - before).unwrap_or(u32::MAX);
    let rate = f64::from(delivered) / begun.elapsed().as_secs_f64();
    Ok((rate, appenders.finish().await?))
}

async fn note_for_a_minute(stage: &Stage, commits: &mut Commits) -> Result<(), ChaosError> {
    for _ in 0..NOTES_IN_A_SAMPLE {
        lasting(NOTED).await;
        note_commits(stage, commits).await?;
    }
    Ok(())
}

/// Notes the events that the database has now.
async fn note_commits(stage: &Stage, commits: &mut Commits) -> Result<(), ChaosError> {
    let events = "SELECT id, aggregate_type || '/' || aggregate_id, sequence, extract(epoch FROM created_at)::float8 \
                    FROM outbox_event WHERE aggregate_type <> 'history'";
    let read = || async { sqlx::query(events).fetch_all(&mut stage.connect().await.ok()?).await.ok() };
    for row in eventually("the commits so far", PATIENCE, read).await? {
        commits.entry(row.try_get(0)?).or_insert((row.try_get(1)?, row.try_get(2)?, row.try_get(3)?));
    }
    Ok(())
}

/// What a commit takes that touches no table: a message in the log, which nobody reads.
async fn time_of_a_commit(stage: &Stage) -> Option<u64> {
    let mut connection = stage.connect().await.ok()?;
    let mut times = Vec::new();
    for _ in 0..COMMITS {
        let begun = Instant::now();
        sqlx::query("SELECT pg_logical_emit_message(true, 'soak', ''::text)").execute(&mut connection).await.ok()?;
        times.push(u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX));
    }
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}

/// The figures of the minute that began with the delivery `from`.
async fn sample(stage: &Stage, commits: &Commits, from: usize) -> Result<Sample, ChaosError> {
    const FIGURES: &str = "SELECT extract(epoch FROM clock_timestamp())::float8, sum(n_dead_tup)::bigint, \
                                  sum(pg_table_size(relid))::bigint, sum(pg_indexes_size(relid))::bigint \
                             FROM pg_stat_user_tables \
                            WHERE relname IN ('outbox_event', 'outbox_lane', 'outbox_claim', 'outbox_due_floor')";
    let commit = eventually("a timed commit", PATIENCE, || time_of_a_commit(stage)).await?;
    let read = || async { sqlx::query(FIGURES).fetch_one(&mut stage.connect().await.ok()?).await.ok() };
    let figures = eventually("the figures of the tables", PATIENCE, read).await?;
    let (now, clock): (f64, _) = (figures.try_get(0)?, Instant::now());
    let number = |column| Ok::<_, sqlx::Error>(figures.try_get::<i64, usize>(column)?.unsigned_abs());
    let seen = stage.tap.seen().split_off(from);
    let mut latencies: Vec<u64> = seen
        .iter()
        .filter_map(|delivery| {
            let (_, _, inserted) = commits.get(&delivery.event)?;
            let ago = clock.saturating_duration_since(delivery.at).as_secs_f64();
            let latency = Duration::try_from_secs_f64(now - ago - inserted).unwrap_or_default();
            u64::try_from(latency.as_millis()).ok()
        })
        .collect();
    latencies.sort_unstable();
    let percentile = |percent: usize| {
        let at = (latencies.len() * percent / 100).min(latencies.len().saturating_sub(1));
        latencies.get(at).copied().unwrap_or_default()
    };
    Ok(Sample {
        delivered: seen.len(),
        p50: percentile(50),
        p95: percentile(95),
        p99: percentile(99),
        longest: percentile(100),
        commit,
        memory: stage.fleet.memory().await.iter().map(|(_, kib)| *kib).max().unwrap_or_default(),
        dead_tuples: number(1)?,
        table_bytes: number(2)?,
        index_bytes: number(3)?,
        ..Sample::default()
    })
}
