//! The work of a claim follows what it takes, not what waits behind or beside it.

use serde_json::Value;
use sqlx::Row;

use super::postgres::{Postgres, Sql};

/// Fifty lanes, so that every run is long enough for its batch.
const LANES: u32 = 50;

const EXPLAIN: &str = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM outbox_claim(\
     '00000000-0000-7000-8000-000000000001', 'relay', interval '1 min', 20, 10, 100, 1000000)";

/// Events in bulk, as the append leaves them.
async fn append(sql: &mut Sql, prefix: &str, lanes: u32, events: u32) {
    let insert = format!(
        "SET LOCAL outbox.lanes_are_taken = 'yes'; \
         INSERT INTO outbox_event (id, sequence, aggregate_type, aggregate_id, event_type, payload) \
         SELECT gen_random_uuid(), nextval('outbox_event_sequence'), 't', '{prefix}' || n % {lanes}, 'e', '1' \
           FROM generate_series(1, {events}) n; \
         INSERT INTO outbox_lane (lane, floor, due_at) SELECT e.lane, min(e.sequence), \
                CASE WHEN '{prefix}' <> 'dead' THEN statement_timestamp() END \
           FROM outbox_event e WHERE e.aggregate_id LIKE '{prefix}%' GROUP BY e.lane"
    );
    sql.execute(&insert).await;
}

/// Heads that died, each with the rest of its events behind it.
async fn append_blocked(sql: &mut Sql, lanes: u32, events: u32) {
    append(sql, "dead", lanes, events).await;
    sql.execute(
        "UPDATE outbox_event e SET status = 'DEAD', attempts = 3 FROM outbox_lane l \
          WHERE l.lane = e.lane AND l.floor = e.sequence AND e.aggregate_id LIKE 'dead%'",
    )
    .await;
}

/// Heads that failed and wait for their next attempt, each with the rest of its events behind it.
async fn append_waiting(sql: &mut Sql, lanes: u32, events: u32) {
    append(sql, "waits", lanes, events).await;
    sql.execute(
        "UPDATE outbox_event e SET status = 'FAILED', attempts = 1, next_attempt_at = statement_timestamp() + interval '1 h' \
           FROM outbox_lane l WHERE l.lane = e.lane AND l.floor = e.sequence AND e.aggregate_id LIKE 'waits%'; \
         UPDATE outbox_lane l SET due_at = e.next_attempt_at FROM outbox_event e \
          WHERE e.lane = l.lane AND e.sequence = l.floor AND e.status = 'FAILED'",
    )
    .await;
}

/// Events that were published one after the other, an hour ago and later; their lanes are gone.
async fn append_published(sql: &mut Sql, events: u32) {
    append(sql, "past", LANES, events).await;
    sql.execute(
        "UPDATE outbox_event SET status = 'PUBLISHED', \
                published_at = statement_timestamp() - interval '1 h' + sequence * interval '1 ms' \
          WHERE aggregate_id LIKE 'past%'; \
         DELETE FROM outbox_lane l WHERE NOT EXISTS ( \
             SELECT FROM outbox_event e WHERE e.lane = l.lane AND e.published_at IS NULL)",
    )
    .await;
}

/// Leaves no dead rows behind of what was put together, also where they are few, and counts what there is.
async fn tidy_up(sql: &mut Sql) {
    sql.execute("VACUUM (ANALYZE, INDEX_CLEANUP ON) outbox_event, outbox_lane").await;
}

/// Pages that one claim touches, and the events that it hands out; the claim is undone.
async fn claim(sql: &mut Sql) -> (u64, u64) {
    sql.execute("BEGIN").await;
    let rows = sql.rows(EXPLAIN).await;
    sql.execute("ROLLBACK").await;
    let plan: Value = rows[0].get(0);
    (touched(&plan), plan[0]["Plan"]["Actual Rows"].as_u64().expect("a number"))
}

/// Pages that an explained statement touched.
fn touched(plan: &Value) -> u64 {
    let number = |key: &str| plan[0]["Plan"][key].as_u64().expect("a number");
    number("Shared Hit Blocks") + number("Shared Read Blocks")
}

