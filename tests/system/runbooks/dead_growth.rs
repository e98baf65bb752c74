//! `dead-growth.md`.

use super::{EVENTS, Orders, Reader, dead, published, relay, relaying};
use crate::world::{Outcome, World};

/// Events of a type that the broker takes: what is refused beside them is not the destination's fault.
const OTHERS: &str = "INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload) \
     SELECT gen_random_uuid(), 'invoice', 'i-' || n, 'InvoiceSent', '1' FROM generate_series(1, 3) n";

/// One more order, of an aggregate that is not blocked.
const EVENT_OF_ANOTHER: &str = "INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload) \
     VALUES (gen_random_uuid(), 'order', 'o-3', 'OrderPlaced', '1')";

/// A queue of orders is full and refuses all of them.
#[tokio::test(flavor = "multi_thread")]
async fn the_runbook_of_growing_dead_events_stops_the_dying_and_sends_them_anew() -> Outcome {
    let world = World::shared("dead").await?;
    world.execute(EVENTS).await?;
    world.execute(OTHERS).await?;
    let orders = Orders::declare(&world).await?;
    orders.queue("taken", "invoice.#").await?;
    orders.full_queue("full", "order.#").await?;
    relay(&relaying(&world)).await?;
    assert_eq!((published(&world).await?, dead(&world).await?), (3, 2), "the invoices, and both heads");

    let mut reader = Reader::opens("dead-growth.md", &world)?;
    reader.follow("1").await?;
    assert!(reader.wrote("app outbox list").contains("rejected: the broker refused the message"));
    reader.follow("2").await?;
    world.execute(EVENT_OF_ANOTHER).await?;
    relay(&relaying(&world)).await?;
    assert_eq!((published(&world).await?, dead(&world).await?), (3, 2), "nothing more can die");
    // The cure: somebody reads the queue again.
    orders.delete("full").await?;
    orders.bind("taken", "order.#").await?;
    reader.follow("4").await?;
    reader.follow("5").await?;
    let audit = reader.wrote("app outbox audit");
    assert!(["pause", "requeue", "resume"].iter().all(|action| audit.contains(action)), "{audit}");
    reader.closes();
    relay(&relaying(&world)).await?;
    assert_eq!((published(&world).await?, dead(&world).await?), (8, 0));
    Ok(())
}
