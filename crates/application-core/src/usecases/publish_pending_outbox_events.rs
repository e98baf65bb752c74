//! Use case: claim due events, publish them, settle what became of them.
//!
//! One call is one round: a claim, the publishes it hands out, and at most a few settling statements. A relay runs a few
//! workers of it side by side, so that one claims while another publishes and a third settles; no other pipeline is
//! needed. Rounds share the breakers, so that a failing destination pauses for all of them.

mod batch;
mod policy;
mod settle;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use uuid::Uuid;

use self::batch::Batch;
pub use self::policy::PublishPolicy;
use super::StopSignal;
use crate::{
    outbox::{Breaker, BreakerState, ClaimRequest, ClaimScope, LaneId, LeaseToken, Run, storable},
    ports::{
        Availability, Clock, Destination, MessagePublishPort, OutboxObserver, OutboxSignal, OutboxStorePort,
        PausedDestination, Random, StoreError, with_causes,
    },
};

/// What one round did, which tells the caller when to run the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PublishOutcome {
    /// Nothing was due.
    Idle,
    /// Nothing was claimed, because nothing could have been published.
    Unavailable {
        /// Why.
        reason: String,
    },
    /// Nothing was claimed, because publishing is switched off.
    Disabled,
    /// Events were claimed.
    Worked {
        /// Events handed out.
        claimed: usize,
        /// Events that the broker confirmed.
        confirmed: usize,
        /// Lanes that wait for a later settling try; the next round should come soon.
        postponed: usize,
    },
}

/// Publishes what is due, a batch a call.
pub struct PublishPendingOutboxEventsUseCase {
    store: Arc<dyn OutboxStorePort>,
    publisher: Arc<dyn MessagePublishPort>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    observer: Arc<dyn OutboxObserver>,
    policy: PublishPolicy,
    state: Mutex<State>,
}

/// What rounds remember for each other.
#[derive(Debug)]
struct State {
    breakers: HashMap<Destination, Breaker>,
    /// Destinations whose breaker is not closed; none: everything, because the publisher can send nothing.
    paused: BTreeMap<Option<Destination>, Paused>,
    /// Moving average of events per lane, which sizes the next claim.
    run_length: f64,
    postponed: Vec<Postponed>,
    /// When overdue lanes were looked for last.
    overdue_checked: Option<Duration>,
}

/// Since when, by the monotonic clock, and why.
#[derive(Debug)]
struct Paused {
    since: Duration,
    reason: String,
}

/// What a claim handed out.
#[derive(Debug)]
struct Claim {
    token: LeaseToken,
    scope: ClaimScope,
    started: Duration,
    runs: Vec<Run>,
}

/// Lanes whose events are settled but which an appender held.
#[derive(Debug, Clone)]
struct Postponed {
    token: LeaseToken,
    lanes: Vec<LaneId>,
}

impl PublishPendingOutboxEventsUseCase {
    /// Puts the parts together.
    #[must_use]
    pub fn new(
        store: Arc<dyn OutboxStorePort>,
        publisher: Arc<dyn MessagePublishPort>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        observer: Arc<dyn OutboxObserver>,
        policy: PublishPolicy,
    ) -> Self {
        let state = Mutex::new(State {
            breakers: HashMap::new(),
            paused: BTreeMap::new(),
            run_length: 1.0,
            postponed: Vec::new(),
            overdue_checked: None,
        });
        Self { store, publisher, clock, random, observer, policy, state }
    }

    /// Runs one round. `stop` ends it early: what is in flight is awaited and settled, the rest is given back.
    ///
    /// # Delivery
    /// At least once: a confirmed event whose settlement fails, or comes after its lease, is published again.
    /// Within an aggregate an event is sent only after the one before it was confirmed.
    ///
    /// # Cancellation
    /// Dropping the call leaves its claim to the reaper; events that were confirmed meanwhile are published again.
    ///
    /// # Errors
    /// [`StoreError`] of the claim, or of a settlement that could not be made while the lease ran.
    pub async fn run_once(&self, stop: &StopSignal) -> Result<PublishOutcome, StoreError> {
        self.free_postponed().await;
        match self.publisher.availability() {
            Availability::Available => self.note_paused(None, None),
            Availability::Unavailable { reason } => {
                self.note_paused(None, Some(&reason));
                return Ok(PublishOutcome::Unavailable { reason });
            }
            Availability::Disabled => return Ok(PublishOutcome::Disabled),
        }
        let Claim { token, scope, started, runs } = self.claim().await?;
        let claimed = runs.iter().map(|run| run.events.len()).sum();
        if runs.is_empty() {
            return Ok(PublishOutcome::Idle);
        }
        // One overdue lane is a hot one: it says nothing about the others.
        if scope == ClaimScope::Due {
            self.learn_run_length(claimed, runs.len());
        }

        let batch = Batch::new(self, token, started, stop);
        let ended = batch.publish(runs).await;
        let lease_ends = batch.lease_ends();
        let confirmed = ended.iter().map(|end| end.run.confirmed.len()).sum();
        let settled = self.settle(token, ended, &batch.confirmed_at(), lease_ends).await;
        let postponed = self.state().postponed.iter().map(|p| p.lanes.len()).sum();
        settled.map(|()| PublishOutcome::Worked { claimed, confirmed, postponed })
    }

