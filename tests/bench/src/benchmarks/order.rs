//! `order`: four relay processes share a backlog of few, busy aggregates, with order on.

use crate::{
    benchmarks::drain::{claim_all, confirm_rate, drain},
    error::BenchError,
    figures::number,
    limits::WINDOW,
    runner::Bench,
    seed::Shape,
};

/// Relay processes.
const PROCESSES: usize = 4;
/// Events a second that are asked for where the broker allows them.
const ASKED: f64 = 8_000.0;

pub(crate) async fn run(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    // Ten events an aggregate: 2,000 aggregates.
    let events = bench.size(20_000, 1_000);
    for _ in 0..bench.rounds() {
        let drained = drain(bench, "order.relay", Shape::TenEach, events, PROCESSES, |environment| environment).await?;
        bench.record("order.relay", "events/s", drained.rate);
        let claimed = claim_all(bench, Shape::TenEach, events).await?;
        bench.record("order.P", "events/s", claimed.rate);
        let confirmed = confirm_rate(bench, &claimed.events, WINDOW).await?;
        bench.record("order.B", "events/s", confirmed);
        bench.record("order.to_asked", "ratio", drained.rate / confirmed.min(ASKED));
        let millis = |seconds: Option<f64>| seconds.map(|seconds| seconds * 1e3);
        bench.record_known("order.claim.p50", "ms", millis(drained.claims.percentile(0.5)));
        bench.record_known("order.confirm.p50", "ms", millis(drained.confirms.percentile(0.5)));
        let thousands = number(events) / 1e3;
        bench.record_known("order.postgres_cpu", "s per 1,000", drained.postgres_cpu.map(|cpu| cpu / thousands));
    }
    Ok(())
}
