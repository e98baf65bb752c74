//! Where the time of limit P goes that limit P0 does not take: the server's, call by call, and inside the calls.

use std::time::Duration;

use sqlx::{Connection, PgConnection};

use crate::{
    error::BenchError,
    figures::{millis, number},
    limits::{claim_and_acknowledge, claims, mark_by_key},
    runner::Bench,
    seed::{Backlog, PAYLOAD_BYTES, Payload, Shape},
    stage::connect,
    statements::{Statements, Usage},
};

/// One worker: several would wait for processors and locks, and the wait would count as a statement's time.
const ALONE: usize = 1;

/// Also the statements inside functions, in the sessions that begin afterwards.
const LOOK_INSIDE: &str = "DO $$ BEGIN \
     EXECUTE format('ALTER DATABASE %I SET pg_stat_statements.track = ''all''', current_database()); END $$";

/// The calls of limit P, and the statements inside them that do the work: the name in figures, and the pattern of the text.
const CALLS: [(&str, &str); 6] = [
    ("claim", "%outbox\\_claim(%"),
    ("claim.read_and_lease", "%WITH found AS MATERIALIZED%"),
    ("ack", "%outbox\\_acknowledge(%"),
    ("ack.lock", "%FOR UPDATE SKIP LOCKED) k%"),
    ("ack.mark", "%UPDATE outbox\\_event e SET status%"),
    ("ack.free", "%WITH lane AS MATERIALIZED%"),
];

pub(super) async fn run(bench: &mut Bench<'_>, events: usize) -> Result<(), BenchError> {
    marks(bench, events).await?;
    calls(bench, events).await
}

/// Limit P0.
async fn marks(bench: &mut Bench<'_>, events: usize) -> Result<(), BenchError> {
    let database = bench.stage.database("marks").await?;
    Backlog::insert(database.url(), Shape::TenEach, events, Payload::Bytes(PAYLOAD_BYTES)).await?.commit().await?;
    let mut statements = Statements::of(database.url()).await?;
    statements.reset().await?;
    let (marked, took) = mark_by_key(database.url(), ALONE).await?;
    let used = statements.usage("UPDATE outbox\\_event SET status%").await?;
    record(bench, "mark", used, marked);
    record_whole(bench, "mark", took, marked);
    Ok(())
}

/// Limit P.
async fn calls(bench: &mut Bench<'_>, events: usize) -> Result<(), BenchError> {
    let database = bench.stage.database("calls").await?;
    let backlog = Backlog::insert(database.url(), Shape::TenEach, events, Payload::Bytes(PAYLOAD_BYTES)).await?;
    let mut connection = PgConnection::connect(database.url()).await?;
    // A server that does not let us shows the calls alone.
    drop(sqlx::raw_sql(LOOK_INSIDE).execute(&mut connection).await);
    let pool = connect(database.url()).await?;
    backlog.commit().await?;
    let mut statements = Statements::of(database.url()).await?;
    statements.reset().await?;
    let done = claim_and_acknowledge(claims(&pool), ALONE, events).await?;
    for (call, pattern) in CALLS {
        let used = statements.usage(pattern).await?;
        record(bench, call, used, events);
    }
    record_whole(bench, "claim_and_ack", done.took, events);
    pool.close().await;
    Ok(())
}

/// The time by the server, without that of the commit. A statement that was not counted has none.
fn record(bench: &mut Bench<'_>, call: &str, used: Option<Usage>, events: usize) {
    let counted = used.filter(|used| used.calls > 0.0);
    let time = counted.map(|used| used.millis * 1e3 / number(events));
    bench.record_known(&format!("cost.parts.{call}"), "us an event", time);
}

/// The time by the client, with commits, transport and what the client does with the answers.
fn record_whole(bench: &mut Bench<'_>, call: &str, took: Duration, events: usize) {
    bench.record(&format!("cost.parts.{call}.whole"), "us an event", millis(took) * 1e3 / number(events));
}
