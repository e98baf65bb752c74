//! One key, one work log: also when requests with the same key meet.

use std::sync::Arc;

use adapter_persistence_postgres::PgTransaction;
use application_core::usecases::StopSignal;
use sample_portfolio::{
    adapter::postgres::PostgresIdempotencyKeys,
    application::{CommandError, CreateWorkLogCommand, CreateWorkLogUseCase},
    domain::{Minutes, PortfolioId, Version, WorkLogId, WorkLogStatus},
    ports::{IdempotencyKey, IdempotencyKeys, KeyUse, KeyedRequest, WorkLogReceipt},
};
use sea_orm::ConnectionTrait;
use time::macros::datetime;
use tokio::{sync::Barrier, task::JoinSet};
use uuid::Uuid;

use crate::world::{PORTFOLIO, World, command};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixteen_requests_with_one_key_at_once_get_the_same_result_and_create_one_work_log() {
    let world = World::new("one_key").await;
    let create = world.create_work_log(world.transactional());
    let (barrier, mut requests) = (Arc::new(Barrier::new(16)), JoinSet::new());
    for _ in 0..16 {
        let (create, barrier) = (Arc::clone(&create), Arc::clone(&barrier));
        requests.spawn(async move {
            barrier.wait().await;
            create.execute(command("k", "Paint")).await.expect("created or replayed")
        });
    }
    let answers = requests.join_all().await;
    assert_eq!(answers.iter().filter(|created| !created.replayed).count(), 1, "one request created it");
    assert!(answers.iter().all(|created| created.receipt == answers[0].receipt), "{answers:?}");
    assert_eq!((world.written().await, world.wakeup.count()), ([1, 1, 1], 1));
}

/// A transaction that has taken the key for another result and is still open.
async fn holder(world: &World, request: &KeyedRequest) -> PgTransaction {
    let mut tx = world.unit_of_work().begin().await.expect("begun");
    let used = PostgresIdempotencyKeys.take(&mut tx, request, &receipt()).await.expect("taken");
    assert_eq!(used, KeyUse::First);
    tx
}

fn request(content: &str) -> KeyedRequest {
    let key = IdempotencyKey::try_new("k").expect("valid");
    KeyedRequest { key, portfolio: PORTFOLIO, content: content.to_owned() }
}

fn receipt() -> WorkLogReceipt {
    WorkLogReceipt {
        id: WorkLogId::new(Uuid::from_u128(1)),
        portfolio: PORTFOLIO,
        status: WorkLogStatus::Reserved,
        version: Version::FIRST,
        changed_at: datetime!(2026-03-01 12:00:00.123456 UTC),
    }
}

#[tokio::test]
async fn the_second_waits_for_the_first_and_reads_its_result_once_committed() {
    let world = World::new("waits_commit").await;
    let held = holder(&world, &request("same")).await;
    let unit_of_work = world.unit_of_work();
    let second = tokio::spawn(async move {
        let mut tx = unit_of_work.begin().await.expect("begun");
        let other = WorkLogReceipt { id: WorkLogId::new(Uuid::from_u128(2)), ..receipt() };
        PostgresIdempotencyKeys.take(&mut tx, &request("same"), &other).await
    });
    world.until_sessions_wait(1).await;
    world.unit_of_work().commit(held).await.expect("committed");
    assert_eq!(second.await.expect("joined").expect("read"), KeyUse::SameRequest(receipt()));
}

#[tokio::test]
async fn the_second_takes_the_key_when_the_first_is_rolled_back() {
    let world = World::new("waits_rollback").await;
    let held = holder(&world, &request("same")).await;
    let create = world.create_work_log(world.transactional());
    let second = tokio::spawn(async move { create.execute(command("k", "Paint")).await });
    world.until_sessions_wait(1).await;
    drop(held);
    let created = second.await.expect("joined").expect("created");
    assert!(!created.replayed && created.receipt.id != receipt().id);
    assert_eq!(world.written().await, [1, 1, 1]);
}

#[tokio::test]
async fn the_same_key_for_another_request_is_refused_and_writes_nothing() {
    let world = World::new("reused").await;
    let create = world.create_work_log(world.transactional());
    create.execute(command("k", "Paint")).await.expect("created");
    for other in [
        command("k", "Paint it blue"),
        CreateWorkLogCommand { planned: Minutes::try_new(91).expect("valid"), ..command("k", "Paint") },
    ] {
        let outcome = create.execute(other).await;
        assert!(matches!(outcome, Err(CommandError::KeyReused { .. })), "{outcome:?}");
    }
    assert_eq!((world.written().await, world.wakeup.count()), ([1, 1, 1], 1));
}

