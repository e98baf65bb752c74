//! Transactions and appends against PostgreSQL: events are committed with the change that they tell of, or not at all.

use application_core::ports::{OutboxAppendPort, StoreError, UnitOfWork};
use sea_orm::ConnectionTrait;
use test_support::fixtures::Events;

use super::postgres::Postgres;

const COUNTS: &str = "SELECT (SELECT count(*) FROM change) * 10 + (SELECT count(*) FROM outbox_event)";

#[tokio::test]
async fn an_event_and_the_change_it_tells_of_are_there_together_or_not_at_all() {
    let postgres = Postgres::fresh().await;
    let mut sql = postgres.sql().await;
    sql.execute("CREATE TABLE change (id int PRIMARY KEY)").await;
    let (work, series) = (postgres.unit_of_work(), Events::new());
    for (change, commits) in [(1, false), (2, true)] {
        let mut tx = work.begin().await.expect("begun");
        tx.orm().execute_unprepared(&format!("INSERT INTO change VALUES ({change})")).await.expect("changed");
        postgres.append().append(&mut tx, &series.many_of("a", 1)).await.expect("appended");
        assert_eq!(sql.one::<i64>(COUNTS).await, 0, "nothing shows before the commit");
        if commits {
            work.commit(tx).await.expect("committed");
        }
    }
    assert_eq!(sql.one::<i64>(COUNTS).await, 11);
    assert_eq!(sql.one::<i32>("SELECT id FROM change").await, 2);
}

#[tokio::test]
async fn a_change_that_fails_after_the_append_takes_its_event_with_it() {
    let postgres = Postgres::fresh().await;
    let mut sql = postgres.sql().await;
    sql.execute("CREATE TABLE change (id int PRIMARY KEY); INSERT INTO change VALUES (1)").await;
    let work = postgres.unit_of_work();
    let mut tx = work.begin().await.expect("begun");
    postgres.append().append(&mut tx, &Events::new().many_of("a", 1)).await.expect("appended");
    tx.orm().execute_unprepared("INSERT INTO change VALUES (1)").await.expect_err("the key is taken");
    let refused = work.commit(tx).await;
    assert!(matches!(refused, Err(StoreError::Refused { .. })), "{refused:?}");
    assert_eq!(sql.one::<i64>(COUNTS).await, 10);
}
