//! The doctor: each misconfiguration is planted, found with its cure, and mended by it.

use std::{sync::Arc, time::Duration};

use adapter_persistence_postgres::{
    AutovacuumCheck, ClockCheck, Database, History, IndexCheck, PermissionCheck, RoutingCheck, SchemaCheck,
    ServerSettingsCheck, SnapshotCheck, newest_version, outbox_migrations,
};
use application_core::ports::{Clock, Finding, OutboxCheckPort};
use sqlx::Row;
use test_support::clock::FakeClock;

use super::support::{Fixture, event_of, settings_for};

async fn look(check: &dyn OutboxCheckPort) -> Vec<Finding> {
    check.look().await.expect("looked")
}

/// The subjects of what was found.
async fn subjects(check: &dyn OutboxCheckPort) -> Vec<String> {
    look(check).await.into_iter().map(|finding| finding.subject).collect()
}

#[tokio::test]
async fn a_schema_that_is_behind_or_incomplete_is_found() {
    let fixture = Fixture::new("schema").await;
    let newest = newest_version(&outbox_migrations());
    let check = |version| SchemaCheck::new(fixture.database.clone(), vec![(History::Outbox, version)]);
    assert_eq!(look(&check(newest)).await, []);
    let behind = look(&check(newest + 1)).await;
    assert!(behind[0].problem.contains("is at version") && behind[0].cure.contains("app migrate"), "{behind:?}");
    fixture.sql().await.execute("DROP FUNCTION outbox_due_from() CASCADE").await;
    let broken = look(&check(newest)).await;
    assert!(broken[0].problem.contains("outbox_due_from()"), "{broken:?}");
}

#[tokio::test]
async fn an_index_that_is_missing_or_invalid_is_found_and_no_index_is_forgotten() {
    let fixture = Fixture::new("indexes").await;
    let check = IndexCheck::new(fixture.database.clone());
    assert_eq!(look(&check).await, []);
    let mut sql = fixture.sql().await;
    let made = "SELECT i.indexrelid::regclass::text FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid \
         WHERE starts_with(c.relname, 'outbox_') AND c.relname <> 'outbox_schema_history' \
           AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid) ORDER BY 1";
    let made: Vec<String> = sql.rows(made).await.iter().map(|row| row.get(0)).collect();
    sql.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'outbox_lane_due'::regclass").await;
    let found = look(&check).await;
    assert_eq!(found[0].cure, "REINDEX INDEX CONCURRENTLY outbox_lane_due");
    sql.execute(&found[0].cure).await;
    assert_eq!(look(&check).await, []);
    for index in &made {
        sql.execute(&format!("DROP INDEX {index}")).await;
    }
    assert_eq!(subjects(&check).await, made);
}

#[tokio::test]
async fn a_table_that_autovacuum_passes_by_is_found_and_the_cure_mends_it() {
    let fixture = Fixture::new("autovacuum").await;
    let check = AutovacuumCheck::new(fixture.database.clone());
    assert_eq!(look(&check).await, []);
    let mut sql = fixture.sql().await;
    sql.execute("ALTER TABLE outbox_lane SET (autovacuum_enabled = off)").await;
    let found = look(&check).await;
    assert_eq!((found.len(), found[0].subject.as_str()), (1, "outbox_lane"), "{found:?}");
    sql.execute(&found[0].cure).await;
    assert_eq!(look(&check).await, []);
    sql.execute("ALTER TABLE outbox_claim RESET (autovacuum_vacuum_threshold)").await;
    let found = look(&check).await;
    assert_eq!(found[0].subject, "outbox_claim");
    assert!(found[0].problem.contains("threshold"), "{found:?}");
}

#[tokio::test]
async fn a_transaction_that_stays_open_is_found_with_its_session() {
    let fixture = Fixture::new("snapshots").await;
    let check = |longest| SnapshotCheck::new(fixture.database.clone(), longest);
    let mut sql = fixture.sql().await;
    assert_eq!(look(&check(Duration::from_hours(1))).await, []);
    sql.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM outbox_lane").await;
    let session: i32 = sql.one("SELECT pg_backend_pid()").await;
    assert_eq!(look(&check(Duration::from_hours(1))).await, [], "it is young");
    let found = look(&check(Duration::ZERO)).await;
    let held: Vec<_> = found.iter().filter(|finding| finding.subject.contains(&session.to_string())).collect();
    assert_eq!(held.len(), 1, "{found:?}");
    assert!(held[0].cure.contains(&format!("pg_terminate_backend({session})")), "{held:?}");
    sql.execute("ROLLBACK").await;
    let found = look(&check(Duration::ZERO)).await;
    assert!(!found.iter().any(|finding| finding.subject.contains(&session.to_string())), "{found:?}");
}

