//! More DEAD events than any look goes through: what an operator asks reads a bounded part of them, by indexes alone.

use std::time::Duration;

use adapter_persistence_postgres::{Database, OutboxEventRepository};
use application_core::{
    outbox::{AggregateId, AggregateType, EventAction, EventId, FailureClass, OutboxEventStatus},
    ports::{
        EventFilter, EventPage, OutboxOperationsPort, OutboxStatistics, OutboxStatisticsPort, RecentPublishing,
        StoreError,
    },
};
use sqlx::Row;
use test_support::operate::tester;
use time::OffsetDateTime;

use super::support::{Fixture, event, events};

/// Half as many again as are counted, or looked at for a page.
const DEAD: u64 = 150_000;
const LOOK: i64 = 100_000;

/// Each of its own aggregate; the last one died of something else. Beside them what waits, and what was published lately:
/// ahead of the clock, so that it stays so while the test runs.
async fn plant(fixture: &Fixture) {
    let mut sql = fixture.sql().await;
    sql.execute(&format!(
        "SET LOCAL outbox.lanes_are_taken = 'yes'; \
         INSERT INTO outbox_event (id, sequence, aggregate_type, aggregate_id, event_type, payload, status, attempts, last_error) \
         SELECT ('0198c5a0-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, nextval('outbox_event_sequence'), 'order', \
                'o-' || n, 'OrderPlaced', '1', 'DEAD', 3, CASE WHEN n = {DEAD} THEN 'poison: too large' ELSE 'rejected: full' END \
           FROM generate_series(1, {DEAD}) n; \
         INSERT INTO outbox_lane (lane, floor, due_at) SELECT e.lane, e.sequence, NULL FROM outbox_event e; \
         SET LOCAL outbox.lanes_are_taken = 'yes'; \
         INSERT INTO outbox_event (id, sequence, aggregate_type, aggregate_id, event_type, payload, status, published_at) \
         SELECT gen_random_uuid(), nextval('outbox_event_sequence'), 'order', 'p-' || n, 'OrderPlaced', '1', 'PUBLISHED', \
                statement_timestamp() + interval '1 h' - n * interval '1 ms' \
           FROM generate_series(1, 15000) n; \
         ANALYZE outbox_event; ANALYZE outbox_lane"
    ))
    .await;
    sql.execute("SELECT pg_stat_force_next_flush()").await;
    fixture.append(&events("waits", 7)).await;
}

/// What was read of events and lanes.
#[derive(Debug, Clone, Copy)]
struct Work {
    whole_tables: i64,
    rows: i64,
}

async fn read_so_far(fixture: &Fixture) -> Work {
    let mut sql = fixture.sql().await;
    let gone = "SELECT count(*) = 0 FROM pg_stat_activity \
         WHERE datname = current_database() AND application_name = 'adapter test'";
    // A session tells its counts at its end.
    sql.wait_for("the pool's sessions have ended", gone).await;
    Work {
        whole_tables: sql.one("SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'outbox_event'").await,
        rows: sql
            .one(
                "SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes \
                  WHERE relname IN ('outbox_event', 'outbox_lane')",
            )
            .await,
    }
}

/// Asks by a pool of its own; it must read no table through, and no more rows than these.
async fn bounded<T>(
    fixture: &Fixture,
    what: &str,
    rows: i64,
    ask: impl AsyncFnOnce(OutboxEventRepository) -> Result<T, StoreError>,
) -> T {
    let before = read_so_far(fixture).await;
    let database = Database::connect(&fixture.settings).await.expect("a pool");
    let answer = ask(OutboxEventRepository::new(database.clone())).await.expect(what);
    database.close().await;
    let after = read_so_far(fixture).await;
    assert_eq!(after.whole_tables, before.whole_tables, "{what} reads the table through");
    let read = after.rows - before.rows;
    assert!(read <= rows, "{what} reads {read} rows, {rows} are allowed");
    answer
}

fn id(n: u64) -> EventId {
    format!("0198c5a0-0000-7000-8000-{n:012x}").parse().expect("an id")
}

fn dead() -> EventFilter {
    EventFilter { status: Some(OutboxEventStatus::Dead), unresolved: true, limit: 50, ..EventFilter::default() }
}

#[tokio::test]
async fn what_an_operator_asks_reads_a_bounded_part_of_very_many_dead_events() {
    let fixture = Fixture::new("many-dead").await;
    plant(&fixture).await;
    fixture.database.close().await;
    figures(&fixture).await;
    lists(&fixture).await;
    let blocked = bounded(&fixture, "blocked", 2_000, async |it| it.blocked(200).await).await;
    assert_eq!((blocked.len(), blocked[0].head), (200, id(1)));
    let found = bounded(&fixture, "one event", 100, async |it| it.find(id(DEAD)).await).await;
    assert_eq!(found.expect("found").status, OutboxEventStatus::Dead);
    let batch: Vec<_> = (1..=100).map(id).collect();
    let requeue = async |it: OutboxEventRepository| it.act(EventAction::Requeue, &batch, &tester()).await;
    assert_eq!(bounded(&fixture, "a batch", 5_000, requeue).await.len(), 100);
}

