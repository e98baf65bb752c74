//! Schema migrations: two histories, one lock.
//!
//! Refinery embeds the files, keeps the histories and compares checksums, but it takes no lock: two migrators at once on
//! an empty database both fail or both apply. So its driver traits are implemented here over one connection of the driver
//! that the rest of this crate uses, which first takes an advisory lock for its session. That is better than
//! refinery's own driver for tokio-postgres, which would bring a second TLS set-up, and better than a lock held by
//! another pooled connection: the lock lives exactly as long as the connection that does the work.
//! The lock is a session's, so a migrator must reach PostgreSQL past a pooler (`direct_url`).

use std::{fmt, time::Duration};

use application_core::ports::StoreError;
use refinery::{Migration, Runner};
use refinery_core::traits::r#async::{AsyncMigrate, AsyncQuery, AsyncTransaction};
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row, postgres::PgRow};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{
    connection::{Database, direct_options, open},
    error::{DriverError, from_sqlx},
    settings::DatabaseSettings,
    short_transaction::run,
    sql::{Arguments, Statement},
};

mod embedded {
    refinery::embed_migrations!("../../migrations/outbox");
}

/// The lock that all migrators of a database take: any number, the same for ever.
const LOCK: &str = "SELECT pg_try_advisory_lock(7303015466823641)";
/// How often a migrator that waits looks at the lock. It does not wait inside a statement, whose snapshot would be in the
/// way of the migrations it waits for.
const LOCK_POLL: Duration = Duration::from_millis(200);
/// How long a migration may wait for a table that others use, before it gives up and lets their queue go on.
const DDL_LOCK_TIMEOUT: Duration = Duration::from_secs(10);
/// How long opening the connection may take.
const OPEN_LIMIT: Duration = Duration::from_secs(10);

/// Whose migrations: each history counts its versions for itself, so that a clone of the template and the template never
/// fight over a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum History {
    /// The outbox's, embedded in this crate.
    Outbox,
    /// The application's, handed in by it.
    Application,
}

impl History {
    /// The table that records what was applied.
    #[must_use]
    pub const fn table(self) -> &'static str {
        match self {
            Self::Outbox => "outbox_schema_history",
            Self::Application => "app_schema_history",
        }
    }
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.table())
    }
}

/// Why a database could not be migrated.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// The database could not be reached or did not answer.
    #[error("the database could not be prepared for migrations")]
    Store {
        /// Why.
        #[source]
        source: StoreError,
    },
    /// Another migrator held the lock for too long.
    #[error("another migrator has held the lock for {waited:?}")]
    Locked {
        /// How long this one waited.
        waited: Duration,
    },
    /// A migration failed, or the history does not fit the files.
    #[error("the migrations of {history} failed")]
    Failed {
        /// Which history.
        history: History,
        /// What refinery says; its source is the server's message.
        #[source]
        source: refinery::Error,
    },
}

impl From<StoreError> for MigrateError {
    fn from(source: StoreError) -> Self {
        Self::Store { source }
    }
}

/// What a migrator did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationReport {
    /// What was applied now, in order, as `history: V3__name`.
    pub applied: Vec<String>,
    /// Histories that are at a newer version than this program knows; nothing was changed in them.
    pub ahead: Vec<(History, i32)>,
}

/// The outbox's migrations.
#[must_use]
pub fn outbox_migrations() -> Vec<Migration> {
    embedded::migrations::runner().get_migrations().clone()
}

/// The newest version among the migrations; 0: there is none.
#[must_use]
pub fn newest_version(migrations: &[Migration]) -> i32 {
    migrations.iter().map(Migration::version).max().unwrap_or(0)
}

/// Applies what is missing: first the outbox's migrations, then the application's. Any number of migrators may run at
/// once: each migration is applied by one of them. A database that is ahead of this program is left as it is, so that an
/// older release can be started again.
///
/// # Cancellation
/// Dropping the call closes its connection: the migration at hand is rolled back, those before it stay.
///
/// # Errors
/// [`MigrateError`]; migrations before the one that failed stay applied.
pub async fn migrate(
    settings: &DatabaseSettings,
    application: &[Migration],
    lock_wait: Duration,
) -> Result<MigrationReport, MigrateError> {
    let connection = open(&direct_options(settings)?, OPEN_LIMIT).await?;
    let mut session = MigrationSession(connection);
    session.prepare(lock_wait).await?;
    let mut report = MigrationReport { applied: Vec::new(), ahead: Vec::new() };
    for (history, migrations) in [(History::Outbox, outbox_migrations()), (History::Application, application.to_vec())]
    {
        session.apply(history, &migrations, &mut report).await?;
    }
    // The lock ends with the session.
    let _farewell = tokio::time::timeout(LOCK_POLL, session.0.close()).await;
    Ok(report)
}

