//! Where benchmarks are run: servers, a database for each round, a place on the broker.

use std::{sync::Arc, time::Duration};

use adapter_outbound::{
    OutboundSettings, OutboxMessagePublishAdapter,
    amqp::{AmqpSettings, TopologySettings},
};
use adapter_persistence_postgres::{
    Database, DatabaseSettings, MigrateError, migrate, newest_version, outbox_migrations,
};
use app_bootstrap::{clock::SystemRandom, migrations::migrations::runner, settings::Settings};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use system_tests::AppEnvironment;
use test_support::servers::{Options, Servers, TestDatabase, TestVhost};
use tokio::sync::OnceCell;

use crate::{error::BenchError, queue::Queue, resources};

/// What differs from PostgreSQL's defaults. Durability does not: `fsync`, `full_page_writes` and `synchronous_commit`
/// stay on. Checkpoints are kept apart, so that none falls into one round and not into the other.
pub(crate) const POSTGRES_SETTINGS: &[(&str, &str)] = &[
    ("shared_buffers", "1GB"),
    ("max_wal_size", "16GB"),
    ("checkpoint_timeout", "30min"),
    ("shared_preload_libraries", "pg_stat_statements"),
    // Statements that work: BEGIN, SET LOCAL and COMMIT of the same message are not counted.
    ("pg_stat_statements.track_utility", "off"),
];

/// The queue that relays and limits publish into.
pub(crate) const QUEUE: &str = "app.events";

/// How long anything outside of what is measured may take.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

/// The servers of the benchmarks: durable, with the settings above unless they are somebody else's.
#[must_use]
pub fn servers() -> Servers {
    let options = Options::new();
    Servers::new(
        POSTGRES_SETTINGS.iter().fold(options, |options, (name, value)| options.with_postgres_setting(name, value)),
    )
}

/// Servers, a place on the broker, and a folder for the logs of processes.
pub(crate) struct Stage<'a> {
    servers: &'a Servers,
    directory: tempfile::TempDir,
    // One for all: each further queue would be one more that the broker keeps while others are measured.
    vhost: OnceCell<TestVhost>,
}

impl<'a> Stage<'a> {
    pub(crate) fn new(servers: &'a Servers) -> Result<Self, BenchError> {
        Ok(Self { servers, directory: tempfile::tempdir()?, vhost: OnceCell::new() })
    }

    pub(crate) async fn postgres_url(&self) -> Result<&str, BenchError> {
        Ok(self.servers.postgres().await?.url())
    }

    pub(crate) async fn amqp_url(&self) -> Result<&str, BenchError> {
        Ok(self.servers.rabbitmq().await?.url())
    }

    /// A fresh database with the schema of outbox and application, and a table for business rows.
    pub(crate) async fn database(&self, hint: &str) -> Result<TestDatabase, BenchError> {
        let fingerprint = format!("benchmarks outbox {}", newest_version(&outbox_migrations()));
        let prepare = async |url: String| {
            migrate(&database_settings(&url), runner().get_migrations(), PATIENCE).await.map_err(Prepare::Migrate)?;
            let mut connection = PgConnection::connect(&url).await.map_err(Prepare::Table)?;
            let table = "CREATE TABLE bench_business (id uuid PRIMARY KEY, body text NOT NULL)";
            sqlx::raw_sql(table).execute(&mut connection).await.map_err(Prepare::Table)?;
            Ok::<_, Prepare>(())
        };
        Ok(self.servers.database(hint, &fingerprint, prepare).await?)
    }

    /// A place on the broker with exchange and queue; the queue is empty.
    pub(crate) async fn broker(&self) -> Result<&TestVhost, BenchError> {
        let create = async || {
            let vhost = self.servers.vhost("bench").await?;
            let publisher = publisher(vhost.url()).await?;
            publisher.close(Duration::from_secs(5)).await;
            Ok::<_, BenchError>(vhost)
        };
        let vhost = self.vhost.get_or_try_init(create).await?;
        let queue = Queue::open(vhost.url()).await?;
        queue.purge().await?;
        queue.close().await;
        Ok(vhost)
    }