#[tokio::test]
async fn a_key_counts_within_its_portfolio() {
    let world = World::new("per_portfolio").await;
    let create = world.create_work_log(world.transactional());
    let first = create.execute(command("k", "Paint")).await.expect("created");
    let elsewhere =
        CreateWorkLogCommand { portfolio: PortfolioId::new(Uuid::from_u128(0xbb)), ..command("k", "Paint") };
    let second = create.execute(elsewhere).await.expect("created");
    assert!(!second.replayed && first.receipt.id != second.receipt.id);
}

#[tokio::test]
async fn the_first_result_is_answered_also_when_the_work_log_has_changed_since() {
    let world = World::new("first_result").await;
    let create = world.create_work_log(world.transactional());
    let first = create.execute(command("k", "Paint")).await.expect("created");
    world.execute("UPDATE work_log SET status = 'STARTED', version = 2").await;
    let again = create.execute(command("k", "Paint")).await.expect("replayed");
    assert!(again.replayed);
    assert_eq!(again.receipt, first.receipt);
}

#[tokio::test]
async fn the_title_is_kept_in_the_work_log_alone() {
    let world = World::new("title").await;
    world.create_work_log(world.transactional()).execute(command("k", "Call Ada")).await.expect("created");
    let holding = |table: &str| format!("{table} AS t WHERE t::text LIKE '%Ada%'");
    assert_eq!(world.count(&holding("work_log")).await, 1);
    for table in ["work_log_idempotency", "outbox_event", "outbox_lane"] {
        assert_eq!(world.count(&holding(table)).await, 0, "{table}");
    }
}

/// Makes a key older than the retention of the world.
fn aged(key: &str) -> String {
    format!("UPDATE work_log_idempotency SET created_at = now() - interval '25 hours' WHERE key LIKE '{key}'")
}

#[tokio::test]
async fn old_keys_are_forgotten_in_batches_and_a_request_under_one_is_carried_out_anew() {
    let world = World::new("forgotten").await;
    let (create, module) = (world.create_work_log(world.transactional()), world.module());
    for key in ["old-1", "old-2", "old-3", "old-4", "young"] {
        create.execute(command(key, "Paint")).await.expect("created");
    }
    world.execute(&aged("old-%")).await;
    let removed = module.idempotency_keys.execute(&StopSignal::new()).await;
    assert_eq!(removed.expect("removed"), 4, "in two batches of at most three");
    assert_eq!(world.written().await, [5, 1, 5], "work logs and events stay");
    assert!(create.execute(command("young", "Paint")).await.expect("replayed").replayed);
    assert!(!create.execute(command("old-1", "Paint")).await.expect("created anew").replayed);
}

#[tokio::test]
async fn the_removal_of_old_keys_passes_by_what_another_process_removes() {
    let world = World::new("side_by_side").await;
    let create = world.create_work_log(world.transactional());
    for key in ["mine", "others"] {
        create.execute(command(key, "Paint")).await.expect("created");
    }
    world.execute(&aged("%")).await;
    let other = world.unit_of_work().begin().await.expect("begun");
    other.orm().execute_unprepared("DELETE FROM work_log_idempotency WHERE key = 'others'").await.expect("removed");
    let removed = world.module().idempotency_keys.execute(&StopSignal::new()).await;
    assert_eq!(removed.expect("removed"), 1);
    drop(other);
    assert_eq!(world.count("work_log_idempotency WHERE key = 'others'").await, 1, "rolled back");
}

#[tokio::test]
async fn the_tables_that_the_module_names_are_those_of_its_migrations() {
    let world = World::new("tables").await;
    let module = world.module();
    for table in module.tables {
        world.count(table).await;
    }
    let others = module.tables.iter().map(|table| format!("'{table}'")).collect::<Vec<_>>().join(", ");
    // Other contexts may have tables in the same history.
    let unnamed = format!(
        "pg_tables WHERE schemaname = 'public' AND tablename NOT IN ({others}) \
         AND (tablename LIKE 'work_log%' OR tablename LIKE 'portfolio%')"
    );
    assert_eq!(world.count(&unnamed).await, 0);
}
