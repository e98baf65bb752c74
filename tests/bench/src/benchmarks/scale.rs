//! `scale`: what more relay processes, and more workers in one, bring.

use crate::{benchmarks::drain::drain, error::BenchError, runner::Bench, seed::Shape};

const NUMBERS: [usize; 3] = [1, 2, 4];

pub(crate) async fn run(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    let events = bench.size(30_000, 1_000);
    for _ in 0..bench.rounds() {
        for processes in NUMBERS {
            let figure = format!("scale.processes.{processes}");
            let drained = drain(bench, &figure, Shape::TenEach, events, processes, |environment| environment).await?;
            bench.record(&figure, "events/s", drained.rate);
        }
        for workers in NUMBERS {
            let figure = format!("scale.workers.{workers}");
            let number = workers.to_string();
            let drained = drain(bench, &figure, Shape::TenEach, events, 1, |environment| {
                environment.with("APP__OUTBOX__RELAY__WORKERS", &number)
            })
            .await?;
            bench.record(&figure, "events/s", drained.rate);
        }
    }
    Ok(())
}
