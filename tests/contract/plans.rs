//! Plans: claim and settlement find events and lanes by index and read no more of them than their batch, whatever the
//! planner knows of the tables.

use super::postgres::{Postgres, Sql};

/// Lanes of one event each that waits for its next attempt.
const WAITING: u32 = 50_000;
/// What the claim of these tests takes: ten runs of ten events, out of twenty lanes that it looks at.
const EVENTS: i64 = 100;
const LANES: i64 = 20;

const TOKEN: &str = "'00000000-0000-7000-8000-000000000001'";
const CLAIM: &str = "CREATE TEMP TABLE taken ON COMMIT DROP AS SELECT * FROM outbox_claim(\
     '00000000-0000-7000-8000-000000000001', 'relay', interval '1 min', 20, 10, 100, 1000000)";
const TAKEN_LANES: &str = "ARRAY(SELECT DISTINCT t.lane FROM taken t)";
const TAKEN_HEADS: &str = "ARRAY(SELECT DISTINCT ON (t.lane) t.id FROM taken t ORDER BY t.lane, t.sequence)";

/// No count is ever taken but by the test.
async fn keep_autovacuum_away(sql: &mut Sql) {
    for table in ["outbox_event", "outbox_lane", "outbox_claim", "outbox_due_floor"] {
        sql.execute(&format!("ALTER TABLE {table} SET (autovacuum_enabled = off)")).await;
    }
}

/// Fifty lanes of twenty events that are due, among very many that are not.
async fn plant(sql: &mut Sql) {
    sql.execute(&format!(
        "SET LOCAL outbox.lanes_are_taken = 'yes'; \
         INSERT INTO outbox_event (id, sequence, aggregate_type, aggregate_id, event_type, payload, status, attempts, next_attempt_at) \
         SELECT gen_random_uuid(), nextval('outbox_event_sequence'), 't', 'waits' || n, 'e', '1', 'FAILED', 1, \
                statement_timestamp() + interval '1 h' FROM generate_series(1, {WAITING}) n; \
         INSERT INTO outbox_lane (lane, floor, due_at) SELECT e.lane, e.sequence, e.next_attempt_at FROM outbox_event e; \
         SET LOCAL outbox.lanes_are_taken = 'yes'; \
         INSERT INTO outbox_event (id, sequence, aggregate_type, aggregate_id, event_type, payload) \
         SELECT gen_random_uuid(), nextval('outbox_event_sequence'), 't', 'due' || n % 50, 'e', '1' FROM generate_series(1, 1000) n; \
         INSERT INTO outbox_lane (lane, floor, due_at) SELECT e.lane, min(e.sequence), statement_timestamp() \
           FROM outbox_event e WHERE e.aggregate_id LIKE 'due%' GROUP BY e.lane"
    ))
    .await;
}

/// What a transaction has read of a table.
#[derive(Debug, Clone, Copy)]
struct Reads {
    whole: i64,
    rows: i64,
}

async fn reads(sql: &mut Sql, table: &str) -> Reads {
    let of_table = |column: &str| format!("SELECT {column} FROM pg_stat_xact_user_tables WHERE relname = '{table}'");
    Reads { whole: sql.one(&of_table("seq_scan")).await, rows: sql.one(&of_table("idx_tup_fetch")).await }
}

/// Runs a statement, which must read neither table through and no more rows than three times a batch.
async fn in_proportion(sql: &mut Sql, what: &str, statement: &str) {
    let before = (reads(sql, "outbox_event").await, reads(sql, "outbox_lane").await);
    sql.execute(statement).await;
    let after = (reads(sql, "outbox_event").await, reads(sql, "outbox_lane").await);
    for (table, before, after, batch) in [("events", before.0, after.0, EVENTS), ("lanes", before.1, after.1, LANES)] {
        assert_eq!(after.whole, before.whole, "{what} reads all {table}");
        let rows = after.rows - before.rows;
        assert!(rows <= 3 * batch, "{what} reads {rows} {table} for a batch of {batch}");
    }
}

/// A claim, and each way to end it; all is undone. Ending moves the floor of a lane to its next head.
async fn claim_and_settle(sql: &mut Sql, statistics: &str) {
    let settlements = [
        (
            "acknowledge",
            format!("SELECT * FROM outbox_acknowledge({TOKEN}, {TAKEN_LANES}, ARRAY(SELECT t.id FROM taken t))"),
        ),
        (
            "acknowledge and delete",
            format!("SELECT * FROM outbox_acknowledge({TOKEN}, {TAKEN_LANES}, ARRAY(SELECT t.id FROM taken t), true)"),
        ),
        ("release", format!("SELECT * FROM outbox_release({TOKEN}, {TAKEN_LANES}, '{{}}', interval '1 s')")),
        (
            "fail",
            format!(
                "SELECT * FROM outbox_fail({TOKEN}, {TAKEN_LANES}, '{{}}', {TAKEN_HEADS}, array_fill('block'::text, ARRAY[10]), \
                 array_fill('no'::text, ARRAY[10]), array_fill(interval '0', ARRAY[10]))"
            ),
        ),
        (
            "reap",
            "UPDATE outbox_claim SET lease_expires_at = statement_timestamp() - interval '1 s'; SELECT * FROM outbox_reap(10)"
                .to_owned(),
        ),
    ];
    for (what, settlement) in settlements {
        sql.execute("BEGIN").await;
        in_proportion(sql, &format!("a claim {statistics}"), CLAIM).await;
        assert_eq!(sql.one::<i64>("SELECT count(*) FROM taken").await, EVENTS);
        in_proportion(sql, &format!("{what} {statistics}"), &settlement).await;
        let leased = "SELECT count(*) FROM outbox_lane l WHERE l.lane = ANY (ARRAY(SELECT t.lane FROM taken t)) AND l.token IS NOT NULL";
        assert_eq!(sql.one::<i64>(leased).await, 0, "{what} ends the leases");
        sql.execute("ROLLBACK").await;
    }
    sql.execute("BEGIN").await;
    in_proportion(sql, &format!("the look for the first due lane {statistics}"), "SELECT outbox_due_from()").await;
    sql.execute("ROLLBACK").await;
}

#[tokio::test]
async fn claim_and_settlement_read_by_index_and_no_more_than_their_batch_before_any_analyze_and_after_one() {
    let postgres = Postgres::fresh().await;
    let mut sql = postgres.sql().await;
    keep_autovacuum_away(&mut sql).await;
    plant(&mut sql).await;
    let counted = "SELECT count(*) FROM pg_class WHERE relname IN ('outbox_event', 'outbox_lane') AND reltuples >= 0";
    assert_eq!(sql.one::<i64>(counted).await, 0, "nothing was ever counted");
    claim_and_settle(&mut sql, "before any ANALYZE").await;
    sql.execute("ANALYZE outbox_event; ANALYZE outbox_lane").await;
    claim_and_settle(&mut sql, "after ANALYZE").await;
}

#[tokio::test]
async fn claim_and_settlement_read_by_index_and_no_more_than_their_batch_when_the_statistics_are_those_of_empty_tables()
{
    let postgres = Postgres::fresh().await;
    let mut sql = postgres.sql().await;
    keep_autovacuum_away(&mut sql).await;
    sql.execute("ANALYZE outbox_event; ANALYZE outbox_lane; ANALYZE outbox_claim").await;
    plant(&mut sql).await;
    claim_and_settle(&mut sql, "with the statistics of empty tables").await;
}
