//! Claims under 2,000 appended events a second while somebody else keeps a transaction open.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use adapter_persistence_postgres::Database;
use app_bootstrap::clock::SystemClock;
use application_core::{
    outbox::{ClaimRequest, ClaimScope, EventId},
    ports::{Clock, OutboxStorePort},
};
use sqlx::{Connection, PgConnection};
use system_tests::eventually;
use tokio::{task::JoinSet, time::MissedTickBehavior};

use super::{POLLS, polls, store};
use crate::{
    appender::{Appender, Nobody, fresh_aggregate},
    error::BenchError,
    figures::{millis, number, percentile},
    limits::{confirmed, request, settle},
    runner::Bench,
    seed::count,
    stage::{PATIENCE, connect, execute},
    verdict::check,
};

/// Clients that append; each commits four events of their own aggregates every eight milliseconds.
const CLIENTS: usize = 4;
const EVENTS: usize = 4;
const EVERY: Duration = Duration::from_millis(8);
/// Events a second that these clients are to append.
const ASKED: f64 = 2_000.0;
/// Workers that claim and acknowledge.
const WORKERS: usize = 2;
/// How often each of them looks for overdue lanes.
const OVERDUE_CHECK: Duration = Duration::from_millis(500);

/// What somebody keeps open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    /// A snapshot: a REPEATABLE READ transaction that has read something.
    Snapshot,
    /// A transaction that has written a row.
    Writer,
}

impl Held {
    const fn name(self) -> &'static str {
        match self {
            Self::Snapshot => "snapshot",
            Self::Writer => "writer",
        }
    }

    async fn open(self, database_url: &str) -> Result<PgConnection, BenchError> {
        let mut connection = PgConnection::connect(database_url).await?;
        let statements = match self {
            Self::Snapshot => "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM outbox_lane",
            Self::Writer => "BEGIN; INSERT INTO bench_business (id, body) VALUES (gen_random_uuid(), 'held')",
        };
        execute(&mut connection, statements.to_owned()).await?;
        Ok(connection)
    }
}

/// Without anything held for a while, in three parts, then with it for three leases and three minutes, in three parts.
pub(super) async fn run(bench: &mut Bench<'_>, held: Held) -> Result<(), BenchError> {
    // Three leases are 90 s; three parts of a minute are longer.
    let part = bench.time(Duration::from_mins(1), Duration::from_secs(2));
    let base = bench.time(Duration::from_secs(15), Duration::from_secs(2));
    let figure = |name: &str| format!("growth.{}.{name}", held.name());
    let database = bench.stage.database("held").await?;
    let pool = connect(database.url()).await?;
    Appender::new(&pool, Arc::new(Nobody)).warm_up(CLIENTS + WORKERS).await?;
    let load = Load::start(&pool);
    let clock = SystemClock::new();
    // Caches fill and plans settle before anything counts.
    clock.sleep(base).await;
    let mut without = Vec::new();
    for _ in 0..bench.rounds() {
        load.take();
        clock.sleep(base).await;
        let times = load.take().times;
        bench.record_known(&figure("p99_before"), "ms", times.p99());
        bench.record_known(&figure("found.p99_before"), "ms", times.p99_of(Class::Found));
        without.push(times);
    }
    let open = held.open(database.url()).await?;
    for _ in 0..bench.rounds() {
        load.take();
        clock.sleep(part).await;
        let with = load.take();
        bench.record(&figure("appended"), "events/s", number(with.appended) / part.as_secs_f64());
        let least = number(with.published.min(with.appended)) / part.as_secs_f64();
        bench.record(&figure("kept_up"), "ratio", least / ASKED);
        bench.record_known(&figure("p99"), "ms", with.times.p99());
        let ratio = to_median(with.times.p99(), without.iter().map(ClaimTimes::p99));
        bench.record_known(&figure("p99_ratio"), "ratio", ratio);
        let found = |times: &ClaimTimes| times.p99_of(Class::Found);
        let ratio = to_median(found(&with.times), without.iter().map(found));
        bench.record_known(&figure("found.p99_ratio"), "ratio", ratio);
        for (name, class) in [("found", Class::Found), ("empty", Class::Empty), ("overdue", Class::Overdue)] {
            bench.record(&figure(&format!("{name}.claims")), "claims", number(with.times.of(class).len()));
            bench.record_known(&figure(&format!("{name}.p99")), "ms", with.times.p99_of(class));
        }
    }
    let published = load.finish(database.url()).await?;
    for _ in 0..bench.rounds() {
        let empty = polls(&pool, POLLS).await?;
        bench.record(&figure("poll"), "ms", empty);
    }
    drop(open);
    pool.close().await;
    check(&figure("claims"), database.url(), published).await
}

