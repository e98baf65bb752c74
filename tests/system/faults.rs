//! Servers that stop, die and hang under load.

use std::time::Duration;

use test_support::{checker::DuplicateReason, servers::Stop};

use crate::world::{Outcome, World, load};

/// Longer than several leases and confirm time-outs of these tests.
const OUTAGE: Duration = Duration::from_secs(15);
const PAUSE: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_outage_charges_no_event() -> Outcome {
    let world = World::alone("outage").await?;
    let rabbitmq = world.rabbitmq().await?;
    let (first, second) = (world.serve("relay-1").await?, world.serve("relay-2").await?);
    let load = load(&[&first, &second]);
    world.until_published_more(30).await?;

    rabbitmq.stop().await?;
    let before = world.counts().await?;
    // The outage itself, not a wait for an effect: a wrong relay would charge its events meanwhile.
    tokio::time::sleep(OUTAGE).await;
    let during = world.until("commands taken during the outage", |counts| counts.events > before.events + 30).await?;
    assert_eq!(during.dead, 0);
    assert_eq!(world.number(CHARGED).await?, 0, "events were charged during the outage");
    rabbitmq.start().await?;

    world.until_published_more(30).await?;
    let work_logs = load.finish().await?;
    let counts = world.until_settled().await?;
    assert_eq!((counts.events, counts.dead), (work_logs * 3, 0));
    assert_eq!(world.number(CHARGED).await?, 0, "events were charged");
    world.report(Some(DuplicateReason::ConfirmLost)).await?.assert_clean();
    Ok(())
}

const CHARGED: &str = "SELECT count(*) FROM outbox_event WHERE attempts > 0 OR status IN ('FAILED', 'DEAD')";

#[tokio::test(flavor = "multi_thread")]
async fn killing_restarting_or_pausing_either_server_under_load_loses_no_event() -> Outcome {
    let world = World::alone("either").await?;
    let (postgres, rabbitmq) = (world.postgres().await?, world.rabbitmq().await?);
    let (first, second) = (world.serve("relay-1").await?, world.serve("relay-2").await?);
    let load = load(&[&first, &second]);
    world.until_published_more(30).await?;

    postgres.restart(Stop::Immediate).await?;
    world.until_published_more(30).await?;

    rabbitmq.kill().await?;
    rabbitmq.start().await?;
    world.until_published_more(30).await?;

    postgres.pause().await?;
    tokio::time::sleep(PAUSE).await;
    postgres.resume().await?;
    world.until_published_more(30).await?;

    rabbitmq.pause().await?;
    tokio::time::sleep(PAUSE).await;
    rabbitmq.resume().await?;
    world.until_published_more(30).await?;

    let work_logs = load.finish().await?;
    let counts = world.until_settled().await?;
    assert_eq!((counts.work_logs, counts.events, counts.dead), (work_logs, work_logs * 3, 0));
    world.report(Some(DuplicateReason::ConfirmLost)).await?.assert_clean();
    Ok(())
}