#[tokio::test]
async fn claim_work_follows_the_batch_not_the_backlog() {
    let (small, large) = (Postgres::fresh().await, Postgres::fresh().await);
    let mut pages = Vec::new();
    for (postgres, events) in [(&small, 1_000), (&large, 100_000)] {
        let mut sql = postgres.sql().await;
        append(&mut sql, "a", LANES, events).await;
        if events > 1_000 {
            append_blocked(&mut sql, 1_000, 10_000).await;
            append_waiting(&mut sql, 1_000, 10_000).await;
        }
        sql.execute("ANALYZE outbox_event; ANALYZE outbox_lane").await;
        // The first claim of a session also reads the catalogue.
        claim(&mut sql).await;
        let before = sequential_scans(&mut sql).await;
        let (touched, handed_out) = claim(&mut sql).await;
        assert_eq!(handed_out, 100);
        assert_eq!(sequential_scans(&mut sql).await, before, "a claim reads no table through");
        pages.push(touched);
    }
    assert!(pages[1] < pages[0] * 3, "{} pages where a small backlog takes {}", pages[1], pages[0]);
}

/// Case P41.
#[tokio::test]
async fn ten_due_events_behind_ten_thousand_dead_and_ten_thousand_waiting_ones_cost_a_claim_no_more() {
    let (alone, crowded) = (Postgres::fresh().await, Postgres::fresh().await);
    let mut pages = Vec::new();
    for (postgres, troubled) in [(&alone, 0), (&crowded, 10_000)] {
        let mut sql = postgres.sql().await;
        if troubled > 0 {
            append_blocked(&mut sql, troubled, troubled).await;
            append_waiting(&mut sql, troubled, troubled).await;
        }
        append(&mut sql, "a", 10, 10).await;
        tidy_up(&mut sql).await;
        claim(&mut sql).await;
        let (touched, handed_out) = claim(&mut sql).await;
        assert_eq!(handed_out, 10);
        pages.push(touched);
    }
    // The indexes of twenty thousand rows are a level deeper than those of ten.
    assert!(pages[1] < pages[0] * 3, "{} pages where ten events alone take {}", pages[1], pages[0]);
}

/// Case P41: what waits behind a head that stays is not read to park its lane.
#[tokio::test]
async fn due_lanes_with_a_dead_head_are_parked_by_the_hundred_and_what_waits_behind_them_is_not_read() {
    const BLOCKED: u32 = 1_000;
    // At most so many lanes in a round, of which a claim has eight; the first one reads whole runs.
    const POLL: &str =
        "SELECT count(*) FROM outbox_claim(gen_random_uuid(), 'relay', interval '1 min', 50, 100, 500, 1000000)";
    const MOST_READ: i64 = 500 + 7 * 50;
    let postgres = Postgres::fresh().await;
    let mut sql = postgres.sql().await;
    append_blocked(&mut sql, BLOCKED, 100 * BLOCKED).await;
    sql.execute("UPDATE outbox_lane SET due_at = statement_timestamp() - interval '1 min'").await;
    append(&mut sql, "a", 1, 1).await;
    tidy_up(&mut sql).await;
    let before = open_events_read(&mut sql).await;
    let mut polls = 1;
    while sql.one::<i64>(POLL).await == 0 {
        polls += 1;
        assert!(polls <= 3, "the one event that can be sent stands behind {BLOCKED} lanes that cannot");
    }
    let parked = "SELECT count(*) FROM outbox_lane WHERE token IS NULL AND due_at IS NULL";
    assert_eq!(sql.one::<i64>(parked).await, i64::from(BLOCKED));
    let read = open_events_read(&mut sql).await - before;
    assert!(read <= polls * MOST_READ, "{read} events in {polls} polls");
    assert_eq!(sql.one::<i64>("SELECT count(*) FROM outbox_doctor").await, 0);
}

/// A round that follows one which only parked takes heads; the next claim does not.
#[tokio::test]
async fn a_claim_takes_whole_runs_again_after_a_crowd_of_parked_lanes() {
    const POLL: &str =
        "SELECT count(*) FROM outbox_claim(gen_random_uuid(), 'relay', interval '1 min', 1, 10, 100, 1000000)";
    let postgres = Postgres::fresh().await;
    let mut sql = postgres.sql().await;
    append_blocked(&mut sql, 10, 20).await;
    sql.execute("UPDATE outbox_lane SET due_at = statement_timestamp() - interval '1 min'").await;
    append(&mut sql, "a", 2, 20).await;
    let mut taken = Vec::new();
    for _ in 0..3 {
        taken.push(sql.one::<i64>(POLL).await);
    }
    assert_eq!(taken, [0, 1, 10], "eight lanes are parked, then two and a head is taken, then all of the other");
}

