//! The repositories on their own: what is stored comes back, versions are compared, pages are complete.

use std::sync::Arc;

use application_core::{ports::StoreError, usecases::Transaction};
use sample_portfolio::{
    application::CommandError,
    domain::{Minutes, PortfolioId, Title, WorkLog, WorkLogId},
    ports::{PortfolioMinutes, PortfolioMinutesReader, PortfolioMinutesRepository, WorkLogReader, WorkLogRepository},
};
use sea_orm::ConnectionTrait;
use time::macros::datetime;
use uuid::Uuid;

use crate::world::{PORTFOLIO, World};

fn work_log(n: u128) -> WorkLog {
    WorkLog::reserve(
        WorkLogId::new(Uuid::from_u128(n)),
        PORTFOLIO,
        Title::try_new("Paint \u{1f58c}\u{fe0f} \u{2019}the\u{2019} fence; DROP TABLE work_log --").expect("valid"),
        Minutes::try_new(90).expect("valid"),
        datetime!(2026-03-01 12:00:00.123456 UTC),
    )
}

async fn store(world: &World, work_logs: impl IntoIterator<Item = WorkLog>) {
    let repository = world.work_logs();
    world
        .transactional()
        .run(async |transaction: &mut Transaction<_>| {
            for work_log in work_logs {
                repository.insert(transaction.tx(), &work_log).await?;
            }
            Ok::<_, CommandError>(())
        })
        .await
        .expect("stored");
}

#[tokio::test]
async fn every_state_of_a_work_log_is_read_as_it_was_stored() {
    let world = World::new("round_trip").await;
    let repository = world.work_logs();
    let at = datetime!(2026-03-02 08:30:00.5 UTC);
    store(&world, [work_log(1)]).await;
    let id = work_log(1).state().id;
    let mut expected = work_log(1).state().clone();
    for step in 0..3 {
        assert_eq!(repository.find(PORTFOLIO, id).await.expect("read"), Some(expected.clone()));
        let mut tx = world.unit_of_work().begin().await.expect("begun");
        let mut found = repository.find_for_update(&mut tx, PORTFOLIO, id).await.expect("read").expect("there");
        match step {
            0 => found.start(at).expect("reserved"),
            1 => found.complete(Minutes::try_new(75).expect("valid"), at).expect("started"),
            _ => break,
        }
        repository.save(&mut tx, &found).await.expect("saved");
        expected = found.state().clone();
        world.unit_of_work().commit(tx).await.expect("committed");
    }
}

#[tokio::test]
async fn a_work_log_of_another_portfolio_is_not_found() {
    let world = World::new("other_portfolio").await;
    store(&world, [work_log(1)]).await;
    let (repository, other) = (world.work_logs(), PortfolioId::new(Uuid::from_u128(0xbb)));
    let id = work_log(1).state().id;
    assert_eq!(repository.find(other, id).await.expect("read"), None);
    let mut tx = world.unit_of_work().begin().await.expect("begun");
    assert_eq!(repository.find_for_update(&mut tx, other, id).await.expect("read"), None);
}

#[tokio::test]
async fn saving_over_another_version_changes_no_row_and_says_so() {
    let world = World::new("stale").await;
    store(&world, [work_log(1)]).await;
    let repository = world.work_logs();
    let mut stale =
        repository.find(PORTFOLIO, work_log(1).state().id).await.expect("read").map(WorkLog::restore).expect("there");
    world.execute("UPDATE work_log SET version = 2, status = 'STARTED'").await;
    stale.cancel(datetime!(2026-03-02 08:30 UTC)).expect("reserved");
    for work_log in [&stale, &work_log(1)] {
        let mut tx = world.unit_of_work().begin().await.expect("begun");
        let outcome = repository.save(&mut tx, work_log).await;
        assert!(matches!(outcome, Err(StoreError::RowsAffected { expected: 1, actual: 0, .. })), "{outcome:?}");
    }
    assert_eq!(world.count("work_log WHERE status = 'STARTED' AND version = 2").await, 1);
}

