//! Readiness and the check of the sequence.

use adapter_persistence_postgres::{
    Database, DatabaseReadiness, History, SchemaReadiness, SequenceError, TablesReadiness, check_sequence,
    newest_version, outbox_migrations,
};
use application_core::ports::ReadinessCheck;
use sqlx::Row;

use super::support::{Fixture, empty, settings_for};

#[tokio::test]
async fn a_schema_that_is_old_or_missing_is_not_ready_and_a_newer_one_is() {
    let fixture = Fixture::new("ready").await;
    DatabaseReadiness::new(fixture.database.clone()).check().await.expect("ready");
    let newest = newest_version(&outbox_migrations());
    let expect = |version| SchemaReadiness::new(fixture.database.clone(), vec![(History::Outbox, version)]);
    expect(newest).check().await.expect("ready");
    expect(newest - 1).check().await.expect("newer is fine");
    let reason = expect(newest + 1).check().await.expect_err("too old");
    assert!(reason.contains("outbox_schema_history") && reason.contains("run the migrations"), "{reason}");
    let none = SchemaReadiness::new(fixture.database.clone(), vec![(History::Application, 1)]);
    none.check().await.expect_err("nothing was applied");
}

#[tokio::test]
async fn a_table_or_function_that_was_dropped_or_renamed_is_missed_by_name() {
    let fixture = Fixture::new("objects").await;
    let schema = SchemaReadiness::new(fixture.database.clone(), vec![(History::Outbox, 1)]);
    schema.check().await.expect("ready");
    let mut sql = fixture.sql().await;
    sql.execute("ALTER TABLE outbox_inbox RENAME TO outbox_inbox_old").await;
    sql.execute("ALTER FUNCTION outbox_renew(uuid, interval) RENAME TO outbox_renew_old").await;
    sql.execute("DROP VIEW outbox_event_state CASCADE").await;
    let reason = schema.check().await.expect_err("not ready");
    assert_eq!(reason, "missing in the database: outbox_event_state, outbox_inbox, outbox_renew()");

    let tables = |tables| TablesReadiness::new(fixture.database.clone(), "module", tables);
    tables(&["outbox_lane", "outbox_leader"]).check().await.expect("ready");
    let reason = tables(&["outbox_lane", "work_log"]).check().await.expect_err("not ready");
    assert_eq!(reason, "missing in the database: work_log");
}

#[tokio::test]
async fn readiness_looks_for_every_table_and_function_that_the_migrations_make() {
    let fixture = Fixture::new("catalog").await;
    let mut sql = fixture.sql().await;
    let tables = "SELECT relname::text FROM pg_class WHERE relkind IN ('r', 'v', 'S') \
         AND relnamespace = 'public'::regnamespace AND relname <> 'outbox_schema_history'";
    let functions = "SELECT proname::text || '()' FROM pg_proc WHERE pronamespace = 'public'::regnamespace";
    let made = format!("SELECT name FROM ({tables} UNION ALL {functions}) made (name) ORDER BY name COLLATE \"C\"");
    let made: Vec<String> = sql.rows(&made).await.iter().map(|row| row.get(0)).collect();
    assert!(made.len() > 30, "{made:?}");

    let nothing = empty("nothing").await;
    let database = Database::connect(&settings_for(nothing.url())).await.expect("a pool");
    let reason = SchemaReadiness::new(database, Vec::new()).check().await.expect_err("not ready");
    let mut missed: Vec<_> = reason.trim_start_matches("missing in the database: ").split(", ").collect();
    missed.sort_unstable();
    assert_eq!(missed, made);
}

#[tokio::test]
async fn a_database_that_cannot_be_reached_is_not_ready_and_no_password_is_told() {
    let mut settings = settings_for("postgres://someone:hunter2@127.0.0.1:1/nowhere");
    settings.pool.acquire_timeout = std::time::Duration::from_millis(200);
    let database = Database::connect_lazy(&settings).expect("a pool");
    let reason = DatabaseReadiness::new(database.clone()).check().await.expect_err("unreachable");
    let error = Database::connect(&settings).await.expect_err("unreachable");
    let told = format!("{reason} {error} {error:?} {database:?} {settings:?}");
    assert!(error.is_transient());
    assert!(!told.contains("hunter2"), "{told}");
}

#[tokio::test]
async fn a_sequence_that_cannot_keep_order_is_refused() {
    let fixture = Fixture::new("sequence").await;
    check_sequence(&fixture.database).await.expect("as migrated");
    let mut sql = fixture.sql().await;
    sql.execute("ALTER SEQUENCE outbox_event_sequence CACHE 20").await;
    assert!(matches!(check_sequence(&fixture.database).await, Err(SequenceError::Cached { cache: 20 })));
    sql.execute("ALTER SEQUENCE outbox_event_sequence CACHE 1 CYCLE").await;
    assert!(matches!(check_sequence(&fixture.database).await, Err(SequenceError::Cycles)));
    sql.execute("ALTER SEQUENCE outbox_event_sequence NO CYCLE").await;
    check_sequence(&fixture.database).await.expect("mended");

    let nothing = empty("nosequence").await;
    let database = Database::connect(&settings_for(nothing.url())).await.expect("a pool");
    assert!(matches!(check_sequence(&database).await, Err(SequenceError::Missing)));
}
