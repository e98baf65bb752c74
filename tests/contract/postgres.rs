//! PostgreSQL behind the contract suites: a database for each test.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use adapter_persistence_postgres::{
    Database, DatabaseSettings, MigrateError, Migration, OutboxEventRepository, OutboxReaper, OutboxStoreAdapter,
    PgTransaction, PostgresInbox, PostgresLeadership, PostgresOutboxClaimRepository, PostgresUnitOfWork, migrate,
    outbox_migrations,
};
use application_core::{
    outbox::{ClaimRequest, ClaimScope, ConfirmedRun, HolderName, LeaseToken, NewOutboxEvent, Run},
    ports::{
        InboxPort, LeadershipPort, OutboxAppendPort, OutboxMaintenancePort, OutboxOperationsPort, OutboxStatisticsPort,
        OutboxStorePort, ParkingPort, UnitOfWork,
    },
};
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row, postgres::PgRow};
use test_support::{
    contracts::OutboxHarness,
    fixtures,
    servers::{self, TestDatabase},
};

const PATIENCE: Duration = Duration::from_secs(30);

/// A database with the outbox's tables.
pub(crate) struct Postgres {
    pub(crate) database: Database,
    // Dropped last: the pool above is closed by then.
    test_database: TestDatabase,
}

pub(crate) fn settings(url: &str) -> DatabaseSettings {
    let mut settings = DatabaseSettings { url: url.to_owned().into(), ..DatabaseSettings::default() };
    settings.pool.acquire_timeout = PATIENCE;
    settings.statement_timeout = PATIENCE;
    settings
}

async fn migrate_outbox(url: String) -> Result<(), MigrateError> {
    migrate(&settings(&url), &[], PATIENCE).await.map(drop)
}

impl Postgres {
    pub(crate) fn url(&self) -> &str {
        self.test_database.url()
    }

    /// A connection beside the pool, for looking and meddling.
    pub(crate) async fn sql(&self) -> Sql {
        Sql(PgConnection::connect(self.url()).await.expect("connected"))
    }

    /// Appends in a transaction of its own.
    pub(crate) async fn append_all(&self, events: &[NewOutboxEvent]) {
        let work = self.unit_of_work();
        let mut tx = work.begin().await.expect("begun");
        self.append().append(&mut tx, events).await.expect("appended");
        work.commit(tx).await.expect("committed");
    }

    /// Claims everything that is due.
    pub(crate) async fn claim(&self) -> (LeaseToken, Vec<Run>) {
        let request = request();
        let runs = self.store().claim(&request).await.expect("claimed");
        (request.token, runs)
    }
}

/// A request with ample bounds and a token of its own.
pub(crate) fn request() -> ClaimRequest {
    static TOKENS: AtomicU64 = AtomicU64::new(1 << 20);
    ClaimRequest {
        token: LeaseToken::new(fixtures::uuid(TOKENS.fetch_add(1, Ordering::Relaxed))),
        scope: ClaimScope::Due,
        holder: HolderName::new("relay-1"),
        lease: Duration::from_mins(1),
        max_lanes: 100,
        max_run: 100,
        max_events: 1_000,
        max_bytes: 10_000_000,
    }
}

/// Every run with its first events confirmed.
pub(crate) fn confirmed(runs: &[Run], first: usize) -> Vec<ConfirmedRun> {
    let start = |run: &Run| ConfirmedRun {
        lane: run.lane,
        confirmed: run.events.iter().take(first).map(|event| event.id).collect(),
    };
    runs.iter().map(start).collect()
}

/// A connection beside the pool.
pub(crate) struct Sql(PgConnection);

impl Sql {
    pub(crate) async fn execute(&mut self, text: &str) {
        self.try_execute(text).await.expect("executed");
    }

    pub(crate) async fn try_execute(&mut self, text: &str) -> Result<(), sqlx::Error> {
        sqlx::raw_sql(AssertSqlSafe(text.to_owned())).execute(&mut self.0).await.map(drop)
    }