    /// The environment of relays on this database and broker, with the settings' defaults but for those that the
    /// environment of the benchmarks changes.
    pub(crate) fn relays(&self, database_url: &str, amqp_url: &str) -> AppEnvironment {
        let environment = AppEnvironment::new(self.directory.path(), database_url, Some(amqp_url))
            .with_topology()
            .with("APP__LOGS__FILTER", "warn");
        changed_settings().iter().fold(environment, |environment, (name, value)| environment.with(name, value))
    }

    /// Processor seconds of PostgreSQL so far; `None` if it runs where we cannot look.
    pub(crate) async fn postgres_cpu(&self) -> Option<f64> {
        cpu_of_server(self.servers.postgres().await.ok()?.url())
    }

    /// As [`Self::postgres_cpu`], of the broker.
    pub(crate) async fn broker_cpu(&self) -> Option<f64> {
        cpu_of_server(self.servers.rabbitmq().await.ok()?.url())
    }
}

/// The relay's settings that the environment changes for relay processes, in the order of their names.
pub(crate) fn changed_settings() -> Vec<(String, String)> {
    let mut changed: Vec<_> = std::env::vars().filter(|(name, _)| name.starts_with("APP__OUTBOX__RELAY__")).collect();
    changed.sort_unstable();
    changed
}

#[derive(Debug, thiserror::Error)]
enum Prepare {
    #[error("the schema cannot be made")]
    Migrate(#[source] MigrateError),
    #[error("the table of business rows cannot be made")]
    Table(#[source] sqlx::Error),
}

fn cpu_of_server(url: &str) -> Option<f64> {
    let port = url::Url::parse(url).ok()?.port()?;
    resources::cpu_seconds(resources::listener(port)?)
}

/// Connections of a pool unless a benchmark needs more.
const CONNECTIONS: u32 = 40;

/// Settings as the relay has them, for a database that may be slow at first.
pub(crate) fn database_settings(url: &str) -> DatabaseSettings {
    let mut settings = DatabaseSettings { url: url.to_owned().into(), ..DatabaseSettings::default() };
    settings.pool.max_connections = CONNECTIONS;
    settings.pool.acquire_timeout = Duration::from_secs(30);
    settings.statement_timeout = Duration::from_mins(1);
    settings
}

/// All settings of a relay that runs in this process.
pub(crate) fn relay_settings(database_url: &str, amqp_url: Option<&str>) -> Settings {
    let outbound = amqp_url.map(outbound_settings).unwrap_or_default();
    Settings { database: database_settings(database_url), outbound, ..Settings::default() }
}

/// A pool on the database.
pub(crate) async fn connect(url: &str) -> Result<Database, BenchError> {
    connect_with(url, CONNECTIONS).await
}

/// As [`connect`], with so many connections at most.
pub(crate) async fn connect_with(url: &str, connections: u32) -> Result<Database, BenchError> {
    let mut settings = database_settings(url);
    settings.pool.max_connections = connections;
    Ok(Database::connect(&settings).await?)
}

/// Runs statements whose text is ours.
pub(crate) async fn execute(connection: &mut PgConnection, statements: String) -> Result<(), BenchError> {
    sqlx::raw_sql(AssertSqlSafe(statements)).execute(connection).await?;
    Ok(())
}

fn outbound_settings(amqp_url: &str) -> OutboundSettings {
    let topology = TopologySettings {
        declare: true,
        queue: Some(QUEUE.to_owned()),
        parking_queue: Some(format!("{QUEUE}.parking")),
        ..TopologySettings::default()
    };
    let amqp = AmqpSettings { url: amqp_url.to_owned().into(), topology, ..AmqpSettings::default() };
    OutboundSettings { amqp, ..OutboundSettings::default() }
}

/// The relay's publisher, connected, with exchange and queue declared.
pub(crate) async fn publisher(amqp_url: &str) -> Result<Arc<OutboxMessagePublishAdapter>, BenchError> {
    let failed = |error: String| BenchError::Publisher(error);
    let adapter = OutboxMessagePublishAdapter::start(&outbound_settings(amqp_url), Arc::new(SystemRandom))
        .map_err(|error| failed(error.to_string()))?;
    adapter.wait_until_available(PATIENCE).await.map_err(failed)?;
    let missing = adapter.prepare_topology().await.map_err(|error| failed(error.to_string()))?;
    match missing.first() {
        None => Ok(Arc::new(adapter)),
        Some(problem) => Err(failed(problem.to_string())),
    }
}
