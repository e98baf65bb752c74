//! The settling of one claim: whose fault each failure was, and what is written about it.

use std::{collections::BTreeMap, time::Duration};

use super::PublishPendingOutboxEventsUseCase;
use crate::{
    outbox::{
        BatchOutcome, BreakerState, ConfirmedRun, DeadHeadPolicy, EventId, EventType, FailedOutcome, FailedRun,
        FailureClass, LaneId, LeaseToken, OutboxEvent, PublishFailure, Settlement, Verdict,
    },
    ports::{Destination, OutboxSignal, StoreError, with_causes},
};

/// How a run ended: its confirmed start, and the event that stopped it, if one did.
#[derive(Debug)]
pub(super) struct RunEnd {
    pub(super) run: ConfirmedRun,
    stopped: Option<(OutboxEvent, Reason)>,
}

/// Why an event was not confirmed.
#[derive(Debug)]
pub(super) enum Reason {
    /// It was not sent: the process stops, or the lease ends.
    NotSent,
    /// It was not sent: its destination takes nothing for now.
    Paused { destination: Destination },
    /// It was sent and failed, or could not be sent at all.
    Failed { destination: Option<Destination>, failure: PublishFailure },
}

impl RunEnd {
    pub(super) const fn finished(run: ConfirmedRun) -> Self {
        Self { run, stopped: None }
    }

    pub(super) const fn stopped(run: ConfirmedRun, event: OutboxEvent, reason: Reason) -> Self {
        Self { run, stopped: Some((event, reason)) }
    }
}

pub(super) const fn nothing_confirmed(lane: LaneId) -> ConfirmedRun {
    ConfirmedRun { lane, confirmed: Vec::new() }
}

/// What the batch showed about a destination.
#[derive(Debug, Clone, Copy)]
struct Judged {
    verdict: Verdict,
    /// It confirmed other messages of this batch.
    takes_others: bool,
    /// How long it is not worth claiming what was held back for it: computed once, so that one statement releases all.
    wait: Duration,
}

/// An event that goes DEAD with its settlement: told only when the store has accepted that.
#[derive(Debug)]
struct Death {
    event: EventId,
    event_type: EventType,
    failure: PublishFailure,
    attempts: u32,
}

/// One settling statement.
#[derive(Debug)]
enum Step {
    Acknowledge(Vec<ConfirmedRun>),
    Fail { runs: Vec<FailedRun>, deaths: Vec<Death> },
    Release(Vec<ConfirmedRun>, Duration),
}

impl Step {
    fn runs(&self) -> usize {
        match self {
            Self::Acknowledge(runs) | Self::Release(runs, _) => runs.len(),
            Self::Fail { runs, .. } => runs.len(),
        }
    }
}

impl PublishPendingOutboxEventsUseCase {
    /// Writes what became of a claim: acknowledgements, failures, releases, in up to three kinds of statement.
    pub(super) async fn settle(
        &self,
        token: LeaseToken,
        ended: Vec<RunEnd>,
        confirmed_at: &BTreeMap<Destination, u32>,
        lease_ends: Duration,
    ) -> Result<(), StoreError> {
        let judged = self.judge(&ended, confirmed_at);
        let mut result = Ok(());
        for step in self.steps(ended, &judged) {
            // A step that fails must not keep the others from being written.
            if let Err(error) = self.write(token, &step, lease_ends).await {
                result = Err(error);
            }
        }
        result
    }

    /// Asks each destination's breaker whose fault the failures were.
    fn judge(&self, ended: &[RunEnd], confirmed_at: &BTreeMap<Destination, u32>) -> BTreeMap<Destination, Judged> {
        let mut outcomes: BTreeMap<&Destination, BatchOutcome> = BTreeMap::new();
        let mut failures: BTreeMap<&Destination, &PublishFailure> = BTreeMap::new();
        for (destination, confirmed) in confirmed_at {
            outcomes.entry(destination).or_default().confirmed = *confirmed;
        }
        for end in ended {
            if let Some((_, Reason::Failed { destination: Some(destination), failure })) = &end.stopped {
                outcomes.entry(destination).or_default().count(failure.class());
                failures.insert(destination, failure);
            }
        }
        let now = self.clock.monotonic();
        let mut judged = BTreeMap::new();
        for (destination, outcome) in outcomes {
            let mut state = self.state();
            let breaker = state.breakers.entry(destination.clone()).or_default();
            let was_closed = breaker.state(now) == BreakerState::Closed;
            let verdict = breaker.judge(outcome, now, &self.policy.breaker);
            let (is_closed, wait) = match breaker.state(now) {
                BreakerState::Closed => (true, Duration::ZERO),
                BreakerState::Open { remaining } => (false, remaining),
                // The probe said nothing about the destination: the next one decides.
                BreakerState::HalfOpen => (false, self.policy.breaker.first_pause),
            };
            drop(state);
            if is_closed {
                self.note_paused(Some(destination), None);
            } else if let Some(failure) = failures.get(destination) {
                self.note_paused(Some(destination), Some(&failure.to_string()));
            }
            if was_closed != is_closed {
                tracing::warn!(%destination, open = !is_closed, "the circuit breaker changed");
                self.observer.observe(&OutboxSignal::BreakerChanged { destination, open: !is_closed });
            }
            let takes_others = outcome.confirmed > 0;
            judged.insert(destination.clone(), Judged { verdict, takes_others, wait });
        }
        judged
    }

