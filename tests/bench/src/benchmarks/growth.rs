//! `growth`: whether a claim costs the same however much waits, is kept, is gated, or is held open by others.

mod held;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use adapter_persistence_postgres::{Database, OutboxStoreAdapter};
use application_core::ports::OutboxStorePort;
use sqlx::{Connection, PgConnection};

use crate::{
    error::BenchError,
    figures::{millis, number, percentile},
    limits::{claims, confirmed, request, settle},
    runner::Bench,
    seed::{Backlog, PAYLOAD_BYTES, Payload, Shape, count, retain},
    stage::connect,
    statements::Statements,
};

/// Claims of a round; each of 500 events.
const CLAIMS: usize = 5;
/// Events that wait while history grows: enough for all rounds.
const WAITING: usize = 10_000;
/// Polls that must be enough to park a thousand lanes: each reads 500 events, eight times, a hundred a lane.
const PARKING_POLLS: usize = 100;
/// Empty polls of a round.
const POLLS: usize = 100;

pub(crate) async fn run(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    let few = backlog(bench).await?;
    retained(bench, &few).await?;
    gated(bench).await?;
    for held in [held::Held::Snapshot, held::Held::Writer] {
        held::run(bench, held).await?;
    }
    Ok(())
}

/// The relay's store, as its settings' defaults make it.
fn store(database: &Database) -> Arc<dyn OutboxStorePort> {
    Arc::new(OutboxStoreAdapter::new(Arc::new(claims(database)), Duration::from_mins(1)))
}

/// Claims with 10^4, 10^5 and 10^6 events waiting; returns the times of the least.
async fn backlog(bench: &mut Bench<'_>) -> Result<Vec<f64>, BenchError> {
    let mut few = Vec::new();
    for (name, events) in [
        ("10_000", WAITING),
        ("100_000", bench.size(100_000, WAITING)),
        ("1_000_000", bench.size(1_000_000, 2 * WAITING)),
    ] {
        let database = bench.stage.database("backlog").await?;
        let pool = connect(database.url()).await?;
        insert(database.url(), events).await?;
        let times = claim_rounds(bench, &format!("growth.backlog.{name}"), &pool, database.url()).await?;
        pool.close().await;
        match name {
            "10_000" => few = times,
            "1_000_000" => record_ratios(bench, "growth.backlog.time_ratio", &times, &few),
            _ => {}
        }
    }
    Ok(few)
}

/// Claims of 10^4 events behind 10^6 and 5*10^6 published ones.
async fn retained(bench: &mut Bench<'_>, without: &[f64]) -> Result<(), BenchError> {
    let database = bench.stage.database("retained").await?;
    let pool = connect(database.url()).await?;
    let (some, all) = (bench.size(1_000_000, 20_000), bench.size(5_000_000, 40_000));
    retain(database.url(), some).await?;
    insert(database.url(), WAITING).await?;
    claim_rounds(bench, "growth.retained.1_000_000", &pool, database.url()).await?;
    retain(database.url(), all - some).await?;
    insert(database.url(), WAITING).await?;
    let times = claim_rounds(bench, "growth.retained.5_000_000", &pool, database.url()).await?;
    record_ratios(bench, "growth.retained.time_ratio", &times, without);
    empty_outbox(&pool).await?;
    let empty = polls(&pool, POLLS).await?;
    bench.record("growth.retained.poll", "ms", empty);
    pool.close().await;
    Ok(())
}

/// Empty polls with 500,000 events behind 1,000 DEAD heads, in turn with those of an empty table.
async fn gated(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    let (gated, fresh) = (bench.stage.database("gated").await?, bench.stage.database("fresh").await?);
    let (pool, fresh_pool) = (connect(gated.url()).await?, connect(fresh.url()).await?);
    let events = bench.size(500_000, 10_000);
    Backlog::insert(gated.url(), Shape::Gated, events, Payload::Bytes(PAYLOAD_BYTES)).await?.commit().await?;
    park_gated(&pool, gated.url()).await?;
    for _ in 0..bench.rounds() {
        let without = polls(&fresh_pool, POLLS).await?;
        let with = polls(&pool, POLLS).await?;
        bench.record("growth.empty.poll", "ms", without);
        bench.record("growth.gated.poll", "ms", with);
        bench.record("growth.gated.poll_ratio", "ratio", with / without);
    }
    pool.close().await;
    fresh_pool.close().await;
    Ok(())
}

