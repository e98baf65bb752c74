//! Effects: once each, however often a message comes.

use adapter_inbound::amqp::ConsumerSignal;

use crate::{
    broker::{Broker, QueueType, Wire, eventually},
    world::{Gate, Step, World},
};

#[tokio::test]
async fn a_message_delivered_again_has_no_second_effect() {
    let world = World::new("twice", |_, _, _| Step::Apply).await;
    let running = world.start();
    for _ in 0..3 {
        world.publish("a", 1..=10).await;
    }
    let duplicates = || world.journal.count(|signal| *signal == ConsumerSignal::Duplicate);
    eventually("all deliveries are handled", async || duplicates() == 20).await;
    assert_eq!(world.journal.of("a"), (1..=10).collect::<Vec<_>>());
    let applied = world.journal.count(|signal| matches!(signal, ConsumerSignal::Applied { lag: Some(_), .. }));
    assert_eq!(applied, 10);
    running.stopped().await;
    assert_eq!(world.left_in_queue().await, 0);
}

#[tokio::test]
async fn a_crash_between_commit_and_acknowledgement_has_no_second_effect() {
    let gate = Gate::default();
    let blocked = gate.clone();
    let broker = Broker::shared("cut", QueueType::Quorum).await;
    let wire = Wire::to(&broker.url).await;
    let mut world = World::on(broker, move |_, sequence, tries| match (sequence, tries) {
        (3, 1) => Step::WaitFor(blocked.clone()),
        _ => Step::Apply,
    });
    world.settings.url = wire.url.as_str().into();
    let running = world.start();
    world.publish("a", 1..=5).await;
    gate.reached_by(1).await;
    wire.cut();
    // The third message commits on a connection that is gone.
    eventually("the loss is noticed", async || running.readiness.check().await.is_err()).await;
    gate.open();
    world.eventually("everything is handled", async || world.journal.of("a").len() == 5).await;
    world
        .eventually("the third comes again", async || {
            // The acknowledgements of the two before it may have been cut off as well.
            world.journal.count(|signal| *signal == ConsumerSignal::Duplicate) >= 1
        })
        .await;
    assert_eq!(world.journal.of("a"), [1, 2, 3, 4, 5]);
    running.stopped().await;
    assert_eq!(world.left_in_queue().await, 0);
}
