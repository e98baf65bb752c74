//! Readiness: the database answers, and its schema is new enough; and the one check that start-up makes.

use std::time::Duration;

use application_core::ports::{ReadinessCheck, StoreError};
use async_trait::async_trait;
use sqlx::Row;

use crate::{
    Database,
    error::from_sqlx,
    migrate::{History, schema_version},
    short_transaction::run,
    sql::Statement,
};

/// A check must have answered by then.
const CHECK_LIMIT: Duration = Duration::from_millis(1_800);

/// Whether the database answers.
#[derive(Debug, Clone)]
pub struct DatabaseReadiness {
    database: Database,
}

impl DatabaseReadiness {
    /// Asks this database.
    #[must_use]
    pub const fn new(database: Database) -> Self {
        Self { database }
    }
}

#[async_trait]
impl ReadinessCheck for DatabaseReadiness {
    fn name(&self) -> &'static str {
        "database"
    }

    async fn check(&self) -> Result<(), String> {
        in_time(async { run(&self.database, &Statement::fixed("SELECT 1")).await.map(drop) }).await?;
        Ok(())
    }
}

/// Whether the schema is at least at the versions that this program expects; newer is fine.
#[derive(Debug, Clone)]
pub struct SchemaReadiness {
    database: Database,
    expected: Vec<(History, i32)>,
}

impl SchemaReadiness {
    /// Expects at least these versions; a version of 0 expects nothing.
    #[must_use]
    pub const fn new(database: Database, expected: Vec<(History, i32)>) -> Self {
        Self { database, expected }
    }
}

#[async_trait]
impl ReadinessCheck for SchemaReadiness {
    fn name(&self) -> &'static str {
        "schema"
    }

    async fn check(&self) -> Result<(), String> {
        for (history, expected) in &self.expected {
            let actual = in_time(schema_version(&self.database, *history)).await?.unwrap_or(0);
            if actual < *expected {
                return Err(format!(
                    "{history} is at version {actual}, at least {expected} is needed: run the migrations"
                ));
            }
        }
        Ok(())
    }
}

async fn in_time<T>(question: impl Future<Output = Result<T, StoreError>>) -> Result<T, String> {
    match tokio::time::timeout(CHECK_LIMIT, question).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => {
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
            Err(format!("{error}{cause}"))
        }
        Err(_) => Err(format!("the database did not answer within {CHECK_LIMIT:?}")),
    }
}

/// Why the outbox's sequence cannot keep events in order (rule R10).
#[derive(Debug, thiserror::Error)]
pub enum SequenceError {
    /// There is none.
    #[error("the sequence outbox_event_sequence does not exist: run the migrations")]
    Missing,
    /// Sessions would draw numbers ahead of the lane's lock.
    #[error("outbox_event_sequence has CACHE {cache}, 1 is needed: ALTER SEQUENCE outbox_event_sequence CACHE 1")]
    Cached {
        /// The cache met.
        cache: i64,
    },
    /// Numbers would come again.
    #[error("outbox_event_sequence has CYCLE: ALTER SEQUENCE outbox_event_sequence NO CYCLE")]
    Cycles,
    /// Numbers would not grow.
    #[error("outbox_event_sequence has INCREMENT {increment}, a positive one is needed")]
    Descending {
        /// The increment met.
        increment: i64,
    },
    /// The database could not be asked.
    #[error("the sequence could not be checked")]
    Store {
        /// Why.
        #[source]
        source: StoreError,
    },
}

impl From<StoreError> for SequenceError {
    fn from(source: StoreError) -> Self {
        Self::Store { source }
    }
}

/// Checks that the sequence of the outbox hands out its numbers one by one, growing, and never twice.
///
/// # Errors
/// [`SequenceError`] says what to change.
pub async fn check_sequence(database: &Database) -> Result<(), SequenceError> {
    const QUERY: &str = "SELECT seqcache, seqincrement, seqcycle FROM pg_sequence \
         WHERE seqrelid = to_regclass('outbox_event_sequence')";
    let rows = run(database, &Statement::fixed(QUERY)).await?;
    let Some(row) = rows.first() else {
        return Err(SequenceError::Missing);
    };
    let read = || -> Result<(i64, i64, bool), sqlx::Error> { Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?)) };
    let (cache, increment, cycles) = read().map_err(|error| from_sqlx(&error, database.limits().statement))?;
    if cache != 1 {
        return Err(SequenceError::Cached { cache });
    }
    if increment < 1 {
        return Err(SequenceError::Descending { increment });
    }
    if cycles {
        return Err(SequenceError::Cycles);
    }
    Ok(())
}
