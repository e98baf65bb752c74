//! Faults around the consumer: the broker, the connection, the queue, the database.

use std::sync::{Arc, OnceLock};

use adapter_inbound::amqp::ConsumerSignal;
use application_core::ports::StoreError;
use lapin::types::FieldTable;
use test_support::{
    in_memory::{InMemoryOutbox, Operation, StoreErrorKind},
    servers::{self, Options},
};

use crate::{
    broker::{Broker, QueueType, Wire, eventually, nobody},
    world::{Step, World},
};

#[tokio::test]
async fn a_database_that_is_away_costs_no_try_and_nothing_is_taken_meanwhile() {
    for (operation, kind) in [
        (Operation::Inbox, StoreErrorKind::Unavailable),
        (Operation::Begin, StoreErrorKind::Unavailable),
        (Operation::Commit, StoreErrorKind::Timeout),
        (Operation::Commit, StoreErrorKind::AnswerLost),
    ] {
        let world = World::new("away", |_, _, _| Step::Apply).await;
        // Three tries are allowed; what follows the outage must still be handled.
        world.inbox.fail_next_of(operation, 6, kind);
        let running = world.start();
        for aggregate in ["a", "b", "c"] {
            world.publish(aggregate, 1..=3).await;
        }
        world.eventually("everything is handled", async || world.journal.effects().len() == 9).await;
        for aggregate in ["a", "b", "c"] {
            assert_eq!(world.journal.of(aggregate), [1, 2, 3]);
        }
        running.stopped().await;
        assert_eq!(world.left_in_queue().await, 0);
        assert_eq!(world.broker.ready(&world.broker.parking_queue).await, 0);
    }
}

#[tokio::test]
async fn a_message_that_meets_outage_after_outage_is_handled_in_the_end() {
    // Each try fails with the database, and so does the lookup that asks whether the database works.
    let outages = 20;
    let inbox = Arc::new(OnceLock::<InMemoryOutbox>::new());
    let failing = Arc::clone(&inbox);
    let world = World::new("outages", move |_, _, tries| {
        if tries > outages {
            return Step::Apply;
        }
        failing.get().unwrap().fail_next_of(Operation::Inbox, 2, StoreErrorKind::Unavailable);
        Step::Fail(StoreError::Unavailable { source: "connection reset".into() }.into())
    })
    .await;
    inbox.set(world.inbox.clone()).unwrap();
    let running = world.start();
    world.publish("a", [1, 2]).await;
    let seen = |signal| world.journal.count(|seen| *seen == signal);
    world.eventually("both messages are handled", async || world.journal.of("a") == [1, 2]).await;
    assert_eq!(seen(ConsumerSignal::StoreUnavailable), 40);
    assert_eq!(seen(ConsumerSignal::StoreAvailable), 40);
    running.stopped().await;
    assert_eq!(world.broker.ready(&world.broker.parking_queue).await, 0);
}

#[tokio::test]
async fn while_the_database_is_away_one_lookup_asks_for_all() {
    let world = World::new("gate", |_, _, _| Step::Apply).await;
    world.inbox.fail_next_of(Operation::Inbox, 100_000, StoreErrorKind::Unavailable);
    let running = world.start();
    for aggregate in 0..20 {
        world.publish(&aggregate.to_string(), [1]).await;
    }
    let away = || world.journal.count(|signal| *signal == ConsumerSignal::StoreUnavailable);
    eventually("the outage is seen", async || away() == 1).await;
    eventually("everything is delivered", async || world.undelivered().await == 0).await;
    // The clock stands still: one waits for its pause, the others for their turn.
    assert_eq!(world.clock.sleepers(), 1);
    assert_eq!(world.journal.effects(), []);
    running.stopped().await;
    assert_eq!(world.left_in_queue().await, 20);
    assert_eq!(away(), 1);
}

