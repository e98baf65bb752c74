//! Use case frame: a domain change and its events in one transaction.

use std::{fmt, sync::Arc};

use tracing::Instrument;

use crate::{
    outbox::NewOutboxEvent,
    ports::{OutboxAppendError, OutboxAppendPort, StoreError, UnitOfWork, WakeupPort},
};

/// An open transaction and the events recorded in it so far.
#[derive(Debug)]
pub struct Transaction<Tx> {
    tx: Tx,
    events: Vec<NewOutboxEvent>,
}

impl<Tx> Transaction<Tx> {
    /// The adapter's transaction, to be lent to a repository.
    pub const fn tx(&mut self) -> &mut Tx {
        &mut self.tx
    }

    /// Records an event; it is appended when the transaction commits, after those recorded before.
    pub fn record(&mut self, event: NewOutboxEvent) {
        self.events.push(event);
    }
}

/// Runs work in a transaction and appends the recorded events at its end, all in one call.
///
/// Appending last keeps the time short for which the events' lanes are locked, and appending once keeps two transactions
/// from waiting for each other's lanes in a circle (ADR 8).
pub struct Transactional<Tx: Send + Sync + 'static> {
    unit_of_work: Arc<dyn UnitOfWork<Tx = Tx>>,
    outbox: Arc<dyn OutboxAppendPort<Tx>>,
    wakeup: Arc<dyn WakeupPort>,
}

impl<Tx: Send + Sync + 'static> Transactional<Tx> {
    /// Puts the ports together.
    #[must_use]
    pub fn new(
        unit_of_work: Arc<dyn UnitOfWork<Tx = Tx>>,
        outbox: Arc<dyn OutboxAppendPort<Tx>>,
        wakeup: Arc<dyn WakeupPort>,
    ) -> Self {
        Self { unit_of_work, outbox, wakeup }
    }

    /// Runs `work`, appends what it recorded, commits, and wakes the relay; all of it in a span `transaction`.
    ///
    /// # Delivery
    /// Either the change and all its events are committed, or nothing is.
    ///
    /// # Cancellation
    /// Before the commit: nothing happens. During the commit: all of it or nothing.
    ///
    /// # Errors
    /// The error of `work`, or of the store converted into it.
    pub async fn run<T, E, F>(&self, work: F) -> Result<T, E>
    where
        E: From<StoreError> + From<OutboxAppendError>,
        F: AsyncFnOnce(&mut Transaction<Tx>) -> Result<T, E>,
    {
        // Below what is logged by default: the transactions of a service that works are no news.
        self.run_to_commit(work).instrument(tracing::debug_span!("transaction")).await
    }

    async fn run_to_commit<T, E, F>(&self, work: F) -> Result<T, E>
    where
        E: From<StoreError> + From<OutboxAppendError>,
        F: AsyncFnOnce(&mut Transaction<Tx>) -> Result<T, E>,
    {
        let tx = self.unit_of_work.begin().await?;
        let mut transaction = Transaction { tx, events: Vec::new() };
        let value = work(&mut transaction).await?;
        let Transaction { mut tx, events } = transaction;
        if !events.is_empty() {
            self.outbox.append(&mut tx, &events).await?;
        }
        self.unit_of_work.commit(tx).await?;
        if !events.is_empty() {
            self.wakeup.wake();
        }
        Ok(value)
    }
}

impl<Tx: Send + Sync + 'static> fmt::Debug for Transactional<Tx> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transactional").finish_non_exhaustive()
    }
}
