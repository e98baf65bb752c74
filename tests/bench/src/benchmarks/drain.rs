//! `drain`: one relay process empties a backlog into a quorum queue, with order on, against limits P0, P, B and B1.

use std::time::Duration;

use application_core::outbox::OutboxEvent;
use system_tests::AppEnvironment;

use crate::{
    error::BenchError,
    figures::rate,
    limits::{WINDOW, WORKERS, bare_confirms, claim_and_acknowledge, claims, confirms, mark_by_key},
    queue::Queue,
    relays::{Drain, Relays},
    runner::Bench,
    seed::{Backlog, PAYLOAD_BYTES, Payload, Shape},
    stage::{connect, publisher},
    verdict::check,
};

/// How long one backlog may take.
pub(crate) const WITHIN: Duration = Duration::from_mins(5);
/// Messages of limit B1: about two seconds of them.
const ONE_BY_ONE: usize = 2_000;

pub(crate) async fn run(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    let events = bench.size(100_000, 2_000);
    for _ in 0..bench.rounds() {
        let mut of_ten = 0.0;
        for (case, shape) in [("a", Shape::TenEach), ("b", Shape::OneEach), ("c", Shape::Zipf)] {
            let relay = spread(bench, case, shape, events).await?;
            if shape == Shape::TenEach {
                of_ten = relay;
            }
        }
        hot(bench, of_ten).await?;
    }
    Ok(())
}

/// Many aggregates: against the lesser of P and B.
async fn spread(bench: &mut Bench<'_>, case: &str, shape: Shape, events: usize) -> Result<f64, BenchError> {
    let figure = |name: &str| format!("drain.{case}.{name}");
    let relay = drain(bench, &figure("relay"), shape, events, 1, |environment| environment).await?.rate;
    bench.record(&figure("relay"), "events/s", relay);

    let claimed = claim_all(bench, shape, events).await?;
    bench.record(&figure("P"), "events/s", claimed.rate);
    let confirmed = confirm_rate(bench, &claimed.events, WINDOW).await?;
    bench.record(&figure("B"), "events/s", confirmed);
    let bare = bare_confirms(bench.stage.broker().await?.url(), &claimed.events).await?;
    bench.record(&figure("B0"), "events/s", rate(claimed.events.len(), bare));
    let marked = mark_all(bench, shape, events).await?;
    bench.record(&figure("P0"), "events/s", marked);

    bench.record(&figure("claims_to_marks"), "ratio", claimed.rate / marked);
    bench.record(&figure("ratio"), "ratio", relay / claimed.rate.min(confirmed));
    Ok(relay)
}

/// One aggregate: in order there is one message in flight, so the limit is B1.
async fn hot(bench: &mut Bench<'_>, of_ten: f64) -> Result<(), BenchError> {
    let events = bench.size(20_000, 300);
    let relay = drain(bench, "drain.d.relay", Shape::Hot, events, 1, |environment| environment).await?.rate;
    bench.record("drain.d.relay", "events/s", relay);
    let claimed = claim_all(bench, Shape::Hot, events.min(ONE_BY_ONE)).await?;
    let confirmed = confirm_rate(bench, &claimed.events, 1).await?;
    bench.record("drain.d.B1", "events/s", confirmed);
    bench.record("drain.d.ratio", "ratio", relay / confirmed);

    let pipelined = |environment: AppEnvironment| {
        environment.with("APP__OUTBOX__RELAY__PIPELINING_MAY_REORDER_WITHIN_AGGREGATE", "true")
    };
    let relay = drain(bench, "drain.d.pipelined", Shape::Hot, events, 1, pipelined).await?.rate;
    bench.record("drain.d.pipelined", "events/s", relay);
    bench.record("drain.d.pipelined_ratio", "ratio", relay / of_ten);
    Ok(())
}

/// Relays empty a backlog of a fresh database; what arrived is checked.
pub(crate) async fn drain(
    bench: &Bench<'_>,
    what: &str,
    shape: Shape,
    events: usize,
    processes: usize,
    settings: impl FnOnce(AppEnvironment) -> AppEnvironment,
) -> Result<Drain, BenchError> {
    let database = bench.stage.database("drain").await?;
    let vhost = bench.stage.broker().await?;
    let environment = settings(bench.stage.relays(database.url(), vhost.url()));
    let relays = Relays::start(&environment, processes).await?;
    let backlog = Backlog::insert(database.url(), shape, events, Payload::Bytes(PAYLOAD_BYTES)).await?;
    let drained = relays.drain(bench.stage, database.url(), backlog, WITHIN).await?;
    relays.stop().await?;
    let arrived = Queue::open(vhost.url()).await?.read(events).await?;
    check(what, database.url(), arrived).await?;
    Ok(drained)
}

/// Events that a limit has claimed, and how fast.
pub(crate) struct Claimed {
    pub(crate) rate: f64,
    pub(crate) events: Vec<OutboxEvent>,
}

/// Limit P on a fresh database of the same shape.
pub(crate) async fn claim_all(bench: &Bench<'_>, shape: Shape, events: usize) -> Result<Claimed, BenchError> {
    let database = bench.stage.database("claim").await?;
    let backlog = Backlog::insert(database.url(), shape, events, Payload::Bytes(PAYLOAD_BYTES)).await?;
    let pool = connect(database.url()).await?;
    backlog.commit().await?;
    let done = claim_and_acknowledge(claims(&pool), WORKERS, events).await?;
    pool.close().await;
    Ok(Claimed { rate: rate(events, done.took), events: done.events })
}

/// Limit P0 on a fresh database of the same shape.
async fn mark_all(bench: &Bench<'_>, shape: Shape, events: usize) -> Result<f64, BenchError> {
    let database = bench.stage.database("mark").await?;
    Backlog::insert(database.url(), shape, events, Payload::Bytes(PAYLOAD_BYTES)).await?.commit().await?;
    let (events, took) = mark_by_key(database.url()).await?;
    Ok(rate(events, took))
}

/// Limit B or B1 with the messages of these events.
pub(crate) async fn confirm_rate(bench: &Bench<'_>, events: &[OutboxEvent], window: usize) -> Result<f64, BenchError> {
    let vhost = bench.stage.broker().await?;
    let publisher = publisher(vhost.url()).await?;
    let took = confirms(&publisher, events, window).await?;
    publisher.close(Duration::from_secs(5)).await;
    Ok(rate(events.len(), took))
}
