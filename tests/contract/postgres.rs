//! A database for each test, and the adapter's parts on it. The suites of the ports run in the adapter's own tests.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use adapter_persistence_postgres::{
    Database, DatabaseSettings, MigrateError, Migration, OutboxEventRepository, OutboxReaper, OutboxStoreAdapter,
    PostgresOutboxClaimRepository, PostgresUnitOfWork, migrate, outbox_migrations,
};
use application_core::{
    outbox::{ClaimRequest, ClaimScope, ConfirmedRun, HolderName, LeaseToken, NewOutboxEvent, Run},
    ports::{OutboxAppendPort, OutboxStorePort, UnitOfWork},
};
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row, postgres::PgRow};
use test_support::{
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

impl Postgres {
    pub(crate) async fn fresh() -> Self {
        let checksums: Vec<u64> = outbox_migrations().iter().map(Migration::checksum).collect();
        let fingerprint = format!("{checksums:x?}");
        let test_database =
            servers::shared().database("contract", &fingerprint, migrate_outbox).await.expect("a database");
        let database = Database::connect(&settings(test_database.url())).await.expect("a pool");
        Self { database, test_database }
    }

    pub(crate) fn unit_of_work(&self) -> PostgresUnitOfWork {
        PostgresUnitOfWork::new(self.database.clone())
    }

    pub(crate) fn append(&self) -> OutboxEventRepository {
        OutboxEventRepository::new(self.database.clone())
    }

    pub(crate) fn store(&self) -> Arc<dyn OutboxStorePort> {
        let repository = PostgresOutboxClaimRepository::new(self.database.clone());
        Arc::new(OutboxStoreAdapter::new(Arc::new(repository), PATIENCE))
    }

    pub(crate) fn maintenance(&self) -> OutboxReaper {
        OutboxReaper::new(self.database.clone())
    }

    pub(crate) fn operations(&self) -> OutboxEventRepository {
        OutboxEventRepository::new(self.database.clone())
    }

    /// Ages every stored time of events, lanes and claims instead of waiting. NULL stays NULL.
    pub(crate) async fn advance(&self, by: Duration) {
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
        ]
        .concat();
        self.sql().await.execute(&text).await;
    }
}
