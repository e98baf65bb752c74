//! What every store must do that deletes events when they are published ([`OnPublish::Delete`]).
//!
//! [`OnPublish::Delete`]: application_core::outbox::OnPublish::Delete

#![expect(missing_docs, reason = "the names of the cases are sentences")]

use std::time::Duration;

use application_core::outbox::{EventId, FailedOutcome, OutboxEventStatus as Status};

use super::{
    OutboxHarness,
    bench::{Bench, Claim, LONG, settled, stale},
};
use crate::operate::OperateOne;

/// Settles all runs as published to their ends.
async fn publish<H: OutboxHarness>(bench: &Bench<H>, claim: &Claim) {
    let events = u32::try_from(claim.ids().concat().len()).unwrap();
    let lanes = u32::try_from(claim.runs.len()).unwrap();
    let store = bench.harness.store_without_history();
    assert_eq!(store.acknowledge(claim.token, &claim.whole()).await.unwrap(), settled(lanes, events));
}

async fn are_gone<H: OutboxHarness>(bench: &Bench<H>, ids: &[EventId]) -> bool {
    for id in ids {
        if bench.find(*id).await.is_some() {
            return false;
        }
    }
    true
}

pub async fn an_acknowledged_event_is_gone_and_its_lane_takes_new_ones<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let ids = bench.appended("a", 3).await;
    publish(&bench, &bench.claim().await).await;
    assert!(are_gone(&bench, &ids).await);
    let next = bench.appended("a", 1).await;
    assert_eq!(bench.publish_due().await, [next]);
}

pub async fn the_confirmed_start_of_a_released_run_is_gone_and_the_rest_flows<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let ids = bench.appended("a", 3).await;
    let claim = bench.claim().await;
    let store = bench.harness.store_without_history();
    let answer = store.release(claim.token, &claim.start(2), Duration::ZERO).await.unwrap();
    assert_eq!(answer, settled(1, 2));
    assert!(are_gone(&bench, &ids[..2]).await);
    assert_eq!(bench.publish_due().await, [[ids[2]]]);
}

pub async fn the_confirmed_start_of_a_failed_run_is_gone_and_the_failed_one_stays<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let ids = bench.appended("a", 3).await;
    let claim = bench.claim().await;
    let failing = claim.failing_at(1, FailedOutcome::Block);
    let answer = bench.harness.store_without_history().fail(claim.token, &failing).await.unwrap();
    assert_eq!(answer, settled(1, 2));
    assert!(are_gone(&bench, &ids[..1]).await);
    assert_eq!(bench.statuses(&ids[1..]).await, [Status::Dead, Status::Pending]);
    assert!(bench.harness.operations().requeue(ids[1]).await.unwrap());
    assert_eq!(bench.publish_due().await, [ids[1..].to_vec()]);
}

pub async fn a_lost_claim_deletes_nothing<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let ids = bench.appended("a", 2).await;
    let lost = bench.let_a_claim_expire().await;
    bench.reap().await;
    let store = bench.harness.store_without_history();
    assert_eq!(store.acknowledge(lost.token, &lost.whole()).await.unwrap(), stale());
    assert_eq!(bench.statuses(&ids).await, [Status::Pending; 2]);
}

pub async fn a_deleted_event_cannot_be_replayed<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let id = bench.appended("a", 1).await[0];
    publish(&bench, &bench.claim().await).await;
    assert!(!bench.harness.operations().replay(id).await.unwrap());
    assert!(bench.claim().await.runs.is_empty());
}

pub async fn the_id_of_a_deleted_event_is_free_again<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let event = bench.events.of("a").build();
    bench.append(std::slice::from_ref(&event)).await;
    publish(&bench, &bench.claim().await).await;
    bench.append(std::slice::from_ref(&event)).await;
    assert_eq!(bench.publish_due().await, [[event.id()]]);
}

pub async fn the_figures_count_what_is_left<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    bench.appended("failed", 2).await;
    bench.kill_due(FailedOutcome::Retry { after: LONG }).await;
    bench.appended("a", 3).await;
    let claim = bench.claim().await;
    bench.appended("b", 1).await;
    let figures = async || {
        let figures = bench.harness.statistics().statistics().await.unwrap();
        [figures.pending, figures.in_flight, figures.failed, figures.dead]
    };
    assert_eq!(figures().await, [2, 3, 1, 0]);
    publish(&bench, &claim).await;
    assert_eq!(figures().await, [2, 0, 1, 0]);
    assert_eq!(bench.harness.statistics().statistics().await.unwrap().oldest_in_flight_age, None);
}
