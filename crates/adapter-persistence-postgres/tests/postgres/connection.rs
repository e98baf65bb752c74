//! The pool under cancellation and frozen servers.

use std::time::Duration;

use adapter_persistence_postgres::{Database, PostgresUnitOfWork};
use application_core::ports::{OutboxAppendPort, OutboxStorePort, StoreError, UnitOfWork};
use sea_orm::{ConnectionTrait, TransactionTrait};
use test_support::servers::{self, Postgres, ServerControl, ServersError};

use super::support::{Fixture, event, events, request, settings_for, wait_until};

/// Control over the shared server, for stopping single backends of this test's own database.
pub(crate) async fn control() -> Result<ServerControl<Postgres>, ServersError> {
    servers::shared().postgres().await?.control()
}

const STUCK: &str = "SELECT count(*) = 0 FROM pg_stat_activity \
     WHERE datname = current_database() AND state LIKE 'idle in transaction%'";

/// Aborts a task after ever more steps, so that it is cut at every point of its way.
async fn abort_after(steps: usize, task: tokio::task::JoinHandle<()>) {
    for _ in 0..steps {
        tokio::task::yield_now().await;
        if task.is_finished() {
            break;
        }
    }
    task.abort();
    let _cancelled = task.await;
}

#[tokio::test]
async fn a_password_of_any_characters_lets_in_and_no_error_tells_it() {
    const PASSWORD: &str = "p@ss/:#?% wörd'\"\\";
    const ENCODED: &str = "p%40ss%2F%3A%23%3F%25%20w%C3%B6rd%27%22%5C";
    let fixture = Fixture::new("password").await;
    let user = format!("{}_user", fixture.name());
    let create = format!("CREATE ROLE {user} LOGIN PASSWORD '{}'", PASSWORD.replace('\'', "''"));
    fixture.sql().await.execute(&create).await;
    let url = |user: &str, password: &str, database: &str| {
        let mut url = url::Url::parse(fixture.url()).expect("a URL");
        url.set_username(user).expect("a URL with a host");
        url.set_password(Some(password)).expect("a URL with a host");
        url.set_path(database);
        url.to_string()
    };
    let right = url(&user, ENCODED, fixture.name());
    assert!(right.contains(ENCODED), "as it was encoded: {right}");
    Database::connect(&settings_for(&right)).await.expect("let in");
    let wrong = format!("{ENCODED}%21");
    for refused in [
        url(&user, &wrong, fixture.name()),
        url(&user, ENCODED, "no_such_database"),
        url("no_such_user", ENCODED, fixture.name()),
        right.replace(ENCODED, PASSWORD),
    ] {
        let settings = settings_for(&refused);
        let error = Database::connect(&settings).await.expect_err("refused");
        let causes = application_core::ports::with_causes(&error);
        let told = format!("{causes} {error:?} {settings:?} {:?}", settings.problems());
        for part in ["p@ss", "p%40ss", "wörd", "w%C3%B6rd"] {
            assert!(!told.contains(part), "{told}");
        }
    }
}

#[tokio::test]
async fn hundreds_of_aborted_begins_leave_no_transaction_open_and_lose_no_row() {
    let fixture = Fixture::with("aborts", |settings| settings.pool.max_connections = 4).await;
    let orm = fixture.database.orm().clone();
    orm.execute_unprepared("CREATE TABLE kept (n int)").await.expect("created");
    for n in 0..400 {
        let work = fixture.work.clone();
        abort_after(
            n % 60,
            tokio::spawn(async move {
                let tx = work.begin().await.expect("begun");
                work.commit(tx).await.expect("committed");
            }),
        )
        .await;
        // An autocommit statement on whatever connection the pool lends: inside a leaked transaction it would vanish.
        orm.execute_unprepared("INSERT INTO kept VALUES (1)").await.expect("inserted");
    }
    let mut sql = fixture.sql().await;
    sql.wait_for("no session is left inside a transaction", STUCK).await;
    assert_eq!(sql.one::<i64>("SELECT count(*) FROM kept").await, 400);
}

