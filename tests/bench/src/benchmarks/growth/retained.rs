//! Claims, clean-up and plans beside millions of events that were published: the long part of cases P42 and L20.

use std::time::{Duration, Instant};

use adapter_persistence_postgres::{Database, OutboxEventRepository, OutboxReaper, PostgresLeadership};
use app_bootstrap::clock::SystemClock;
use application_core::{
    outbox::{ClaimRequest, HolderName, OutboxEventStatus},
    ports::{
        Clock, EventFilter, LeaderTerm, LeadershipPort, OutboxMaintenancePort, OutboxOperationsPort,
        OutboxStatisticsPort, OutboxStorePort, ReapRequest, StoreError,
    },
};

use super::{
    POLLS, WAITING, Waiting, compare_claims, empty_outbox, insert, polls, store,
    turns::{Side, compare},
};
use crate::{
    error::BenchError,
    figures::number,
    limits::{confirmed, request, settle},
    plans::{Access, Explained, Explaining, access, explained},
    runner::{Bench, say},
    seed::retain,
    stage::connect,
    statements::Statements,
};

/// The table that nothing may read from end to end.
const TABLE: &str = "outbox_event";
/// Events of a batch of the clean-up, and batches of a turn.
const BATCH: u32 = 1_000;
const BATCHES: usize = 2;
/// Turns of a round of the clean-up.
const TURNS: usize = 8;
/// What was published longer ago goes; history is a day old.
const RETENTION: Duration = Duration::from_hours(1);

/// Claims of 10^4 events with 10^6 and 5*10^6 published ones beside them, against claims with none.
pub(super) async fn run(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    let database = bench.stage.database("retained").await?;
    let (some, all) = (bench.size(1_000_000, 20_000), bench.size(5_000_000, 40_000));
    retain(database.url(), some).await?;
    insert(database.url(), WAITING).await?;
    let mut case = Waiting::open(database.url()).await?;
    compare_claims(bench, "growth.retained.1_000_000", &mut case).await?;
    retain(database.url(), all - some).await?;
    compare_claims(bench, "growth.retained.5_000_000", &mut case).await?;
    look_at_plans(bench, database.url()).await?;
    case.close().await;

    let pool = connect(database.url()).await?;
    empty_outbox(&pool).await?;
    for _ in 0..bench.rounds() {
        let empty = polls(&pool, POLLS).await?;
        bench.record("growth.retained.poll", "ms", empty);
    }
    clean_up(bench, &pool, database.url()).await?;
    pool.close().await;
    Ok(())
}

/// Batches of the clean-up of all that history, in turn with those of a fiftieth of it.
async fn clean_up(bench: &mut Bench<'_>, pool: &Database, database_url: &str) -> Result<(), BenchError> {
    let few = bench.stage.database("history").await?;
    retain(few.url(), bench.size(100_000, 40_000)).await?;
    let few_pool = connect(few.url()).await?;
    let mut base = History::open(&few_pool, few.url()).await?;
    let mut case = History::open(pool, database_url).await?;
    let (turns, looked) = (bench.size(TURNS, 2), [("batch", "%outbox\\_cleanup(%")]);
    compare(bench, "growth.cleanup.5_000_000", turns, &looked, (&mut base, &mut case)).await?;
    few_pool.close().await;
    Ok(())
}

/// History that is cleaned up by whoever leads.
struct History {
    reaper: OutboxReaper,
    term: LeaderTerm,
    statements: Statements,
}

impl History {
    async fn open(pool: &Database, database_url: &str) -> Result<Self, BenchError> {
        let term = lead(pool).await?;
        Ok(Self { reaper: OutboxReaper::new(pool.clone()), term, statements: Statements::of(database_url).await? })
    }
}

impl Side for History {
    async fn work(&mut self) -> Result<(usize, Duration), BenchError> {
        let begun = Instant::now();
        for _ in 0..BATCHES {
            match self.reaper.clean_up(&self.term, RETENTION, BATCH).await? {
                Some(BATCH) => {}
                other => return Err(BenchError::Unsound(format!("a batch of {BATCH} old events removed {other:?}"))),
            }
        }
        let removed = BATCHES * usize::try_from(BATCH).unwrap_or(usize::MAX);
        Ok((removed, begun.elapsed()))
    }

