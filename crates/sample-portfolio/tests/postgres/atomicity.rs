//! A work log, its key and its event are committed together or not at all.

use std::{sync::Arc, task::Poll};

use adapter_persistence_postgres::PgTransaction;
use application_core::{
    outbox::NewOutboxEvent,
    ports::{OutboxAppendError, OutboxAppendPort, StoreError, UnitOfWork},
};
use async_trait::async_trait;
use sample_portfolio::application::CreateWorkLogUseCase;

use crate::world::{World, command};

fn refused() -> StoreError {
    StoreError::Refused { source: "planted".into() }
}

/// Appends, and then fails.
struct AppendThenFail(Arc<dyn OutboxAppendPort<PgTransaction>>);

#[async_trait]
impl OutboxAppendPort<PgTransaction> for AppendThenFail {
    async fn append(&self, tx: &mut PgTransaction, events: &[NewOutboxEvent]) -> Result<(), OutboxAppendError> {
        self.0.append(tx, events).await?;
        Err(refused().into())
    }
}

/// Begins, and fails instead of committing.
struct NeverCommits(Arc<dyn UnitOfWork<Tx = PgTransaction>>);

#[async_trait]
impl UnitOfWork for NeverCommits {
    type Tx = PgTransaction;

    async fn begin(&self) -> Result<PgTransaction, StoreError> {
        self.0.begin().await
    }

    async fn commit(&self, _: PgTransaction) -> Result<(), StoreError> {
        Err(refused())
    }
}

#[tokio::test]
async fn work_log_key_and_event_commit_together_and_wake_the_relay_once() {
    let world = World::new("together").await;
    world.create_work_log(world.transactional()).execute(command("k", "Paint")).await.expect("created");
    assert_eq!((world.written().await, world.wakeup.count()), ([1, 1, 1], 1));
}

#[tokio::test]
async fn a_failure_after_the_append_leaves_neither_work_log_nor_key_nor_event() {
    let world = World::new("append_fails").await;
    let failing = world.transactional_with(world.unit_of_work(), Arc::new(AppendThenFail(world.outbox())));
    world.create_work_log(failing).execute(command("k", "Paint")).await.expect_err("planted");
    assert_eq!((world.written().await, world.wakeup.count()), ([0, 0, 0], 0));
}

#[tokio::test]
async fn a_failed_commit_leaves_neither_work_log_nor_key_nor_event() {
    let world = World::new("commit_fails").await;
    let failing = world.transactional_with(Arc::new(NeverCommits(world.unit_of_work())), world.outbox());
    world.create_work_log(failing).execute(command("k", "Paint")).await.expect_err("planted");
    assert_eq!((world.written().await, world.wakeup.count()), ([0, 0, 0], 0));
}

#[tokio::test]
async fn a_refused_event_takes_the_work_log_and_the_key_with_it() {
    let world = World::new("refused_event").await;
    world.execute("ALTER TABLE outbox_event ADD CHECK (event_type <> 'WorkLogReserved')").await;
    world.create_work_log(world.transactional()).execute(command("k", "Paint")).await.expect_err("refused");
    assert_eq!(world.written().await, [0, 0, 0]);
}

#[tokio::test]
async fn a_client_that_hangs_up_anywhere_leaves_all_or_nothing_and_may_try_again() {
    let world = World::new("hang_up").await;
    let create = world.create_work_log(world.transactional());
    let mut unfinished = 0;
    for polls in 0..40 {
        let attempt = create.execute(command(&format!("k{polls}"), "Paint"));
        if !poll_then_drop(attempt, polls).await {
            unfinished += 1;
        }
    }
    assert!(unfinished > 0, "no attempt was cut off");
    for polls in 0..40 {
        create.execute(command(&format!("k{polls}"), "Paint")).await.expect("created or replayed");
    }
    assert_eq!(world.written().await, [40, 40, 40]);
}

/// Polls a future at most this often and drops it; whether it came to its end.
async fn poll_then_drop<F: Future>(future: F, times: usize) -> bool {
    let mut future = std::pin::pin!(future);
    let mut left = times;
    std::future::poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(false);
        }
        left -= 1;
        future.as_mut().poll(context).map(|_| true)
    })
    .await
}
