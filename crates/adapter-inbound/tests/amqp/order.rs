//! Order: within an aggregate it reaches the effect, and aggregates do not wait for each other.

use std::sync::Arc;

use adapter_inbound::amqp::ConsumerSignal;

use crate::{
    broker::{Broker, QueueType, eventually},
    world::{Gate, Step, World},
};

#[tokio::test]
async fn later_messages_wait_behind_a_failing_one_while_other_aggregates_flow() {
    let world = World::new("head", |aggregate, sequence, tries| match (aggregate, sequence) {
        ("a", 1) if tries < 3 => Step::Retry,
        _ => Step::Apply,
    })
    .await;
    let running = world.start();
    for sequence in 1..=5 {
        for aggregate in ["a", "b", "c"] {
            world.publish(aggregate, [sequence]).await;
        }
    }
    // The clock stands still: the first message of `a` cannot be tried again before the others are through.
    for aggregate in ["b", "c"] {
        eventually("other aggregates flow", async || world.journal.of(aggregate) == [1, 2, 3, 4, 5]).await;
    }
    assert_eq!(world.journal.of("a"), [0_i64; 0]);
    assert_eq!(world.journal.tries("a", 1), 1);
    world.eventually("the aggregate goes on", async || world.journal.of("a").len() == 5).await;
    assert_eq!(world.journal.of("a"), [1, 2, 3, 4, 5]);
    assert_eq!(world.journal.count(|signal| matches!(signal, ConsumerSignal::Retried { .. })), 2);
    running.stopped().await;
    assert_eq!(world.left_in_queue().await, 0);
}

#[tokio::test]
async fn messages_of_different_aggregates_are_handled_at_the_same_time_up_to_the_bound() {
    let gate = Gate::default();
    let blocked = gate.clone();
    let mut world = World::new("together", move |_, _, _| Step::WaitFor(blocked.clone())).await;
    world.settings.concurrency = 3;
    let running = world.start();
    for aggregate in ["a", "b", "c", "d", "e"] {
        world.publish(aggregate, [1, 2]).await;
    }
    gate.reached_by(3).await;
    let tried = || ["a", "b", "c", "d", "e"].iter().map(|id| world.journal.tries(id, 1)).sum::<u32>();
    eventually("everything is delivered", async || world.undelivered().await == 0).await;
    assert_eq!(tried(), 3);
    gate.open();
    eventually("everything is handled", async || world.journal.effects().len() == 10).await;
    for aggregate in ["a", "b", "c", "d", "e"] {
        assert_eq!(world.journal.of(aggregate), [1, 2]);
    }
    running.stopped().await;
}

#[tokio::test]
async fn many_aggregates_with_failures_everywhere_keep_their_order() {
    let broker = Broker::shared("many", QueueType::Quorum).await;
    let mut world = World::on(broker, |_, sequence, tries| match sequence % 7 {
        3 if tries == 1 => Step::Retry,
        5 if tries < 3 => Step::Retry,
        6 if tries == 1 => Step::Panic,
        _ => Step::Apply,
    });
    world.settings.prefetch = 40;
    let running = world.start();
    for sequence in 1..=20 {
        for aggregate in 0..10 {
            world.publish(&aggregate.to_string(), [sequence]).await;
        }
    }
    world.eventually("everything is handled", async || world.journal.effects().len() == 200).await;
    for aggregate in 0..10 {
        assert_eq!(world.journal.of(&aggregate.to_string()), (1..=20).collect::<Vec<_>>());
    }
    running.stopped().await;
    assert_eq!(world.left_in_queue().await, 0);
    assert_eq!(world.broker.ready(&world.broker.parking_queue).await, 0);
}

/// Rule R22: how consumers scale out. One consumer by name, in a process for each queue; an aggregate has one queue.
#[tokio::test]
async fn aggregates_that_are_spread_over_queues_keep_their_order_and_no_queue_waits_for_another() {
    let gate = Gate::default();
    let blocked = gate.clone();
    let script = move |aggregate: &str, sequence: i64, tries: u32| match (aggregate, sequence, tries) {
        ("0", 1, _) => Step::WaitFor(blocked.clone()),
        ("0" | "2", 3 | 10 | 17, 1) => Step::Retry,
        ("0" | "2", 6 | 13, 1) => Step::Panic,
        _ => Step::Apply,
    };
    let even = Broker::shared("spread", QueueType::Quorum).await;
    let odd = Broker::at(&even.url, &format!("{}.odd", even.queue), QueueType::Quorum).await;
    let (mut even, mut odd) = (World::on(even, script.clone()), World::on(odd, script));
    even.settings.concurrency = 1;
    (odd.inbox, odd.clock, odd.journal) = (even.inbox.clone(), Arc::clone(&even.clock), Arc::clone(&even.journal));
    let running = [even.start(), odd.start()];
    for sequence in 1..=20 {
        for aggregate in 0..8 {
            // As an exchange does that hashes the aggregate's id.
            let world = if aggregate % 2 == 0 { &even } else { &odd };
            world.publish(&aggregate.to_string(), [sequence]).await;
        }
    }
    gate.reached_by(1).await;
    let all: Vec<i64> = (1..=20).collect();
    let through = |aggregates: [&str; 4]| aggregates.iter().all(|aggregate| even.journal.of(aggregate) == all);
    // The clock stands still, so that nothing gives up waiting at the gate.
    eventually("the other queue is through", async || through(["1", "3", "5", "7"])).await;
    assert_eq!(even.journal.of("0"), [0_i64; 0]);
    gate.open();
    even.eventually("its own queue is through", async || through(["0", "2", "4", "6"])).await;
    assert_eq!(even.journal.effects().len(), 160, "no effect twice");
    for consumer in running {
        consumer.stopped().await;
    }
    assert_eq!((even.left_in_queue().await, odd.left_in_queue().await), (0, 0));
}

#[tokio::test]
async fn unordered_lets_later_messages_pass_a_failing_and_a_parked_one() {
    let mut world = World::new("unordered", |aggregate, sequence, _| match (aggregate, sequence) {
        ("a", 1) => Step::Retry,
        ("a", 2) => Step::Reject,
        _ => Step::Apply,
    })
    .await;
    world.settings.unordered = true;
    let running = world.start();
    world.publish("a", 1..=4).await;
    eventually("later messages pass", async || world.journal.of("a").len() == 2).await;
    world
        .eventually("the others are parked", async || {
            world.journal.count(|signal| matches!(signal, ConsumerSignal::Parked { .. })) == 2
        })
        .await;
    assert_eq!(world.mark("a").await, None);
    running.stopped().await;
    assert_eq!(world.left_in_queue().await, 0);
    assert_eq!(world.broker.ready(&world.broker.parking_queue).await, 2);
}