async fn figures(fixture: &Fixture) {
    // DEAD events and blocked lanes up to the limit, and the heads of a tenth of it.
    let counted = bounded(fixture, "status", 5 * LOOK / 2, async |it| it.statistics().await).await;
    let limit = OutboxStatistics::COUNT_LIMIT;
    assert_eq!((counted.dead, counted.blocked_aggregates, counted.pending), (limit, limit, 7));
    let groups = bounded(fixture, "groups", LOOK + 1_000, async |it| it.dead_groups().await).await;
    assert_eq!((groups.len(), groups[0].events), (1, limit), "the last one is beyond the limit");
    let recent = bounded(fixture, "rates", 10_100, async |it| it.recent_publishing().await).await;
    assert_eq!(recent.events, RecentPublishing::MOST);
    assert!(recent.per_second() > 100.0, "{recent:?}");
}

async fn lists(fixture: &Fixture) {
    let first = bounded(fixture, "a page", 1_000, async |it| it.list(&dead()).await).await;
    assert_eq!((first.events.len(), first.next), (50, Some(id(50))));
    let later = EventFilter { after: Some(id(DEAD - 60)), ..dead() };
    let later = bounded(fixture, "a later page", 1_000, async |it| it.list(&later).await).await;
    assert_eq!((later.events.len(), later.events[0].id), (50, id(DEAD - 59)));

    // Each page that is not full looks twice: for events, and for where it ends.
    let rare = EventFilter { class: Some(FailureClass::Poison), ..dead() };
    let nothing = bounded(fixture, "a rare class", 2 * LOOK + 1_000, async |it| it.list(&rare).await).await;
    assert_eq!(nothing, EventPage { events: Vec::new(), next: Some(id(100_000)) });
    let rest = EventFilter { after: nothing.next, ..rare };
    let rest = bounded(fixture, "the rest of it", 2 * LOOK, async |it| it.list(&rest).await).await;
    assert_eq!((rest.events.len(), rest.events[0].id, rest.next), (1, id(DEAD), None));

    let waiting = EventFilter { status: Some(OutboxEventStatus::Pending), limit: 50, ..EventFilter::default() };
    bounded(fixture, "what waits", 4 * LOOK + 1_000, async |it| it.list(&waiting).await).await;
    let of_one = EventFilter {
        aggregate_type: Some(AggregateType::try_new("order").expect("valid")),
        aggregate_id: Some(AggregateId::try_new("waits").expect("valid")),
        ..waiting
    };
    let of_one = bounded(fixture, "what waits of one", 1_000, async |it| it.list(&of_one).await).await;
    assert_eq!((of_one.events.len(), of_one.next), (7, None));
    ranges(fixture).await;
    let leased = EventFilter { status: Some(OutboxEventStatus::InFlight), limit: 50, ..EventFilter::default() };
    let leased = bounded(fixture, "what is in flight", 100, async |it| it.list(&leased).await).await;
    assert_eq!(leased, EventPage::default());
}

/// A range of ids, and a second of what was published: neither looks at what is outside.
async fn ranges(fixture: &Fixture) {
    let some = EventFilter { from: Some(id(DEAD - 30)), to: Some(id(DEAD - 11)), limit: 50, ..EventFilter::default() };
    let of_ids = bounded(fixture, "a range of ids", 1_000, async |it| it.list(&some).await).await;
    assert_eq!((of_ids.events.len(), of_ids.events[0].id, of_ids.next), (20, id(DEAD - 30), None));
    let newest: OffsetDateTime = fixture.sql().await.one("SELECT max(published_at) FROM outbox_event").await;
    let lately = EventFilter {
        status: Some(OutboxEventStatus::Published),
        published_from: Some(newest - Duration::from_secs(1)),
        published_until: Some(newest),
        limit: 50,
        ..EventFilter::default()
    };
    let page = bounded(fixture, "what was published in a second", 3_000, async |it| it.list(&lately).await).await;
    assert_eq!((page.events.len(), page.next), (50, page.events.last().map(|event| event.id)));
}

#[tokio::test]
async fn pending_events_are_counted_beside_more_dead_ones_than_are_counted() {
    let fixture = Fixture::new("beside").await;
    let died: Vec<_> = (0..15).map(|n| event(&format!("dead-{n}"))).collect();
    fixture.append(&died).await;
    let mut sql = fixture.sql().await;
    sql.execute("UPDATE outbox_event SET status = 'DEAD', attempts = 3; UPDATE outbox_lane SET due_at = NULL").await;
    fixture.append(&events("waits", 18)).await;
    let mut counted = async |limit: u32| -> (i64, i64) {
        let rows = sql.rows(&format!("SELECT pending, dead FROM outbox_statistics({limit})")).await;
        (rows[0].get(0), rows[0].get(1))
    };
    assert_eq!(counted(1_000).await, (18, 15));
    assert_eq!(counted(20).await, (18, 15), "all that is open is more than the limit, and none of both is");
    assert_eq!(counted(15).await, (15, 15), "at least so many");
    assert_eq!(counted(10).await, (10, 10));
}