    /// Frees the lanes that earlier settlements had to leave; call it before the process ends (case S61).
    pub async fn free_postponed(&self) {
        let waiting = std::mem::take(&mut self.state().postponed);
        for Postponed { token, lanes } in waiting {
            let runs: Vec<_> = lanes.iter().copied().map(settle::nothing_confirmed).collect();
            match self.store.acknowledge(token, &runs).await {
                // Stale: the reaper returned them, which is what was wanted.
                Ok(settlement) => self.remember_postponed(token, settlement.postponed),
                Err(error) => {
                    tracing::warn!(error = with_causes(&error), "lanes stay leased for now");
                    if error.is_transient() {
                        self.remember_postponed(token, lanes);
                    }
                }
            }
        }
    }

    /// What nothing is sent to for now, longest first; at most [`PausedDestination::MOST`].
    #[must_use]
    pub fn paused(&self) -> Vec<PausedDestination> {
        let now = self.clock.monotonic();
        let of = |(destination, paused): (&Option<Destination>, &Paused)| PausedDestination {
            destination: destination.clone(),
            reason: paused.reason.clone(),
            paused_for: now.saturating_sub(paused.since),
        };
        let mut all: Vec<_> = self.state().paused.iter().map(of).collect();
        all.sort_by_key(|paused| std::cmp::Reverse(paused.paused_for));
        all.truncate(PausedDestination::MOST);
        all
    }

    /// Remembers why a destination takes nothing, the newest reason of a pause; without one, the pause is over.
    fn note_paused(&self, destination: Option<&Destination>, reason: Option<&str>) {
        let now = self.clock.monotonic();
        let mut state = self.state();
        let Some(reason) = reason.map(storable) else {
            state.paused.remove(&destination.cloned());
            return;
        };
        let paused = state.paused.entry(destination.cloned());
        paused.or_insert_with(|| Paused { since: now, reason: String::new() }).reason = reason;
    }

    async fn claim(&self) -> Result<Claim, StoreError> {
        if self.overdue_check_is_due() {
            let claim = self.claim_in(ClaimScope::Overdue).await?;
            if !claim.runs.is_empty() {
                return Ok(claim);
            }
        }
        self.claim_in(ClaimScope::Due).await
    }

    async fn claim_in(&self, scope: ClaimScope) -> Result<Claim, StoreError> {
        // The clock is read before the claim is sent: the lease cannot end earlier than this says (rule R6).
        let started = self.clock.monotonic();
        let request = self.request(scope);
        let runs = self.store.claim(&request).await?;
        self.observer.observe(&OutboxSignal::Claimed {
            events: runs.iter().map(|run| run.events.len()).sum(),
            lanes: runs.len(),
            took: self.clock.monotonic().saturating_sub(started),
        });
        Ok(Claim { token: request.token, scope, started, runs })
    }

    /// Now and then, whatever else is due: a lane that appenders hold nearly always would starve (case L31).
    fn overdue_check_is_due(&self) -> bool {
        let now = self.clock.monotonic();
        let mut state = self.state();
        let last = *state.overdue_checked.get_or_insert(now);
        let due = now.saturating_sub(last) >= self.policy.overdue_check;
        if due {
            state.overdue_checked = Some(now);
        }
        due
    }

    fn request(&self, scope: ClaimScope) -> ClaimRequest {
        let run_length = self.state().run_length;
        let most = self.policy.max_events.max(1);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a quotient of u32 by at least 1")]
        let lanes = (f64::from(most) / run_length.max(1.0)).ceil() as u32;
        // A pipelined run of a whole claim takes no longer than runs side by side, so that it needs no bound of its own.
        let pipelining = self.policy.pipelining_may_reorder_within_aggregate;
        ClaimRequest {
            token: LeaseToken::new(self.fresh_token()),
            scope,
            holder: self.policy.holder.clone(),
            lease: self.policy.lease,
            max_lanes: lanes.max(self.policy.min_lanes).min(most),
            max_run: if pipelining { most } else { self.policy.max_run },
            max_events: most,
            max_bytes: self.policy.max_bytes,
        }
    }

    fn fresh_token(&self) -> Uuid {
        let (high, low) = (self.random.next_u64(), self.random.next_u64());
        uuid::Builder::from_random_bytes(((u128::from(high) << 64) | u128::from(low)).to_be_bytes()).into_uuid()
    }

    fn learn_run_length(&self, events: usize, lanes: usize) {
        #[expect(clippy::cast_precision_loss, reason = "a batch is far below 2^52")]
        let now = events as f64 / lanes.max(1) as f64;
        let mut state = self.state();
        state.run_length = 0.8 * state.run_length + 0.2 * now;
    }

    /// Whether some destination waits for a probe.
    fn is_probing(&self) -> bool {
        let now = self.clock.monotonic();
        self.state().breakers.values().any(|breaker| breaker.state(now) == BreakerState::HalfOpen)
    }

    /// A number below the bound, or 0.
    fn drawn_below(&self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.random.next_u64() % bound).unwrap_or_default()
    }

    fn breaker_state(&self, destination: &Destination) -> BreakerState {
        let now = self.clock.monotonic();
        self.state().breakers.get(destination).map_or(BreakerState::Closed, |breaker| breaker.state(now))
    }

    fn remember_postponed(&self, token: LeaseToken, lanes: Vec<LaneId>) {
        if !lanes.is_empty() {
            self.state().postponed.push(Postponed { token, lanes });
        }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        // The state is valid between any two statements of its users.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for PublishPendingOutboxEventsUseCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PublishPendingOutboxEventsUseCase").field("policy", &self.policy).finish_non_exhaustive()
    }
}
