//! The inbox and the parked aggregates in memory.

use application_core::{
    inbox::ParkedAggregate,
    outbox::{AggregateId, AggregateType, EventId},
    ports::{ConsumerName, FirstSeen, InboxPort, ParkingPort, StoreError},
};
use async_trait::async_trait;

use super::{InMemoryOutbox, InMemoryTransaction, Operation, locks::Resource};

impl InMemoryOutbox {
    async fn record_in(
        &self,
        tx: &mut InMemoryTransaction,
        consumer: &ConsumerName,
        event: EventId,
    ) -> Result<FirstSeen, StoreError> {
        tx.check(&self.shared)?;
        let answer = self.shared.meet(Operation::Inbox)?;
        self.shared.lock(tx.id, &Resource::Inbox(consumer.clone(), event)).await?;
        let record = (consumer.clone(), event);
        let seen = tx.inbox.contains(&record) || self.shared.state().inbox.contains_key(&record);
        if !seen {
            tx.inbox.push(record);
        }
        answer.pass(if seen { FirstSeen::No } else { FirstSeen::Yes })
    }
}

#[async_trait]
impl InboxPort<InMemoryTransaction> for InMemoryOutbox {
    async fn record(
        &self,
        tx: &mut InMemoryTransaction,
        consumer: &ConsumerName,
        event: EventId,
    ) -> Result<FirstSeen, StoreError> {
        let recorded = self.record_in(tx, consumer, event).await;
        tx.spoilt |= recorded.is_err();
        recorded
    }
}

#[async_trait]
impl ParkingPort for InMemoryOutbox {
    async fn parked(
        &self,
        consumer: &ConsumerName,
        aggregate_type: &AggregateType,
        aggregate_id: &AggregateId,
    ) -> Result<Option<ParkedAggregate>, StoreError> {
        let key = (consumer.clone(), aggregate_type.clone(), aggregate_id.clone());
        self.shared.statement(Operation::Inbox, |state, _| Ok(state.parked.get(&key).cloned()))
    }

    async fn park(&self, consumer: &ConsumerName, parked: &ParkedAggregate) -> Result<(), StoreError> {
        let key = (consumer.clone(), parked.aggregate_type.clone(), parked.aggregate_id.clone());
        self.shared.statement(Operation::Inbox, |state, _| {
            state.parked.entry(key).or_insert_with(|| parked.clone());
            Ok(())
        })
    }

    async fn unpark(
        &self,
        consumer: &ConsumerName,
        aggregate_type: &AggregateType,
        aggregate_id: &AggregateId,
    ) -> Result<bool, StoreError> {
        let key = (consumer.clone(), aggregate_type.clone(), aggregate_id.clone());
        self.shared.statement(Operation::Inbox, |state, _| Ok(state.parked.remove(&key).is_some()))
    }
}
