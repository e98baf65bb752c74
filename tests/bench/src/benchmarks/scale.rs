//! `scale`: what more relay processes, more workers in one, and more messages in flight bring.

use crate::{
    benchmarks::drain::{claim_all, confirm_rate, drain},
    error::BenchError,
    figures::number,
    runner::Bench,
    seed::Shape,
};

/// Messages in flight.
const WINDOWS: [usize; 7] = [1, 4, 16, 64, 128, 256, 1_000];
const PROCESSES: [usize; 3] = [1, 2, 4];
const WORKERS: [usize; 5] = [1, 2, 4, 8, 16];

pub(crate) async fn run(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    let events = bench.size(30_000, 1_000);
    let some = bench.size(10_000, 200);
    for _ in 0..bench.rounds() {
        let messages = claim_all(bench, Shape::OneEach, some).await?.events;
        for window in WINDOWS {
            let figure = format!("scale.window.{window}");
            let rate = confirm_rate(bench, &messages, window).await?;
            bench.record(&figure, "events/s", rate);
            // In a closed loop the time of one is the number in flight over the rate.
            bench.record(&format!("{figure}.confirm"), "ms", number(window) * 1e3 / rate);
        }
        for processes in PROCESSES {
            let figure = format!("scale.processes.{processes}");
            let drained = drain(bench, &figure, Shape::TenEach, events, processes, |environment| environment).await?;
            bench.record(&figure, "events/s", drained.rate);
        }
        for workers in WORKERS {
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
