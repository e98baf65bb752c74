//! The relay's workers: each runs the publish use case round after round.

use std::{
    fmt,
    future::Future,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use application_core::{
    ports::{Random, StoreError, with_causes},
    usecases::{ObserveOutboxUseCase, PublishOutcome, PublishPendingOutboxEventsUseCase, StopSignal},
};
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::RelayReporter;
use crate::{outage::Outage, wakeup::RelayWakeup};

#[cfg(test)]
mod tests;

/// When the workers run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RelaySchedule {
    /// Workers side by side; 1 or more. A few overlap claiming, publishing and settling, and leave one to a hot
    /// aggregate without holding up the others; more help when the broker is far.
    pub workers: usize,
    /// The first wait when nothing is due; doubled up to `longest_poll`, with jitter.
    pub shortest_poll: Duration,
    /// The longest wait when nothing is due: the bound on latency when every wake-up is lost.
    pub longest_poll: Duration,
    /// The longest wait when the database or the broker cannot be reached.
    pub longest_retry: Duration,
    /// A round that claims at least this many events wakes another worker.
    pub busy_from: usize,
}

/// Why the relay came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelayEnd {
    /// It was asked to stop.
    Stopped,
    /// Nothing is due and nothing is in flight.
    Drained,
}

/// Runs the publish use case in a few workers.
///
/// A worker that finds nothing waits for a wake-up. The first one also polls, from `shortest_poll` up to `longest_poll`
/// with jitter, so that relays that were started together do not poll in step (case S64); one poller a process keeps an
/// idle relay cheap.
pub struct OutboxRelayScheduler {
    use_case: Arc<PublishPendingOutboxEventsUseCase>,
    statistics: Arc<ObserveOutboxUseCase>,
    wakeup: RelayWakeup,
    random: Arc<dyn Random>,
    schedule: RelaySchedule,
    reporter: Mutex<Option<RelayReporter>>,
    /// Workers that are in a round now.
    busy: AtomicUsize,
    /// Rounds that claimed something.
    worked: AtomicUsize,
    outage: Outage,
}

/// How long nothing must have been due before an outbox counts as drained: a claim that is just being made shows
/// neither its lanes nor its lease, and a lane may be found a quarter of a second late.
const QUIET: Duration = Duration::from_secs(1);

impl OutboxRelayScheduler {
    /// Puts the parts together.
    #[must_use]
    pub fn new(
        use_case: Arc<PublishPendingOutboxEventsUseCase>,
        statistics: Arc<ObserveOutboxUseCase>,
        wakeup: RelayWakeup,
        random: Arc<dyn Random>,
        schedule: RelaySchedule,
    ) -> Self {
        let (busy, worked, outage) = (AtomicUsize::new(0), AtomicUsize::new(0), Outage::default());
        let reporter = Mutex::default();
        Self { use_case, statistics, wakeup, random, schedule, reporter, busy, worked, outage }
    }

    /// The same relay, which reports to the list of relays from its first round to the end of its last.
    #[must_use]
    pub fn reporting(mut self, reporter: RelayReporter) -> Self {
        self.reporter = Mutex::new(Some(reporter));
        self
    }

    /// Runs until it is stopped; then settles what is in flight and frees what it still holds (case S61).
    pub async fn run(self: Arc<Self>, cancel: CancellationToken) {
        self.run_workers(cancel, false).await;
    }

    /// Runs until nothing is due or it is stopped.
    pub async fn run_until_drained(self: Arc<Self>, cancel: CancellationToken) -> RelayEnd {
        let drained = cancel.child_token();
        self.run_workers(drained, true).await;
        if cancel.is_cancelled() { RelayEnd::Stopped } else { RelayEnd::Drained }
    }

    async fn run_workers(self: Arc<Self>, cancel: CancellationToken, until_drained: bool) {
        let stop = StopSignal::new();
        let workers = TaskTracker::new();
        let (reports, ended) = (TaskTracker::new(), CancellationToken::new());
        let reporter = self.reporter.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(reporter) = reporter {
            reports.spawn(reporter.run(ended.clone()));
        }
        reports.close();
        let ends = ended.drop_guard();
        for index in 0..self.schedule.workers.max(1) {
            let worker = Worker {
                relay: Arc::clone(&self),
                polls: index == 0,
                until_drained: until_drained && index == 0,
                stop: stop.clone(),
                cancel: cancel.clone(),
            };
            workers.spawn(worker.run());
        }
        workers.close();
        cancel.cancelled().await;
        stop.set();
        workers.wait().await;
        self.use_case.free_postponed().await;
        drop(ends);
        reports.wait().await;
    }