#[tokio::test]
async fn the_consumer_connects_again_after_its_connections_are_cut() {
    let broker = Broker::shared("reconnect", QueueType::Classic).await;
    let wire = Wire::to(&broker.url).await;
    let mut world = World::on(broker, |_, sequence, _| if sequence == 7 { Step::Reject } else { Step::Apply });
    world.settings.url = wire.url.as_str().into();
    let running = world.start();
    for sequence in 1..=6 {
        running.ready().await;
        world.publish("a", [sequence]).await;
        if sequence % 2 == 0 {
            wire.cut();
        }
        world.eventually("the message is handled", async || world.journal.of("a").last() == Some(&sequence)).await;
        let cuts = usize::try_from(sequence / 2).unwrap();
        let lost = || world.journal.count(|signal| *signal == ConsumerSignal::SubscriptionLost);
        world.eventually("the loss is noticed", async || lost() == cuts).await;
        world.eventually("the consumer is back", async || running.readiness.check().await.is_ok()).await;
    }
    assert_eq!(world.journal.of("a"), [1, 2, 3, 4, 5, 6]);
    // The connection for parking was cut as well.
    world.publish("a", [7]).await;
    world.eventually("parking works again", async || world.broker.ready(&world.broker.parking_queue).await == 1).await;
    running.stopped().await;
    assert_eq!(world.left_in_queue().await, 0);
}

#[tokio::test]
async fn the_consumer_subscribes_again_when_its_queue_was_deleted() {
    let world = World::new("deleted", |_, _, _| Step::Apply).await;
    let running = world.start();
    running.ready().await;
    world.broker.delete(&world.broker.queue).await;
    running.not_ready("was the queue deleted?").await;
    world
        .eventually("the missing queue is named", async || {
            running.readiness.check().await.is_err_and(|reason| reason.contains("NOT_FOUND"))
        })
        .await;
    world.broker.declare_work_queue().await;
    world.publish("a", [1]).await;
    world.eventually("it consumes again", async || world.journal.of("a") == [1]).await;
    running.stopped().await;
}

#[tokio::test]
async fn without_a_parking_queue_nothing_is_consumed() {
    let world = World::new("noparking", |_, _, _| Step::Apply).await;
    world.broker.delete(&world.broker.parking_queue).await;
    world.publish("a", [1]).await;
    let running = world.start();
    running.not_ready("looking for the parking queue").await;
    assert_eq!(world.broker.count(&world.broker.queue).await, (1, 0));
    world.broker.declare_parking_queue(FieldTable::default()).await;
    world.eventually("it consumes", async || world.journal.of("a") == [1]).await;
    running.stopped().await;
}

#[tokio::test]
async fn a_broker_that_is_not_there_is_named_without_the_password() {
    let mut world = World::new("nobody", |_, _, _| Step::Apply).await;
    // The second one is there, and refuses the login.
    let (_, there) = world.broker.url.split_once('@').unwrap();
    let (there, _) = there.split_once('/').unwrap();
    for address in [nobody().await.to_string(), there.to_owned()] {
        world.settings.url = format!("amqp://user:p%40ss%2Fhunter2@{address}/").into();
        let running = world.start();
        running.not_ready("connecting").await;
        let reason = running.readiness.check().await.unwrap_err();
        assert!(!reason.contains("hunter2") && !reason.contains("p@ss"), "{reason}");
        running.stopped().await;
    }
}

#[tokio::test]
async fn the_consumer_goes_on_after_the_broker_restarts() {
    let servers = servers::private(Options::fast());
    let server = servers.rabbitmq().await.unwrap();
    let broker = Broker::at(server.url(), "work", QueueType::Classic).await;
    let mut world = World::on(broker, |_, _, _| Step::Apply);
    let running = world.start();
    world.publish("a", 1..=3).await;
    eventually("messages are handled", async || world.journal.of("a") == [1, 2, 3]).await;
    let control = server.control().unwrap();
    control.kill().await.unwrap();
    eventually("the loss is noticed", async || running.readiness.check().await.is_err()).await;
    control.start().await.unwrap();
    world.broker.reconnect().await;
    // A killed broker may have forgotten what was declared in its last seconds.
    world.broker.declare_work_queue().await;
    world.broker.declare_parking_queue(FieldTable::default()).await;
    world.publish("a", 4..=6).await;
    world.eventually("it goes on", async || world.journal.of("a").len() == 6).await;
    assert_eq!(world.journal.of("a"), [1, 2, 3, 4, 5, 6]);
    running.stopped().await;
}