#[tokio::test]
async fn clocks_that_are_apart_are_found_with_direction() {
    let fixture = Fixture::new("clock").await;
    let there: time::OffsetDateTime = fixture.sql().await.one("SELECT clock_timestamp()").await;
    let clock = |at| -> Arc<dyn Clock> { Arc::new(FakeClock::at(at)) };
    let hour = Duration::from_hours(1);
    let check = |at| ClockCheck::new(fixture.database.clone(), clock(at), Duration::from_mins(30));
    assert_eq!(look(&check(there)).await, []);
    let (ahead, behind) = (look(&check(there - hour)).await, look(&check(there + hour)).await);
    assert!(ahead[0].problem.contains("s ahead of this process's"), "{ahead:?}");
    assert!(behind[0].problem.contains("s behind this process's"), "{behind:?}");
}

#[tokio::test]
async fn settings_that_contradict_what_is_promised_are_found() {
    let fixture = Fixture::new("settings").await;
    let check = |database: &Database, pool| ServerSettingsCheck::new(database.clone(), pool);
    assert_eq!(look(&check(&fixture.database, 10)).await, []);
    assert_eq!(subjects(&check(&fixture.database, 100_000)).await, ["database.pool.max_connections"]);
    let set = format!(
        "ALTER DATABASE \"{0}\" SET synchronous_commit = off; ALTER DATABASE \"{0}\" SET default_transaction_read_only = on",
        fixture.name()
    );
    fixture.sql().await.execute(&set).await;
    let database = Database::connect(&fixture.settings).await.expect("a pool");
    let mut found = subjects(&check(&database, 10)).await;
    found.sort();
    assert_eq!(found, ["default_transaction_read_only", "synchronous_commit"]);
}

#[tokio::test]
async fn a_permission_that_is_missing_is_found_no_relation_is_forgotten_and_the_cures_grant_all() {
    let fixture = Fixture::new("permissions").await;
    let mut sql = fixture.sql().await;
    let role = format!("role_of_{}", fixture.name());
    sql.execute(&format!("CREATE ROLE {role} LOGIN PASSWORD 'secret'")).await;
    let mut url = url::Url::parse(fixture.url()).expect("a URL");
    url.set_username(&role).and_then(|()| url.set_password(Some("secret"))).expect("a URL with a user");
    let database = Database::connect(&settings_for(url.as_str())).await.expect("connected");
    let check = PermissionCheck::new(database.clone());
    let found = look(&check).await;
    let made = "SELECT relname::text FROM pg_class WHERE relkind IN ('r', 'v', 'S') AND starts_with(relname, 'outbox_') \
         AND relname <> 'outbox_audit_id_seq' ORDER BY 1";
    let made: Vec<String> = sql.rows(made).await.iter().map(|row| row.get(0)).collect();
    let missing: Vec<_> = made.iter().filter(|name| !found.iter().any(|finding| finding.subject == **name)).collect();
    assert!(missing.is_empty() && made.len() > 10, "{missing:?}");
    for Finding { cure, .. } in &found {
        sql.execute(cure).await;
    }
    assert_eq!(look(&check).await, []);
    sql.execute("REVOKE EXECUTE ON FUNCTION outbox_lead FROM PUBLIC").await;
    let found = look(&check).await;
    assert!(found.len() == 1 && found[0].subject.starts_with("outbox_lead("), "{found:?}");
    sql.execute(&found[0].cure).await;
    assert_eq!(look(&check).await, []);
    database.close().await;
    sql.execute(&format!("DROP OWNED BY {role}")).await;
    sql.execute(&format!("DROP ROLE {role}")).await;
}

#[tokio::test]
async fn returned_events_are_found_by_kind_until_they_are_resolved() {
    let fixture = Fixture::new("routing").await;
    let check = RoutingCheck::new(fixture.database.clone());
    fixture.append(&[event_of("order", "a"), event_of("order", "b"), event_of("invoice", "c")]).await;
    assert_eq!(look(&check).await, []);
    let mut sql = fixture.sql().await;
    sql.execute("UPDATE outbox_event SET status = 'FAILED', attempts = 1, last_error = 'unroutable: NO_ROUTE'").await;
    sql.execute("UPDATE outbox_event SET last_error = 'rejected: full' WHERE aggregate_id = 'b'").await;
    let found = look(&check).await;
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found.iter().all(|finding| finding.problem == "1 event was returned: no queue is bound for it"),
        "{found:?}"
    );
    sql.execute(
        "UPDATE outbox_event SET status = 'DEAD', resolved_at = statement_timestamp(), resolution = 'discarded'",
    )
    .await;
    assert_eq!(look(&check).await, []);
}
