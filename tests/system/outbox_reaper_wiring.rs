//! The reaper, as it runs inside a process.

use rustix::process::Signal;
use system_tests::{AppProcess, eventually};
use test_support::checker::DuplicateReason;

use crate::world::{Outcome, PATIENCE, World, counter, load};

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_lease_is_returned_by_the_running_process() -> Outcome {
    let world = World::shared("reaper").await?;
    let serving = world.serve("serving").await?;
    let stopped = world.environment.relay("stopped").await?;
    let load = load(&[&serving]);
    stop_with_a_lease(&world, &stopped).await?;

    let returned = || async {
        let returned = counter(&serving, "outbox_expired_claims_total").await.ok()?;
        (returned > 0.0).then_some(())
    };
    eventually("the return of the lease", PATIENCE, returned).await?;
    let work_logs = load.finish().await?;
    let counts = world.until_settled().await?;
    assert_eq!(counts.events, work_logs * 3);
    assert_eq!(world.tally().await?.held_by("stopped").await?, 0);

    // What the stopped process still believes to hold, it may publish again, but it changes nothing.
    stopped.signal(Signal::CONT)?;
    let first_round = counter_grows(&stopped, "outbox_claims_total");
    first_round.await?;
    world.until_settled().await?;
    world.report(Some(DuplicateReason::LeaseExpired)).await?.assert_clean();
    Ok(())
}

/// Stops the process where it stands while it has events under a lease.
async fn stop_with_a_lease(world: &World, process: &AppProcess) -> Outcome {
    let mut tally = world.tally().await?;
    let begun = std::time::Instant::now();
    while begun.elapsed() < PATIENCE {
        if tally.held_by("stopped").await? == 0 {
            continue;
        }
        process.signal(Signal::STOP)?;
        // A statement that was sent before is carried out all the same.
        if stays_held(world).await? {
            return Ok(());
        }
        process.signal(Signal::CONT)?;
    }
    Err("the process never held a lease".into())
}

/// Whether no statement of the stopped process is under way, and its lease is still there.
async fn stays_held(world: &World) -> Outcome<bool> {
    let active = "SELECT count(*) FROM pg_stat_activity \
                  WHERE datname = current_database() AND state = 'active' AND query LIKE '%outbox_settle%' \
                    AND pid <> pg_backend_pid()";
    let quiet = || async { (world.number(active).await.ok()? == 0).then_some(()) };
    eventually("the end of statements under way", PATIENCE, quiet).await?;
    Ok(world.tally().await?.held_by("stopped").await? > 0)
}

async fn counter_grows(process: &AppProcess, name: &str) -> Outcome {
    let read = || async { counter(process, name).await.ok() };
    let before = eventually("an answer of the process", PATIENCE, read).await?;
    let grown = || async { counter(process, name).await.ok().filter(|now| *now > before) };
    eventually("a round of the relay", PATIENCE, grown).await?;
    Ok(())
}
