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

/// Heads that died, each with nine events behind it.
async fn append_blocked(sql: &mut Sql) {
    append(sql, "dead", 1_000, 10_000).await;
    sql.execute(
        "UPDATE outbox_event e SET status = 'DEAD', attempts = 3 FROM outbox_lane l \
          WHERE l.lane = e.lane AND l.floor = e.sequence AND e.aggregate_id LIKE 'dead%'",
    )
    .await;
}

/// Heads that failed and wait for their next attempt, each with nine events behind it.
async fn append_waiting(sql: &mut Sql) {
    append(sql, "waits", 1_000, 10_000).await;
    sql.execute(
        "UPDATE outbox_event e SET status = 'FAILED', attempts = 1, next_attempt_at = statement_timestamp() + interval '1 h' \
           FROM outbox_lane l WHERE l.lane = e.lane AND l.floor = e.sequence AND e.aggregate_id LIKE 'waits%'; \
         UPDATE outbox_lane l SET due_at = e.next_attempt_at FROM outbox_event e \
          WHERE e.lane = l.lane AND e.sequence = l.floor AND e.status = 'FAILED'",
    )
    .await;
}

/// Pages that one claim touches, and the events that it hands out; the claim is undone.
async fn claim(sql: &mut Sql) -> (u64, u64) {
    sql.execute("BEGIN").await;
    let rows = sql.rows(EXPLAIN).await;
    let plan: Value = rows[0].get(0);
    sql.execute("ROLLBACK").await;
    let plan = &plan[0]["Plan"];
    let number = |key: &str| plan[key].as_u64().expect("a number");
    (number("Shared Hit Blocks") + number("Shared Read Blocks"), number("Actual Rows"))
}

#[tokio::test]
async fn claim_work_follows_the_batch_not_the_backlog() {
    let (small, large) = (Postgres::fresh().await, Postgres::fresh().await);
    let mut pages = Vec::new();
    for (postgres, events) in [(&small, 1_000), (&large, 100_000)] {
        let mut sql = postgres.sql().await;
        append(&mut sql, "a", LANES, events).await;
        if events > 1_000 {
            append_blocked(&mut sql).await;
            append_waiting(&mut sql).await;
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

#[tokio::test]
async fn reaping_cleaning_and_counting_read_no_table_through() {
    let postgres = Postgres::fresh().await;
    let mut sql = postgres.sql().await;
    append(&mut sql, "a", LANES, 20_000).await;
    sql.execute(
        "UPDATE outbox_event SET status = 'PUBLISHED', published_at = statement_timestamp() - interval '1 h' WHERE sequence % 2 = 0; \
         ANALYZE outbox_event; ANALYZE outbox_lane",
    )
    .await;
    sql.execute("SELECT outbox_lead('m', 'h', '1 min')").await;
    let token = "00000000-0000-7000-8000-000000000001";
    sql.execute(&format!("SELECT outbox_claim('{token}', 'relay', '0', 20, 10, 100, 1000000)")).await;
    let before = sequential_scans(&mut sql).await;
    for call in ["outbox_reap(10)", "outbox_cleanup('m', 'h', 1, '1 min', 100)", "outbox_statistics(1000)"] {
        let rows = sql.rows(&format!("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM {call}")).await;
        let plan: Value = rows[0].get(0);
        assert_eq!(plan[0]["Plan"]["Actual Rows"].as_u64(), Some(1), "{call}");
        assert_eq!(sequential_scans(&mut sql).await, before, "{call} reads the table through");
    }
}

#[tokio::test]
async fn a_poll_with_nothing_due_or_everything_paused_touches_a_handful_of_pages() {
    let postgres = Postgres::fresh().await;
    let mut sql = postgres.sql().await;
    claim(&mut sql).await;
    let (idle, _) = claim(&mut sql).await;
    assert!(idle <= 24, "{idle} pages for a poll of an empty outbox");
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
