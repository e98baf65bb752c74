//! A database for each test, events to put into it, and waiting for a condition.

use std::{
    io::Write,
    sync::{
        Arc, Once,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use adapter_persistence_postgres::{
    Database, DatabaseSettings, Migration, OutboxEventRepository, OutboxReaper, OutboxStoreAdapter,
    PostgresOutboxClaimRepository, PostgresUnitOfWork, migrate, outbox_migrations,
};
use application_core::{
    outbox::{ClaimRequest, ClaimScope, ConfirmedRun, EventId, HolderName, LeaseToken, NewOutboxEvent, Run},
    ports::{OutboxAppendError, OutboxAppendPort, OutboxStorePort, UnitOfWork},
};
use secrecy::ExposeSecret;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row, postgres::PgRow};
use test_support::servers::{self, TestDatabase};
use uuid::Uuid;

/// How long a test waits for what must happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A migrated database of one test and the adapter's parts on it.
pub(crate) struct Fixture {
    pub(crate) database: Database,
    pub(crate) settings: DatabaseSettings,
    pub(crate) store: OutboxStoreAdapter,
    pub(crate) events: OutboxEventRepository,
    pub(crate) work: PostgresUnitOfWork,
    pub(crate) reaper: OutboxReaper,
    // Dropped last: the pool above is closed by then.
    test_database: TestDatabase,
}

pub(crate) fn settings_for(url: &str) -> DatabaseSettings {
    let mut settings = DatabaseSettings { url: url.to_owned().into(), ..DatabaseSettings::default() };
    settings.pool.acquire_timeout = Duration::from_secs(20);
    settings.statement_timeout = Duration::from_secs(10);
    "adapter test".clone_into(&mut settings.application_name);
    // Everything goes through a pooler if `test-servers run --pgbouncer` put one before the server (case P46).
    if let Some(pooler) = test_support::servers::env::pgbouncer_url() {
        settings.direct_url = Some(settings.url);
        settings.url = through(&pooler, url).into();
        settings.pgbouncer = true;
    }
    settings
}

fn through(pooler: &str, url: &str) -> String {
    let mut through = url::Url::parse(pooler).expect("the pooler's URL");
    through.set_path(url::Url::parse(url).expect("the database's URL").path());
    through.into()
}

/// Whether two clients that are connected at the same time are served by one process: so behind a pooler that lends its
/// connections for a transaction. PostgreSQL itself has a process for each client.
pub(crate) async fn shares_processes(url: &str) -> bool {
    const PROCESS: &str = "SELECT pg_backend_pid()";
    let (mut one, mut other) = (Sql::connect(url).await, Sql::connect(url).await);
    for _ in 0..20 {
        if one.one::<i32>(PROCESS).await == other.one::<i32>(PROCESS).await {
            return true;
        }
    }
    false
}

/// In a run with a pooler, sees to it that the pool will go through it.
async fn see_the_pooler(settings: &DatabaseSettings) {
    static SAID: Once = Once::new();
    if test_support::servers::env::pgbouncer_url().is_none() {
        return;
    }
    let shared = shares_processes(settings.url.expose_secret()).await;
    assert!(shared, "PGBOUNCER_URL leads to a server without a pooler, or to one that is not in transaction mode");
    // Past the harness, which swallows what passed tests print: the step `pgbouncer` waits for these words.
    SAID.call_once(|| {
        let _unheard = writeln!(std::io::stderr(), "this run goes through a pooler in transaction mode");
    });
}

/// A database with the outbox's tables, copied from a template.
pub(crate) async fn migrated(hint: &str) -> TestDatabase {
    let checksums: Vec<u64> = outbox_migrations().iter().map(Migration::checksum).collect();
    let fingerprint = format!("{checksums:x?}");
    servers::shared()
        .database(hint, &fingerprint, async |url: String| migrate_all(&url, &[]).await)
        .await
        .expect("a database")
}

/// A database with nothing in it.
pub(crate) async fn empty(hint: &str) -> TestDatabase {
    let nothing = async |_: String| Ok::<(), std::io::Error>(());
    servers::shared().database(hint, "nothing", nothing).await.expect("a database")
}

pub(crate) async fn migrate_all(
    url: &str,
    application: &[Migration],
) -> Result<(), adapter_persistence_postgres::MigrateError> {
    migrate(&settings_for(url), application, PATIENCE).await.map(drop)
}

impl Fixture {
    pub(crate) async fn new(hint: &str) -> Self {
        Self::with(hint, |_| {}).await
    }

    pub(crate) async fn with(hint: &str, adjust: impl FnOnce(&mut DatabaseSettings)) -> Self {
        Self::on(migrated(hint).await, adjust).await
    }

    pub(crate) async fn on(test_database: TestDatabase, adjust: impl FnOnce(&mut DatabaseSettings)) -> Self {
        let mut settings = settings_for(test_database.url());
        adjust(&mut settings);
        see_the_pooler(&settings).await;
        let database = Database::connect(&settings).await.expect("a pool");
        let repository = Arc::new(PostgresOutboxClaimRepository::new(database.clone()));
        Self {
            store: OutboxStoreAdapter::new(repository, Duration::from_secs(40)),
            events: OutboxEventRepository::new(database.clone()),
            work: PostgresUnitOfWork::new(database.clone()),
            reaper: OutboxReaper::new(database.clone()),
            database,
            settings,
            test_database,
        }
    }

    pub(crate) fn url(&self) -> &str {
        self.test_database.url()
    }

    pub(crate) fn name(&self) -> &str {
        self.test_database.name()
    }

    /// Appends the events in a transaction of their own.
    pub(crate) async fn append(&self, events: &[NewOutboxEvent]) {
        self.try_append(events).await.expect("appended");
    }

    pub(crate) async fn try_append(&self, events: &[NewOutboxEvent]) -> Result<(), OutboxAppendError> {
        let mut tx = self.work.begin().await?;
        self.events.append(&mut tx, events).await?;
        Ok(self.work.commit(tx).await?)
    }

    /// Claims with ample bounds and a fresh token.
    pub(crate) async fn claim(&self) -> Claim {
        self.claim_as(request()).await
    }

    pub(crate) async fn claim_as(&self, request: ClaimRequest) -> Claim {
        let runs = self.store.claim(&request).await.expect("claimed");
        Claim { token: request.token, runs }
    }

    /// A connection beside the pool, for looking and meddling.
    pub(crate) async fn sql(&self) -> Sql {
        Sql::connect(self.url()).await
    }

    /// Lets the lease of the claim run out.
    pub(crate) async fn expire(&self, token: LeaseToken) {
        let token = token.as_uuid();
        let text = format!(
            "UPDATE outbox_claim SET lease_expires_at = statement_timestamp() - interval '1 s' WHERE token = '{token}'"
        );
        assert_eq!(self.sql().await.execute(&text).await, 1, "the claim stands");
    }

    /// What the view says of the status of an event.
    pub(crate) async fn status(&self, id: EventId) -> String {
        let text = format!("SELECT status FROM outbox_event_state WHERE id = '{id}'");
        self.sql().await.one(&text).await
    }

    /// Every lane must be in order at the end of a test.
    pub(crate) async fn assert_lanes_are_sound(&self) {
        assert_eq!(self.events.examine_lanes().await.expect("examined"), []);
    }
}

/// A connection beside the pool.
pub(crate) struct Sql(pub(crate) PgConnection);

impl Sql {
    pub(crate) async fn connect(url: &str) -> Self {
        Self(PgConnection::connect(url).await.expect("connected"))
    }

    pub(crate) async fn execute(&mut self, text: &str) -> u64 {
        self.try_execute(text).await.expect("executed")
    }

    pub(crate) async fn try_execute(&mut self, text: &str) -> Result<u64, sqlx::Error> {
        let done = sqlx::raw_sql(AssertSqlSafe(text.to_owned())).execute(&mut self.0).await?;
        Ok(done.rows_affected())
    }

    pub(crate) async fn rows(&mut self, text: &str) -> Vec<PgRow> {
        sqlx::raw_sql(AssertSqlSafe(text.to_owned())).fetch_all(&mut self.0).await.expect("read")
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

    /// Waits until the query's only value is true.
    pub(crate) async fn wait_for(&mut self, what: &str, query: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.one::<bool>(query).await {
            assert!(Instant::now() < deadline, "waited in vain until {what}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Waits until the condition holds.
pub(crate) async fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// What a claim handed out.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) token: LeaseToken,
    pub(crate) runs: Vec<Run>,
}

impl Claim {
    pub(crate) fn ids(&self) -> Vec<EventId> {
        self.runs.iter().flat_map(|run| run.events.iter().map(|event| event.id)).collect()
    }

    pub(crate) fn only_run(&self) -> &Run {
        assert_eq!(self.runs.len(), 1, "{self:?}");
        &self.runs[0]
    }

    /// All runs, confirmed to their ends.
    pub(crate) fn confirmed(&self) -> Vec<ConfirmedRun> {
        self.runs.iter().map(|run| confirmed(run, run.events.len())).collect()
    }

    /// All runs, with nothing confirmed.
    pub(crate) fn unconfirmed(&self) -> Vec<ConfirmedRun> {
        self.runs.iter().map(|run| confirmed(run, 0)).collect()
    }
}

/// The run with its first events confirmed.
pub(crate) fn confirmed(run: &Run, first: usize) -> ConfirmedRun {
    ConfirmedRun { lane: run.lane, confirmed: run.events.iter().take(first).map(|event| event.id).collect() }
}

fn next_number() -> u64 {
    static NUMBER: AtomicU64 = AtomicU64::new(1);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

/// A fresh id; later ones are greater.
pub(crate) fn fresh_id() -> EventId {
    let random = [7; 10];
    EventId::new(uuid::Builder::from_unix_timestamp_millis(1_700_000_000_000 + next_number(), &random).into_uuid())
}

pub(crate) fn fresh_token() -> LeaseToken {
    LeaseToken::new(Uuid::from_u128(u128::from(next_number())))
}

/// An event of the aggregate `order`/`aggregate`.
pub(crate) fn event(aggregate: &str) -> NewOutboxEvent {
    event_of("order", aggregate)
}

pub(crate) fn event_of(aggregate_type: &str, aggregate: &str) -> NewOutboxEvent {
    NewOutboxEvent::draft_raw(fresh_id(), (aggregate_type, aggregate), "OrderPlaced", r#"{"n": 1}"#)
        .build()
        .expect("a valid event")
}

pub(crate) fn events(aggregate: &str, count: usize) -> Vec<NewOutboxEvent> {
    (0..count).map(|_| event(aggregate)).collect()
}

pub(crate) fn ids(events: &[NewOutboxEvent]) -> Vec<EventId> {
    events.iter().map(NewOutboxEvent::id).collect()
}

/// A request with ample bounds and a fresh token.
pub(crate) fn request() -> ClaimRequest {
    ClaimRequest {
        token: fresh_token(),
        scope: ClaimScope::Due,
        holder: HolderName::new("relay 'one'"),
        lease: Duration::from_mins(1),
        max_lanes: 100,
        max_run: 100,
        max_events: 1_000,
        max_bytes: 10_000_000,
    }
}
