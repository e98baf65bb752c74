//! `blocked-aggregate.md`.

use super::{EVENT, EVENTS, Orders, Reader, dead, published, relay, relaying};
use crate::world::{Outcome, World};

/// The broker returns what comes for one aggregate: no queue is bound for it.
#[tokio::test(flavor = "multi_thread")]
async fn the_runbook_of_a_blocked_aggregate_releases_it() -> Outcome {
    let world = World::shared("blocked").await?;
    world.execute(EVENTS).await?;
    let orders = Orders::declare(&world).await?;
    orders.queue("taken", "order.o-2").await?;
    relay(&relaying(&world)).await?;
    assert_eq!((published(&world).await?, dead(&world).await?), (1, 1), "the aggregate that is well, and the head");

    let mut reader = Reader::opens("blocked-aggregate.md", &world)?.knows("EVENT", EVENT);
    reader.follow("1").await?;
    let blocked = reader.wrote("app outbox blocked");
    assert!(blocked.contains(EVENT) && blocked.contains("unroutable: "), "{blocked}");
    assert!(reader.wrote("app outbox show").contains("DEAD"));
    // The cure.
    orders.bind("taken", "order.o-1").await?;
    reader.follow("3").await?;
    reader.follow("4").await?;
    assert!(reader.wrote("app outbox audit").contains("the queue is bound again"));
    reader.closes();
    relay(&relaying(&world)).await?;
    assert_eq!((published(&world).await?, dead(&world).await?), (4, 0));
    Ok(())
}
