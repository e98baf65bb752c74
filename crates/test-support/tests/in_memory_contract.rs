//! The in-memory outbox passes every contract suite.

use std::{sync::Arc, time::Duration};

use application_core::{
    outbox::OnPublish,
    ports::{
        InboxPort, LeadershipPort, OutboxAppendPort, OutboxAuditPort, OutboxHoldersPort, OutboxMaintenancePort,
        OutboxOperationsPort, OutboxPausePort, OutboxStatisticsPort, OutboxStorePort, ParkingPort, RelayRegistryPort,
        UnitOfWork,
    },
};
use test_support::{
    clock::FakeClock,
    contracts::OutboxHarness,
    in_memory::{InMemoryOutbox, InMemoryTransaction},
    outbox_contracts,
};

struct InMemory {
    clock: Arc<FakeClock>,
    outbox: InMemoryOutbox,
}

impl OutboxHarness for InMemory {
    type Tx = InMemoryTransaction;

    async fn fresh() -> Self {
        let clock = Arc::new(FakeClock::default());
        Self { outbox: InMemoryOutbox::new(Arc::clone(&clock) as _), clock }
    }

    fn unit_of_work(&self) -> Arc<dyn UnitOfWork<Tx = Self::Tx>> {
        Arc::new(self.outbox.unit_of_work())
    }

    fn append(&self) -> Arc<dyn OutboxAppendPort<Self::Tx>> {
        Arc::new(self.outbox.clone())
    }

    fn store(&self) -> Arc<dyn OutboxStorePort> {
        Arc::new(self.outbox.clone())
    }

    fn store_without_history(&self) -> Arc<dyn OutboxStorePort> {
        Arc::new(self.outbox.clone().on_publish(OnPublish::Delete))
    }

    fn maintenance(&self) -> Arc<dyn OutboxMaintenancePort> {
        Arc::new(self.outbox.clone())
    }

    fn operations(&self) -> Arc<dyn OutboxOperationsPort> {
        Arc::new(self.outbox.clone())
    }

    fn pause(&self) -> Arc<dyn OutboxPausePort> {
        Arc::new(self.outbox.clone())
    }

    fn holders(&self) -> Arc<dyn OutboxHoldersPort> {
        Arc::new(self.outbox.clone())
    }

    fn audit(&self) -> Arc<dyn OutboxAuditPort> {
        Arc::new(self.outbox.clone())
    }

    fn registry(&self) -> Arc<dyn RelayRegistryPort> {
        Arc::new(self.outbox.clone())
    }

    fn statistics(&self) -> Arc<dyn OutboxStatisticsPort> {
        Arc::new(self.outbox.clone())
    }

    fn inbox(&self) -> Arc<dyn InboxPort<Self::Tx>> {
        Arc::new(self.outbox.clone())
    }

    fn parking(&self) -> Arc<dyn ParkingPort> {
        Arc::new(self.outbox.clone())
    }

    fn leadership(&self) -> Arc<dyn LeadershipPort> {
        Arc::new(self.outbox.clone())
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }
}

outbox_contracts!(InMemory);
