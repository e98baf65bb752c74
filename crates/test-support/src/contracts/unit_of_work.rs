//! What every unit of work must do: all of it or nothing, whatever took part.

#![expect(missing_docs, reason = "the names of the cases are sentences")]

use application_core::ports::{ConsumerName, FirstSeen};

use super::{OutboxHarness, bench::Bench};
use crate::fixtures::event_id;

fn consumer() -> ConsumerName {
    ConsumerName::new("projection")
}

/// A transaction that has recorded a message and appended an event, as a consumer with events of its own does.
async fn record_and_append<H: OutboxHarness>(bench: &Bench<H>, aggregate_id: &str) -> H::Tx {
    let mut tx = bench.open_append(&bench.events.many_of(aggregate_id, 1)).await;
    bench.harness.inbox().record(&mut tx, &consumer(), event_id(1_000)).await.unwrap();
    tx
}

async fn is_new<H: OutboxHarness>(bench: &Bench<H>) -> bool {
    let mut tx = bench.begin().await;
    bench.harness.inbox().record(&mut tx, &consumer(), event_id(1_000)).await.unwrap() == FirstSeen::Yes
}

pub async fn a_commit_keeps_everything_that_was_done_in_it<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let tx = record_and_append(&bench, "a").await;
    bench.commit(tx).await;
    assert_eq!(bench.claim().await.runs.len(), 1);
    assert!(!is_new(&bench).await);
}

pub async fn a_drop_undoes_everything_that_was_done_in_it<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    drop(record_and_append(&bench, "a").await);
    assert!(is_new(&bench).await);
    assert!(bench.claim().await.runs.is_empty());
}

pub async fn transactions_that_were_dropped_leave_room_for_others<H: OutboxHarness>() {
    // More than any pool holds connections.
    const MANY: usize = 100;
    let bench = Bench::<H>::fresh().await;
    for _ in 0..MANY {
        drop(bench.begin().await);
    }
    let ids = bench.appended("a", 1).await;
    assert_eq!(bench.claim().await.ids(), [ids]);
}

pub async fn open_transactions_do_not_see_each_other<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let kept = bench.events.many_of("a", 1);
    let first = bench.open_append(&kept).await;
    let second = bench.open_append(&bench.events.many_of("b", 1)).await;
    drop(second);
    bench.commit(first).await;
    assert_eq!(bench.claim().await.ids(), [[kept[0].id()]]);
}

pub async fn an_empty_transaction_commits<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let tx = bench.begin().await;
    bench.commit(tx).await;
}
