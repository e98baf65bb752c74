//! `stuck-relay.md`.

use system_tests::eventually;

use super::{EVENTS, Reader};
use crate::world::{Outcome, PATIENCE, World};

/// What a relay calls that then stands still.
const CLAIM: &str =
    "SELECT count(*) FROM outbox_claim(gen_random_uuid(), 'relay-7', interval '100 ms', 1, 1, 1, 1000000)";

#[tokio::test(flavor = "multi_thread")]
async fn the_runbook_of_a_stuck_relay_names_it_and_has_its_events_sent_by_another() -> Outcome {
    let world = World::shared("stuck").await?;
    world.execute(EVENTS).await?;
    assert_eq!((world.number(CLAIM).await?, world.number(CLAIM).await?), (1, 1));
    let over = "SELECT count(*) FROM outbox_claim WHERE lease_expires_at < statement_timestamp()";
    eventually("the end of its leases", PATIENCE, || async { (world.number(over).await.ok()? == 2).then_some(()) })
        .await?;

    let mut reader = Reader::opens("stuck-relay.md", &world)?;
    reader.follow("1").await?;
    let status = reader.wrote("app outbox status");
    assert!(status.contains("relay-7: 2 lanes in 2 claims") && status.contains("2 expired"), "{status}");
    reader.follow("2").await?;
    assert_eq!(world.number("SELECT count(*) FROM outbox_event WHERE published_at IS NULL").await?, 0);
    reader.follow("3").await?;
    reader.closes();
    Ok(())
}