#[tokio::test]
async fn a_transaction_leaked_by_a_begin_on_the_bare_pool_is_never_lent_again() {
    let fixture = Fixture::with("leaks", |settings| settings.pool.max_connections = 4).await;
    let orm = fixture.database.orm().clone();
    orm.execute_unprepared("CREATE TABLE kept (n int)").await.expect("created");
    for n in 0..400 {
        let bare = orm.clone();
        abort_after(
            n % 60,
            tokio::spawn(async move {
                let tx = bare.begin().await.expect("begun");
                tx.commit().await.expect("committed");
            }),
        )
        .await;
        orm.execute_unprepared("INSERT INTO kept VALUES (1)").await.expect("inserted");
    }
    let mut sql = fixture.sql().await;
    sql.wait_for("no session is left inside a transaction", STUCK).await;
    assert_eq!(sql.one::<i64>("SELECT count(*) FROM kept").await, 400);
}

#[tokio::test]
async fn returned_connections_are_asked_only_once_the_entity_layer_was_used() {
    const QUESTION: &str = "transaction_timestamp() <> statement_timestamp()";
    let fixture = Fixture::with("asked", |settings| settings.pool.max_connections = 1).await;
    let mut sql = fixture.sql().await;
    // Only what is back in the pool has been asked, or never is.
    let mut last_is = async |text: &str| {
        wait_until("the connection is back", || fixture.database.pool_size() == (1, 1)).await;
        let last = format!(
            "SELECT count(*) > 0 AND bool_and(strpos(query, '{text}') > 0) FROM pg_stat_activity \
              WHERE datname = current_database() AND pid <> pg_backend_pid() AND state = 'idle' AND query <> ''"
        );
        sql.one::<bool>(&last).await
    };
    for _ in 0..3 {
        fixture.claim().await;
        assert!(last_is("outbox_claim").await, "the claim was the last statement");
    }
    fixture.append(&events("a", 1)).await;
    assert!(last_is(QUESTION).await, "the connection was asked");
    fixture.claim().await;
    assert!(last_is(QUESTION).await, "it is asked from then on");
}

#[tokio::test]
async fn aborted_claims_and_settlements_leave_nothing_half_done() {
    let fixture = Fixture::with("half", |settings| settings.pool.max_connections = 4).await;
    for n in 0..200 {
        fixture.append(&events("a", 1)).await;
        let store = fixture.store.clone();
        abort_after(
            n % 40,
            tokio::spawn(async move {
                let one = request();
                let runs = store.claim(&one).await.expect("claimed");
                let claim = super::support::Claim { token: one.token, runs };
                store.acknowledge(claim.token, &claim.confirmed()).await.expect("settled");
            }),
        )
        .await;
    }
    let mut sql = fixture.sql().await;
    let quiet = "SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = current_database() \
         AND (state LIKE 'idle in transaction%' OR state = 'active' AND pid <> pg_backend_pid())";
    sql.wait_for("all sessions are quiet", quiet).await;
    // Whatever was claimed and not settled comes back whole.
    sql.execute("UPDATE outbox_claim SET lease_expires_at = statement_timestamp() - interval '1 s'").await;
    let reap =
        application_core::ports::ReapRequest { max_claims: 1_000, dead_after_expiries: 10_000, skip_types: vec![] };
    application_core::ports::OutboxMaintenancePort::reap(&fixture.reaper, &reap).await.expect("reaped");
    loop {
        let claim = fixture.claim().await;
        if claim.runs.is_empty() {
            break;
        }
        fixture.store.acknowledge(claim.token, &claim.confirmed()).await.expect("settled");
    }
    assert_eq!(sql.one::<i64>("SELECT count(*) FROM outbox_event WHERE status = 'PUBLISHED'").await, 200);
    fixture.assert_lanes_are_sound().await;
}

/// Lends every connection of the pool once, so that each can be found and frozen.
async fn backends(fixture: &Fixture) -> Vec<i32> {
    let text = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() \
         AND application_name = 'adapter test' ORDER BY pid";
    let rows = fixture.sql().await.rows(text).await;
    rows.iter().map(|row| sqlx::Row::get(row, 0)).collect()
}

