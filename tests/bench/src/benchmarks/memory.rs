//! `memory`: the most memory that a relay takes, which settings bound and the backlog does not.

use std::time::Duration;

use crate::{
    error::BenchError,
    queue::Queue,
    relays::Relays,
    runner::Bench,
    seed::{Backlog, PAYLOAD_BYTES, Payload, Shape},
    stage::PATIENCE,
    verdict::check,
};

/// How long the largest backlog may take.
const WITHIN: Duration = Duration::from_mins(10);

pub(crate) async fn run(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    let (large, small) = (bench.size(500_000, 20_000), bench.size(50_000, 2_000));
    let ordinary = Payload::Bytes(PAYLOAD_BYTES);
    let events = bench.size(300, 40);
    for _ in 0..bench.rounds() {
        let part = peak(bench, "memory.backlog.tenth", Shape::TenEach, small, ordinary).await?;
        let whole = peak(bench, "memory.backlog.whole", Shape::TenEach, large, ordinary).await?;
        let ratio = whole.zip(part).map(|(whole, part)| whole / part);
        bench.record_known("memory.backlog_ratio", "ratio", ratio);
        peak(bench, "memory.largest_payloads", Shape::OneEach, events, Payload::Largest).await?;
    }
    Ok(())
}

/// Drains a backlog by a fresh relay, with a consumer behind it: the broker need not keep all the messages.
async fn peak(
    bench: &mut Bench<'_>,
    figure: &str,
    shape: Shape,
    events: usize,
    payload: Payload,
) -> Result<Option<f64>, BenchError> {
    let (database, vhost) = (bench.stage.database("memory").await?, bench.stage.broker().await?);
    let follower = Queue::open(vhost.url()).await?.follow().await?;
    let relays = Relays::start(&bench.stage.relays(database.url(), vhost.url()), 1).await?;
    let backlog = Backlog::insert(database.url(), shape, events, payload).await?;
    let drained = relays.drain(bench.stage, database.url(), backlog, WITHIN).await?;
    relays.stop().await?;
    let all = || async { (follower.count() >= events).then_some(()) };
    system_tests::eventually("every event delivered", PATIENCE, all).await?;
    check(figure, database.url(), follower.end().await.iter().map(|arrival| arrival.event)).await?;
    bench.record_known(figure, "MiB", drained.peak_mib);
    Ok(drained.peak_mib)
}
