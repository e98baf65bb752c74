//! `dead`: what an operator's requests cost beside a million DEAD events.

use std::time::Instant;

use adapter_persistence_postgres::OutboxEventRepository;
use application_core::{
    outbox::{EventAction, EventId, FailureClass, OutboxEventStatus},
    ports::{EventFilter, OutboxOperationsPort, OutboxStatisticsPort, StoreError},
};
use sqlx::{Connection, PgConnection};
use test_support::operate::tester;

use crate::{
    error::BenchError,
    figures::millis,
    runner::Bench,
    seed::{Backlog, PAYLOAD_BYTES, Payload, Shape},
    stage::{connect, execute},
};

/// As the page asks for them.
const PAGE: u32 = 50;
const BLOCKED: u32 = 200;
/// Events of one batch of an action on many.
const BATCH: u32 = 100;

pub(crate) async fn run(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    let database = bench.stage.database("dead").await?;
    let events = bench.size(1_000_000, 20_000);
    let backlog = Backlog::insert(database.url(), Shape::OneEach, events, Payload::Bytes(PAYLOAD_BYTES)).await?;
    backlog.commit().await?;
    die(database.url()).await?;
    let pool = connect(database.url()).await?;
    let outbox = OutboxEventRepository::new(pool.clone());
    // The first requests of a pool connect and read what no later one reads.
    outbox.statistics().await?;
    for _ in 0..bench.rounds() {
        ask(bench, &outbox).await?;
    }
    pool.close().await;
    Ok(())
}

/// Everything dies, one in a thousand of something else.
async fn die(database_url: &str) -> Result<(), BenchError> {
    let mut connection = PgConnection::connect(database_url).await?;
    let dying = "UPDATE outbox_event SET status = 'DEAD', attempts = 3, last_error = \
                 CASE sequence % 1000 WHEN 0 THEN 'poison: too large' ELSE 'rejected: the queue is full' END; \
         UPDATE outbox_lane SET due_at = NULL";
    execute(&mut connection, dying.to_owned()).await?;
    // Alone, for it takes no transaction around it.
    execute(&mut connection, "VACUUM ANALYZE outbox_event".to_owned()).await?;
    execute(&mut connection, "VACUUM ANALYZE outbox_lane".to_owned()).await
}

async fn ask(bench: &mut Bench<'_>, outbox: &OutboxEventRepository) -> Result<(), BenchError> {
    let dead =
        EventFilter { status: Some(OutboxEventStatus::Dead), unresolved: true, limit: PAGE, ..EventFilter::default() };
    timed(bench, "dead.status", async || outbox.statistics().await).await?;
    timed(bench, "dead.rates", async || outbox.recent_publishing().await).await?;
    timed(bench, "dead.groups", async || outbox.dead_groups().await).await?;
    timed(bench, "dead.blocked", async || outbox.blocked(BLOCKED).await).await?;
    let first = timed(bench, "dead.list.first", async || outbox.list(&dead).await).await?;
    let next = EventFilter { after: first.next, ..dead.clone() };
    timed(bench, "dead.list.next", async || outbox.list(&next).await).await?;
    // None is like this: the page ends after its look.
    let rare = EventFilter { class: Some(FailureClass::Unroutable), ..dead.clone() };
    timed(bench, "dead.list.rare", async || outbox.list(&rare).await).await?;
    let one = first.events.first().map(|event| event.id).ok_or_else(|| unsound("no event is DEAD"))?;
    timed(bench, "dead.event", async || outbox.find(one).await).await?;

    let batch = EventFilter { limit: BATCH, ..dead };
    let begun = Instant::now();
    let ids: Vec<EventId> = outbox.list(&batch).await?.events.into_iter().map(|event| event.id).collect();
    let changed = outbox.act(EventAction::Requeue, &ids, &tester()).await?;
    bench.record("dead.requeue.batch", "ms", millis(begun.elapsed()));
    if changed.len() == ids.len() { Ok(()) } else { Err(unsound("not every event of a batch was requeued")) }
}

async fn timed<T>(
    bench: &mut Bench<'_>,
    figure: &str,
    request: impl AsyncFnOnce() -> Result<T, StoreError>,
) -> Result<T, BenchError> {
    let begun = Instant::now();
    let answer = request().await?;
    bench.record(figure, "ms", millis(begun.elapsed()));
    Ok(answer)
}

fn unsound(what: &str) -> BenchError {
    BenchError::Unsound(what.to_owned())
}