#[tokio::test]
async fn a_held_work_log_makes_a_second_transaction_wait() {
    let world = World::new("held").await;
    store(&world, [work_log(1)]).await;
    let (repository, id) = (world.work_logs(), work_log(1).state().id);
    let mut first = world.unit_of_work().begin().await.expect("begun");
    let mut held = repository.find_for_update(&mut first, PORTFOLIO, id).await.expect("read").expect("there");
    let (unit_of_work, second) = (world.unit_of_work(), Arc::clone(&repository));
    let second = tokio::spawn(async move {
        let mut tx = unit_of_work.begin().await.expect("begun");
        second.find_for_update(&mut tx, PORTFOLIO, id).await.expect("read").expect("there")
    });
    world.until_sessions_wait(1).await;
    held.start(datetime!(2026-03-02 08:30 UTC)).expect("reserved");
    repository.save(&mut first, &held).await.expect("saved");
    world.unit_of_work().commit(first).await.expect("committed");
    assert_eq!(second.await.expect("joined").state(), held.state(), "it sees what it has waited for");
}

#[tokio::test]
async fn pages_by_key_meet_every_work_log_once_in_order_also_when_some_are_added_meanwhile() {
    let world = World::new("pages").await;
    store(&world, (1..=7).map(|n| work_log(n * 2))).await;
    let (repository, mut after, mut met) = (world.work_logs(), None, Vec::new());
    for _ in 0..3 {
        let page = repository.list(PORTFOLIO, after, 3).await.expect("read");
        after = page.last().map(|last| last.id);
        met.extend(page.iter().map(|one| one.id.as_uuid().as_u128()));
        // Before the place reached, and therefore on no later page.
        store(&world, [work_log(met.len() as u128 * 2 - 1)]).await;
    }
    assert_eq!(met, [2, 4, 6, 8, 10, 12, 14]);
    assert!(repository.list(PORTFOLIO, after, 3).await.expect("read").is_empty(), "nothing follows the last");
    let elsewhere = repository.list(PortfolioId::new(Uuid::from_u128(0xbb)), None, 3).await.expect("read");
    assert!(elsewhere.is_empty());
}

#[tokio::test]
async fn sums_begin_with_the_first_event_and_add_up() {
    let world = World::new("sums").await;
    let minutes = world.minutes();
    assert_eq!(minutes.find(PORTFOLIO).await.expect("read"), None);
    let more = PortfolioMinutes { completed_minutes: 75, reserved: 1, started: 2, completed: 3, cancelled: 4 };
    for _ in 0..2 {
        let mut tx = world.unit_of_work().begin().await.expect("begun");
        minutes.add(&mut tx, PORTFOLIO, &more).await.expect("added");
        world.unit_of_work().commit(tx).await.expect("committed");
    }
    let twice = PortfolioMinutes { completed_minutes: 150, reserved: 2, started: 4, completed: 6, cancelled: 8 };
    assert_eq!(minutes.find(PORTFOLIO).await.expect("read"), Some(twice));
}

#[tokio::test]
async fn the_table_holds_the_bounds_of_the_domain_for_other_writers() {
    let world = World::new("checks").await;
    store(&world, [work_log(1)]).await;
    for change in [
        "title = ''",
        "title = repeat('x', 201)",
        "planned_minutes = 0",
        "planned_minutes = 1441",
        "status = 'DONE'",
        "status = 'COMPLETED'",
        "spent_minutes = 5",
        "status = 'COMPLETED', spent_minutes = 1441",
        "version = 0",
    ] {
        let sql = format!("UPDATE work_log SET {change}");
        let error = world.database.orm().execute_unprepared(&sql).await.expect_err(change).to_string();
        assert!(error.contains("violates check constraint"), "{change}: {error}");
    }
}
