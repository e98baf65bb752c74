//! A database of its own for each test, and the module wired to it as the bootstrap does.

use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use adapter_persistence_postgres::{
    Database, DatabaseSettings, Migration, OutboxEventRepository, PgTransaction, PostgresInbox, PostgresUnitOfWork,
    migrate, outbox_migrations,
};
use application_core::{
    ports::{Clock, OutboxAppendPort, Random, UnitOfWork, WakeupPort},
    usecases::{HandleMessageOnce, Transactional},
};
use async_trait::async_trait;
use axum::{
    Router,
    body::{Body, to_bytes},
    http::{HeaderMap, Method, Request, StatusCode},
};
use sample_portfolio::{
    adapter::{
        PortfolioModule, PortfolioParts,
        postgres::{PostgresIdempotencyKeys, PostgresPortfolioMinutes, PostgresWorkLogs},
        register,
    },
    application::{CreateWorkLog, CreateWorkLogCommand, IdempotencyKeyPolicy, WorkLogWriter},
    domain::{Minutes, PortfolioId, Title},
    ports::IdempotencyKey,
};
use sea_orm::{ConnectionTrait, DbBackend, FromQueryResult, Statement};
use serde_json::Value;
use test_support::servers::{TestDatabase, shared};
use time::{OffsetDateTime, macros::datetime};
use tower::ServiceExt;
use uuid::Uuid;

pub(crate) const PORTFOLIO: PortfolioId = PortfolioId::new(Uuid::from_u128(0xaa));

/// A second a call, so that ids and times tell the order of calls.
#[derive(Debug, Default)]
pub(crate) struct TickingClock(AtomicI64);

