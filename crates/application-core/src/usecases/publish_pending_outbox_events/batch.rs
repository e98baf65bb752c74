//! The publishing of one claim: runs side by side, the events of a run one after the other.

use std::{
    collections::BTreeMap,
    pin::pin,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::{
    StreamExt,
    future::{Either, select},
    stream,
};

use super::{
    PublishPendingOutboxEventsUseCase,
    settle::{Reason, RunEnd},
};
use crate::{
    outbox::{BreakerState, ConfirmedRun, FailureClass, LeaseToken, OutboxEvent, PublishFailure, Run},
    ports::{Destination, OutboxSignal, with_causes},
    usecases::StopSignal,
};

/// A claim that is being published.
pub(super) struct Batch<'a> {
    relay: &'a PublishPendingOutboxEventsUseCase,
    token: LeaseToken,
    claimed_at: Duration,
    stop: &'a StopSignal,
    /// When the lease ends, on the monotonic clock.
    lease_ends: Mutex<Duration>,
    destinations: Mutex<BTreeMap<Destination, InBatch>>,
}

/// A destination in this batch.
#[derive(Debug)]
struct InBatch {
    gate: Gate,
    confirmed: u32,
}

/// Whether the events of a destination are still sent in this batch.
#[derive(Debug, Clone, Copy)]
enum Gate {
    Open,
    /// The breaker is half open: the next run is the probe, others wait.
    OneProbe,
    Closed,
}

impl<'a> Batch<'a> {
    pub(super) fn new(
        relay: &'a PublishPendingOutboxEventsUseCase,
        token: LeaseToken,
        claimed_at: Duration,
        stop: &'a StopSignal,
    ) -> Self {
        let lease_ends = Mutex::new(claimed_at + relay.policy.lease);
        Self { relay, token, claimed_at, stop, lease_ends, destinations: Mutex::default() }
    }

