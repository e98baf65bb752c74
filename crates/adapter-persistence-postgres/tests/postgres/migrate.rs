//! The migrator: two histories, one at a time, and errors that say why.

use std::{collections::BTreeMap, error::Error, time::Duration};

use adapter_persistence_postgres::{
    Database, History, MigrateError, Migration, migrate, newest_version, outbox_migrations, schema_version,
};
use sqlx::{Connection, PgConnection};

use super::support::{PATIENCE, Sql, empty, settings_for};

fn application() -> Vec<Migration> {
    [
        ("V1__one", "CREATE TABLE app_one (n int)"),
        ("V2__two", "CREATE TABLE app_two (n int); INSERT INTO app_one VALUES (1)"),
    ]
    .map(|(name, sql)| Migration::unapplied(name, sql).expect("a name"))
    .into()
}

#[tokio::test]
async fn six_migrators_at_once_apply_each_migration_once() {
    let test_database = empty("race").await;
    let settings = settings_for(test_database.url());
    let migrators = (0..6).map(|_| {
        let settings = settings.clone();
        tokio::spawn(async move { migrate(&settings, &application(), PATIENCE).await.expect("migrated").applied })
    });
    let mut times: BTreeMap<String, u32> = BTreeMap::new();
    for migrator in migrators.collect::<Vec<_>>() {
        for name in migrator.await.expect("ended") {
            *times.entry(name).or_default() += 1;
        }
    }
    assert_eq!(times.len(), outbox_migrations().len() + 2);
    assert!(times.values().all(|n| *n == 1), "{times:?}");
    let mut sql = Sql(PgConnection::connect(test_database.url()).await.expect("connected"));
    assert_eq!(sql.one::<i64>("SELECT count(*) FROM app_one").await, 1);
}

#[tokio::test]
async fn each_history_has_a_version_of_its_own_and_starts_at_none() {
    let test_database = empty("version").await;
    let settings = settings_for(test_database.url());
    let database = Database::connect(&settings).await.expect("a pool");
    for history in [History::Outbox, History::Application] {
        assert_eq!(schema_version(&database, history).await.expect("read"), None);
    }
    migrate(&settings, &application(), PATIENCE).await.expect("migrated");
    let newest = newest_version(&outbox_migrations());
    assert!(newest >= 3);
    assert_eq!(schema_version(&database, History::Outbox).await.expect("read"), Some(newest));
    assert_eq!(schema_version(&database, History::Application).await.expect("read"), Some(2));
}

#[tokio::test]
async fn a_failed_migration_leaves_nothing_of_itself_and_tells_the_servers_words() {
    let test_database = empty("broken").await;
    let settings = settings_for(test_database.url());
    let mut migrations = application();
    migrations.push(Migration::unapplied("V3__broken", "CREATE TABLE half (n int); SELECT nonsense").expect("a name"));
    let error = migrate(&settings, &migrations, PATIENCE).await.expect_err("should fail");
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        words = format!("{words}: {cause}");
        source = cause.source();
    }
    for part in ["app_schema_history", "V3__broken", "column \"nonsense\" does not exist", "42703"] {
        assert!(words.contains(part), "{words}");
    }
    let database = Database::connect(&settings).await.expect("a pool");
    assert_eq!(schema_version(&database, History::Application).await.expect("read"), Some(2));
    let mut sql = Sql(PgConnection::connect(test_database.url()).await.expect("connected"));
    assert!(sql.one::<bool>("SELECT to_regclass('half') IS NULL").await);
    // Mended, it goes on where it stopped.
    migrations[2] = Migration::unapplied("V3__broken", "CREATE TABLE half (n int)").expect("a name");
    let report = migrate(&settings, &migrations, PATIENCE).await.expect("migrated");
    assert_eq!(report.applied, ["app_schema_history: V3__broken"]);
}

#[tokio::test]
async fn a_migration_that_was_changed_afterwards_is_refused() {
    let test_database = empty("changed").await;
    let settings = settings_for(test_database.url());
    migrate(&settings, &application(), PATIENCE).await.expect("migrated");
    let mut changed = application();
    changed[1] = Migration::unapplied("V2__two", "CREATE TABLE other (n int)").expect("a name");
    let refused = migrate(&settings, &changed, PATIENCE).await;
    assert!(matches!(refused, Err(MigrateError::Failed { history: History::Application, .. })), "{refused:?}");
}

#[tokio::test]
async fn a_database_that_is_ahead_is_left_as_it_is() {
    let test_database = empty("ahead").await;
    let settings = settings_for(test_database.url());
    migrate(&settings, &application(), PATIENCE).await.expect("migrated");
    let report = migrate(&settings, &application()[..1], PATIENCE).await.expect("tolerated");
    assert_eq!(report.applied, Vec::<String>::new());
    assert_eq!(report.ahead, [(History::Application, 2)]);
}

#[tokio::test]
async fn a_migrator_gives_up_on_a_lock_that_another_one_keeps() {
    let test_database = empty("locked").await;
    let settings = settings_for(test_database.url());
    let mut sql = Sql(PgConnection::connect(test_database.url()).await.expect("connected"));
    sql.rows("SELECT pg_advisory_lock(7303015466823641)").await;
    let refused = migrate(&settings, &[], Duration::from_millis(1)).await;
    assert!(matches!(refused, Err(MigrateError::Locked { .. })), "{refused:?}");
    drop(sql);
    migrate(&settings, &[], PATIENCE).await.expect("the lock went with its session");
}
