//! An outbox in memory with the leases, tokens, order and failures of the real one, for the tests of services.
//!
//! [`InMemoryOutbox`] implements every port of the outbox and the inbox, and [`InMemoryUnitOfWork`] the transactions. The
//! contract suites in [`crate::contracts`] hold it and the PostgreSQL adapter to the same behaviour.
//!
//! Two things differ by nature. The clock of the database is the [`Clock`] that was handed in. Where the database waits a
//! short time for an appender (an overdue claim, a repeated acknowledgement), this one lets other tasks run a few times
//! and goes on, because a fake clock may never move.

mod append;
mod assertions;
mod audit;
mod failure;
mod holders;
mod inbox;
mod leadership;
mod locks;
mod maintenance;
mod operations;
mod pause;
mod publisher;
mod registry;
mod state;
mod statistics;
mod store;
mod transaction;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use application_core::{
    outbox::{
        AggregateId, AggregateType, EventHeaders, EventId, EventType, LaneId, OnPublish, OutboxEventStatus, Payload,
        Sequence,
    },
    ports::{Clock, StoreError},
};
use time::OffsetDateTime;
use tokio::sync::Notify;

pub use self::{
    assertions::{assert_nothing_open, assert_outbox_contains, assert_outbox_is_empty, assert_outbox_lacks},
    failure::{Operation, StoreErrorKind},
    publisher::{HeldConfirms, RecordingPublisher},
    transaction::{InMemoryTransaction, InMemoryUnitOfWork},
};
use self::{
    failure::{Answer, Failures},
    locks::{Attempt, Resource, TxId},
    state::State,
};

/// The outbox, inbox and leader tables in memory; clones share them.
#[derive(Clone)]
pub struct InMemoryOutbox {
    shared: Arc<Shared>,
    on_publish: OnPublish,
}

/// What the outbox and its transactions share.
struct Shared {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    failures: Mutex<Failures>,
    /// Told whenever a transaction has ended.
    ended: Notify,
}

/// A committed event, as a test looks at it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedEvent {
    /// The event.
    pub id: EventId,
    /// Its place in the order of its aggregate.
    pub sequence: Sequence,
    /// The aggregate's type.
    pub aggregate_type: AggregateType,
    /// The aggregate's identifier.
    pub aggregate_id: AggregateId,
    /// The event's type.
    pub event_type: EventType,
    /// The payload, byte for byte as appended.
    pub payload: Payload,
    /// The headers.
    pub headers: EventHeaders,
    /// Where it stands: all five statuses.
    pub status: OutboxEventStatus,
}

impl InMemoryOutbox {
    /// An empty outbox whose database clock is this one.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let shared = Shared { clock, state: Mutex::default(), failures: Mutex::default(), ended: Notify::new() };
        Self { shared: Arc::new(shared), on_publish: OnPublish::Keep }
    }

    /// The same outbox, whose settlements keep or delete events when they are published.
    #[must_use]
    pub const fn on_publish(mut self, on_publish: OnPublish) -> Self {
        self.on_publish = on_publish;
        self
    }

    /// The unit of work whose transactions append to this outbox.
    #[must_use]
    pub fn unit_of_work(&self) -> InMemoryUnitOfWork {
        InMemoryUnitOfWork::new(Arc::clone(&self.shared))
    }

    /// Makes the next `times` calls fail, whichever they are.
    pub fn fail_next(&self, times: usize, kind: StoreErrorKind) {
        self.shared.failures().order(None, times, kind);
    }

    /// Makes the next `times` calls of one kind fail.
    pub fn fail_next_of(&self, operation: Operation, times: usize, kind: StoreErrorKind) {
        self.shared.failures().order(Some(operation), times, kind);
    }

    /// All committed events in the order of their sequences.
    #[must_use]
    pub fn events(&self) -> Vec<RecordedEvent> {
        let state = self.shared.state();
        let mut events: Vec<_> = state
            .events
            .values()
            .map(|row| RecordedEvent {
                id: row.id,
                sequence: row.sequence,
                aggregate_type: row.aggregate_type.clone(),
                aggregate_id: row.aggregate_id.clone(),
                event_type: row.event_type.clone(),
                payload: row.payload.clone(),
                headers: row.headers.clone(),
                status: state.status_of(row),
            })
            .collect();
        events.sort_by_key(|event| event.sequence);
        events
    }
}

impl fmt::Debug for InMemoryOutbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InMemoryOutbox").field("events", &self.shared.state().events.len()).finish_non_exhaustive()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failures(&self) -> MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn meet(&self, operation: Operation) -> Result<Answer, StoreError> {
        self.failures().meet(operation)
    }

    /// One statement: all of it happens at one moment of the database's clock.
    fn statement<T>(
        &self,
        operation: Operation,
        work: impl FnOnce(&mut State, OffsetDateTime) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let answer = self.meet(operation)?;
        let now = self.clock.now();
        let result = work(&mut self.state(), now)?;
        answer.pass(result)
    }

    /// Waits until the transaction has the resource.
    async fn lock(&self, tx: TxId, resource: &Resource) -> Result<(), StoreError> {
        let _waiting = Waiting { shared: self, tx };
        loop {
            // Created before the try: an end between the two is not missed.
            let ended = self.ended.notified();
            match self.state().locks.try_lock(tx, resource) {
                Attempt::Granted => return Ok(()),
                Attempt::Deadlock => return Err(StoreError::Conflict { source: "deadlock detected".into() }),
                Attempt::Held => {}
            }
            ended.await;
        }
    }

    /// Gives the appenders of a lane a few turns to let go of it.
    async fn wait_a_moment_for(&self, lane: LaneId) {
        const TURNS: usize = 64;
        for _ in 0..TURNS {
            if !self.state().locks.is_held(lane) {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    fn end(&self, tx: TxId, last_words: impl FnOnce(&mut State)) {
        {
            let mut state = self.state();
            last_words(&mut state);
            state.locks.end(tx);
        }
        self.ended.notify_waiters();
    }
}

/// Takes a waiter out of the book, also when its call is dropped.
struct Waiting<'a> {
    shared: &'a Shared,
    tx: TxId,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.shared.state().locks.give_up(self.tx);
    }
}