    pub(crate) async fn rows(&mut self, text: &str) -> Vec<PgRow> {
        sqlx::raw_sql(AssertSqlSafe(text.to_owned())).fetch_all(&mut self.0).await.expect("read")
    }

    /// The first column of every row.
    pub(crate) async fn column<T>(&mut self, text: &str) -> Vec<T>
    where
        T: for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
    {
        self.rows(text).await.iter().map(|row| row.get(0)).collect()
    }

    /// The first column of the only row.
    pub(crate) async fn one<T>(&mut self, text: &str) -> T
    where
        T: for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
    {
        let rows = self.rows(text).await;
        assert_eq!(rows.len(), 1, "{text}");
        rows[0].get(0)
    }
}

impl OutboxHarness for Postgres {
    type Tx = PgTransaction;

    async fn fresh() -> Self {
        let checksums: Vec<u64> = outbox_migrations().iter().map(Migration::checksum).collect();
        let fingerprint = format!("{checksums:x?}");
        let test_database =
            servers::shared().database("contract", &fingerprint, migrate_outbox).await.expect("a database");
        let database = Database::connect(&settings(test_database.url())).await.expect("a pool");
        Self { database, test_database }
    }

    fn unit_of_work(&self) -> Arc<dyn UnitOfWork<Tx = Self::Tx>> {
        Arc::new(PostgresUnitOfWork::new(self.database.clone()))
    }

    fn append(&self) -> Arc<dyn OutboxAppendPort<Self::Tx>> {
        Arc::new(OutboxEventRepository::new(self.database.clone()))
    }

    fn store(&self) -> Arc<dyn OutboxStorePort> {
        let repository = PostgresOutboxClaimRepository::new(self.database.clone());
        Arc::new(OutboxStoreAdapter::new(Arc::new(repository), PATIENCE))
    }

    fn maintenance(&self) -> Arc<dyn OutboxMaintenancePort> {
        Arc::new(OutboxReaper::new(self.database.clone()))
    }

    fn operations(&self) -> Arc<dyn OutboxOperationsPort> {
        Arc::new(OutboxEventRepository::new(self.database.clone()))
    }

    fn statistics(&self) -> Arc<dyn OutboxStatisticsPort> {
        Arc::new(OutboxEventRepository::new(self.database.clone()))
    }

    fn inbox(&self) -> Arc<dyn InboxPort<Self::Tx>> {
        Arc::new(PostgresInbox::new(self.database.clone()))
    }

    fn parking(&self) -> Arc<dyn ParkingPort> {
        Arc::new(PostgresInbox::new(self.database.clone()))
    }

    fn leadership(&self) -> Arc<dyn LeadershipPort> {
        Arc::new(PostgresLeadership::new(self.database.clone()))
    }

    /// Ages every stored time instead of waiting. NULL stays NULL.
    async fn advance(&self, by: Duration) {
        let by = format!("interval '{} microseconds'", by.as_micros());
        let aged = |table: &str, columns: &[&str]| {
            let set: Vec<_> = columns.iter().map(|column| format!("{column} = {column} - {by}")).collect();
            format!("UPDATE {table} SET {};", set.join(", "))
        };
        let text = [
            aged("outbox_event", &["created_at", "next_attempt_at", "published_at", "resolved_at"]),
            aged("outbox_lane", &["due_at"]),
            aged("outbox_claim", &["claimed_at", "lease_expires_at", "reaped_at"]),
            aged("outbox_due_floor", &["looked_at", "due_from", "next_look_at"]),
            aged("outbox_leader", &["expires_at"]),
            aged("outbox_inbox", &["processed_at"]),
            aged("outbox_inbox_parked", &["parked_at"]),
        ]
        .concat();
        self.sql().await.execute(&text).await;
    }
}
