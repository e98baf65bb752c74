//! Parking: what cannot be handled, and what comes after it.

use std::time::Duration;

use adapter_inbound::amqp::{ConsumerSignal, ParkCause, UnparkRequest, request_unpark, retry::STORE_FAULTS_FORGIVEN};
use application_core::{
    outbox::EventId,
    ports::{GiveUp, StoreError},
};
use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldArray, FieldTable},
};

use crate::{
    broker::{eventually, header},
    world::{Step, World, envelope, event_id},
};

fn parked(world: &World, cause: ParkCause) -> usize {
    world.journal.count(|signal| *signal == ConsumerSignal::Parked { cause })
}

#[tokio::test]
async fn a_message_whose_tries_are_used_up_is_parked_and_its_aggregate_follows_in_order() {
    let world = World::new("tries", |aggregate, sequence, _| match (aggregate, sequence) {
        ("a", 2) => Step::Retry,
        _ => Step::Apply,
    })
    .await;
    let running = world.start();
    for sequence in 1..=5 {
        world.publish("a", [sequence]).await;
        world.publish("b", [sequence]).await;
    }
    world
        .eventually("the rest of the aggregate is parked", async || parked(&world, ParkCause::BehindAnother) == 3)
        .await;
    eventually("others flow", async || world.journal.of("b") == [1, 2, 3, 4, 5]).await;
    assert_eq!(world.journal.of("a"), [1]);
    assert_eq!((world.journal.tries("a", 2), world.journal.tries("a", 3)), (3, 0));
    let mark = world.mark("a").await.unwrap();
    assert_eq!(mark.event.as_uuid(), event_id("a", 2));
    assert_eq!(mark.reason, "the message could not be handled now: not now");

    // What comes later, also to another consumer, is parked as well.
    running.stopped().await;
    let running = world.start();
    world.publish("a", [6]).await;
    let messages = world.broker.take_parked(5).await;
    for (message, sequence) in messages.iter().zip(2..) {
        assert_eq!(message.data, envelope("a", sequence));
        let cause = if sequence == 2 { "tries_used_up" } else { "behind_another" };
        assert_eq!(header(message, "x-parked-cause").as_deref(), Some(cause));
        assert_eq!(header(message, "x-parked-by").as_deref(), Some("projection"));
        assert_eq!(header(message, "x-original-queue"), Some(world.broker.queue.clone()));
        assert_eq!(message.properties.delivery_mode(), &Some(2));
    }
    assert!(header(&messages[0], "x-parked-reason").unwrap().contains("not now"));
    assert!(header(&messages[1], "x-parked-reason").unwrap().contains(&event_id("a", 2).to_string()));
    running.stopped().await;
    assert_eq!(world.left_in_queue().await, 0);
}

#[tokio::test]
async fn a_rejected_message_is_parked_at_once() {
    let world = World::new("reject", |_, sequence, _| if sequence == 1 { Step::Reject } else { Step::Apply }).await;
    let running = world.start();
    world.publish("a", 1..=2).await;
    // The clock stands still: no wait is involved.
    let messages = world.broker.take_parked(2).await;
    assert_eq!(header(&messages[0], "x-parked-cause").as_deref(), Some("rejected"));
    assert_eq!(header(&messages[0], "x-parked-reason").as_deref(), Some("makes no sense"));
    assert_eq!((world.journal.tries("a", 1), world.journal.tries("a", 2)), (1, 0));
    running.stopped().await;
    assert_eq!(world.left_in_queue().await, 0);
}

#[tokio::test]
async fn undecodable_messages_that_name_no_aggregate_are_parked_alone_and_whole() {
    let mut world = World::new("undecodable", |_, _, _| Step::Apply).await;
    world.settings.max_body_bytes = 100_000;
    let running = world.start();
    let mut headers = FieldTable::default();
    headers.insert("x-aggregate-id".into(), AMQPValue::LongString(vec![0xFF, 0].into()));
    headers.insert("x-sequence".into(), AMQPValue::FieldArray(FieldArray::from(vec![AMQPValue::Void])));
    headers.insert("big".into(), AMQPValue::LongString("x".repeat(60_000).into()));
    let strange = BasicProperties::default()
        .with_headers(headers)
        .with_expiration("600000".into())
        .with_priority(200)
        .with_timestamp(u64::MAX)
        .with_content_type("application/cloudevents+json".into());
    let mut later = envelope("a", 1);
    later.truncate(later.len() - 1);
    let large = vec![b'x'; 200_000];
    let bodies: [&[u8]; 6] = [b"", b"\xFF\xFE", b"{}", b"null", &later, &large];
    for body in bodies {
        world.broker.publish(body, BasicProperties::default()).await;
    }
    world.broker.publish(b"{}", strange).await;
    world.publish("a", [1]).await;
    eventually("other messages flow", async || world.journal.of("a") == [1]).await;
    let mut messages = world.broker.take_parked(7).await;
    assert!(messages.iter().all(|message| header(message, "x-parked-cause").as_deref() == Some("undecodable")));
    let last = messages.iter().position(|message| header(message, "big").is_some()).unwrap();
    let last = messages.remove(last);
    assert_eq!((last.properties.expiration(), last.properties.priority()), (&None, &Some(200)));
    assert_eq!(header(&last, "x-original-expiration").as_deref(), Some("600000"));
    let mut found: Vec<_> = messages.into_iter().map(|message| message.delivery.data).collect();
    found.sort();
    let mut expected: Vec<_> = bodies.iter().map(|body| body.to_vec()).collect();
    expected.sort();
    assert!(found == expected, "a body was changed on its way");
    running.stopped().await;
    assert_eq!(world.left_in_queue().await, 0);
}

