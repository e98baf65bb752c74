//! Stopping: what runs ends, what waits goes back, and the next consumer finds everything in order.

use std::time::Duration;

use crate::{
    broker::{Broker, QueueType, eventually},
    world::{Gate, Step, World},
};

#[tokio::test]
async fn a_stop_finishes_what_runs_and_gives_back_the_rest_in_order() {
    for queue_type in [QueueType::Classic, QueueType::Quorum] {
        let gate = Gate::default();
        let blocked = gate.clone();
        let world = World::on(Broker::shared("stop", queue_type).await, move |aggregate, sequence, tries| {
            match (aggregate, sequence, tries) {
                ("a", 1, 1) => Step::WaitFor(blocked.clone()),
                ("b", 1, 1) => Step::Retry,
                _ => Step::Apply,
            }
        });
        let running = world.start();
        for sequence in 1..=4 {
            world.publish("a", [sequence]).await;
            world.publish("b", [sequence]).await;
        }
        gate.reached_by(1).await;
        eventually("`b` waits for another try", async || world.clock.sleepers() == 1).await;
        eventually("everything is delivered", async || world.undelivered().await == 0).await;
        running.stop.cancel();
        running.not_ready("stopping").await;
        gate.open();
        running.stopped().await;
        // `b` was not tried again although it waited, and nothing behind was begun.
        assert_eq!(world.journal.effects(), [("a".to_owned(), 1)]);
        assert_eq!(world.left_in_queue().await, 7);

        let running = world.start();
        world.eventually("the rest is handled", async || world.journal.effects().len() == 8).await;
        assert_eq!(world.journal.of("a"), [1, 2, 3, 4]);
        assert_eq!(world.journal.of("b"), [1, 2, 3, 4]);
        running.stopped().await;
        assert_eq!(world.left_in_queue().await, 0);
    }
}

#[tokio::test]
async fn the_next_consumer_does_not_overtake_what_the_stopping_one_still_handles() {
    for queue_type in [QueueType::Classic, QueueType::Quorum] {
        let gate = Gate::default();
        let blocked = gate.clone();
        let mut world = World::on(Broker::shared("handover", queue_type).await, move |_, sequence, tries| {
            if (sequence, tries) == (1, 1) { Step::WaitFor(blocked.clone()) } else { Step::Apply }
        });
        // The first consumer holds two messages; the next ones are still in the queue.
        world.settings.prefetch = 2;
        world.settings.concurrency = 2;
        let first = world.start();
        first.ready().await;
        let second = world.start();
        second.ready().await;
        world.publish("a", 1..=6).await;
        gate.reached_by(1).await;
        first.stop.cancel();
        first.not_ready("stopping").await;
        // Were the queue handed over now, the second consumer would meet the third message first.
        assert_eq!(world.undelivered().await, 4);
        gate.open();
        first.stopped().await;
        eventually("the second one takes over", async || world.journal.of("a").len() == 6).await;
        assert_eq!(world.journal.of("a"), [1, 2, 3, 4, 5, 6]);
        second.stopped().await;
        assert_eq!(world.left_in_queue().await, 0);
    }
}

#[tokio::test]
async fn a_handler_that_outlasts_the_grace_is_dropped_and_its_message_goes_back() {
    let mut world =
        World::new("grace", |_, sequence, tries| if (sequence, tries) == (1, 1) { Step::Hang } else { Step::Apply })
            .await;
    world.settings.grace = Duration::from_millis(50);
    let running = world.start();
    world.publish("a", [1, 2]).await;
    eventually("the handler hangs", async || world.journal.tries("a", 1) == 1).await;
    running.stopped().await;
    assert_eq!(world.left_in_queue().await, 2);
    assert_eq!(world.journal.effects(), []);
    let running = world.start();
    eventually("the next one handles it", async || world.journal.of("a") == [1, 2]).await;
    running.stopped().await;
}

#[tokio::test]
async fn a_consumer_that_cannot_connect_stops_at_once() {
    let mut world = World::new("unconnected", |_, _, _| Step::Apply).await;
    world.settings.queue = "no-such-queue".to_owned();
    let running = world.start();
    running.not_ready("NOT_FOUND").await;
    running.stopped().await;
}
