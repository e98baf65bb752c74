//! `poison-event.md`.

use super::{EVENT, EVENTS, Reader, drain};
use crate::world::{Outcome, World};

#[tokio::test(flavor = "multi_thread")]
async fn the_runbook_of_a_poison_event_gives_it_up_and_lets_the_rest_flow() -> Outcome {
    let world = World::shared("poison").await?;
    world.execute(EVENTS).await?;
    world
        .execute(
            "UPDATE outbox_event SET status = 'DEAD', attempts = 1, last_error = 'poison: too large' \
             WHERE id = '0198c5a0-0000-7000-8000-000000000001'",
        )
        .await?;

    let mut reader = Reader::opens("poison-event.md", &world)?.knows("EVENT", EVENT);
    reader.follow("1").await?;
    let listed = reader.wrote("app outbox list");
    assert!(listed.contains(EVENT) && listed.contains("poison: too large"), "{listed}");
    reader.follow("2").await?;
    let status = reader.wrote("app outbox status");
    assert!(status.lines().any(|line| line.starts_with("paused") && line.contains("order, by ")), "{status}");
    reader.follow("3").await?;
    reader.follow("4").await?;
    let audit = reader.wrote("app outbox audit");
    assert!(["pause", "discard", "resume"].iter().all(|action| audit.contains(action)), "{audit}");
    reader.closes();
    let published = drain(&world).await?;
    assert_eq!(published.matches("OrderPlaced").count(), 3, "{published}");
    assert!(!published.contains(EVENT), "{published}");
    Ok(())
}
