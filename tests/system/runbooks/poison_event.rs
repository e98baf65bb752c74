//! `poison-event.md`.

use super::{EVENT, EVENTS, Orders, Reader, dead, published, relay, relaying};
use crate::world::{Outcome, World};

/// The first event is larger than a message may be.
#[tokio::test(flavor = "multi_thread")]
async fn the_runbook_of_a_poison_event_gives_it_up_and_lets_the_rest_flow() -> Outcome {
    let world = World::shared("poison").await?;
    world.execute(EVENTS).await?;
    world
        .execute(
            "UPDATE outbox_event SET payload = to_json(repeat('x', 10000)) \
             WHERE id = '0198c5a0-0000-7000-8000-000000000001'",
        )
        .await?;
    Orders::declare(&world).await?.queue("taken", "#").await?;
    let relaying = relaying(&world).with("APP__OUTBOUND__AMQP__MAX_MESSAGE_BYTES", "8192");
    relay(&relaying).await?;
    assert_eq!((published(&world).await?, dead(&world).await?), (1, 1), "the aggregate that is well, and the head");

    let mut reader = Reader::opens("poison-event.md", &world)?.knows("EVENT", EVENT);
    reader.follow("1").await?;
    let listed = reader.wrote("app outbox list");
    assert!(listed.contains(EVENT) && listed.contains("poison: the message has"), "{listed}");
    reader.follow("2").await?;
    let status = reader.wrote("app outbox status");
    assert!(status.lines().any(|line| line.starts_with("paused") && line.contains("order, by ")), "{status}");
    reader.follow("3").await?;
    reader.follow("4").await?;
    let audit = reader.wrote("app outbox audit");
    assert!(["pause", "discard", "resume"].iter().all(|action| audit.contains(action)), "{audit}");
    reader.closes();
    relay(&relaying).await?;
    assert_eq!((published(&world).await?, dead(&world).await?), (3, 0), "all but the one that was given up");
    Ok(())
}
