//! `disk-full.md`.

use super::Reader;
use crate::world::{Outcome, World};

/// Two thousand events that were published long ago, one of today, and one that was discarded long ago.
const HISTORY: &str = "INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload) \
         SELECT gen_random_uuid(), 'order', 'o-' || n % 50, 'OrderPlaced', '1' FROM generate_series(1, 2002) n; \
     UPDATE outbox_event SET status = 'PUBLISHED', published_at = statement_timestamp() - interval '8 days'; \
     UPDATE outbox_event SET published_at = statement_timestamp() WHERE id = (SELECT min(id::text)::uuid FROM outbox_event); \
     UPDATE outbox_event SET status = 'DEAD', published_at = NULL, resolution = 'discarded', \
            resolved_at = statement_timestamp() - interval '8 days' \
      WHERE id = (SELECT max(id::text)::uuid FROM outbox_event); \
     DELETE FROM outbox_lane";

#[tokio::test(flavor = "multi_thread")]
async fn the_runbook_of_a_full_disk_shows_what_fills_it_and_makes_room() -> Outcome {
    let world = World::shared("disk").await?;
    world.execute(HISTORY).await?;
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