    fn steps(&self, ended: Vec<RunEnd>, judged: &BTreeMap<Destination, Judged>) -> Vec<Step> {
        let (mut finished, mut failed, mut deaths) = (Vec::new(), Vec::new(), Vec::new());
        let mut released: BTreeMap<Duration, Vec<ConfirmedRun>> = BTreeMap::new();
        for RunEnd { run, stopped } in ended {
            match stopped {
                None => finished.push(run),
                Some((_, Reason::NotSent)) => released.entry(Duration::ZERO).or_default().push(run),
                Some((_, Reason::Paused { destination })) => {
                    let wait = judged.get(&destination).map_or(self.policy.breaker.first_pause, |judged| judged.wait);
                    released.entry(wait).or_default().push(run);
                }
                Some((event, Reason::Failed { destination, failure })) => {
                    let judged = destination.and_then(|destination| judged.get(&destination));
                    match (failure.class(), judged.map(|judged| judged.verdict)) {
                        (
                            FailureClass::Unavailable | FailureClass::Rejected | FailureClass::Unroutable,
                            Some(Verdict::Destination { pause }),
                        ) => {
                            released.entry(pause).or_default().push(run);
                        }
                        (FailureClass::Unavailable, _) => {
                            released.entry(self.policy.breaker.first_pause).or_default().push(run);
                        }
                        // Each process judges by what it has seen itself, which is little after a start: several of them
                        // could charge a lone event to its death while the destination takes nothing at all.
                        (FailureClass::Rejected | FailureClass::Unroutable, Some(Verdict::Messages))
                            if self.is_last_attempt(&event) && !judged.is_some_and(|judged| judged.takes_others) =>
                        {
                            released.entry(self.policy.breaker.first_pause).or_default().push(run);
                        }
                        _ => {
                            let (failed_run, death) = self.failed_run(run, event, failure);
                            failed.push(failed_run);
                            deaths.extend(death);
                        }
                    }
                }
            }
        }
        let mut steps = Vec::new();
        if !finished.is_empty() {
            steps.push(Step::Acknowledge(finished));
        }
        if !failed.is_empty() {
            steps.push(Step::Fail { runs: failed, deaths });
        }
        steps.extend(released.into_iter().map(|(wait, runs)| Step::Release(runs, wait)));
        steps
    }

    const fn is_last_attempt(&self, event: &OutboxEvent) -> bool {
        event.attempts.saturating_add(1) >= self.policy.backoff.max_attempts()
    }

    fn failed_run(&self, run: ConfirmedRun, event: OutboxEvent, failure: PublishFailure) -> (FailedRun, Option<Death>) {
        let (attempts, error) = (event.attempts.saturating_add(1), failure.to_string());
        let hopeless = failure.class() == FailureClass::Poison || self.is_last_attempt(&event);
        let outcome = if hopeless {
            match self.policy.dead_head(&event.aggregate_type) {
                DeadHeadPolicy::Block => FailedOutcome::Block,
                DeadHeadPolicy::Skip => FailedOutcome::Skip,
            }
        } else {
            FailedOutcome::Retry { after: self.policy.backoff.delay(attempts, &*self.random) }
        };
        let failed_run = FailedRun { run, failed: event.id, outcome, error };
        let death = Death { event: event.id, event_type: event.event_type, failure, attempts };
        (failed_run, hopeless.then_some(death))
    }

    /// Writes one step, again and again while the lease runs and the database may come back.
    async fn write(&self, token: LeaseToken, step: &Step, lease_ends: Duration) -> Result<(), StoreError> {
        let mut pause = Duration::from_millis(20);
        loop {
            let begun = self.clock.monotonic();
            let error = match self.write_once(token, step).await {
                Ok(settlement) => {
                    self.take_in(token, step, settlement, begun);
                    return Ok(());
                }
                Err(error) => error,
            };
            if !error.is_transient() || self.clock.monotonic() + pause >= lease_ends {
                tracing::error!(
                    error = with_causes(&error),
                    runs = step.runs(),
                    "a settlement could not be written: its events will be published again"
                );
                return Err(error);
            }
            self.clock.sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }

    async fn write_once(&self, token: LeaseToken, step: &Step) -> Result<Settlement, StoreError> {
        match step {
            Step::Acknowledge(runs) => self.store.acknowledge(token, runs).await,
            Step::Fail { runs, .. } => self.store.fail(token, runs).await,
            Step::Release(runs, wait) => self.store.release(token, runs, *wait).await,
        }
    }

    fn take_in(&self, token: LeaseToken, step: &Step, settlement: Settlement, begun: Duration) {
        if settlement.stale {
            tracing::warn!(runs = step.runs(), "the lease was over before its events were settled");
            self.observer.observe(&OutboxSignal::Stale { runs: step.runs() });
            return;
        }
        if let Step::Fail { deaths, .. } = step {
            for death in deaths {
                self.tell_death(death);
            }
        }
        self.observer.observe(&OutboxSignal::Settled {
            events: settlement.events,
            postponed: settlement.postponed.len(),
            took: self.clock.monotonic().saturating_sub(begun),
        });
        self.remember_postponed(token, settlement.postponed);
    }

    fn tell_death(&self, Death { event, event_type, failure, attempts }: &Death) {
        let class = failure.class();
        self.observer.observe(&OutboxSignal::Died { class, events: 1 });
        tracing::error!(event.id = %event, event.r#type = %event_type,
            class = class.as_str(), reason = failure.reason(), attempts, "the event is DEAD");
    }
}
