//! The pool, and what makes a pooled connection safe to lend.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use application_core::ports::StoreError;
use sea_orm::{DatabaseConnection, SqlxPostgresConnector};
use secrecy::SecretString;
use sqlx::{
    ConnectOptions, Connection, PgConnection, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions, PgSslMode},
};

use crate::{
    error::{DriverError, from_opening, from_sqlx},
    settings::{DatabaseSettings, TlsMode, masked, read_url},
};

/// How long a connection may take to show that it is alive.
const PROBE_LIMIT: Duration = Duration::from_secs(1);
/// A connection that was used this recently is lent without a probe.
const TRUSTED_FOR: Duration = Duration::from_secs(1);
/// How long the pool may take to close.
const CLOSE_LIMIT: Duration = Duration::from_secs(2);

/// A pool of connections to one database, to be cloned into every repository.
///
/// Three things keep a connection that something went wrong on from being lent again:
/// - `begin` and `commit` run in tasks of their own ([`PostgresUnitOfWork`](crate::PostgresUnitOfWork)), because the
///   driver (sqlx 0.9.0, issue 4385) leaves a transaction open on the connection when a begin is dropped halfway;
/// - a connection that comes back is asked whether it is inside a transaction, and closed if it is or does not answer.
///   A process that never used the entity layer does not ask: statements of this crate end their transaction in the same
///   message, or close the connection;
/// - a connection whose statement ran out of time is closed at once, without waiting for a server that may be frozen.
#[derive(Clone)]
pub struct Database {
    inner: Arc<Inner>,
}

struct Inner {
    pool: PgPool,
    orm: DatabaseConnection,
    direct: PgConnectOptions,
    limits: Limits,
    entity_layer_used: Arc<AtomicBool>,
}

/// The time allowed to statements, and how they travel.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) statement: Duration,
    pub(crate) transaction_statement: Duration,
    pub(crate) margin: Duration,
    pub(crate) lock: Duration,
    pub(crate) idle_in_transaction: Duration,
    pub(crate) acquire: Duration,
    /// Whether a pooler in transaction mode stands between.
    pub(crate) pooler: bool,
}

impl Database {
    /// Makes sure that the server lets us in, and opens the pool.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the server cannot be reached within `pool.acquire_timeout` or cannot prove its
    /// name, [`StoreError::Refused`] when it does not let us in or the URL cannot be used, [`StoreError::Forbidden`] when
    /// the user has no right to the database.
    pub async fn connect(settings: &DatabaseSettings) -> Result<Self, StoreError> {
        let database = Self::connect_lazy(settings)?;
        // The pool would try until its time is up, and then not say why.
        let limit = database.limits().acquire;
        let first = open(&connect_options(settings, &settings.url)?, limit).await?;
        let _farewell = tokio::time::timeout(CLOSE_LIMIT, first.close()).await;
        let connection = database.pool().acquire().await.map_err(|e| from_sqlx(&e, database.limits().acquire))?;
        drop(connection);
        Ok(database)
    }

    /// Opens the pool; the first connection is made when it is needed.
    ///
    /// # Errors
    /// [`StoreError::Refused`] when the URL cannot be used.
    pub fn connect_lazy(settings: &DatabaseSettings) -> Result<Self, StoreError> {
        let limits = Limits {
            statement: settings.statement_timeout,
            transaction_statement: settings.transaction_statement_timeout,
            margin: settings.client_margin,
            lock: settings.lock_timeout,
            idle_in_transaction: settings.idle_in_transaction_timeout,
            acquire: settings.pool.acquire_timeout,
            pooler: settings.pgbouncer,
        };
        let entity_layer_used = Arc::new(AtomicBool::new(false));
        let pool = pool_options(settings, Arc::clone(&entity_layer_used))
            .connect_lazy_with(connect_options(settings, &settings.url)?);
        let orm = SqlxPostgresConnector::from_sqlx_postgres_pool(pool.clone());
        let direct = direct_options(settings)?;
        Ok(Self { inner: Arc::new(Inner { pool, orm, direct, limits, entity_layer_used }) })
    }

    /// The pool as the entity layer sees it, for reads of one's own.
    ///
    /// Do not begin transactions on it: [`PostgresUnitOfWork`](crate::PostgresUnitOfWork) does so safely.
    #[must_use]
    pub fn orm(&self) -> &DatabaseConnection {
        self.inner.entity_layer_used.store(true, Ordering::Release);
        &self.inner.orm
    }

    /// Connections that are open now, and those of them that nobody uses.
    #[must_use]
    pub fn pool_size(&self) -> (u32, usize) {
        (self.inner.pool.size(), self.inner.pool.num_idle())
    }

    /// Closes all connections; waits a short time for those that are lent.
    pub async fn close(&self) {
        let closed = tokio::time::timeout(CLOSE_LIMIT, self.inner.pool.close()).await;
        if closed.is_err() {
            tracing::warn!("connections were still lent when the pool was closed");
        }
    }

