//! `stuck-relay.md`.

use rustix::process::Signal;
use system_tests::{
    AppProcess,
    chaos::proxy::{Proxy, Weather},
    eventually,
};

use super::{EVENTS, Reader, published, quiet};
use crate::world::{Outcome, PATIENCE, World};

/// An event that shows that the relay publishes: it begins when it has looked at the broker's topology.
const FIRST: &str = "INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload) \
     VALUES (gen_random_uuid(), 'order', 'o-9', 'OrderPlaced', '1')";
const HELD: &str = "SELECT count(*) FROM outbox_claim";
const OVER: &str = "SELECT count(*) FROM outbox_claim WHERE lease_expires_at < statement_timestamp()";
const AT_WORK: &str = "SELECT count(*) FROM pg_stat_activity \
     WHERE datname = current_database() AND state = 'active' AND pid <> pg_backend_pid()";

/// A relay process that stands still (SIGSTOP) beyond the lease that it holds.
#[tokio::test(flavor = "multi_thread")]
async fn the_runbook_of_a_stuck_relay_names_it_and_has_its_events_sent_by_another() -> Outcome {
    let world = World::shared("stuck").await?;
    let proxy = Proxy::before(world.broker_url(), 5672).await?;
    let behind = quiet(&world)
        .with("AMQP_URL", &proxy.url()?)
        .with("APP__OUTBOX__RELAY__WORKERS", "1")
        // It claims all that is due, not one lane that has been due for long.
        .with("APP__OUTBOX__RELAY__OVERDUE_CHECK", "1m")
        .with("APP__OUTBOX__RELAY__LONGEST_POLL", "100ms")
        .with("APP__OUTBOX__RELAY__REPORT_EVERY", "1s")
        .with("APP__OUTBOX__RELAY__LEASE", "15s")
        .with("APP__OUTBOUND__AMQP__CONFIRM_TIMEOUT", "5s");
    let mut stuck = behind.relay("relay-7").await?;
    world.execute(FIRST).await?;
    eventually("the first event", PATIENCE, || async { (published(&world).await.ok()? == 1).then_some(()) }).await?;
    // Without a confirm it holds what it claims until it gives up.
    proxy.set(Weather::BlackHole);
    world.execute(EVENTS).await?;
    freeze_with_a_lease(&world, &stuck).await?;
    eventually("the end of its lease", PATIENCE, || async { (world.number(OVER).await.ok()? == 1).then_some(()) })
        .await?;

    let mut reader = Reader::opens("stuck-relay.md", &world)?;
    reader.follow("1").await?;
    let status = reader.wrote("app outbox status");
    let relay = status.lines().find(|line| line.contains("relay-7#")).unwrap_or_default();
    for told in [": gone", "2 lanes in 1 claim", "1 expired"] {
        assert!(relay.contains(told), "{status}");
    }
    assert_eq!(published(&world).await?, 1);
    stuck.kill().await?;
    reader.follow("2").await?;
    assert_eq!(published(&world).await?, 5);
    reader.follow("3").await?;
    reader.closes();
    Ok(())
}

/// Stops the process where it stands, at a moment at which it holds a lease.
async fn freeze_with_a_lease(world: &World, relay: &AppProcess) -> Outcome {
    let claimed = || async { (world.number(HELD).await.ok()? > 0).then_some(()) };
    eventually("a claim", PATIENCE, claimed).await?;
    relay.signal(Signal::STOP)?;
    // What it has sent to the server before may still be done there.
    let done = || async { (world.number(AT_WORK).await.ok()? == 0).then_some(()) };
    eventually("the end of its statements", PATIENCE, done).await?;
    assert_eq!(world.number(HELD).await?, 1, "it was stopped before it gave the lease up");
    Ok(())
}