    /// What is removed stays so: a hundredth of a large history, and half of a small one.
    async fn restore(&mut self, _: usize) -> Result<(), BenchError> {
        Ok(())
    }

    fn statements(&mut self) -> &mut Statements {
        &mut self.statements
    }
}

async fn lead(pool: &Database) -> Result<LeaderTerm, BenchError> {
    let leadership = PostgresLeadership::new(pool.clone());
    let term = leadership.acquire("bench", &HolderName::new("bench"), Duration::from_mins(30)).await?;
    term.ok_or_else(|| BenchError::Unsound("somebody else leads in a database of our own".to_owned()))
}

/// Runs what relays and operators run, and looks at the plan of every statement, also inside the functions.
async fn look_at_plans(bench: &mut Bench<'_>, database_url: &str) -> Result<(), BenchError> {
    let Some(explaining) = Explaining::begin(database_url).await? else {
        say("plans cannot be looked at: this server does not let us load auto_explain");
        return Ok(());
    };
    // Sessions of a pool of their own: they begin after that.
    let pool = connect(database_url).await?;
    let (outbox, reaper) = (OutboxEventRepository::new(pool.clone()), OutboxReaper::new(pool.clone()));
    let (store, term) = (store(&pool), lead(&pool).await?);

    let due = request(10.0);
    let (runs, plans) = explained(store.claim(&due)).await;
    let runs = runs?;
    look(bench, "claim", plans)?;
    let confirmed: Vec<_> = runs.iter().map(confirmed).collect();
    let (settled, plans) = explained(settle(&*store, due.token, &confirmed)).await;
    settled?;
    look(bench, "acknowledge", plans)?;

    lose_a_claim(&*store).await?;
    let reap = ReapRequest { max_claims: 10, dead_after_expiries: 10, skip_types: Vec::new() };
    let (returned, plans) = explained(reaper.reap(&reap)).await;
    if returned?.claims != 1 {
        return Err(BenchError::Unsound("one lease had run out, and the reaper did not find it".to_owned()));
    }
    look(bench, "reap", plans)?;
    let (removed, plans) = explained(reaper.clean_up(&term, RETENTION, BATCH)).await;
    if removed? != Some(BATCH) {
        return Err(BenchError::Unsound("a batch of old events was not removed".to_owned()));
    }
    look(bench, "clean_up", plans)?;
    let (figures, plans) = explained(outbox.statistics()).await;
    figures?;
    look(bench, "statistics", plans)?;
    let (pages, plans) = explained(lists(&outbox)).await;
    pages?;
    look(bench, "list", plans)?;
    pool.close().await;
    explaining.end().await
}

/// A claim whose lease has run out on return.
async fn lose_a_claim(store: &dyn OutboxStorePort) -> Result<(), BenchError> {
    let lost = ClaimRequest { lease: Duration::from_millis(1), ..request(10.0) };
    if store.claim(&lost).await?.is_empty() {
        return Err(BenchError::Unsound("no event waits for a claim that is to be lost".to_owned()));
    }
    SystemClock::new().sleep(Duration::from_millis(50)).await;
    Ok(())
}

/// The first page of each status, and of all.
async fn lists(outbox: &OutboxEventRepository) -> Result<(), StoreError> {
    let statuses = [
        OutboxEventStatus::Pending,
        OutboxEventStatus::InFlight,
        OutboxEventStatus::Published,
        OutboxEventStatus::Failed,
        OutboxEventStatus::Dead,
    ];
    for status in statuses.into_iter().map(Some).chain([None]) {
        outbox.list(&EventFilter { status, limit: 50, ..EventFilter::default() }).await?;
    }
    Ok(())
}

/// Keeps the plans of a call, and records how often they read the table from end to end.
fn look(bench: &mut Bench<'_>, call: &str, plans: Vec<Explained>) -> Result<(), BenchError> {
    let mut found = Access::default();
    for Explained { query, plan } in plans {
        let Access { sequential, other } = access(&plan, TABLE);
        found.sequential += sequential;
        found.other += other;
        bench.keep_plan(call, query, plan);
    }
    if found == Access::default() {
        return Err(BenchError::Unsound(format!("no plan of {call} goes to {TABLE}: nothing was looked at")));
    }
    bench.record(&format!("growth.plans.{call}.sequential"), "scans", number(found.sequential));
    bench.record(&format!("growth.plans.{call}.other"), "accesses", number(found.other));
    Ok(())
}
