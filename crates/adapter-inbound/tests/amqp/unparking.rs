//! Unparking: parked messages are handled in order, before anything later.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use adapter_inbound::amqp::{ConsumerSignal, UnparkRequest, request_unpark};
use application_core::{
    outbox::{AggregateId, AggregateType, EventId},
    ports::{ConsumerName, GiveUp, ParkingPort},
};

use crate::{
    broker::{Broker, QueueType, eventually},
    world::{CONSUMER, Gate, Step, World, event_id},
};

fn request(aggregate: &str) -> UnparkRequest {
    UnparkRequest {
        aggregate_type: AggregateType::from_stored("work-log"),
        aggregate_id: AggregateId::from_stored(aggregate),
        discard: None,
    }
}

/// A world in which `a` and `b` fail at their second message until they are mended.
async fn parked_world(hint: &str, queue_type: QueueType) -> (World, Arc<AtomicBool>) {
    let mended = Arc::new(AtomicBool::new(false));
    let state = Arc::clone(&mended);
    let world = World::on(Broker::shared(hint, queue_type).await, move |_, sequence, _| match sequence {
        2 if !state.load(Ordering::SeqCst) => Step::Reject,
        _ => Step::Apply,
    });
    (world, mended)
}

async fn until_parked(world: &World, count: u32) {
    let queue = &world.broker.parking_queue;
    eventually("messages are parked", async || world.broker.ready(queue).await == count).await;
}

#[tokio::test]
async fn parked_messages_are_handled_in_order_before_later_ones() {
    for queue_type in [QueueType::Classic, QueueType::Quorum] {
        let (world, mended) = parked_world("unpark", queue_type).await;
        unpark_one_after_the_other(&world, &mended).await;
    }
}

async fn unpark_one_after_the_other(world: &World, mended: &AtomicBool) {
    let running = world.start();
    for sequence in 1..=4 {
        for aggregate in ["a", "b", "c"] {
            world.publish(aggregate, [sequence]).await;
        }
    }
    until_parked(world, 9).await;
    mended.store(true, Ordering::SeqCst);
    // A message that comes before the request is parked, one that comes after it is not.
    world.publish("b", [5]).await;
    request_unpark(&world.settings, &request("b")).await.unwrap();
    world.publish("b", [6]).await;
    eventually("the aggregate is through", async || world.journal.of("b").len() == 6).await;
    assert_eq!(world.journal.of("b"), [1, 2, 3, 4, 5, 6]);
    eventually("it is reported", async || {
        world.journal.count(|signal| *signal == ConsumerSignal::Unparked { messages: 4 }) == 1
    })
    .await;
    assert_eq!(world.mark("b").await, None);
    // The others are where they were.
    until_parked(world, 6).await;
    assert!(world.mark("a").await.is_some());
    for aggregate in ["a", "c"] {
        request_unpark(&world.settings, &request(aggregate)).await.unwrap();
        eventually("the others follow", async || world.journal.of(aggregate) == [1, 2, 3, 4]).await;
    }
    running.stopped().await;
    assert_eq!(world.left_in_queue().await, 0);
    assert_eq!(world.broker.ready(&world.broker.parking_queue).await, 0);
}

#[tokio::test]
async fn two_aggregates_that_are_unparked_at_once_are_both_handled_in_order() {
    for queue_type in [QueueType::Classic, QueueType::Quorum] {
        let (mended, gate) = (Arc::new(AtomicBool::new(false)), Gate::default());
        let (state, waits) = (Arc::clone(&mended), gate.clone());
        let broker = Broker::shared("at-once", queue_type).await;
        let world = World::on(broker, move |aggregate, sequence, _| match (aggregate, sequence) {
            (_, 2) if !state.load(Ordering::SeqCst) => Step::Reject,
            ("a", 2) => Step::WaitFor(waits.clone()),
            _ => Step::Apply,
        });
        unpark_two_at_once(&world, &mended, &gate).await;
    }
}