/// The newest version applied; `None`: nothing was.
///
/// # Errors
/// [`StoreError`].
pub async fn schema_version(database: &Database, history: History) -> Result<Option<i32>, StoreError> {
    let unreadable = |error: sqlx::Error| from_sqlx(&error, database.limits().statement);
    let exists = Arguments::new().text(history.table()).fill("SELECT to_regclass($1) IS NOT NULL");
    let Some(row) = run(database, &exists).await?.into_iter().next() else {
        return Ok(None);
    };
    if !row.try_get::<bool, _>(0).map_err(unreadable)? {
        return Ok(None);
    }
    let newest = Statement::fixed(match history {
        History::Outbox => "SELECT max(version) FROM outbox_schema_history",
        History::Application => "SELECT max(version) FROM app_schema_history",
    });
    match run(database, &newest).await?.into_iter().next() {
        Some(row) => row.try_get(0).map_err(unreadable),
        None => Ok(None),
    }
}

/// The connection that holds the lock and does the work.
struct MigrationSession(PgConnection);

impl MigrationSession {
    async fn prepare(&mut self, lock_wait: Duration) -> Result<(), MigrateError> {
        // A migration may rewrite a table: it has no time limit, but waits for no lock for long.
        let settings = format!(
            "SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0; SET lock_timeout = {}; \
             SET default_transaction_isolation = 'read committed'; SET client_min_messages = warning",
            DDL_LOCK_TIMEOUT.as_millis()
        );
        self.run(&settings).await.map_err(|error| from_sqlx(&error, OPEN_LIMIT))?;
        let mut waited = Duration::ZERO;
        loop {
            if self.try_lock().await.map_err(|error| from_sqlx(&error, OPEN_LIMIT))? {
                return Ok(());
            }
            if waited >= lock_wait {
                return Err(MigrateError::Locked { waited });
            }
            tokio::time::sleep(LOCK_POLL).await;
            waited += LOCK_POLL;
        }
    }

    async fn try_lock(&mut self) -> Result<bool, sqlx::Error> {
        sqlx::raw_sql(LOCK).fetch_one(&mut self.0).await?.try_get(0)
    }

    async fn apply(
        &mut self,
        history: History,
        migrations: &[Migration],
        report: &mut MigrationReport,
    ) -> Result<(), MigrateError> {
        if migrations.is_empty() {
            return Ok(());
        }
        let failed = |source| MigrateError::Failed { history, source };
        let mut runner = Runner::new(migrations);
        runner.set_migration_table_name(history.table());
        let newest = self.newest(history).await.map_err(|error| from_sqlx(&error, OPEN_LIMIT))?;
        if let Some(version) = newest.filter(|version| *version > newest_version(migrations)) {
            tracing::warn!(%history, version, "the schema is newer than this program; it is left as it is");
            report.ahead.push((history, version));
            return Ok(());
        }
        let done = runner.run_async(self).await.map_err(failed)?;
        report.applied.extend(done.applied_migrations().iter().map(|migration| format!("{history}: {migration}")));
        Ok(())
    }

    async fn newest(&mut self, history: History) -> Result<Option<i32>, sqlx::Error> {
        let table = history.table();
        let exists = format!("SELECT to_regclass('{table}') IS NOT NULL");
        if !sqlx::raw_sql(AssertSqlSafe(exists)).fetch_one(&mut self.0).await?.try_get::<bool, _>(0)? {
            return Ok(None);
        }
        let newest = format!("SELECT max(version) FROM {table}");
        sqlx::raw_sql(AssertSqlSafe(newest)).fetch_one(&mut self.0).await?.try_get(0)
    }

    async fn run(&mut self, sql: &str) -> Result<(), sqlx::Error> {
        // The text is a migration file or refinery's own, never input.
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut self.0).await?;
        Ok(())
    }
}

impl AsyncTransaction for MigrationSession {
    type Error = DriverError;

    async fn execute<'a, T: Iterator<Item = &'a str> + Send + 'a>(
        &'a mut self,
        queries: T,
    ) -> Result<usize, DriverError> {
        let mut count = 0;
        self.run("BEGIN").await.map_err(|error| DriverError::from(&error))?;
        for query in queries {
            // After an error the session is given up, and with it the transaction.
            self.run(query).await.map_err(|error| DriverError::from(&error))?;
            count += 1;
        }
        self.run("COMMIT").await.map_err(|error| DriverError::from(&error))?;
        Ok(count)
    }
}

impl AsyncQuery<Vec<Migration>> for MigrationSession {
    async fn query<'a>(&'a mut self, query: &'a str) -> Result<Vec<Migration>, DriverError> {
        let rows = sqlx::raw_sql(AssertSqlSafe(query.to_owned()))
            .fetch_all(&mut self.0)
            .await
            .map_err(|error| DriverError::from(&error))?;
        rows.iter().map(applied_migration).collect()
    }
}

impl AsyncMigrate for MigrationSession {}

fn applied_migration(row: &PgRow) -> Result<Migration, DriverError> {
    let version: i32 = read(row, 0)?;
    let unreadable = |column: &str| DriverError::new(format!("{column} of version {version} cannot be read"));
    let applied_on =
        OffsetDateTime::parse(&read::<String>(row, 2)?, &Rfc3339).ok().ok_or_else(|| unreadable("applied_on"))?;
    let checksum = read::<String>(row, 3)?.parse().ok().ok_or_else(|| unreadable("checksum"))?;
    Ok(Migration::applied(version, read(row, 1)?, applied_on, checksum))
}

fn read<'r, T>(row: &'r PgRow, column: usize) -> Result<T, DriverError>
where
    T: sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
{
    row.try_get(column).map_err(|error| DriverError::from(&error))
}
