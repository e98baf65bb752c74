//! The contract suites of all ports, run against this adapter.

use std::{sync::Arc, time::Duration};

use adapter_persistence_postgres::{
    OutboxReaper, OutboxStoreAdapter, PgTransaction, PostgresInbox, PostgresLeadership, PostgresOutboxClaimRepository,
};
use application_core::{
    outbox::OnPublish,
    ports::{
        InboxPort, LeadershipPort, OutboxAppendPort, OutboxAuditPort, OutboxHoldersPort, OutboxMaintenancePort,
        OutboxOperationsPort, OutboxPausePort, OutboxStatisticsPort, OutboxStorePort, ParkingPort, RelayRegistryPort,
        UnitOfWork,
    },
};
use test_support::contracts::OutboxHarness;

use super::support::{Fixture, PATIENCE};

pub(crate) struct OnPostgres(Fixture);

impl OutboxHarness for OnPostgres {
    type Tx = PgTransaction;

    async fn fresh() -> Self {
        Self(Fixture::new("contract").await)
    }

    fn unit_of_work(&self) -> Arc<dyn UnitOfWork<Tx = PgTransaction>> {
        Arc::new(self.0.work.clone())
    }

    fn append(&self) -> Arc<dyn OutboxAppendPort<PgTransaction>> {
        Arc::new(self.0.events.clone())
    }

    fn store(&self) -> Arc<dyn OutboxStorePort> {
        Arc::new(self.0.store.clone())
    }

    fn store_without_history(&self) -> Arc<dyn OutboxStorePort> {
        let repository = PostgresOutboxClaimRepository::new(self.0.database.clone()).on_publish(OnPublish::Delete);
        Arc::new(OutboxStoreAdapter::new(Arc::new(repository), PATIENCE))
    }

    fn maintenance(&self) -> Arc<dyn OutboxMaintenancePort> {
        Arc::new(OutboxReaper::new(self.0.database.clone()))
    }

    fn operations(&self) -> Arc<dyn OutboxOperationsPort> {
        Arc::new(self.0.events.clone())
    }

    fn pause(&self) -> Arc<dyn OutboxPausePort> {
        Arc::new(self.0.events.clone())
    }

    fn holders(&self) -> Arc<dyn OutboxHoldersPort> {
        Arc::new(self.0.events.clone())
    }

    fn audit(&self) -> Arc<dyn OutboxAuditPort> {
        Arc::new(self.0.events.clone())
    }

    fn registry(&self) -> Arc<dyn RelayRegistryPort> {
        Arc::new(self.0.events.clone())
    }

    fn statistics(&self) -> Arc<dyn OutboxStatisticsPort> {
        Arc::new(self.0.events.clone())
    }

    fn inbox(&self) -> Arc<dyn InboxPort<PgTransaction>> {
        Arc::new(PostgresInbox::new(self.0.database.clone()))
    }

    fn parking(&self) -> Arc<dyn ParkingPort> {
        Arc::new(PostgresInbox::new(self.0.database.clone()))
    }

    fn leadership(&self) -> Arc<dyn LeadershipPort> {
        Arc::new(PostgresLeadership::new(self.0.database.clone()))
    }

    async fn advance(&self, by: Duration) {
        let columns = [
            ("outbox_event", &["created_at", "published_at", "next_attempt_at", "resolved_at"][..]),
            ("outbox_lane", &["due_at"]),
            ("outbox_claim", &["claimed_at", "lease_expires_at", "reaped_at"]),
            ("outbox_due_floor", &["looked_at", "due_from", "next_look_at"]),
            ("outbox_leader", &["expires_at"]),
            ("outbox_pause", &["paused_at"]),
            ("outbox_relay", &["started_at", "seen_at"]),
            ("outbox_retention", &["gone_until"]),
            ("outbox_inbox", &["processed_at"]),
            ("outbox_inbox_parked", &["parked_at"]),
        ];
        let mut sql = self.0.sql().await;
        for (table, times) in columns {
            let earlier: Vec<String> =
                times.iter().map(|t| format!("{t} = {t} - interval '{} microseconds'", by.as_micros())).collect();
            sql.execute(&format!("UPDATE {table} SET {}", earlier.join(", "))).await;
        }
    }
}

test_support::outbox_contracts!(OnPostgres);