    pub(super) fn lease_ends(&self) -> Duration {
        *self.lease_ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many messages each destination confirmed.
    pub(super) fn confirmed_at(&self) -> BTreeMap<Destination, u32> {
        self.destinations().iter().map(|(destination, state)| (destination.clone(), state.confirmed)).collect()
    }

    /// Publishes all runs and tells how each ended. Renews the lease at half time for as long as that takes.
    pub(super) async fn publish(&self, mut runs: Vec<Run>) -> Vec<RunEnd> {
        if self.relay.is_probing() {
            // One event that is refused again and again must not be the probe each time.
            let first = self.relay.drawn_below(runs.len());
            runs.rotate_left(first);
        }
        let window = self.relay.policy.window.max(1);
        let mut ends =
            pin!(stream::iter(runs).map(|run| self.publish_run(run)).buffer_unordered(window).collect::<Vec<_>>());
        let half = self.relay.policy.lease / 2;
        let mut wait = (self.claimed_at + half).saturating_sub(self.relay.clock.monotonic());
        loop {
            match select(ends.as_mut(), self.relay.clock.sleep(wait)).await {
                Either::Left((ends, _)) => return ends,
                Either::Right(((), _)) => {}
            }
            // The confirms are read on while the lease is renewed, and no renewal is dropped half way.
            match select(ends.as_mut(), pin!(self.renew())).await {
                Either::Left((ends, renewal)) => {
                    renewal.await;
                    return ends;
                }
                Either::Right((Some(next), _)) => wait = next,
                Either::Right((None, _)) => return ends.await,
            }
        }
    }

    async fn publish_run(&self, run: Run) -> RunEnd {
        if self.relay.policy.pipelining_may_reorder_within_aggregate {
            self.publish_run_pipelined(run).await
        } else {
            self.publish_run_in_order(run).await
        }
    }

    async fn publish_run_in_order(&self, run: Run) -> RunEnd {
        let mut confirmed = ConfirmedRun { lane: run.lane, confirmed: Vec::with_capacity(run.events.len()) };
        for event in run.events {
            match self.send(&event).await {
                Ok(()) => confirmed.confirmed.push(event.id),
                Err(reason) => return RunEnd::stopped(confirmed, event, reason),
            }
        }
        RunEnd::finished(confirmed)
    }

    /// Only the confirmed start of the run counts: what was confirmed behind a failure is sent again.
    async fn publish_run_pipelined(&self, run: Run) -> RunEnd {
        let mut confirmed = ConfirmedRun { lane: run.lane, confirmed: Vec::with_capacity(run.events.len()) };
        let window = self.relay.policy.window.max(1);
        let mut sends = stream::iter(run.events)
            .map(async |event| {
                let sent = self.send(&event).await;
                (event, sent)
            })
            .buffered(window);
        let mut stopped = None;
        while let Some((event, sent)) = sends.next().await {
            match (sent, &stopped) {
                (Ok(()), None) => confirmed.confirmed.push(event.id),
                (Err(reason), None) => stopped = Some((event, reason)),
                (_, Some(_)) => {}
            }
        }
        match stopped {
            Some((event, reason)) => RunEnd::stopped(confirmed, event, reason),
            None => RunEnd::finished(confirmed),
        }
    }

    /// Sends one event if it may still be sent, and waits for its confirm.
    async fn send(&self, event: &OutboxEvent) -> Result<(), Reason> {
        let relay = self.relay;
        if self.stop.is_set() {
            return Err(Reason::NotSent);
        }
        let begun = relay.clock.monotonic();
        if begun + relay.policy.send_margin >= self.lease_ends() {
            tracing::warn!(event.id = %event.id, "not sent: the lease is about to end");
            return Err(Reason::NotSent);
        }
        let destination = match relay.publisher.destination(event) {
            Ok(destination) => destination,
            Err(failure) => return Err(self.failed(event, None, failure)),
        };
        self.pass_gate(&destination)?;
        match relay.publisher.publish(event).await {
            Ok(()) => {
                let now = relay.clock.monotonic();
                let waited = now.saturating_sub(self.claimed_at);
                let lag = (event.replays == 0).then(|| event.age_at_claim + waited);
                relay.observer.observe(&OutboxSignal::Confirmed { took: now.saturating_sub(begun), lag });
                if let Some(state) = self.destinations().get_mut(&destination) {
                    state.gate = Gate::Open;
                    state.confirmed += 1;
                }
                Ok(())
            }
            Err(failure) => Err(self.failed(event, Some(destination), failure)),
        }
    }

    fn failed(&self, event: &OutboxEvent, destination: Option<Destination>, failure: PublishFailure) -> Reason {
        let class = failure.class();
        self.relay.observer.observe(&OutboxSignal::PublishFailed { class });
        tracing::debug!(event.id = %event.id, class = class.as_str(), reason = failure.reason(), "publish failed");
        if let (FailureClass::Unavailable, Some(destination)) = (class, &destination) {
            // What was not sent yet would only wait for the same time-out.
            if let Some(state) = self.destinations().get_mut(destination) {
                state.gate = Gate::Closed;
            }
        }
        Reason::Failed { destination, failure }
    }

    fn pass_gate(&self, destination: &Destination) -> Result<(), Reason> {
        let mut destinations = self.destinations();
        if !destinations.contains_key(destination) {
            let gate = match self.relay.breaker_state(destination) {
                BreakerState::Closed => Gate::Open,
                BreakerState::HalfOpen => Gate::OneProbe,
                BreakerState::Open { .. } => Gate::Closed,
            };
            destinations.insert(destination.clone(), InBatch { gate, confirmed: 0 });
        }
        match destinations.get_mut(destination).map(|state| &mut state.gate) {
            None | Some(Gate::Open) => Ok(()),
            Some(gate @ Gate::OneProbe) => {
                *gate = Gate::Closed;
                Ok(())
            }
            Some(Gate::Closed) => Err(Reason::Paused { destination: destination.clone() }),
        }
    }

    fn destinations(&self) -> MutexGuard<'_, BTreeMap<Destination, InBatch>> {
        self.destinations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Renews the lease and tells when to do so again; `None`: the claim is gone.
    async fn renew(&self) -> Option<Duration> {
        let lease = self.relay.policy.lease;
        let before = self.relay.clock.monotonic();
        let (ends, next) = match self.relay.store.renew(self.token, lease).await {
            Ok(true) => (before + lease, Some(lease / 2)),
            Ok(false) => {
                tracing::warn!("the lease is gone: nothing more of its claim is sent");
                (Duration::ZERO, None)
            }
            Err(error) => {
                tracing::warn!(error = with_causes(&error), "the lease could not be renewed");
                return Some(lease / 10);
            }
        };
        *self.lease_ends.lock().unwrap_or_else(PoisonError::into_inner) = ends;
        next
    }
}
