//! `growth`: whether a claim costs the same however much waits, is kept, is gated, or is held open by others.

mod held;
mod retained;
mod turns;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use adapter_persistence_postgres::{Database, OutboxStoreAdapter};
use application_core::ports::OutboxStorePort;
use sqlx::{Connection, PgConnection};

use self::turns::{Side, compare};
use crate::{
    error::BenchError,
    figures::{millis, percentile},
    limits::{claims, confirmed, request, settle},
    runner::Bench,
    seed::{Backlog, PAYLOAD_BYTES, Payload, Shape, count, refill},
    stage::connect,
    statements::Statements,
};

/// Claims of a turn; each of 500 events.
const CLAIMS: usize = 5;
/// Turns of a round: 70 claims, and 210 in three rounds.
const TURNS: usize = 14;
/// Events that wait where few do. What a turn takes of them is put back behind them.
const WAITING: usize = 10_000;
/// What a turn of claims is looked at for.
const LOOKED: [(&str, &str); 2] = [("claim", "%outbox\\_claim(%"), ("ack", "%outbox\\_acknowledge(%")];
/// Polls that must be enough to park a thousand lanes: each reads 500 events, eight times, a hundred a lane.
const PARKING_POLLS: usize = 100;
/// Empty polls of a round.
const POLLS: usize = 100;

pub(crate) async fn run(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    backlog(bench).await?;
    retained::run(bench).await?;
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

/// Claims with 10^5 and 10^6 events waiting, against those with 10^4.
async fn backlog(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    for (figure, events) in [
        ("growth.backlog.100_000", bench.size(100_000, WAITING)),
        ("growth.backlog.1_000_000", bench.size(1_000_000, 2 * WAITING)),
    ] {
        let database = bench.stage.database("backlog").await?;
        insert(database.url(), events).await?;
        let mut case = Waiting::open(database.url()).await?;
        compare_claims(bench, figure, &mut case).await?;
        case.close().await;
    }
    Ok(())
}

/// Claims of this database in turn with those of a fresh one in which 10^4 events wait.
async fn compare_claims(bench: &mut Bench<'_>, figure: &str, case: &mut Waiting) -> Result<(), BenchError> {
    let fresh = bench.stage.database("few").await?;
    insert(fresh.url(), WAITING).await?;
    let mut base = Waiting::open(fresh.url()).await?;
    let turns = bench.size(TURNS, 2);
    compare(bench, figure, turns, &LOOKED, (&mut base, case)).await?;
    base.close().await;
    Ok(())
}

/// A database whose waiting events are claimed, acknowledged and replaced.
struct Waiting {
    pool: Database,
    store: Arc<dyn OutboxStorePort>,
    statements: Statements,
    refills: PgConnection,
}

impl Waiting {
    async fn open(database_url: &str) -> Result<Self, BenchError> {
        let pool = connect(database_url).await?;
        let (store, statements) = (store(&pool), Statements::of(database_url).await?);
        Ok(Self { pool, store, statements, refills: PgConnection::connect(database_url).await? })
    }

    async fn close(self) {
        self.pool.close().await;
    }
}

impl Side for Waiting {
    async fn work(&mut self) -> Result<(usize, Duration), BenchError> {
        claim_some(&*self.store, CLAIMS).await
    }

    async fn restore(&mut self, events: usize) -> Result<(), BenchError> {
        refill(&mut self.refills, events).await
    }

    fn statements(&mut self) -> &mut Statements {
        &mut self.statements
    }
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
