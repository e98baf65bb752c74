//! Transactions in memory: what they hold until they end, and what happens then.

use std::{fmt, sync::Arc};

use application_core::{
    outbox::EventId,
    ports::{ConsumerName, StoreError, UnitOfWork},
};
use async_trait::async_trait;

use super::{Operation, Shared, failure::refused, locks::TxId, state::EventRow};

/// Begins and commits transactions on an [`InMemoryOutbox`](super::InMemoryOutbox).
#[derive(Clone)]
pub struct InMemoryUnitOfWork {
    shared: Arc<Shared>,
}

impl InMemoryUnitOfWork {
    pub(super) const fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }
}

impl fmt::Debug for InMemoryUnitOfWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InMemoryUnitOfWork").finish_non_exhaustive()
    }
}

/// An open transaction; dropping it rolls it back.
pub struct InMemoryTransaction {
    pub(super) shared: Arc<Shared>,
    pub(super) id: TxId,
    pub(super) events: Vec<EventRow>,
    pub(super) inbox: Vec<(ConsumerName, EventId)>,
    /// A statement failed in it: it can only be rolled back.
    pub(super) spoilt: bool,
    effects: Vec<Box<dyn FnOnce() + Send + Sync>>,
}

impl InMemoryTransaction {
    /// Puts off an effect until the commit: how a repository in memory takes part in the transaction.
    pub fn on_commit(&mut self, effect: impl FnOnce() + Send + Sync + 'static) {
        self.effects.push(Box::new(effect));
    }

    pub(super) fn check(&self, shared: &Arc<Shared>) -> Result<(), StoreError> {
        if !Arc::ptr_eq(&self.shared, shared) {
            return Err(refused("the transaction belongs to another outbox"));
        }
        if self.spoilt {
            return Err(refused("a statement failed in this transaction before"));
        }
        Ok(())
    }
}

impl Drop for InMemoryTransaction {
    fn drop(&mut self) {
        self.shared.end(self.id, |_| {});
    }
}

impl fmt::Debug for InMemoryTransaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InMemoryTransaction")
            .field("id", &self.id)
            .field("events", &self.events.len())
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl UnitOfWork for InMemoryUnitOfWork {
    type Tx = InMemoryTransaction;

    async fn begin(&self) -> Result<Self::Tx, StoreError> {
        let answer = self.shared.meet(Operation::Begin)?;
        let now = self.shared.clock.now();
        let id = self.shared.state().locks.begin(now);
        answer.pass(InMemoryTransaction {
            shared: Arc::clone(&self.shared),
            id,
            events: Vec::new(),
            inbox: Vec::new(),
            spoilt: false,
            effects: Vec::new(),
        })
    }

    async fn commit(&self, mut tx: Self::Tx) -> Result<(), StoreError> {
        tx.check(&self.shared)?;
        let answer = self.shared.meet(Operation::Commit)?;
        let (events, inbox) = (std::mem::take(&mut tx.events), std::mem::take(&mut tx.inbox));
        let now = self.shared.clock.now();
        self.shared.end(tx.id, |state| {
            for row in events {
                state.insert(row);
            }
            state.inbox.extend(inbox.into_iter().map(|record| (record, now)));
        });
        for effect in std::mem::take(&mut tx.effects) {
            effect();
        }
        answer.pass(())
    }
}
