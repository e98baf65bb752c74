//! Servers that stop, die and hang under load.

use std::time::Duration;

use system_tests::eventually;
use test_support::{checker::DuplicateReason, servers::Stop};

use crate::world::{Outcome, PATIENCE, World, counter, load, read};

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

/// Case B32.
#[tokio::test(flavor = "multi_thread")]
async fn a_memory_alarm_under_load_stops_claims_shows_in_readiness_and_charges_no_event() -> Outcome {
    /// Each worker may have been about to claim when the reason was read.
    const UNDER_WAY: f64 = 16.0;
    let world = World::alone("alarm").await?;
    let rabbitmq = world.rabbitmq().await?;
    let (first, second) = (world.serve("relay-1").await?, world.serve("relay-2").await?);
    let load = load(&[&first, &second]);
    world.until_published_more(30).await?;

    let normal = rabbitmq.ctl(&["eval", "vm_memory_monitor:get_vm_memory_high_watermark()."]).await?;
    rabbitmq.ctl(&["set_vm_memory_high_watermark", "0"]).await?;
    for process in [&first, &second] {
        let blocked = || async {
            let (status, report) = read(process, "/readyz").await.ok()?;
            (status == 503 && report.contains("the broker blocks publishers")).then_some(())
        };
        eventually("a reason in the readiness", PATIENCE, blocked).await?;
    }
    let claims = async || -> Outcome<f64> {
        Ok(counter(&first, "outbox_claims_total").await? + counter(&second, "outbox_claims_total").await?)
    };
    let (before, claimed) = (world.counts().await?, claims().await?);
    // The alarm itself, not a wait for an effect: every commit of the load wakes a relay meanwhile.
    tokio::time::sleep(OUTAGE).await;
    world.until("commands taken during the alarm", |counts| counts.events > before.events + 30).await?;
    assert!(claims().await? - claimed <= UNDER_WAY, "relays claim what they cannot publish");
    assert_eq!(world.number(CHARGED).await?, 0, "events were charged during the alarm");
    rabbitmq.ctl(&["set_vm_memory_high_watermark", normal.trim()]).await?;

    world.until_published_more(30).await?;
    let work_logs = load.finish().await?;
    let counts = world.until_settled().await?;
    assert_eq!((counts.events, counts.dead), (work_logs * 3, 0));
    assert_eq!(world.number(CHARGED).await?, 0, "events were charged");
    world.report(Some(DuplicateReason::ConfirmLost)).await?.assert_clean();
    Ok(())
}

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