/// Entries read of the index of open events, by this connection as well.
async fn open_events_read(sql: &mut Sql) -> i64 {
    sql.execute("SELECT pg_stat_force_next_flush()").await;
    sql.one("SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'outbox_event_open'").await
}

/// How much the cleaner deletes in a batch that begins here, and where the next one begins.
async fn clean(sql: &mut Sql, from: &str, batch: u32) -> (i64, String) {
    let call = format!(
        "SELECT deleted, coalesce(deleted_through, '-infinity')::text \
           FROM outbox_cleanup('m', 'h', 1, '1 min', {batch}, '{from}')"
    );
    let rows = sql.rows(&call).await;
    (rows[0].get(0), rows[0].get(1))
}

/// Pages that cleaning a batch touches; it is undone.
async fn pages_of_cleaning(sql: &mut Sql, from: &str, batch: u32) -> u64 {
    sql.execute("BEGIN").await;
    let call = format!("outbox_cleanup('m', 'h', 1, '1 min', {batch}, '{from}')");
    let rows = sql.rows(&format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM {call}")).await;
    sql.execute("ROLLBACK").await;
    let plan: Value = rows[0].get(0);
    touched(&plan)
}

/// Case L20: an old snapshot keeps whatever is deleted in the indexes, and neither the next batch nor a claim walks over it.
#[tokio::test]
async fn cleaning_costs_each_batch_the_same_and_a_claim_nothing_however_much_was_deleted() {
    const BATCH: u32 = 1_000;
    const BATCHES: u32 = 20;
    let postgres = Postgres::fresh().await;
    let mut sql = postgres.sql().await;
    append(&mut sql, "a", LANES, 1_000).await;
    tidy_up(&mut sql).await;
    claim(&mut sql).await;
    let (without_history, _) = claim(&mut sql).await;

    append_published(&mut sql, BATCH * BATCHES).await;
    tidy_up(&mut sql).await;
    sql.execute("SELECT outbox_lead('m', 'h', '10 min')").await;
    let mut old = postgres.sql().await;
    old.execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await;
    old.rows("SELECT 1").await;
    let (mut from, mut costs) = ("-infinity".to_owned(), Vec::new());
    for _ in 0..BATCHES {
        costs.push(pages_of_cleaning(&mut sql, &from, BATCH).await);
        let (deleted, through) = clean(&mut sql, &from, BATCH).await;
        assert_eq!(deleted, i64::from(BATCH), "each batch is full");
        from = through;
    }
    assert_eq!(clean(&mut sql, &from, BATCH).await.0, 0);
    // The first batch also reads the catalogue.
    let (second, last) = (costs[1], costs[costs.len() - 1]);
    assert!(last < second * 2, "{costs:?}");
    claim(&mut sql).await;
    let (afterwards, handed_out) = claim(&mut sql).await;
    assert_eq!(handed_out, 100);
    assert!(afterwards < without_history * 2, "{afterwards} pages where it took {without_history} without history");
    old.execute("ROLLBACK").await;
}

/// Rule R16. What came and went while somebody holds a transaction open stays in the indexes, and its pages are not walked.
#[tokio::test]
async fn lanes_that_came_and_went_under_an_old_snapshot_or_beside_a_long_transaction_cost_a_claim_no_more() {
    const GONE: u32 = 20_000;
    for (begin, hold) in
        [("BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1"), ("BEGIN", "SELECT pg_current_xact_id()::text")]
    {
        let postgres = Postgres::fresh().await;
        let mut sql = postgres.sql().await;
        append(&mut sql, "a", LANES, 1_000).await;
        tidy_up(&mut sql).await;
        claim(&mut sql).await;
        let (alone, _) = claim(&mut sql).await;

        let mut held = postgres.sql().await;
        held.execute(begin).await;
        held.rows(hold).await;
        append(&mut sql, "gone", GONE, GONE).await;
        // In an order of their own, so that each of them is a page to visit for whoever walks over them.
        sql.execute(
            "UPDATE outbox_lane SET due_at = statement_timestamp() - (1 + random()) * interval '1 h' \
              WHERE lane IN (SELECT e.lane FROM outbox_event e WHERE e.aggregate_id LIKE 'gone%')",
        )
        .await;
        sql.execute("DELETE FROM outbox_lane WHERE due_at < statement_timestamp() - interval '1 h'").await;
        sql.execute(
            "UPDATE outbox_event SET status = 'PUBLISHED', published_at = statement_timestamp() \
              WHERE aggregate_id LIKE 'gone%'",
        )
        .await;

        // A look at the whole index meets them all. It is made now and then, beside the claims.
        sql.execute("DELETE FROM outbox_due_floor").await;
        let look = sql.rows("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT outbox_due_from()").await;
        let look = touched(&look[0].get::<Value, _>(0));
        assert!(look > u64::from(GONE / 2), "{look} pages: {hold} has kept nothing");
        let mut beside = u64::MAX;
        for _ in 0..5 {
            // On a machine that stands still for seconds in between, the claim has to make the look itself.
            sql.execute("SELECT outbox_due_from()").await;
            let (touched, handed_out) = claim(&mut sql).await;
            assert_eq!(handed_out, 100);
            beside = beside.min(touched);
        }
        assert!(beside < alone * 3, "{beside} pages beside {hold}, where a claim alone takes {alone}");
        held.execute("ROLLBACK").await;
    }
}

#[tokio::test]
async fn a_claim_of_one_aggregate_follows_its_run_however_long_the_aggregate_is() {
    let (short, long) = (Postgres::fresh().await, Postgres::fresh().await);
    let mut pages = Vec::new();
    for (postgres, events) in [(&short, 100), (&long, 100_000)] {
        let mut sql = postgres.sql().await;
        append(&mut sql, "a", 1, events).await;
        sql.execute("ANALYZE outbox_event; ANALYZE outbox_lane").await;
        claim(&mut sql).await;
        let (touched, handed_out) = claim(&mut sql).await;
        assert_eq!(handed_out, 10);
        pages.push(touched);
    }
    assert!(pages[1] < pages[0] * 2, "{} pages where a short aggregate takes {}", pages[1], pages[0]);
}

/// Case P42.
#[tokio::test]
async fn reaping_cleaning_and_counting_read_no_table_through() {
    let postgres = Postgres::fresh().await;
    let mut sql = postgres.sql().await;
    append(&mut sql, "a", LANES, 100_000).await;
    sql.execute(
        "UPDATE outbox_event SET status = 'PUBLISHED', published_at = statement_timestamp() - interval '1 h' WHERE sequence % 2 = 0; \
         ANALYZE outbox_event; ANALYZE outbox_lane",
    )
    .await;
    sql.execute("SELECT outbox_lead('m', 'h', '1 min')").await;
    let token = "00000000-0000-7000-8000-000000000001";
    sql.execute(&format!("SELECT outbox_claim('{token}', 'relay', '0', 20, 10, 100, 1000000)")).await;
    let claims = "SELECT count(*) FROM outbox_claim";
    assert_eq!(sql.one::<i64>(claims).await, 1, "there is a lease to reap");
    let before = sequential_scans(&mut sql).await;
    for call in ["outbox_reap(10)", "outbox_cleanup('m', 'h', 1, '1 min', 100)", "outbox_statistics(1000)"] {
        let rows = sql.rows(&format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM {call}")).await;
        let plan: Value = rows[0].get(0);
        assert_eq!(plan[0]["Plan"]["Actual Rows"].as_u64(), Some(1), "{call}");
        assert_eq!(sequential_scans(&mut sql).await, before, "{call} reads the table through");
    }
    // A call that finds nothing to do reads nothing either.
    assert_eq!(sql.one::<i64>(claims).await, 0, "the lease was reaped");
    assert_eq!(sql.one::<i64>("SELECT count(*) FROM outbox_event").await, 100_000 - 100, "a batch was deleted");
}

#[tokio::test]
async fn a_poll_with_nothing_due_or_everything_paused_touches_a_handful_of_pages() {
    let postgres = Postgres::fresh().await;
    let mut sql = postgres.sql().await;
    claim(&mut sql).await;
    let (idle, _) = claim(&mut sql).await;
    // It asks twice where to begin: before the look that a poll with something to send leaves to others, and for it.
    assert!(idle <= 28, "{idle} pages for a poll of an empty outbox");
    append(&mut sql, "a", LANES, 10_000).await;
    sql.execute("ANALYZE outbox_event; ANALYZE outbox_lane").await;
    sql.execute("SELECT outbox_pause('', 'somebody')").await;
    claim(&mut sql).await;
    let (paused, handed_out) = claim(&mut sql).await;
    assert_eq!(handed_out, 0);
    assert!(paused <= 24, "{paused} pages for a poll while everything is paused");
}

/// How often the events were read through, by this connection as well.
async fn sequential_scans(sql: &mut Sql) -> i64 {
    sql.execute("SELECT pg_stat_force_next_flush()").await;
    sql.one("SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'outbox_event'").await
}
