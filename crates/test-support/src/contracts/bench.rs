//! The bench on which the cases work: short words for what they do all the time.

use std::{
    pin::Pin,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use application_core::{
    outbox::{
        AggregateType, ClaimRequest, ClaimScope, ConfirmedRun, EventId, FailedOutcome, FailedRun, HolderName,
        LeaseToken, NewOutboxEvent, OutboxEventStatus, Run, Settlement,
    },
    ports::{OutboxAppendError, OutboxEventState, ReapReport, ReapRequest},
};

use super::OutboxHarness;
use crate::fixtures::{AGGREGATE_TYPE, Events, uuid};

/// The lease of a claim on the bench.
pub(super) const LEASE: Duration = Duration::from_secs(30);
/// Long enough for any lease of the bench to have run out.
pub(super) const AFTER_LEASE: Duration = Duration::from_secs(31);
/// A backoff or delay that no test outlasts in real time.
pub(super) const LONG: Duration = Duration::from_secs(3_600);

/// A harness, a series of events and a series of tokens.
pub(super) struct Bench<H> {
    pub(super) harness: H,
    pub(super) events: Events,
    tokens: AtomicU64,
}

/// What a claim handed out.
#[derive(Debug, Clone)]
pub(super) struct Claim {
    pub(super) token: LeaseToken,
    pub(super) runs: Vec<Run>,
}

impl Claim {
    /// The ids of each run, sorted by their first event, since lanes are in an order of the adapter's own.
    pub(super) fn ids(&self) -> Vec<Vec<EventId>> {
        let mut ids: Vec<Vec<_>> =
            self.runs.iter().map(|run| run.events.iter().map(|event| event.id).collect()).collect();
        ids.sort();
        ids
    }

    /// The first `confirmed` events of every run.
    pub(super) fn start(&self, confirmed: usize) -> Vec<ConfirmedRun> {
        self.runs
            .iter()
            .map(|run| ConfirmedRun {
                lane: run.lane,
                confirmed: run.events.iter().take(confirmed).map(|event| event.id).collect(),
            })
            .collect()
    }

    /// Every run to its end.
    pub(super) fn whole(&self) -> Vec<ConfirmedRun> {
        self.start(usize::MAX)
    }

    /// Every run fails at its event number `confirmed`.
    pub(super) fn failing_at(&self, confirmed: usize, outcome: FailedOutcome) -> Vec<FailedRun> {
        let failed_at = |run: &Run| run.events[confirmed].id;
        self.start(confirmed)
            .into_iter()
            .zip(&self.runs)
            .map(|(start, run)| FailedRun { run: start, failed: failed_at(run), outcome, error: "no".to_owned() })
            .collect()
    }
}

impl<H: OutboxHarness> Bench<H> {
    pub(super) async fn fresh() -> Self {
        Self { harness: H::fresh().await, events: Events::new(), tokens: AtomicU64::new(0) }
    }

    pub(super) async fn begin(&self) -> H::Tx {
        self.harness.unit_of_work().begin().await.expect("a transaction begins")
    }

    pub(super) async fn commit(&self, tx: H::Tx) {
        self.harness.unit_of_work().commit(tx).await.expect("the transaction commits");
    }

    pub(super) async fn append_in(&self, tx: &mut H::Tx, events: &[NewOutboxEvent]) {
        self.harness.append().append(tx, events).await.expect("the events are appended");
    }

    /// A transaction that has appended and is still open.
    pub(super) async fn open_append(&self, events: &[NewOutboxEvent]) -> H::Tx {
        let mut tx = self.begin().await;
        self.append_in(&mut tx, events).await;
        tx
    }

    /// Appends and commits, or says why not.
    pub(super) async fn try_append(&self, events: &[NewOutboxEvent]) -> Result<(), OutboxAppendError> {
        let mut tx = self.begin().await;
        self.harness.append().append(&mut tx, events).await?;
        self.commit(tx).await;
        Ok(())
    }

    pub(super) async fn append(&self, events: &[NewOutboxEvent]) {
        self.try_append(events).await.expect("the events are appended");
    }

    /// Appends the next `count` events of an aggregate and commits; returns their ids.
    pub(super) async fn appended(&self, aggregate_id: &str, count: usize) -> Vec<EventId> {
        let events = self.events.many_of(aggregate_id, count);
        self.append(&events).await;
        events.iter().map(NewOutboxEvent::id).collect()
    }

    /// A request that takes everything that is due, with a token of its own.
    pub(super) fn request(&self) -> ClaimRequest {
        ClaimRequest {
            token: self.fresh_token(),
            scope: ClaimScope::Due,
            holder: HolderName::new("relay-1"),
            lease: LEASE,
            max_lanes: 100,
            max_run: 100,
            max_events: 1_000,
            max_bytes: 1_048_576,
        }
    }

    pub(super) fn fresh_token(&self) -> LeaseToken {
        LeaseToken::new(uuid(self.tokens.fetch_add(1, Ordering::Relaxed)))
    }

    pub(super) async fn claim(&self) -> Claim {
        self.claim_with(|_| {}).await
    }

    pub(super) async fn claim_with(&self, change: impl FnOnce(&mut ClaimRequest)) -> Claim {
        let mut request = self.request();
        change(&mut request);
        let runs = self.harness.store().claim(&request).await.expect("the claim is answered");
        Claim { token: request.token, runs }
    }

    pub(super) async fn acknowledge(&self, claim: &Claim) -> Settlement {
        self.harness.store().acknowledge(claim.token, &claim.whole()).await.expect("the runs are acknowledged")
    }

    pub(super) async fn release(&self, claim: &Claim, confirmed: usize, delay: Duration) -> Settlement {
        let start = claim.start(confirmed);
        self.harness.store().release(claim.token, &start, delay).await.expect("the runs are released")
    }

    pub(super) async fn fail(&self, claim: &Claim, confirmed: usize, outcome: FailedOutcome) -> Settlement {
        let failing = claim.failing_at(confirmed, outcome);
        self.harness.store().fail(claim.token, &failing).await.expect("the failures are recorded")
    }

    /// Claims what is due and acknowledges it; returns what it was.
    pub(super) async fn publish_due(&self) -> Vec<Vec<EventId>> {
        let claim = self.claim().await;
        if !claim.runs.is_empty() {
            self.acknowledge(&claim).await;
        }
        claim.ids()
    }

    /// Claims what is due and makes the head of every lane DEAD.
    pub(super) async fn kill_due(&self, outcome: FailedOutcome) {
        let claim = self.claim().await;
        assert!(!claim.runs.is_empty(), "something should be due");
        self.fail(&claim, 0, outcome).await;
    }

    pub(super) async fn reap(&self) -> ReapReport {
        self.reap_with(|_| {}).await
    }

    pub(super) async fn reap_with(&self, change: impl FnOnce(&mut ReapRequest)) -> ReapReport {
        let mut request = ReapRequest { max_claims: 100, dead_after_expiries: 10, skip_types: Vec::new() };
        change(&mut request);
        self.harness.maintenance().reap(&request).await.expect("the reaper is answered")
    }

    /// Claims what is due, and lets the lease run out.
    pub(super) async fn let_a_claim_expire(&self) -> Claim {
        let claim = self.claim().await;
        self.harness.advance(AFTER_LEASE).await;
        claim
    }

    pub(super) async fn state(&self, id: EventId) -> OutboxEventState {
        self.find(id).await.expect("the event is there")
    }

    pub(super) async fn find(&self, id: EventId) -> Option<OutboxEventState> {
        self.harness.operations().find(id).await.expect("the event is looked for")
    }

    pub(super) async fn status(&self, id: EventId) -> OutboxEventStatus {
        self.state(id).await.status
    }

    pub(super) async fn statuses(&self, ids: &[EventId]) -> Vec<OutboxEventStatus> {
        let mut statuses = Vec::new();
        for id in ids {
            statuses.push(self.status(*id).await);
        }
        statuses
    }
}

pub(super) fn default_type() -> AggregateType {
    AggregateType::try_new(AGGREGATE_TYPE).expect("the fixtures' type is valid")
}

pub(super) fn stale() -> Settlement {
    Settlement { stale: true, ..Settlement::default() }
}

pub(super) fn settled(freed: u32, events: u32) -> Settlement {
    Settlement { freed, events, ..Settlement::default() }
}

/// Asserts that a call does not end by itself. It is given a moment: a slow adapter passes, a wrong one is found.
pub(super) async fn assert_waits<F: Future>(call: Pin<&mut F>, what: &str) {
    const MOMENT: Duration = Duration::from_millis(100);
    assert!(tokio::time::timeout(MOMENT, call).await.is_err(), "{what} should wait");
}