#[async_trait]
impl Clock for TickingClock {
    fn now(&self) -> OffsetDateTime {
        let ticks = self.0.fetch_add(1, Ordering::Relaxed);
        datetime!(2026-03-01 12:00:00.123456789 UTC) + time::Duration::seconds(ticks)
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    async fn sleep(&self, _: Duration) {}
}

#[derive(Debug, Default)]
pub(crate) struct CountingRandom(AtomicU64);

impl Random for CountingRandom {
    fn next_u64(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// Counts the wake-ups.
#[derive(Debug, Default)]
pub(crate) struct CountingWakeup(AtomicU64);

impl CountingWakeup {
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl WakeupPort for CountingWakeup {
    fn wake(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// One event as the outbox holds it.
#[derive(Debug, FromQueryResult)]
pub(crate) struct StoredEvent {
    pub(crate) id: Uuid,
    pub(crate) sequence: i64,
    pub(crate) aggregate_type: String,
    pub(crate) aggregate_id: String,
    pub(crate) event_type: String,
    pub(crate) payload: String,
    pub(crate) headers: Value,
}

/// The module on a database of its own.
pub(crate) struct World {
    pub(crate) database: Database,
    pub(crate) wakeup: Arc<CountingWakeup>,
    pub(crate) clock: Arc<TickingClock>,
    pub(crate) random: Arc<CountingRandom>,
    // Dropped last: it drops the database.
    _test_database: TestDatabase,
}

impl World {
    pub(crate) async fn new(hint: &str) -> Self {
        let application = application_migrations();
        let migrations = outbox_migrations().into_iter().chain(application.clone());
        let fingerprint: Vec<_> = migrations.map(|one| format!("{one} {}", one.checksum())).collect();
        let test_database = shared()
            .database(hint, &fingerprint.join("\n"), async |url: String| {
                migrate(&settings(&url), &application, Duration::from_secs(30)).await.map(drop)
            })
            .await
            .expect("a database");
        let database = Database::connect(&settings(test_database.url())).await.expect("a pool");
        Self {
            database,
            wakeup: Arc::default(),
            clock: Arc::default(),
            random: Arc::default(),
            _test_database: test_database,
        }
    }

    pub(crate) fn unit_of_work(&self) -> Arc<dyn UnitOfWork<Tx = PgTransaction>> {
        Arc::new(PostgresUnitOfWork::new(self.database.clone()))
    }

    pub(crate) fn outbox(&self) -> Arc<dyn OutboxAppendPort<PgTransaction>> {
        Arc::new(OutboxEventRepository::new(self.database.clone()))
    }

    pub(crate) fn transactional_with(
        &self,
        unit_of_work: Arc<dyn UnitOfWork<Tx = PgTransaction>>,
        outbox: Arc<dyn OutboxAppendPort<PgTransaction>>,
    ) -> Arc<Transactional<PgTransaction>> {
        Arc::new(Transactional::new(unit_of_work, outbox, Arc::<CountingWakeup>::clone(&self.wakeup)))
    }

    pub(crate) fn transactional(&self) -> Arc<Transactional<PgTransaction>> {
        self.transactional_with(self.unit_of_work(), self.outbox())
    }

    pub(crate) fn module(&self) -> PortfolioModule {
        register(PortfolioParts {
            transactional: self.transactional(),
            reads: self.unit_of_work(),
            clock: Arc::<TickingClock>::clone(&self.clock),
            random: Arc::<CountingRandom>::clone(&self.random),
            idempotency_keys: IdempotencyKeyPolicy { retention: Duration::from_hours(24), batch: 3 },
        })
    }

    pub(crate) fn work_logs(&self) -> Arc<PostgresWorkLogs> {
        Arc::new(PostgresWorkLogs::new(self.unit_of_work()))
    }

    pub(crate) fn minutes(&self) -> Arc<PostgresPortfolioMinutes> {
        Arc::new(PostgresPortfolioMinutes::new(self.unit_of_work()))
    }

    pub(crate) fn create_work_log(
        &self,
        transactional: Arc<Transactional<PgTransaction>>,
    ) -> Arc<CreateWorkLog<PgTransaction>> {
        let clock: Arc<dyn Clock> = Arc::<TickingClock>::clone(&self.clock);
        let random: Arc<dyn Random> = Arc::<CountingRandom>::clone(&self.random);
        let writer = Arc::new(WorkLogWriter::new(transactional, self.work_logs(), clock, random));
        Arc::new(CreateWorkLog::new(writer, Arc::new(PostgresIdempotencyKeys)))
    }

    /// The module's consumer behind the inbox.
    pub(crate) fn consumer(&self) -> Arc<HandleMessageOnce<PgTransaction>> {
        let PortfolioModule { consumer, handler, .. } = self.module();
        let inbox = Arc::new(PostgresInbox::new(self.database.clone()));
        Arc::new(HandleMessageOnce::new(self.transactional(), inbox, consumer, handler))
    }

    pub(crate) async fn count(&self, from: &str) -> i64 {
        let row = self
            .database
            .orm()
            .query_one_raw(Statement::from_string(DbBackend::Postgres, format!("SELECT count(*) FROM {from}")))
            .await
            .expect("counted")
            .expect("a row");
        row.try_get_by_index(0).expect("a number")
    }

    pub(crate) async fn execute(&self, sql: &str) {
        self.database.orm().execute_unprepared(sql).await.expect("executed");
    }

    /// What a creation writes: work logs, keys and events.
    pub(crate) async fn written(&self) -> [i64; 3] {
        [self.count("work_log").await, self.count("work_log_idempotency").await, self.count("outbox_event").await]
    }

    pub(crate) async fn events(&self) -> Vec<StoredEvent> {
        let sql = "SELECT id, sequence, aggregate_type, aggregate_id, event_type, payload::text AS payload, headers
                   FROM outbox_event ORDER BY sequence";
        StoredEvent::find_by_statement(Statement::from_string(DbBackend::Postgres, sql))
            .all(self.database.orm())
            .await
            .expect("events")
    }

    /// Waits until this many sessions of this database wait for a lock.
    pub(crate) async fn until_sessions_wait(&self, sessions: i64) {
        let waiting = "pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let met = async { while self.count(waiting).await < sessions {} };
        tokio::time::timeout(Duration::from_secs(15), met).await.expect("sessions that wait for a lock");
    }
}

fn settings(url: &str) -> DatabaseSettings {
    let mut settings = DatabaseSettings { url: url.into(), ..DatabaseSettings::default() };
    settings.pool.max_connections = 20;
    // Waiting is what some tests are about: it must end by itself and not by one of these limits.
    settings.pool.acquire_timeout = Duration::from_secs(30);
    settings.statement_timeout = Duration::from_secs(30);
    settings.lock_timeout = Duration::from_secs(20);
    settings.transaction_statement_timeout = Duration::from_secs(30);
    settings
}

/// The files of `migrations/app`, as the application hands them to the migrator.
fn application_migrations() -> Vec<Migration> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../migrations/app");
    let mut migrations: Vec<Migration> = fs::read_dir(&directory)
        .expect("migrations/app")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sql"))
        .map(|path| {
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            let sql = fs::read_to_string(&path).expect("a migration");
            Migration::unapplied(&name, &sql).expect("a migration's name")
        })
        .collect();
    migrations.sort();
    assert!(!migrations.is_empty(), "no migration in {}", directory.display());
    migrations
}

pub(crate) fn command(key: &str, title: &str) -> CreateWorkLogCommand {
    CreateWorkLogCommand {
        portfolio: PORTFOLIO,
        title: Title::try_new(title).expect("valid"),
        planned: Minutes::try_new(90).expect("valid"),
        key: IdempotencyKey::try_new(key).expect("valid"),
        traceparent: None,
    }
}

/// An answer of the routes.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

pub(crate) async fn call(routes: &Router, method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let mut request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::from(body.to_owned())).expect("a request");
    let response = routes.clone().oneshot(request).await.expect("an answer");
    let (parts, body) = response.into_parts();
    let bytes = to_bytes(body, 1 << 20).await.expect("a body");
    let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    Answer { status: parts.status, headers: parts.headers, body }
}