/// To the median of those without; they are several, so that one odd stretch decides nothing.
fn to_median(with: Option<f64>, without: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let mut without: Vec<f64> = without.collect::<Option<_>>()?;
    without.sort_by(f64::total_cmp);
    Some(with? / percentile(&without, 0.5)?.max(1e-9))
}

/// What came of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Found,
    Empty,
    /// A look for overdue lanes, whatever it found.
    Overdue,
}

/// Times of claims in milliseconds.
#[derive(Debug, Default)]
struct ClaimTimes {
    found: Vec<f64>,
    empty: Vec<f64>,
    overdue: Vec<f64>,
}

impl ClaimTimes {
    fn of(&self, class: Class) -> &[f64] {
        match class {
            Class::Found => &self.found,
            Class::Empty => &self.empty,
            Class::Overdue => &self.overdue,
        }
    }

    fn push(&mut self, class: Class, took: f64) {
        match class {
            Class::Found => self.found.push(took),
            Class::Empty => self.empty.push(took),
            Class::Overdue => self.overdue.push(took),
        }
    }

    /// Of all claims, whatever came of them: each takes a relay's time and a connection.
    fn p99(&self) -> Option<f64> {
        p99([self.found.as_slice(), &self.empty, &self.overdue].concat())
    }

    fn p99_of(&self, class: Class) -> Option<f64> {
        p99(self.of(class).to_vec())
    }
}

fn p99(mut times: Vec<f64>) -> Option<f64> {
    times.sort_by(f64::total_cmp);
    percentile(&times, 0.99)
}

/// Appenders and claimers at work.
struct Load {
    shared: Arc<Shared>,
    tasks: JoinSet<Result<(), BenchError>>,
}

#[derive(Default)]
struct Shared {
    appending: AtomicBool,
    claiming: AtomicBool,
    appended: AtomicUsize,
    published: AtomicUsize,
    times: Mutex<ClaimTimes>,
    order: Mutex<Vec<EventId>>,
}

/// What happened since the last look.
struct Part {
    appended: usize,
    published: usize,
    times: ClaimTimes,
}

impl Load {
    fn start(pool: &Database) -> Self {
        let shared = Arc::new(Shared::default());
        shared.appending.store(true, Ordering::Relaxed);
        shared.claiming.store(true, Ordering::Relaxed);
        let mut tasks = JoinSet::new();
        for _ in 0..CLIENTS {
            tasks.spawn(append(Appender::new(pool, Arc::new(Nobody)), Arc::clone(&shared)));
        }
        for _ in 0..WORKERS {
            tasks.spawn(claim(store(pool), Arc::clone(&shared)));
        }
        Self { shared, tasks }
    }

