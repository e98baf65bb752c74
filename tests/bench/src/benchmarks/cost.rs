//! `cost`: processor time, statements and write-ahead log per event, of the relay and of its limits.

mod parts;

use std::time::Duration;

use application_core::outbox::OnPublish;

use crate::{
    benchmarks::drain::WITHIN,
    error::BenchError,
    figures::number,
    limits::{Loop, WINDOW, WORKERS, claim_and_acknowledge, claims, confirms},
    queue::Queue,
    relays::{Drain, Relays},
    resources::own_cpu_seconds,
    runner::Bench,
    seed::{Backlog, PAYLOAD_BYTES, Payload, Shape},
    stage::{connect, publisher},
    statements::{Statements, Usage},
    verdict::check,
};

pub(crate) async fn run(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    let events = bench.size(50_000, 1_000);
    for _ in 0..bench.rounds() {
        let relay_cpu = of_the_relay(bench, events).await?;
        let claimed = of_claims(bench, events).await?;
        let confirmed_cpu = of_confirms(bench, &claimed.of.events).await?;
        deleting(bench, events).await?;
        parts::run(bench, events).await?;
        let loops = claimed.cpu.zip(confirmed_cpu).map(|(claims, confirms)| claims + confirms);
        let ratio = relay_cpu.zip(loops).map(|(relay, loops)| relay / loops.max(1e-9));
        bench.record_known("cost.relay_cpu_ratio", "ratio", ratio);
    }
    Ok(())
}

/// A real relay; returns its processor seconds.
async fn of_the_relay(bench: &mut Bench<'_>, events: usize) -> Result<Option<f64>, BenchError> {
    let (database, vhost) = (bench.stage.database("cost").await?, bench.stage.broker().await?);
    let relays = Relays::start(&bench.stage.relays(database.url(), vhost.url()), 1).await?;
    let backlog = Backlog::insert(database.url(), Shape::TenEach, events, Payload::Bytes(PAYLOAD_BYTES)).await?;
    let mut statements = Statements::of(database.url()).await?;
    statements.reset().await?;
    let drained = relays.drain(bench.stage, database.url(), backlog, WITHIN).await?;
    let used = statements.usage("%outbox\\_%").await?;
    relays.stop().await?;
    let arrived = Queue::open(vhost.url()).await?.read(events).await?;
    check("cost.relay", database.url(), arrived).await?;

    let thousands = number(events) / 1e3;
    let Drain { relay_cpu, postgres_cpu, broker_cpu, .. } = drained;
    for (name, cpu) in [("relay", relay_cpu), ("postgres", postgres_cpu), ("broker", broker_cpu)] {
        bench.record_known(&format!("cost.cpu.{name}"), "s per 1,000", cpu.map(|cpu| cpu / thousands));
    }
    bench.record_known("cost.statements", "per 1,000", used.map(|used| used.calls / thousands));
    bench.record_known("cost.wal.relay", "bytes an event", used.map(|used| used.wal_bytes / number(events)));
    Ok(relay_cpu)
}

/// A loop with its processor seconds.
struct Costed {
    of: Loop,
    cpu: Option<f64>,
}

/// Limit P, with history kept.
async fn of_claims(bench: &mut Bench<'_>, events: usize) -> Result<Costed, BenchError> {
    let (costed, used) = costed_claims(bench, events, OnPublish::Keep).await?;
    bench.record_known("cost.wal.kept", "bytes an event", used.map(|used| used.wal_bytes / number(events)));
    bench.record_known("cost.cpu.P", "s per 1,000", costed.cpu.map(|cpu| cpu * 1e3 / number(events)));
    Ok(costed)
}

/// Limit P, with events deleted when they are published.
async fn deleting(bench: &mut Bench<'_>, events: usize) -> Result<(), BenchError> {
    let (_, used) = costed_claims(bench, events, OnPublish::Delete).await?;
    bench.record_known("cost.wal.deleted", "bytes an event", used.map(|used| used.wal_bytes / number(events)));
    Ok(())
}

async fn costed_claims(
    bench: &Bench<'_>,
    events: usize,
    on_publish: OnPublish,
) -> Result<(Costed, Option<Usage>), BenchError> {
    let database = bench.stage.database("cost").await?;
    let backlog = Backlog::insert(database.url(), Shape::TenEach, events, Payload::Bytes(PAYLOAD_BYTES)).await?;
    let pool = connect(database.url()).await?;
    backlog.commit().await?;
    let mut statements = Statements::of(database.url()).await?;
    statements.reset().await?;
    let before = own_cpu_seconds();
    let of = claim_and_acknowledge(claims(&pool).on_publish(on_publish), WORKERS, events).await?;
    let cpu = own_cpu_since(before);
    let used = statements.usage("%outbox\\_%").await?;
    pool.close().await;
    Ok((Costed { of, cpu }, used))
}

/// Limit B; returns its processor seconds.
async fn of_confirms(
    bench: &mut Bench<'_>,
    events: &[application_core::outbox::OutboxEvent],
) -> Result<Option<f64>, BenchError> {
    let vhost = bench.stage.broker().await?;
    let publisher = publisher(vhost.url()).await?;
    let before = own_cpu_seconds();
    confirms(&publisher, events, WINDOW).await?;
    let cpu = own_cpu_since(before);
    publisher.close(Duration::from_secs(5)).await;
    Queue::open(vhost.url()).await?.holds_exactly("limit B", events).await?;
    bench.record_known("cost.cpu.B", "s per 1,000", cpu.map(|cpu| cpu * 1e3 / number(events.len())));
    Ok(cpu)
}

fn own_cpu_since(before: Option<f64>) -> Option<f64> {
    Some(own_cpu_seconds()? - before?)
}