/// Polls until the DEAD heads are found and their lanes parked; each poll does a part of them.
async fn park_gated(pool: &Database, database_url: &str) -> Result<(), BenchError> {
    let mut connection = PgConnection::connect(database_url).await?;
    let mut due = i64::MAX;
    for _ in 0..PARKING_POLLS {
        polls(pool, 1).await?;
        let still_due = "SELECT count(*) FROM outbox_lane WHERE token IS NULL AND due_at IS NOT NULL";
        due = count(&mut connection, still_due).await?;
        if due == 0 {
            return Ok(());
        }
    }
    Err(BenchError::Unsound(format!("{due} lanes with a DEAD head are still due after {PARKING_POLLS} polls")))
}

async fn insert(database_url: &str, events: usize) -> Result<(), BenchError> {
    let backlog = Backlog::insert(database_url, Shape::TenEach, events, Payload::Bytes(PAYLOAD_BYTES)).await?;
    backlog.commit().await.map(drop)
}

/// Rounds of claims with what they cost an event; returns the claims' times in microseconds an event.
async fn claim_rounds(
    bench: &mut Bench<'_>,
    figure: &str,
    pool: &Database,
    database_url: &str,
) -> Result<Vec<f64>, BenchError> {
    let store = store(pool);
    let mut statements = Statements::of(database_url).await?;
    claim_some(&*store, 2).await?;
    let mut times = Vec::new();
    for _ in 0..bench.rounds() {
        statements.reset().await?;
        let begun = Instant::now();
        let (events, claiming) = claim_some(&*store, CLAIMS).await?;
        bench.record(&format!("{figure}.claim_and_ack"), "us an event", millis(begun.elapsed()) * 1e3 / number(events));
        let of_client = millis(claiming) * 1e3 / number(events);
        let claim = statements.usage("%outbox\\_claim(%").await?;
        let time = claim.map_or(of_client, |used| used.millis * 1e3 / number(events));
        bench.record(&format!("{figure}.claim"), "us an event", time);
        times.push(time);
        for (name, pattern) in [("claim", "%outbox\\_claim(%"), ("ack", "%outbox\\_acknowledge(%")] {
            let used = statements.usage(pattern).await?;
            let buffers = used.map(|used| used.buffers / number(events));
            let wal = used.map(|used| used.wal_bytes / number(events));
            bench.record_known(&format!("{figure}.{name}.buffers"), "pages an event", buffers);
            bench.record_known(&format!("{figure}.{name}.wal"), "bytes an event", wal);
        }
    }
    Ok(times)
}

/// Claims and acknowledges so many times; returns the events and the time that the claims took.
async fn claim_some(store: &dyn OutboxStorePort, claims: usize) -> Result<(usize, Duration), BenchError> {
    let (mut events, mut claiming) = (0, Duration::ZERO);
    for _ in 0..claims {
        let request = request(10.0);
        let begun = Instant::now();
        let runs = store.claim(&request).await?;
        claiming += begun.elapsed();
        if runs.is_empty() {
            return Err(BenchError::Unsound("too few events wait for so many claims".to_owned()));
        }
        events += runs.iter().map(|run| run.events.len()).sum::<usize>();
        settle(store, request.token, &runs.iter().map(confirmed).collect::<Vec<_>>()).await?;
    }
    Ok((events, claiming))
}

fn record_ratios(bench: &mut Bench<'_>, figure: &str, times: &[f64], base: &[f64]) {
    for (time, base) in times.iter().zip(base) {
        bench.record(figure, "ratio", time / base.max(1e-9));
    }
}

/// Claims and acknowledges whatever is due.
async fn empty_outbox(pool: &Database) -> Result<(), BenchError> {
    let store = store(pool);
    loop {
        let request = request(10.0);
        let runs = store.claim(&request).await?;
        if runs.is_empty() {
            return Ok(());
        }
        settle(&*store, request.token, &runs.iter().map(confirmed).collect::<Vec<_>>()).await?;
    }
}

/// The median of so many claims that find nothing, in milliseconds.
async fn polls(pool: &Database, polls: usize) -> Result<f64, BenchError> {
    let store = store(pool);
    let mut times = Vec::with_capacity(polls);
    for _ in 0..polls {
        let request = request(1.0);
        let begun = Instant::now();
        let runs = store.claim(&request).await?;
        times.push(millis(begun.elapsed()));
        if !runs.is_empty() {
            return Err(BenchError::Unsound("a poll that should have found nothing found events".to_owned()));
        }
    }
    times.sort_by(f64::total_cmp);
    percentile(&times, 0.5).ok_or_else(|| BenchError::Unsound("no poll was made".to_owned()))
}
