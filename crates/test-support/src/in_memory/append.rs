//! Append in memory: lanes in one order, sequences under their locks, events at the commit.

use std::collections::BTreeSet;

use application_core::{
    outbox::{EventId, NewOutboxEvent},
    ports::{OutboxAppendError, OutboxAppendPort},
};
use async_trait::async_trait;

use super::{
    InMemoryOutbox, InMemoryTransaction, Operation,
    locks::Resource,
    state::{EventRow, lane_of},
};

impl InMemoryOutbox {
    async fn append_in(
        &self,
        tx: &mut InMemoryTransaction,
        events: &[NewOutboxEvent],
    ) -> Result<(), OutboxAppendError> {
        let shared = &self.shared;
        tx.check(shared)?;
        let answer = shared.meet(Operation::Append)?;
        let lanes: BTreeSet<_> =
            events.iter().map(|event| lane_of(event.aggregate_type(), event.aggregate_id())).collect();
        for lane in lanes {
            shared.lock(tx.id, &Resource::Lane(lane)).await?;
        }
        for event in events {
            // Whoever appended the same id first decides by its commit or rollback whether this is a duplicate.
            shared.lock(tx.id, &Resource::Event(event.id())).await?;
            self.refuse_duplicate(tx, event.id())?;
            let now = shared.clock.now();
            let sequence = shared.state().next_sequence();
            tx.events.push(EventRow::new(event, sequence, now));
        }
        Ok(answer.pass(())?)
    }

    fn refuse_duplicate(&self, tx: &InMemoryTransaction, id: EventId) -> Result<(), OutboxAppendError> {
        let known = tx.events.iter().any(|event| event.id == id) || self.shared.state().events.contains_key(&id);
        if known { Err(OutboxAppendError::Duplicate { id }) } else { Ok(()) }
    }
}

#[async_trait]
impl OutboxAppendPort<InMemoryTransaction> for InMemoryOutbox {
    async fn append(&self, tx: &mut InMemoryTransaction, events: &[NewOutboxEvent]) -> Result<(), OutboxAppendError> {
        let appended = self.append_in(tx, events).await;
        tx.spoilt |= appended.is_err();
        appended
    }
}
