//! `lag-slo-burn.md`.

use super::{EVENTS, Reader, quiet};
use crate::world::{Outcome, World, run};

#[tokio::test(flavor = "multi_thread")]
async fn the_runbook_of_a_missed_lag_objective_finds_the_forgotten_pause_and_the_missing_relay() -> Outcome {
    let world = World::shared("lag").await?;
    world.execute(EVENTS).await?;
    let pause = ["outbox", "pause", "--all", "--by", "zoe", "--reason", "moving the broker"];
    assert!(run(&quiet(&world), &pause).await?.0.success());

    let mut reader = Reader::opens("lag-slo-burn.md", &world)?;
    reader.follow("1").await?;
    assert!(reader.wrote("app outbox audit").contains("moving the broker"));
    reader.follow("2").await?;
    assert_eq!(world.number("SELECT count(*) FROM outbox_event WHERE published_at IS NULL").await?, 4, "no relay runs");
    reader.follow("3").await?;
    assert_eq!(world.number("SELECT count(*) FROM outbox_event WHERE published_at IS NULL").await?, 0);
    reader.follow("4").await?;
    reader.closes();
    Ok(())
}
