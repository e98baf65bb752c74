//! `dead-growth.md`.

use super::{EVENTS, Reader, drain};
use crate::world::{Outcome, World};

#[tokio::test(flavor = "multi_thread")]
async fn the_runbook_of_growing_dead_events_stops_the_dying_and_sends_them_anew() -> Outcome {
    let world = World::shared("dead").await?;
    world.execute(EVENTS).await?;
    world
        .execute("UPDATE outbox_event SET status = 'DEAD', attempts = 3, last_error = 'rejected: the queue is full'")
        .await?;

    let mut reader = Reader::opens("dead-growth.md", &world)?;
    reader.follow("1").await?;
    assert!(reader.wrote("app outbox list").contains("rejected: the queue is full"));
    reader.follow("2").await?;
    assert_eq!(drain(&world).await?.matches("OrderPlaced").count(), 0, "nothing more can die");
    reader.follow("4").await?;
    reader.follow("5").await?;
    let audit = reader.wrote("app outbox audit");
    assert!(["pause", "requeue", "resume"].iter().all(|action| audit.contains(action)), "{audit}");
    reader.closes();
    assert_eq!(drain(&world).await?.matches("OrderPlaced").count(), 4);
    Ok(())
}
