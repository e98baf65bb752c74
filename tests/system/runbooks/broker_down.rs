//! `broker-down.md`.

use system_tests::chaos::proxy::{Proxy, Weather};
use system_tests::eventually;

use super::{EVENTS, Reader, quiet};
use crate::world::{Outcome, PATIENCE, World, counter};

#[tokio::test(flavor = "multi_thread")]
async fn the_runbook_of_a_broker_that_is_down_names_it_and_sees_the_events_leave_once_it_is_back() -> Outcome {
    let world = World::shared("broker-down").await?;
    let proxy = Proxy::before(world.broker_url(), 5672).await?;
    let behind = quiet(&world)
        .with("AMQP_URL", &proxy.url()?)
        .with("APP__OUTBOUND__AMQP__CONNECT_TIMEOUT", "1s")
        .with("APP__CONSUMER__CONNECT_TIMEOUT", "1s");
    let relay = behind.relay("relay").await?;
    proxy.set(Weather::BlackHole);
    proxy.cut();
    world.execute(EVENTS).await?;
    let noticed = || async { (counter(&relay, "outbox_broker_available").await.ok()? < 1.0).then_some(()) };
    eventually("the alert's metric", PATIENCE, noticed).await?;

    let mut reader = Reader::opens("broker-down.md", &world)?.from(behind.clone());
    reader.follow("1").await?;
    let found = reader.wrote("app outbox doctor");
    assert!(found.contains("broker") && found.contains("outbound.amqp.url"), "{found}");
    // The cure: somebody brings it back.
    proxy.set(Weather::Fair);
    proxy.cut();
    let left = || async {
        (world.number("SELECT count(*) FROM outbox_event WHERE published_at IS NULL").await.ok()? == 0).then_some(())
    };
    eventually("every event published", PATIENCE, left).await?;
    reader.follow("3").await?;
    reader.closes();
    Ok(())
}