    fn log_failure(&self, error: &StoreError) {
        if self.outage.begins() {
            tracing::error!(error = with_causes(error), "the relay's round failed");
        } else {
            tracing::debug!(error = with_causes(error), "the relay's round failed again");
        }
    }

    fn jittered(&self, wait: Duration) -> Duration {
        wait.mul_f64(0.75 + 0.5 * self.random.next_unit())
    }
}

impl fmt::Debug for OutboxRelayScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboxRelayScheduler").field("schedule", &self.schedule).finish_non_exhaustive()
    }
}

struct Worker {
    relay: Arc<OutboxRelayScheduler>,
    polls: bool,
    until_drained: bool,
    stop: StopSignal,
    cancel: CancellationToken,
}

impl Worker {
    async fn run(self) {
        let schedule = self.relay.schedule;
        let (mut poll, mut retry) = (schedule.shortest_poll, schedule.shortest_poll);
        let mut quiet = Quiet::new(&self.relay);
        let mut nothing_in_flight = false;
        while !self.cancel.is_cancelled() {
            self.relay.busy.fetch_add(1, Ordering::AcqRel);
            let outcome = self.relay.use_case.run_once(&self.stop).await;
            self.relay.busy.fetch_sub(1, Ordering::AcqRel);
            if matches!(outcome, Ok(PublishOutcome::Worked { .. } | PublishOutcome::Idle)) && self.relay.outage.ends() {
                tracing::info!("the relay works again");
            }
            match outcome {
                Ok(PublishOutcome::Worked { claimed, postponed, .. }) => {
                    self.relay.worked.fetch_add(1, Ordering::AcqRel);
                    nothing_in_flight = false;
                    (poll, retry) = (schedule.shortest_poll, schedule.shortest_poll);
                    if claimed >= schedule.busy_from || postponed > 0 {
                        self.relay.wakeup.wake_local();
                    }
                }
                Ok(PublishOutcome::Idle) => {
                    retry = schedule.shortest_poll;
                    if self.until_drained && quiet.is_long(&self.relay) && self.is_drained().await {
                        if nothing_in_flight {
                            self.cancel.cancel();
                            return;
                        }
                        // A lease may have been returned between the claim and this look: its events are due now.
                        nothing_in_flight = true;
                        continue;
                    }
                    nothing_in_flight = false;
                    self.idle(poll).await;
                    poll = (poll * 2).min(schedule.longest_poll);
                }
                Ok(PublishOutcome::Disabled) => {
                    self.cancel.cancelled().await;
                }
                Ok(PublishOutcome::Unavailable { reason }) => {
                    // The publisher has told that its connection is lost, and will tell when it is back.
                    tracing::debug!(reason, "nothing is claimed: the broker cannot take anything");
                    self.pause(retry).await;
                    retry = (retry * 2).min(schedule.longest_retry);
                }
                Err(error) => {
                    self.relay.log_failure(&error);
                    self.pause(retry).await;
                    retry = (retry * 2).min(schedule.longest_retry);
                }
            }
        }
    }

    /// Waits for work. Workers that do not poll are woken by the one that does, or by a commit.
    async fn idle(&self, poll: Duration) {
        if self.polls {
            let poll = self.relay.jittered(poll);
            let _ = tokio::time::timeout(poll, self.unless_cancelled(self.relay.wakeup.woken())).await;
        } else {
            self.unless_cancelled(self.relay.wakeup.woken()).await;
        }
    }

    async fn pause(&self, wait: Duration) {
        self.unless_cancelled(tokio::time::sleep(self.relay.jittered(wait))).await;
    }

    async fn unless_cancelled(&self, wait: impl Future<Output = ()>) {
        tokio::select! {
            () = self.cancel.cancelled() => {}
            () = wait => {}
        }
    }

    async fn is_drained(&self) -> bool {
        match self.relay.statistics.run_once().await {
            Ok(statistics) => statistics.in_flight == 0,
            Err(error) => {
                self.relay.log_failure(&error);
                false
            }
        }
    }
}

/// Since when nothing was due.
struct Quiet {
    since: Instant,
    worked: usize,
}

impl Quiet {
    fn new(relay: &OutboxRelayScheduler) -> Self {
        Self { since: Instant::now(), worked: relay.worked.load(Ordering::Acquire) }
    }

    /// Whether no worker has claimed anything for long enough, and none is about to.
    fn is_long(&mut self, relay: &OutboxRelayScheduler) -> bool {
        let worked = relay.worked.load(Ordering::Acquire);
        if worked != self.worked {
            *self = Self { since: Instant::now(), worked };
        }
        self.since.elapsed() >= QUIET && relay.busy.load(Ordering::Acquire) == 0
    }
}
