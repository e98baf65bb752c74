//! `replay-after-a-consumer-bug.md`.

use system_tests::eventually;

use super::Reader;
use crate::world::{Outcome, PATIENCE, World, complete_one};

const NOW: &str = "SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')";
const AN_HOUR_AGO: &str = "SELECT to_char((clock_timestamp() - interval '1 h') AT TIME ZONE 'UTC', \
     'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')";

#[tokio::test(flavor = "multi_thread")]
async fn the_runbook_of_a_replay_gives_a_consumer_its_effect_again() -> Outcome {
    let world = World::shared("replay").await?;
    let serving = world.serve("serving").await?;
    complete_one(&serving, "one").await?;
    world.until_settled().await?;
    let completed = "SELECT completed_minutes FROM portfolio_minutes";
    let right = world.number(completed).await?;
    assert!(right > 0);
    // The bug: the event was taken and counted as nothing.
    world.execute("UPDATE portfolio_minutes SET completed_minutes = 0").await?;
    let event = world.text("SELECT id::text FROM outbox_event WHERE event_type LIKE '%Completed%'").await?;

    let mut reader = Reader::opens("replay-after-a-consumer-bug.md", &world)?
        .knows("EVENT", &event)
        .knows("TYPE", world.text("SELECT event_type FROM outbox_event WHERE event_type LIKE '%Completed%'").await?)
        .knows("FROM", world.text(AN_HOUR_AGO).await?)
        .knows("UNTIL", world.text(NOW).await?);
    reader.follow("1").await?;
    assert!(reader.wrote("app outbox list").contains(&event));
    reader.follow("2").await?;
    let mended = || async { (world.number(completed).await.ok()? == right).then_some(()) };
    eventually("the effect of the replay", PATIENCE, mended).await?;
    world.until_settled().await?;
    reader.follow("3").await?;
    let audit = reader.wrote("app outbox audit");
    assert!(audit.contains("replay") && audit.contains("forget") && audit.contains("portfolio-minutes"), "{audit}");
    reader.closes();
    Ok(())
}
