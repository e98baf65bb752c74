//! Draining a backlog by real relay processes, from the moment that it is committed to the last confirm.

use std::time::{Duration, Instant};

use app_bootstrap::clock::SystemClock;
use application_core::ports::Clock;
use rustix::process::Signal;
use sqlx::{Connection, PgConnection};
use system_tests::{AppEnvironment, AppProcess, TimedOut};

use crate::{
    error::BenchError,
    figures::number,
    histogram::Histogram,
    resources::{self, Processors, busy_since},
    seed::{Backlog, count, figure},
    stage::{PATIENCE, Stage},
};

/// What a drain took.
#[derive(Debug, Clone, Default)]
pub(crate) struct Drain {
    /// Events a second.
    pub(crate) rate: f64,
    /// Processor seconds of all relays; `None` where they cannot be seen.
    pub(crate) relay_cpu: Option<f64>,
    pub(crate) postgres_cpu: Option<f64>,
    pub(crate) broker_cpu: Option<f64>,
    /// The part of all processors that was used meanwhile, by whomever.
    pub(crate) busy: Option<f64>,
    /// The claims of all relays, in seconds.
    pub(crate) claims: Histogram,
    /// From sending to confirm, in seconds.
    pub(crate) confirms: Histogram,
    /// The most memory that a relay had, in MiB.
    pub(crate) peak_mib: Option<f64>,
}

/// Relay processes that are ready and have nothing to do.
pub(crate) struct Relays(Vec<AppProcess>);

impl Relays {
    pub(crate) async fn start(environment: &AppEnvironment, processes: usize) -> Result<Self, BenchError> {
        let mut started = Vec::new();
        for n in 1..=processes {
            started.push(environment.relay(&format!("relay-{n}")).await?);
        }
        Ok(Self(started))
    }

    /// Commits the backlog and waits until every event of it is settled.
    pub(crate) async fn drain(
        &self,
        stage: &Stage<'_>,
        database_url: &str,
        backlog: Backlog,
        within: Duration,
    ) -> Result<Drain, BenchError> {
        let mut connection = PgConnection::connect(database_url).await?;
        let events = backlog.events();
        let before = self.look(stage).await?;
        let committed = backlog.commit().await?;
        let processors = Processors::now();
        wait_until_drained(&mut connection, within).await?;
        let busy = busy_since(processors);
        let after = self.look(stage).await?;
        let published = "SELECT count(*) FROM outbox_event WHERE status = 'PUBLISHED'";
        let published = count(&mut connection, published).await?;
        if usize::try_from(published).ok() != Some(events) {
            return Err(BenchError::Unsound(format!("{published} of {events} events were published")));
        }
        let last = "SELECT extract(epoch FROM max(published_at))::float8 FROM outbox_event";
        let last = figure(&mut connection, last).await?;
        let spent = |before: Option<f64>, after: Option<f64>| Some(after? - before?);
        Ok(Drain {
            rate: number(events) / (last - committed).max(1e-9),
            relay_cpu: spent(before.relay_cpu, after.relay_cpu),
            postgres_cpu: spent(before.postgres_cpu, after.postgres_cpu),
            broker_cpu: spent(before.broker_cpu, after.broker_cpu),
            busy,
            claims: after.claims.since(&before.claims),
            confirms: after.confirms.since(&before.confirms),
            peak_mib: after.peak_mib,
        })
    }

    async fn look(&self, stage: &Stage<'_>) -> Result<Drain, BenchError> {
        let (mut claims, mut confirms) = (Histogram::default(), Histogram::default());
        for process in &self.0 {
            let page = reqwest::get(process.operations_url("/metrics")).await?.text().await?;
            claims = claims.and(&Histogram::read(&page, "outbox_claim_duration_seconds"));
            confirms = confirms.and(&Histogram::read(&page, "outbox_confirm_duration_seconds"));
        }
        let peaks = self.0.iter().filter_map(|process| Some(resources::memory(process.id()?)?.1));
        Ok(Drain {
            rate: 0.0,
            relay_cpu: self.cpu_seconds(),
            postgres_cpu: stage.postgres_cpu().await,
            broker_cpu: stage.broker_cpu().await,
            busy: None,
            claims,
            confirms,
            peak_mib: peaks.reduce(f64::max),
        })
    }

    /// Processor seconds of all of them so far.
    pub(crate) fn cpu_seconds(&self) -> Option<f64> {
        self.0.iter().map(|process| resources::cpu_seconds(process.id()?)).sum()
    }

    /// The resident memory of the largest, in MiB.
    pub(crate) fn resident_mib(&self) -> Option<f64> {
        self.0.iter().filter_map(|process| Some(resources::memory(process.id()?)?.0)).reduce(f64::max)
    }

    /// Asks them to end, which they must do in order.
    pub(crate) async fn stop(mut self) -> Result<(), BenchError> {
        for process in &self.0 {
            process.signal(Signal::TERM)?;
        }
        for process in &mut self.0 {
            let status = process.ended(PATIENCE).await?;
            if !status.success() {
                return Err(BenchError::Unsound(format!("a relay ended with {status}:\n{}", process.log())));
            }
        }
        Ok(())
    }
}

/// A lane exists exactly as long as its aggregate has open events. The look is rare, for it is work as well; when the
/// last event was published is read afterwards.
async fn wait_until_drained(connection: &mut PgConnection, within: Duration) -> Result<(), BenchError> {
    let (clock, begun) = (SystemClock::new(), Instant::now());
    while count(connection, "SELECT count(*) FROM (SELECT FROM outbox_lane LIMIT 1) l").await? > 0 {
        if begun.elapsed() > within {
            return Err(TimedOut::new("an empty outbox", within).into());
        }
        clock.sleep(Duration::from_millis(200)).await;
    }
    Ok(())
}
