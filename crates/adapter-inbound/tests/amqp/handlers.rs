//! Several handlers of one queue: each is a consumer of its own.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use adapter_inbound::amqp::{ConsumerSignal, HandleMessage, ParkCause, UnparkRequest, request_unpark};
use application_core::{
    outbox::{AggregateId, AggregateType, EventId},
    ports::{ConsumerName, GiveUp},
};
use lapin::BasicProperties;

use crate::{
    broker::{eventually, header},
    world::{CONSUMER, Journal, OTHER, Step, World, envelope, event_id},
};

fn request(aggregate: &str) -> UnparkRequest {
    UnparkRequest {
        aggregate_type: AggregateType::from_stored("work-log"),
        aggregate_id: AggregateId::from_stored(aggregate),
        discard: None,
    }
}

#[tokio::test]
async fn each_handler_of_a_queue_applies_a_message_once_if_it_listens_to_it() {
    let world = World::new("several", |_, _, _| Step::Apply).await;
    let (other, journal) = world.other(|aggregate, _| aggregate != "b", |_, _, _| Step::Apply);
    let running = world.start_with(vec![other]);
    for _ in 0..2 {
        world.publish("a", 1..=3).await;
        world.publish("b", 1..=3).await;
    }
    let duplicates = |whose| world.journal.count_for(whose, |signal| *signal == ConsumerSignal::Duplicate);
    eventually("all deliveries are handled", async || (duplicates(CONSUMER), duplicates(OTHER)) == (6, 3)).await;
    running.stopped().await;
    assert_eq!((world.journal.of("a"), world.journal.of("b")), (vec![1, 2, 3], vec![1, 2, 3]));
    assert_eq!((journal.of("a"), journal.of("b")), (vec![1, 2, 3], Vec::new()));
    assert_eq!(world.left_in_queue().await, 0);
}

#[tokio::test]
async fn a_message_that_no_handler_listens_to_is_acknowledged_and_leaves_no_record() {
    let mut world = World::new("nobody", |_, _, _| Step::Apply).await;
    world.hears = |_, sequence| sequence > 3;
    let running = world.start();
    world.publish("a", 1..=4).await;
    eventually("what is listened to is handled", async || world.journal.of("a") == [4]).await;
    running.stopped().await;
    assert_eq!(world.left_in_queue().await, 0);
    assert_eq!(world.journal.count(|signal| *signal == ConsumerSignal::Unheard), 3);

    // Somebody who listens hears it when it comes again: nothing says that it was handled.
    world.hears = |_, _| true;
    let running = world.start();
    world.publish("a", 1..=3).await;
    eventually("it is handled", async || world.journal.of("a") == [4, 1, 2, 3]).await;
    running.stopped().await;
}

#[tokio::test]
async fn a_handler_that_gives_a_message_up_holds_back_its_aggregate_for_itself_alone() {
    let world = World::new("alone", |_, _, _| Step::Apply).await;
    let mended = Arc::new(AtomicBool::new(false));
    let state = Arc::clone(&mended);
    let (other, journal) = world.other(
        |_, _| true,
        move |aggregate, sequence, _| match (aggregate, sequence) {
            ("a", 2) if !state.load(Ordering::SeqCst) => Step::Reject,
            _ => Step::Apply,
        },
    );
    let running = world.start_with(vec![other]);
    world.publish("a", 1..=4).await;
    eventually("the first goes on", async || world.journal.of("a") == [1, 2, 3, 4]).await;
    let parked = &world.broker.parking_queue;
    eventually("the other's messages are parked", async || world.broker.ready(parked).await == 3).await;
    assert_eq!(journal.of("a"), [1]);
    assert!(world.mark("a").await.is_none());
    assert!(world.mark_for(OTHER, "a").await.is_some());

    mended.store(true, Ordering::SeqCst);
    request_unpark(&world.settings, &request("a")).await.unwrap();
    world.publish("a", [5]).await;
    eventually("the other catches up in order", async || journal.of("a") == [1, 2, 3, 4, 5]).await;
    eventually("the first goes on", async || world.journal.of("a") == [1, 2, 3, 4, 5]).await;
    running.stopped().await;
    // Only the other tried what was parked for it.
    assert_eq!((world.journal.tries("a", 2), journal.tries("a", 2)), (1, 2));
    assert_eq!(world.left_in_queue().await, 0);
}

fn refuse_until(mended: &AtomicBool, aggregate: &str, sequence: i64) -> Step {
    match (aggregate, sequence) {
        ("a", 2) if !mended.load(Ordering::SeqCst) => Step::Reject,
        _ => Step::Apply,
    }
}

/// A world whose two handlers refuse the second message of `a` until each is mended.
async fn refused_by_both(hint: &str) -> (World, [Arc<AtomicBool>; 2], Arc<dyn HandleMessage>, Arc<Journal>) {
    let mended = [Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false))];
    let [mine, others] = mended.clone();
    let world = World::new(hint, move |aggregate, sequence, _| refuse_until(&mine, aggregate, sequence)).await;
    let (other, journal) =
        world.other(|_, _| true, move |aggregate, sequence, _| refuse_until(&others, aggregate, sequence));
    (world, mended, other, journal)
}

