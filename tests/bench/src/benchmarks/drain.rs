//! `drain`: one relay process empties a backlog into a quorum queue, with order on, against limits P0, P, B and B1.

use std::{collections::HashMap, time::Duration};

use application_core::outbox::OutboxEvent;
use system_tests::AppEnvironment;

use crate::{
    error::BenchError,
    figures::{number, rate},
    limits::{WINDOW, WORKERS, bare_confirms, claim_and_acknowledge, claims, confirms, mark_by_key},
    queue::Queue,
    relays::{Drain, Relays},
    resources::{Processors, busy_since},
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
        let ten_each = spread(bench, "a", Shape::TenEach, events).await?;
        spread(bench, "b", Shape::OneEach, events).await?;
        let zipf = spread(bench, "c", Shape::Zipf, events).await?;
        let unordered = drain(bench, "drain.c.pipelined", Shape::Zipf, events, 1, pipelined).await?.rate;
        bench.record("drain.c.pipelined", "events/s", unordered);
        let one_by_one = hot(bench, ten_each.relay).await?;
        // Nobody ends before the hottest aggregate does, one confirm after the other.
        bench.record("drain.c.chain", "events/s", one_by_one * number(events) / number(zipf.hottest));
    }
    Ok(())
}

/// What a backlog of many aggregates showed.
struct Spread {
    relay: f64,
    /// Events of the aggregate that has most.
    hottest: usize,
}

/// Many aggregates: against the lesser of P and B.
async fn spread(bench: &mut Bench<'_>, case: &str, shape: Shape, events: usize) -> Result<Spread, BenchError> {
    let figure = |name: &str| format!("drain.{case}.{name}");
    let drained = drain(bench, &figure("relay"), shape, events, 1, |environment| environment).await?;
    let relay = drained.rate;
    bench.record(&figure("relay"), "events/s", relay);
    bench.record_known(&figure("relay.busy"), "of all cores", drained.busy);

    let claimed = claim_all(bench, shape, events).await?;
    bench.record(&figure("P"), "events/s", claimed.rate);
    let Confirmed { rate: confirmed, busy } = confirm_all(bench, &claimed.events, WINDOW).await?;
    bench.record(&figure("B"), "events/s", confirmed);
    bench.record_known(&figure("B.busy"), "of all cores", busy);
    let vhost = bench.stage.broker().await?;
    let bare = bare_confirms(vhost.url(), &claimed.events).await?;
    Queue::open(vhost.url()).await?.holds_exactly("limit B0", &claimed.events).await?;
    bench.record(&figure("B0"), "events/s", rate(claimed.events.len(), bare));
    let marked = mark_all(bench, shape, events).await?;
    bench.record(&figure("P0"), "events/s", marked);

    bench.record(&figure("claims_to_marks"), "ratio", claimed.rate / marked);
    bench.record(&figure("ratio"), "ratio", relay / claimed.rate.min(confirmed));
    // Each limit alone keeps the processors busy, so that a relay that does both has them for a part of its time each.
    let both = 1.0 / (claimed.rate.recip() + confirmed.recip());
    bench.record(&figure("both"), "events/s", both);
    bench.record(&figure("of_both"), "ratio", relay / both);
    let mut of_aggregate: HashMap<_, usize> = HashMap::new();
    for event in &claimed.events {
        *of_aggregate.entry(&event.aggregate_id).or_default() += 1;
    }
    Ok(Spread { relay, hottest: of_aggregate.into_values().max().unwrap_or(1) })
}

/// One aggregate: in order there is one message in flight, so the limit is B1, which is returned.
async fn hot(bench: &mut Bench<'_>, of_ten: f64) -> Result<f64, BenchError> {
    let events = bench.size(20_000, 300);
    let relay = drain(bench, "drain.d.relay", Shape::Hot, events, 1, |environment| environment).await?.rate;
    bench.record("drain.d.relay", "events/s", relay);
    let claimed = claim_all(bench, Shape::Hot, events.min(ONE_BY_ONE)).await?;
    let confirmed = confirm_rate(bench, &claimed.events, 1).await?;
    bench.record("drain.d.B1", "events/s", confirmed);
    bench.record("drain.d.ratio", "ratio", relay / confirmed);

    // Less often is nothing in flight between the end of a run and the next.
    let relay = drain(bench, "drain.d.longer_runs", Shape::Hot, events, 1, longer_runs).await?.rate;
    bench.record("drain.d.longer_runs", "events/s", relay);
    bench.record("drain.d.longer_runs_ratio", "ratio", relay / confirmed);

    let relay = drain(bench, "drain.d.pipelined", Shape::Hot, events, 1, pipelined).await?.rate;
    bench.record("drain.d.pipelined", "events/s", relay);
    bench.record("drain.d.pipelined_ratio", "ratio", relay / of_ten);
    Ok(confirmed)
}

/// With several messages of one aggregate in flight.
fn pipelined(environment: AppEnvironment) -> AppEnvironment {
    environment.with("APP__OUTBOX__RELAY__PIPELINING_MAY_REORDER_WITHIN_AGGREGATE", "true")
}

/// With runs as long as a claim, five times those of the defaults.
fn longer_runs(environment: AppEnvironment) -> AppEnvironment {
    let environment = environment.with("APP__OUTBOX__RELAY__MAX_EVENTS", "500");
    environment.with("APP__OUTBOX__RELAY__MAX_RUN", "500")
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
    let (events, took) = mark_by_key(database.url(), WORKERS).await?;
    Ok(rate(events, took))
}

/// What limit B or B1 showed.
struct Confirmed {
    rate: f64,
    /// The part of all processors that was used meanwhile.
    busy: Option<f64>,
}

/// Limit B or B1 with the messages of these events.
async fn confirm_all(bench: &Bench<'_>, events: &[OutboxEvent], window: usize) -> Result<Confirmed, BenchError> {
    let vhost = bench.stage.broker().await?;
    let publisher = publisher(vhost.url()).await?;
    let processors = Processors::now();
    let took = confirms(&publisher, events, window).await?;
    let busy = busy_since(processors);
    publisher.close(Duration::from_secs(5)).await;
    Queue::open(vhost.url()).await?.holds_exactly(&format!("limit B with a window of {window}"), events).await?;
    Ok(Confirmed { rate: rate(events.len(), took), busy })
}

/// The rate of limit B or B1.
pub(crate) async fn confirm_rate(bench: &Bench<'_>, events: &[OutboxEvent], window: usize) -> Result<f64, BenchError> {
    Ok(confirm_all(bench, events, window).await?.rate)
}