#[tokio::test]
async fn a_frozen_server_process_costs_one_time_out_and_its_connection_is_not_lent_again() {
    let fixture = Fixture::with("s63", |settings| {
        settings.statement_timeout = Duration::from_millis(500);
        settings.client_margin = Duration::from_millis(200);
        settings.pool.max_connections = 2;
        settings.pool.acquire_timeout = Duration::from_secs(10);
    })
    .await;
    let control = control().await.expect("a server that may be paused: leave DATABASE_URL unset");
    fixture.append(&events("a", 1)).await;
    let frozen = backends(&fixture).await;
    for pid in &frozen {
        control.stop_backend(*pid).await.expect("stopped");
    }
    // Connections that were used a moment ago are lent unseen: each may cost one time-out, never more.
    let mut outcomes = Vec::new();
    for _ in 0..=frozen.len() {
        outcomes.push(fixture.store.claim(&request()).await);
    }
    for outcome in outcomes.iter().rev().skip(1) {
        let own_limit = Duration::from_millis(700);
        let given_up = matches!(outcome, Err(StoreError::Timeout { limit }) if *limit == own_limit);
        assert!(outcome.is_ok() || given_up, "{outcome:?}");
    }
    let claimed: usize = outcomes.iter().flatten().map(Vec::len).sum();
    assert_eq!(claimed, 1, "{outcomes:?}");
    let now = backends(&fixture).await;
    fixture.append(&[event("b")]).await;
    for pid in frozen {
        control.resume_backend(pid).await.expect("resumed");
    }
    assert!(!now.is_empty());
}

#[tokio::test]
async fn a_frozen_server_process_under_a_business_transaction_gives_its_place_in_the_pool_back() {
    let fixture = Fixture::with("frozentx", |settings| {
        settings.transaction_statement_timeout = Duration::from_millis(500);
        settings.client_margin = Duration::from_millis(200);
        settings.pool.max_connections = 2;
        settings.pool.acquire_timeout = Duration::from_secs(10);
    })
    .await;
    let control = control().await.expect("a server that may be paused: leave DATABASE_URL unset");
    let mut tx = fixture.work.begin().await.expect("begun");
    fixture.events.append(&mut tx, &events("a", 1)).await.expect("appended");
    let row = tx
        .orm()
        .query_one_raw(sea_orm::Statement::from_string(sea_orm::DbBackend::Postgres, "SELECT pg_backend_pid()"))
        .await
        .expect("read")
        .expect("a row");
    let pid: i32 = row.try_get_by_index(0).expect("a pid");
    control.stop_backend(pid).await.expect("stopped");
    let outcome = fixture.work.commit(tx).await;
    assert!(matches!(outcome, Err(StoreError::Timeout { .. })), "{outcome:?}");
    // Both places of the pool can be had at once.
    let (one, two) = tokio::join!(fixture.work.begin(), fixture.work.begin());
    drop((one.expect("begun"), two.expect("begun")));
    control.resume_backend(pid).await.expect("resumed");
}

#[tokio::test]
async fn a_transaction_that_waits_too_long_for_its_client_is_ended_by_the_server() {
    let fixture =
        Fixture::with("idle", |settings| settings.idle_in_transaction_timeout = Duration::from_millis(200)).await;
    let mut tx = fixture.work.begin().await.expect("begun");
    fixture.events.append(&mut tx, &events("a", 1)).await.expect("appended");
    let mut sql = fixture.sql().await;
    sql.wait_for("the server ended it", STUCK).await;
    fixture.append(&events("a", 1)).await;
    let refused = fixture.work.commit(tx).await.expect_err("it is gone");
    assert!(refused.is_transient(), "{refused:?}");
    assert_eq!(sql.one::<i64>("SELECT count(*) FROM outbox_event").await, 1);
}

#[tokio::test]
async fn a_closed_pool_says_that_the_database_cannot_be_reached() {
    let fixture = Fixture::new("closed").await;
    let database: Database = fixture.database.clone();
    database.close().await;
    let refused = PostgresUnitOfWork::new(database).begin().await.expect_err("closed");
    assert!(refused.is_transient(), "{refused:?}");
}