async fn unpark_two_at_once(world: &World, mended: &AtomicBool, gate: &Gate) {
    let running = world.start();
    // More than nine of each, so that an order of digits is none of numbers.
    for sequence in 1..=12 {
        for aggregate in ["a", "b"] {
            world.publish(aggregate, [sequence]).await;
        }
    }
    until_parked(world, 22).await;
    mended.store(true, Ordering::SeqCst);
    request_unpark(&world.settings, &request("a")).await.unwrap();
    gate.reached_by(1).await;
    request_unpark(&world.settings, &request("b")).await.unwrap();
    world.publish("b", [13]).await;
    world.publish("c", [1]).await;
    eventually("the request has come", async || world.journal.of("c") == [1]).await;
    assert_eq!(world.journal.of("b"), [1]);
    gate.open();
    let expected: Vec<i64> = (1..=13).collect();
    eventually("the second follows", async || world.journal.of("b").len() == 13).await;
    assert_eq!(world.journal.of("b"), expected);
    assert_eq!(world.journal.of("a"), (1..=12).collect::<Vec<i64>>());
    for aggregate in ["a", "b"] {
        eventually("the mark is lifted", async || world.mark(aggregate).await.is_none()).await;
    }
    running.stopped().await;
    assert_eq!(world.left_in_queue().await, 0);
    until_parked(world, 0).await;
}

#[tokio::test]
async fn an_aggregate_whose_message_fails_again_stays_parked_until_it_is_discarded() {
    let (world, _) = parked_world("stuck", QueueType::Classic).await;
    let running = world.start();
    world.publish("a", 1..=3).await;
    until_parked(&world, 2).await;
    request_unpark(&world.settings, &request("a")).await.unwrap();
    eventually("it is tried once more", async || world.journal.tries("a", 2) == 2).await;
    until_parked(&world, 2).await;
    assert!(world.mark("a").await.is_some());
    world.publish("a", [4]).await;
    until_parked(&world, 3).await;
    let discard = Some(GiveUp { event: EventId::new(event_id("a", 2)), consumer: None });
    request_unpark(&world.settings, &UnparkRequest { discard, ..request("a") }).await.unwrap();
    eventually("the rest goes on", async || world.journal.of("a") == [1, 3, 4]).await;
    eventually("the mark is lifted", async || world.mark("a").await.is_none()).await;
    running.stopped().await;
    assert_eq!(world.left_in_queue().await, 0);
    assert_eq!(world.broker.ready(&world.broker.parking_queue).await, 0);
}

#[tokio::test]
async fn messages_that_have_lost_their_mark_are_handled_behind_what_was_handled_meanwhile() {
    let (world, mended) = parked_world("unmarked", QueueType::Classic).await;
    let running = world.start();
    world.publish("a", 1..=3).await;
    until_parked(&world, 2).await;
    // As a restore of the database loses it.
    let UnparkRequest { aggregate_type, aggregate_id, .. } = request("a");
    let lost = world.inbox.unpark(&ConsumerName::new(CONSUMER), &aggregate_type, &aggregate_id).await.unwrap();
    assert!(lost);
    world.publish("a", [4]).await;
    eventually("a later one passes", async || world.journal.of("a") == [1, 4]).await;
    mended.store(true, Ordering::SeqCst);
    request_unpark(&world.settings, &request("a")).await.unwrap();
    eventually("the rest follows", async || world.journal.of("a") == [1, 4, 2, 3]).await;
    running.stopped().await;
    assert_eq!(world.left_in_queue().await, 0);
    until_parked(&world, 0).await;
}

#[tokio::test]
async fn a_request_for_an_aggregate_without_parked_messages_lifts_its_mark() {
    let (world, mended) = parked_world("empty", QueueType::Classic).await;
    let running = world.start();
    world.publish("a", 1..=2).await;
    world.broker.take_parked(1).await;
    mended.store(true, Ordering::SeqCst);
    request_unpark(&world.settings, &request("a")).await.unwrap();
    world.publish("a", [3]).await;
    eventually("it goes on", async || world.journal.of("a") == [1, 3]).await;
    running.stopped().await;
}