    fn take(&self) -> Part {
        Part {
            appended: self.shared.appended.swap(0, Ordering::Relaxed),
            published: self.shared.published.swap(0, Ordering::Relaxed),
            times: std::mem::take(&mut *self.shared.times.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    /// Stops appending, waits until everything is published, and returns the events in the order of publishing.
    async fn finish(mut self, database_url: &str) -> Result<Vec<EventId>, BenchError> {
        self.shared.appending.store(false, Ordering::Relaxed);
        for _ in 0..CLIENTS {
            self.join_one().await?;
        }
        let drained = || async {
            let mut connection = PgConnection::connect(database_url).await.ok()?;
            let lanes =
                count(&mut connection, "SELECT count(*) FROM (SELECT FROM outbox_lane LIMIT 1) l").await.ok()?;
            (lanes == 0).then_some(())
        };
        eventually("an empty outbox", PATIENCE, drained).await?;
        self.shared.claiming.store(false, Ordering::Relaxed);
        for _ in 0..WORKERS {
            self.join_one().await?;
        }
        Ok(std::mem::take(&mut *self.shared.order.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Appenders end first: claimers go on until they are told.
    async fn join_one(&mut self) -> Result<(), BenchError> {
        match self.tasks.join_next().await {
            Some(ended) => ended.map_err(std::io::Error::other)?,
            None => Ok(()),
        }
    }
}

async fn append(appender: Appender, shared: Arc<Shared>) -> Result<(), BenchError> {
    let mut pace = tokio::time::interval(EVERY);
    pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
    while shared.appending.load(Ordering::Relaxed) {
        pace.tick().await;
        let aggregates: [String; EVENTS] = std::array::from_fn(|_| fresh_aggregate());
        appender.append(&aggregates).await?;
        shared.appended.fetch_add(EVENTS, Ordering::Relaxed);
    }
    Ok(())
}

/// Claims what is due and, as a relay does, now and then what is overdue.
async fn claim(store: Arc<dyn OutboxStorePort>, shared: Arc<Shared>) -> Result<(), BenchError> {
    let clock = SystemClock::new();
    let mut looked = Instant::now();
    while shared.claiming.load(Ordering::Relaxed) {
        if looked.elapsed() >= OVERDUE_CHECK {
            looked = Instant::now();
            claim_once(&*store, &shared, ClaimScope::Overdue).await?;
        }
        if !claim_once(&*store, &shared, ClaimScope::Due).await? {
            clock.sleep(Duration::from_millis(20)).await;
        }
    }
    Ok(())
}

/// Claims and acknowledges; `false`: there was nothing.
async fn claim_once(store: &dyn OutboxStorePort, shared: &Shared, scope: ClaimScope) -> Result<bool, BenchError> {
    let request = ClaimRequest { scope, ..request(1.0) };
    let begun = Instant::now();
    let runs = store.claim(&request).await?;
    let took = millis(begun.elapsed());
    let class = match scope {
        ClaimScope::Due if runs.is_empty() => Class::Empty,
        ClaimScope::Due => Class::Found,
        ClaimScope::Overdue => Class::Overdue,
    };
    shared.times.lock().unwrap_or_else(PoisonError::into_inner).push(class, took);
    let ids: Vec<_> = runs.iter().flat_map(|run| run.events.iter().map(|event| event.id)).collect();
    let events = ids.len();
    shared.order.lock().unwrap_or_else(PoisonError::into_inner).extend(ids);
    if !runs.is_empty() {
        settle(store, request.token, &runs.iter().map(confirmed).collect::<Vec<_>>()).await?;
        shared.published.fetch_add(events, Ordering::Relaxed);
    }
    Ok(!runs.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_p99_is_that_of_all_claims_empty_and_overdue_ones_included() {
        let mut times = ClaimTimes::default();
        for _ in 0..90 {
            times.push(Class::Found, 1.0);
        }
        assert_eq!(times.p99(), Some(1.0));
        for _ in 0..5 {
            times.push(Class::Empty, 50.0);
            times.push(Class::Overdue, 50.0);
        }
        assert_eq!(times.p99(), Some(50.0));
        assert_eq!(times.p99_of(Class::Found), Some(1.0));
        assert_eq!(times.p99_of(Class::Empty), Some(50.0));
        assert_eq!(ClaimTimes::default().p99(), None);
    }

    #[test]
    fn a_ratio_is_to_the_median_of_the_stretches_before() {
        assert_eq!(to_median(Some(6.0), [Some(2.0), Some(90.0), Some(3.0)].into_iter()), Some(2.0));
        assert_eq!(to_median(Some(6.0), [Some(2.0), None].into_iter()), None);
        assert_eq!(to_median(None, [Some(2.0)].into_iter()), None);
    }
}
