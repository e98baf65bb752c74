//! Business transactions.

use std::time::Duration;

use application_core::ports::{StoreError, UnitOfWork};
use async_trait::async_trait;
use sea_orm::{ConnectionTrait, DatabaseTransaction, DbErr, TransactionTrait};
use tracing::Instrument;

use crate::{
    connection::{Database, Limits},
    error::{from_join, from_orm},
};

/// An open READ COMMITTED transaction; dropping it rolls it back.
#[derive(Debug)]
pub struct PgTransaction {
    inner: DatabaseTransaction,
    limit: Duration,
}

impl PgTransaction {
    /// The transaction as the entity layer takes it: repositories run their statements on it.
    ///
    /// A repository must hand on the error of a statement that failed: PostgreSQL then accepts no further one, and the
    /// commit is refused. It must not commit or roll back.
    #[must_use]
    pub const fn orm(&self) -> &DatabaseTransaction {
        &self.inner
    }

    /// Translates an error of a statement that ran on [`PgTransaction::orm`].
    #[must_use]
    pub fn store_error(&self, error: &DbErr) -> StoreError {
        from_orm(error, self.limit)
    }
}

/// Begins and commits transactions on a pool.
///
/// # Cancellation
/// Begin and commit run in tasks of their own: dropping the caller's future neither leaves a transaction open on a pooled
/// connection nor a commit half sent. A transaction whose begin nobody waits for any more is rolled back.
#[derive(Debug, Clone)]
pub struct PostgresUnitOfWork {
    database: Database,
}

impl PostgresUnitOfWork {
    /// Works on this database.
    #[must_use]
    pub const fn new(database: Database) -> Self {
        Self { database }
    }
}

#[async_trait]
impl UnitOfWork for PostgresUnitOfWork {
    type Tx = PgTransaction;

    async fn begin(&self) -> Result<PgTransaction, StoreError> {
        let database = self.database.clone();
        let task = async move { begin(&database).await };
        tokio::spawn(task.in_current_span()).await.map_err(|error| from_join(&error))?
    }

    async fn commit(&self, tx: PgTransaction) -> Result<(), StoreError> {
        let margin = self.database.limits().margin;
        let task = async move { commit(tx, margin).await };
        tokio::spawn(task.in_current_span()).await.map_err(|error| from_join(&error))?
    }
}

async fn begin(database: &Database) -> Result<PgTransaction, StoreError> {
    let limits = database.limits();
    let limit = limits.transaction_statement;
    let settings = transaction_settings(limits);
    let begun = async {
        let inner = database.orm().begin().await?;
        inner.execute_unprepared(&settings).await?;
        Ok(inner)
    };
    // The pool's own wait comes first, then two exchanges with the server.
    match tokio::time::timeout(limits.acquire + limits.statement + limits.margin, begun).await {
        Ok(Ok(inner)) => Ok(PgTransaction { inner, limit }),
        Ok(Err(error)) => Err(from_orm(&error, limit)),
        Err(_) => Err(StoreError::Timeout { limit: limits.acquire + limits.statement + limits.margin }),
    }
}

fn transaction_settings(limits: &Limits) -> String {
    // Without a cache the driver still names each statement, and leaves the name behind: behind a pooler another client's
    // statements of the same names may be there.
    let clean = if limits.pooler { "DEALLOCATE ALL;" } else { "" };
    format!(
        "SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;{clean}\
         SET LOCAL statement_timeout = {};\
         SET LOCAL lock_timeout = {};\
         SET LOCAL idle_in_transaction_session_timeout = {}",
        limits.transaction_statement.as_millis(),
        limits.lock.as_millis(),
        limits.idle_in_transaction.as_millis(),
    )
}

async fn commit(tx: PgTransaction, margin: Duration) -> Result<(), StoreError> {
    let PgTransaction { inner, limit } = tx;
    let committed = async {
        // COMMIT of a failed transaction answers ROLLBACK, which the driver takes for success. Any statement before it
        // is refused in that state, so that a change is never reported as committed that is not.
        inner.execute_unprepared("SELECT").await?;
        inner.commit().await
    };
    match tokio::time::timeout(limit + margin, committed).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(from_orm(&error, limit)),
        Err(_) => Err(StoreError::Timeout { limit: limit + margin }),
    }
}
