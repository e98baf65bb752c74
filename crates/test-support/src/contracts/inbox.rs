//! What every inbox and every memory of parked aggregates must do: rules R21 and R22.

#![expect(missing_docs, reason = "the names of the cases are sentences")]

use std::pin::pin;

use application_core::{
    inbox::ParkedAggregate,
    outbox::{AggregateId, EventId},
    ports::{ConsumerName, FirstSeen},
};

use super::{
    OutboxHarness,
    bench::{Bench, assert_waits, default_type},
};
use crate::fixtures::event_id;

fn consumer() -> ConsumerName {
    ConsumerName::new("projection")
}

async fn record<H: OutboxHarness>(bench: &Bench<H>, tx: &mut H::Tx, event: EventId) -> FirstSeen {
    bench.harness.inbox().record(tx, &consumer(), event).await.expect("it is recorded")
}

async fn record_and_commit<H: OutboxHarness>(bench: &Bench<H>, event: EventId) -> FirstSeen {
    let mut tx = bench.begin().await;
    let seen = record(bench, &mut tx, event).await;
    bench.commit(tx).await;
    seen
}

pub async fn an_event_is_seen_first_once<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    assert_eq!(record_and_commit(&bench, event_id(1)).await, FirstSeen::Yes);
    assert_eq!(record_and_commit(&bench, event_id(1)).await, FirstSeen::No);
    assert_eq!(record_and_commit(&bench, event_id(2)).await, FirstSeen::Yes);
}

pub async fn an_event_is_seen_first_once_within_one_transaction<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let mut tx = bench.begin().await;
    assert_eq!(record(&bench, &mut tx, event_id(1)).await, FirstSeen::Yes);
    assert_eq!(record(&bench, &mut tx, event_id(1)).await, FirstSeen::No);
}

pub async fn consumers_remember_apart<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    assert_eq!(record_and_commit(&bench, event_id(1)).await, FirstSeen::Yes);
    let mut tx = bench.begin().await;
    let other = ConsumerName::new("another");
    let seen = bench.harness.inbox().record(&mut tx, &other, event_id(1)).await.unwrap();
    assert_eq!(seen, FirstSeen::Yes);
}

pub async fn a_rollback_forgets<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let mut tx = bench.begin().await;
    assert_eq!(record(&bench, &mut tx, event_id(1)).await, FirstSeen::Yes);
    drop(tx);
    assert_eq!(record_and_commit(&bench, event_id(1)).await, FirstSeen::Yes);
}

/// A second transaction records the same event while the first is open, and learns how that one ends.
async fn second_after<H: OutboxHarness>(commit: bool) -> FirstSeen {
    let bench = Bench::<H>::fresh().await;
    let mut first = bench.begin().await;
    assert_eq!(record(&bench, &mut first, event_id(1)).await, FirstSeen::Yes);
    let mut second = bench.begin().await;
    let mut recording = pin!(record(&bench, &mut second, event_id(1)));
    assert_waits(recording.as_mut(), "the second consumer").await;
    if commit {
        bench.commit(first).await;
    } else {
        drop(first);
    }
    recording.await
}

pub async fn a_second_record_waits_and_is_a_duplicate_if_the_first_commits<H: OutboxHarness>() {
    assert_eq!(second_after::<H>(true).await, FirstSeen::No);
}

pub async fn a_second_record_waits_and_is_the_first_if_the_first_rolls_back<H: OutboxHarness>() {
    assert_eq!(second_after::<H>(false).await, FirstSeen::Yes);
}

fn parked(reason: &str) -> ParkedAggregate {
    ParkedAggregate {
        aggregate_type: default_type(),
        aggregate_id: AggregateId::try_new("a").unwrap(),
        event: event_id(1),
        reason: reason.to_owned(),
    }
}

pub async fn a_parked_aggregate_stays_parked_until_it_is_let_through<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let parking = bench.harness.parking();
    let (kind, id) = (default_type(), AggregateId::try_new("a").unwrap());
    assert_eq!(parking.parked(&consumer(), &kind, &id).await.unwrap(), None);
    parking.park(&consumer(), &parked("broken")).await.unwrap();
    assert_eq!(parking.parked(&consumer(), &kind, &id).await.unwrap(), Some(parked("broken")));
    assert!(parking.unpark(&consumer(), &kind, &id).await.unwrap());
    assert_eq!(parking.parked(&consumer(), &kind, &id).await.unwrap(), None);
    assert!(!parking.unpark(&consumer(), &kind, &id).await.unwrap());
}

pub async fn parking_again_keeps_the_first_reason<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let parking = bench.harness.parking();
    parking.park(&consumer(), &parked("first")).await.unwrap();
    parking.park(&consumer(), &ParkedAggregate { event: event_id(2), ..parked("second") }).await.unwrap();
    let id = AggregateId::try_new("a").unwrap();
    assert_eq!(parking.parked(&consumer(), &default_type(), &id).await.unwrap(), Some(parked("first")));
}

pub async fn parking_concerns_one_consumer_and_one_aggregate<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let parking = bench.harness.parking();
    parking.park(&consumer(), &parked("broken")).await.unwrap();
    let (kind, id) = (default_type(), AggregateId::try_new("a").unwrap());
    let (another, other_id) = (ConsumerName::new("another"), AggregateId::try_new("b").unwrap());
    assert_eq!(parking.parked(&another, &kind, &id).await.unwrap(), None);
    assert_eq!(parking.parked(&consumer(), &kind, &other_id).await.unwrap(), None);
}