    pub(crate) fn pool(&self) -> &PgPool {
        &self.inner.pool
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    /// How to open a connection that is a session of its own; `purpose` tells it apart in `pg_stat_activity`.
    pub(crate) fn direct(&self, purpose: &str) -> PgConnectOptions {
        let options = self.inner.direct.clone();
        let name = format!("{} ({purpose})", options.get_application_name().unwrap_or_default());
        options.application_name(&name)
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The driver's options show the password in their Debug form.
        let options = self.inner.pool.connect_options();
        f.debug_struct("Database")
            .field("host", &options.get_host())
            .field("port", &options.get_port())
            .field("database", &options.get_database())
            .field("limits", &self.inner.limits)
            .finish_non_exhaustive()
    }
}

/// Options for a session of its own, past a pooler.
pub(crate) fn direct_options(settings: &DatabaseSettings) -> Result<PgConnectOptions, StoreError> {
    connect_options(settings, settings.direct())
}

fn connect_options(settings: &DatabaseSettings, url: &SecretString) -> Result<PgConnectOptions, StoreError> {
    let mut options = read_url(url).map_err(|bound| StoreError::Refused {
        source: Box::new(DriverError::new(format!("the URL {} cannot be used: {bound}", masked(url)))),
    })?;
    options = match settings.tls.mode {
        TlsMode::FromUrl => options,
        TlsMode::Disable => options.ssl_mode(PgSslMode::Disable),
        TlsMode::VerifyFull => options.ssl_mode(PgSslMode::VerifyFull),
    };
    if let Some(file) = &settings.tls.ca_file {
        options = options.ssl_root_cert(file);
    }
    // Statements are not logged: settling texts are long, and the driver would add a line for each.
    options = options.application_name(&settings.application_name).disable_statement_logging();
    if settings.pgbouncer {
        return Ok(options.statement_cache_capacity(0));
    }
    // A net below the limits that every transaction sets for itself: for connections that are used in other ways.
    let millis = |duration: Duration| duration.as_millis().to_string();
    Ok(options.options([
        ("idle_in_transaction_session_timeout", millis(settings.idle_in_transaction_timeout)),
        ("default_transaction_isolation", "read committed".to_owned()),
    ]))
}

fn pool_options(settings: &DatabaseSettings, entity_layer_used: Arc<AtomicBool>) -> PgPoolOptions {
    let pool = &settings.pool;
    PgPoolOptions::new()
        .max_connections(pool.max_connections)
        .min_connections(pool.min_connections)
        .acquire_timeout(pool.acquire_timeout)
        .idle_timeout(pool.idle_timeout)
        .max_lifetime(pool.max_lifetime)
        // The driver's own test would wait for ever on a server process that is stopped.
        .test_before_acquire(false)
        .before_acquire(|connection, usage| {
            Box::pin(async move {
                if usage.idle_for < TRUSTED_FOR {
                    return Ok(true);
                }
                bounded(connection.ping()).await.map(|()| true)
            })
        })
        .after_release(move |connection, _| {
            let may_be_in_transaction = entity_layer_used.load(Ordering::Acquire);
            Box::pin(async move {
                if !may_be_in_transaction {
                    return Ok(true);
                }
                let in_transaction = bounded(is_in_transaction(connection)).await?;
                if in_transaction {
                    tracing::warn!("a connection came back inside a transaction and is closed");
                }
                Ok(!in_transaction)
            })
        })
}

/// Whether the connection is inside a transaction block: only there can a statement begin later than its transaction.
///
/// Asking for it is also what makes the driver send a rollback that it has queued, and wait for the answer.
async fn is_in_transaction(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    let statement = sqlx::raw_sql("SELECT transaction_timestamp() <> statement_timestamp()");
    let row = statement.fetch_one(connection).await?;
    sqlx::Row::try_get(&row, 0)
}

/// Runs a probe of a connection; an error makes the pool drop it without a farewell.
async fn bounded<T>(probe: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, sqlx::Error> {
    match tokio::time::timeout(PROBE_LIMIT, probe).await {
        Ok(answer) => answer,
        Err(_) => Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into())),
    }
}

/// Opens a connection that is a session of its own, within the time allowed.
pub(crate) async fn open(options: &PgConnectOptions, limit: Duration) -> Result<PgConnection, StoreError> {
    match tokio::time::timeout(limit, options.connect()).await {
        Ok(Ok(connection)) => Ok(connection),
        Ok(Err(error)) => Err(from_opening(&error, options.get_ssl_mode(), limit)),
        Err(_) => Err(StoreError::Unavailable {
            source: Box::new(DriverError::new(format!("no connection within {limit:?}"))),
        }),
    }
}
