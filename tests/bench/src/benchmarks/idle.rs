//! `idle`: what a relay process costs that has nothing to do.

use std::time::Duration;

use app_bootstrap::clock::SystemClock;
use application_core::ports::Clock;

use crate::{error::BenchError, relays::Relays, runner::Bench, statements::Statements};

/// Within this time polling has slowed down to its longest interval.
const SETTLING: Duration = Duration::from_secs(12);

pub(crate) async fn run(bench: &mut Bench<'_>) -> Result<(), BenchError> {
    let (settling, span) =
        (bench.time(SETTLING, Duration::from_secs(1)), bench.time(Duration::from_secs(30), Duration::from_secs(2)));
    let (database, vhost) = (bench.stage.database("idle").await?, bench.stage.broker().await?);
    let relays = Relays::start(&bench.stage.relays(database.url(), vhost.url()), 1).await?;
    let mut statements = Statements::of(database.url()).await?;
    let clock = SystemClock::new();
    clock.sleep(settling).await;
    // The rounds are stretches of one life: a relay that was just started is not idle.
    for _ in 0..bench.rounds() {
        statements.reset().await?;
        let before = relays.cpu_seconds();
        clock.sleep(span).await;
        let cpu = relays.cpu_seconds().zip(before).map(|(after, before)| (after - before) / span.as_secs_f64());
        let a_second = |calls: f64| calls / span.as_secs_f64();
        let all = statements.usage("%").await?.map(|used| a_second(used.calls));
        let outbox = statements.usage("%outbox\\_%").await?.map(|used| a_second(used.calls));
        bench.record_known("idle.statements", "a second", all);
        bench.record_known("idle.statements.outbox", "a second", outbox);
        bench.record_known("idle.cpu", "cores", cpu);
        bench.record_known("idle.resident", "MiB", relays.resident_mib());
    }
    relays.stop().await
}