#[tokio::test]
async fn what_is_parked_for_a_handler_that_is_not_here_waits_for_it_and_is_given_up_by_request_alone() {
    let (world, mended, other, journal) = refused_by_both("absent").await;
    let running = world.start_with(vec![Arc::clone(&other)]);
    world.publish("a", 1..=4).await;
    let parked = &world.broker.parking_queue;
    eventually("both have parked", async || world.broker.ready(parked).await == 6).await;
    running.stopped().await;

    for state in &mended {
        state.store(true, Ordering::SeqCst);
    }
    let running = world.start();
    request_unpark(&world.settings, &request("a")).await.unwrap();
    eventually("the one that is here catches up", async || world.journal.of("a") == [1, 2, 3, 4]).await;
    eventually("its mark is lifted", async || world.mark("a").await.is_none()).await;
    eventually("the other's messages are back", async || world.broker.ready(parked).await == 3).await;
    assert!(world.mark_for(OTHER, "a").await.is_some());
    let discard = Some(GiveUp { event: EventId::new(event_id("a", 3)), consumer: None });
    request_unpark(&world.settings, &UnparkRequest { discard, ..request("a") }).await.unwrap();
    eventually("one is given up", async || world.broker.ready(parked).await == 2).await;
    running.stopped().await;

    let running = world.start_with(vec![other]);
    request_unpark(&world.settings, &request("a")).await.unwrap();
    eventually("the other catches up", async || journal.of("a") == [1, 2, 4]).await;
    eventually("its mark is lifted", async || world.mark_for(OTHER, "a").await.is_none()).await;
    running.stopped().await;
    assert_eq!(world.journal.of("a"), [1, 2, 3, 4]);
    assert_eq!((world.left_in_queue().await, world.broker.ready(parked).await), (0, 0));
}

#[tokio::test]
async fn a_message_is_given_up_for_one_handler_while_another_is_stuck_at_it() {
    let (world, [mended, _], other, journal) = refused_by_both("one-of-two").await;
    let running = world.start_with(vec![other]);
    world.publish("a", 1..=3).await;
    let parked = &world.broker.parking_queue;
    eventually("both have parked", async || world.broker.ready(parked).await == 4).await;
    let discard = Some(GiveUp { event: EventId::new(event_id("a", 2)), consumer: Some(ConsumerName::new(OTHER)) });
    request_unpark(&world.settings, &UnparkRequest { discard, ..request("a") }).await.unwrap();
    eventually("it goes on without the message", async || journal.of("a") == [1, 3]).await;
    eventually("its mark is lifted", async || world.mark_for(OTHER, "a").await.is_none()).await;
    eventually("the stuck one's messages are back", async || world.broker.ready(parked).await == 2).await;
    assert_eq!((world.journal.of("a"), world.journal.tries("a", 2)), (vec![1], 2));
    assert!(world.mark("a").await.is_some());

    mended.store(true, Ordering::SeqCst);
    request_unpark(&world.settings, &request("a")).await.unwrap();
    eventually("the stuck one loses nothing", async || world.journal.of("a") == [1, 2, 3]).await;
    eventually("its mark is lifted", async || world.mark("a").await.is_none()).await;
    running.stopped().await;
    assert_eq!(journal.of("a"), [1, 3]);
    assert_eq!((world.left_in_queue().await, world.broker.ready(parked).await), (0, 0));
}

#[tokio::test]
async fn a_parked_message_that_its_handler_listens_to_no_more_is_let_go() {
    let mut world = World::new("deaf", |_, sequence, _| if sequence == 2 { Step::Reject } else { Step::Apply }).await;
    let running = world.start();
    world.publish("a", 1..=2).await;
    let queue = world.broker.parking_queue.clone();
    eventually("it is parked", async || world.broker.ready(&queue).await == 1).await;
    running.stopped().await;

    world.hears = |_, sequence| sequence != 2;
    let running = world.start();
    request_unpark(&world.settings, &request("a")).await.unwrap();
    world.publish("a", [3]).await;
    eventually("it goes on", async || world.journal.of("a") == [1, 3]).await;
    running.stopped().await;
    assert_eq!(world.journal.tries("a", 2), 1);
    assert_eq!((world.left_in_queue().await, world.broker.ready(&queue).await), (0, 0));
}

#[tokio::test]
async fn a_message_that_cannot_be_read_is_parked_for_every_handler() {
    let world = World::new("unreadable", |_, _, _| Step::Apply).await;
    let (other, journal) = world.other(|_, _| true, |_, _, _| Step::Apply);
    let running = world.start_with(vec![other]);
    let unreadable = String::from_utf8(envelope("a", 1)).unwrap().replace("\"occurredAt\":", "\"occurred\":");
    world.broker.publish(unreadable.as_bytes(), BasicProperties::default()).await;
    world.publish("a", [2]).await;
    world.publish("b", [1]).await;
    eventually("other aggregates flow", async || (world.journal.of("b"), journal.of("b")) == (vec![1], vec![1])).await;
    let messages = world.broker.take_parked(4).await;
    let mut parked: Vec<_> = messages
        .iter()
        .map(|message| (header(message, "x-parked-cause").unwrap(), header(message, "x-parked-by").unwrap()))
        .collect();
    parked.sort();
    let (unread, behind) = (ParkCause::Undecodable.as_str(), ParkCause::BehindAnother.as_str());
    let expected = [(behind, OTHER), (behind, CONSUMER), (unread, OTHER), (unread, CONSUMER)];
    assert_eq!(parked, expected.map(|(cause, by)| (cause.to_owned(), by.to_owned())));
    assert_eq!((world.journal.of("a"), journal.of("a")), (Vec::new(), Vec::new()));
    running.stopped().await;
}