#[tokio::test]
async fn an_undecodable_message_that_names_its_aggregate_holds_back_the_later_ones() {
    let world = World::new("unreadable", |_, _, _| Step::Apply).await;
    let running = world.start();
    let mut headers = FieldTable::default();
    for (name, text) in [("x-aggregate-type", "work-log"), ("x-aggregate-id", "a")] {
        headers.insert(name.into(), AMQPValue::LongString(text.into()));
    }
    let id = event_id("a", 2);
    let named = BasicProperties::default().with_headers(headers).with_message_id(id.to_string().into());
    world.publish("a", [1]).await;
    world.broker.publish(b"\xFF", named).await;
    world.publish("b", [1]).await;
    world.publish("a", [3]).await;
    let queue = &world.broker.parking_queue;
    eventually("both are parked", async || world.broker.ready(queue).await == 2).await;
    eventually("others flow", async || world.journal.of("b") == [1]).await;
    assert_eq!(world.journal.of("a"), [1]);
    let mark = world.mark("a").await.unwrap();
    assert_eq!((mark.event, mark.reason.as_str()), (EventId::new(id), "the body is no UTF-8 text from byte 0 on"));

    // Unparking stops at it, until it is given up.
    let request = UnparkRequest { aggregate_type: mark.aggregate_type, aggregate_id: mark.aggregate_id, discard: None };
    request_unpark(&world.settings, &request).await.unwrap();
    world.publish("a", [4]).await;
    eventually("a later one is parked as well", async || world.broker.ready(queue).await == 3).await;
    assert_eq!(world.journal.of("a"), [1]);
    let discard = Some(GiveUp { event: mark.event, consumer: None });
    request_unpark(&world.settings, &UnparkRequest { discard, ..request }).await.unwrap();
    eventually("the rest follows in order", async || world.journal.of("a") == [1, 3, 4]).await;
    eventually("the mark is lifted", async || world.mark("a").await.is_none()).await;
    running.stopped().await;
    assert_eq!((world.left_in_queue().await, world.broker.ready(queue).await), (0, 0));
}

#[tokio::test]
async fn a_handler_that_panics_or_hangs_is_tried_again_and_then_parked() {
    let mut world = World::new("panic", |aggregate, _, tries| match (aggregate, tries) {
        ("a", 1) | ("b", _) => Step::Panic,
        ("a", 2) => Step::Hang,
        _ => Step::Apply,
    })
    .await;
    world.settings.handler_timeout = Duration::from_millis(100);
    let running = world.start();
    world.publish("a", [1]).await;
    world.publish("b", [1]).await;
    world.eventually("the last try works", async || world.journal.of("a") == [1]).await;
    world.eventually("a panic is charged", async || parked(&world, ParkCause::TriesUsedUp) == 1).await;
    assert_eq!(world.mark("b").await.unwrap().reason, "the handler panicked");
    running.stopped().await;
    assert_eq!(world.left_in_queue().await, 0);
}

#[tokio::test]
async fn a_message_that_makes_a_working_store_fail_is_parked_in_the_end() {
    let world =
        World::new("store", |_, _, _| Step::Fail(StoreError::Timeout { limit: Duration::from_secs(1) }.into())).await;
    let running = world.start();
    world.publish("a", [1]).await;
    world.eventually("it is parked", async || parked(&world, ParkCause::TriesUsedUp) == 1).await;
    assert_eq!(world.journal.tries("a", 1), STORE_FAULTS_FORGIVEN + 3);
    assert_eq!(world.journal.count(|signal| *signal == ConsumerSignal::StoreUnavailable), 0);
    running.stopped().await;
}

#[tokio::test]
async fn a_message_that_cannot_be_parked_stays_in_its_queue() {
    let world =
        World::new("refused", |aggregate, _, _| if aggregate == "a" { Step::Reject } else { Step::Apply }).await;
    world.broker.delete(&world.broker.parking_queue).await;
    let mut full = FieldTable::default();
    full.insert("x-max-length".into(), AMQPValue::LongInt(1));
    full.insert("x-overflow".into(), AMQPValue::LongString("reject-publish".into()));
    world.broker.declare_parking_queue(full).await;
    world.broker.publish_to(&world.broker.parking_queue, b"in the way", BasicProperties::default()).await;
    let failures = || world.journal.count(|signal| *signal == ConsumerSignal::ParkingFailed);
    let running = world.start();
    world.publish("a", [1, 2]).await;
    world.publish("b", [1]).await;
    world.eventually("a full parking queue is met", async || failures() >= 3).await;
    running.not_ready("a message cannot be parked").await;
    eventually("others flow", async || world.journal.of("b") == [1]).await;

    // Nor is it lost when the parking queue is gone.
    world.broker.delete(&world.broker.parking_queue).await;
    let before = failures();
    world.eventually("a missing parking queue is met", async || failures() >= before + 2).await;
    running.stopped().await;
    assert_eq!(world.left_in_queue().await, 2);

    world.broker.declare_parking_queue(FieldTable::default()).await;
    let running = world.start();
    let messages = world.broker.take_parked(2).await;
    assert_eq!(messages[0].data, envelope("a", 1));
    assert_eq!(messages[1].data, envelope("a", 2));
    assert_eq!(world.journal.tries("a", 1), 1, "the mark was there before the copy");
    running.stopped().await;
    assert_eq!(world.left_in_queue().await, 0);
}
