//! `disk-full.md`.

use system_tests::eventually;

use super::{EVENTS, Reader, drain, published, quiet};
use crate::world::{Outcome, PATIENCE, World, counter};

const EVENTS_OF_LONG_AGO: &str = "INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload) \
     SELECT gen_random_uuid(), 'order', 'o-' || n % 50, 'OrderPlaced', '1' FROM generate_series(1, 2002) n";

/// All but one get old, and one of these was not published but discarded.
const AGE: &str = "UPDATE outbox_event SET published_at = published_at - interval '8 days' \
      WHERE id <> (SELECT min(id::text)::uuid FROM outbox_event); \
     UPDATE outbox_event SET status = 'DEAD', published_at = NULL, resolution = 'discarded', \
            resolved_at = statement_timestamp() - interval '8 days' \
      WHERE id = (SELECT max(id::text)::uuid FROM outbox_event)";

/// The history was published by a relay; that it is a week old is said by SQL, for no test can wait for it. The database's
/// disk is not filled: that takes a file system of its own for it, which takes rights that a test has not got.
#[tokio::test(flavor = "multi_thread")]
async fn the_runbook_of_a_full_disk_shows_what_fills_it_and_makes_room() -> Outcome {
    let world = World::shared("disk").await?;
    world.execute(EVENTS_OF_LONG_AGO).await?;
    drain(&world).await?;
    assert_eq!(published(&world).await?, 2002);
    world.execute(AGE).await?;
    let mut reader = Reader::opens("disk-full.md", &world)?;
    reader.follow("1").await?;
    assert_eq!(reader.wrote("app outbox purge"), "2001 events would be purged");
    let sizes = reader.wrote("SELECT relname");
    assert!(sizes.starts_with("outbox_event |"), "{sizes}");
    reader.follow("2").await?;
    assert_eq!(reader.wrote("app outbox purge"), "2001 events purged");
    reader.follow("3").await?;
    assert!(reader.wrote("app outbox audit").contains("the disk is full"));
    reader.closes();
    assert_eq!(world.number("SELECT count(*) FROM outbox_event").await?, 1, "today's");
    Ok(())
}

/// The broker's disk alarm: it is told to keep more free than any disk has.
#[tokio::test(flavor = "multi_thread")]
async fn a_broker_whose_disk_is_full_charges_no_event_and_the_runbook_sees_them_leave_once_there_is_room() -> Outcome {
    let world = World::alone("disk-alarm").await?;
    let relay = quiet(&world).relay("relay").await?;
    let broker = world.rabbitmq().await?;
    broker.ctl(&["set_disk_free_limit", "1000000GB"]).await?;
    world.execute(EVENTS).await?;
    let noticed = || async { (counter(&relay, "outbox_broker_available").await.ok()? < 1.0).then_some(()) };
    eventually("a relay that knows that its broker takes nothing", PATIENCE, noticed).await?;

    let mut reader = Reader::opens("disk-full.md", &world)?;
    reader.follow("1").await?;
    assert_eq!(world.number("SELECT count(*) FROM outbox_event WHERE attempts > 0").await?, 0, "they wait");
    broker.ctl(&["set_disk_free_limit", "50MB"]).await?;
    let left = || async { (published(&world).await.ok()? == 4).then_some(()) };
    eventually("every event published", PATIENCE, left).await?;
    reader.follow("3").await?;
    Ok(())
}
