//! `blocked-aggregate.md`.

use super::{EVENT, EVENTS, Reader, drain};
use crate::world::{Outcome, World};

#[tokio::test(flavor = "multi_thread")]
async fn the_runbook_of_a_blocked_aggregate_releases_it() -> Outcome {
    let world = World::shared("blocked").await?;
    world.execute(EVENTS).await?;
    world
        .execute(
            "UPDATE outbox_event SET status = 'DEAD', attempts = 3, last_error = 'unroutable: NO_ROUTE' \
             WHERE id = '0198c5a0-0000-7000-8000-000000000001'",
        )
        .await?;
    assert_eq!(drain(&world).await?.matches("OrderPlaced").count(), 1, "the aggregate that is well");

    let mut reader = Reader::opens("blocked-aggregate.md", &world)?.knows("EVENT", EVENT);
    reader.follow("1").await?;
    let blocked = reader.wrote("app outbox blocked");
    assert!(blocked.contains(EVENT) && blocked.contains("unroutable: NO_ROUTE"), "{blocked}");
    assert!(reader.wrote("app outbox show").contains("DEAD"));
    reader.follow("3").await?;
    reader.follow("4").await?;
    assert!(reader.wrote("app outbox audit").contains("the queue is bound again"));
    reader.closes();
    let published = drain(&world).await?;
    assert_eq!(published.matches("OrderPlaced").count(), 3, "{published}");
    Ok(())
}
