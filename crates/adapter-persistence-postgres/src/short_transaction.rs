//! One statement in a transaction of its own that never waits for its client (rule R11).
//!
//! BEGIN, the limits, the statement and COMMIT travel in a single message. However this process freezes or dies, the
//! server ends the transaction on its own; between two messages a lock would be held for as long as the client takes.
//! The isolation level is said explicitly: a database may default to another one (case P49), and the functions need a
//! snapshot for each of their statements. Nothing is set for longer than the transaction, and nothing stays prepared, so
//! that a pooler in transaction mode may stand between.

use std::time::Duration;

use application_core::ports::StoreError;
use sqlx::{AssertSqlSafe, PgConnection, Postgres, pool::PoolConnection, postgres::PgRow};

use crate::{connection::Database, error::from_sqlx, sql::Statement};

/// Runs the statement and returns its rows.
///
/// # Cancellation
/// Dropping the call closes its connection; whether the statement took effect is then unknown.
///
/// # Errors
/// [`StoreError::Timeout`] when server or client gave up: on the client's side a little after the server should have.
pub(crate) async fn run(database: &Database, statement: &Statement) -> Result<Vec<PgRow>, StoreError> {
    let limits = database.limits();
    let connection = database.pool().acquire().await.map_err(|error| from_sqlx(&error, limits.acquire))?;
    let mut lent = Lent(Some(connection));
    let message = message(database, statement);
    let limit = limits.statement + limits.margin;
    let answer = tokio::time::timeout(limit, lent.send(message)).await;
    match answer {
        Ok(Ok(rows)) => {
            lent.give_back();
            Ok(rows)
        }
        Ok(Err(error)) => {
            // The rest of the message was skipped, COMMIT included: the session waits in a failed transaction.
            if matches!(error, sqlx::Error::Database(_))
                && let Ok(Ok(_)) = tokio::time::timeout(limits.margin, lent.send("ROLLBACK".to_owned())).await
            {
                lent.give_back();
            }
            Err(from_sqlx(&error, limits.statement))
        }
        // The server process may be frozen: nobody waits for it, the connection is closed.
        Err(_) => Err(StoreError::Timeout { limit }),
    }
}

/// As [`run`], for a statement that answers with exactly one row.
pub(crate) async fn run_for_row(database: &Database, statement: &Statement) -> Result<PgRow, StoreError> {
    let rows = run(database, statement).await?;
    let actual = u64::try_from(rows.len()).unwrap_or(u64::MAX);
    match rows.into_iter().next() {
        Some(row) if actual == 1 => Ok(row),
        _ => Err(StoreError::RowsAffected { operation: "a function call", expected: 1, actual }),
    }
}

fn message(database: &Database, statement: &Statement) -> String {
    let limits = database.limits();
    let millis = |limit: Duration| limit.as_millis();
    format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;\
         SET LOCAL statement_timeout = {};\
         SET LOCAL lock_timeout = {};\
         SET LOCAL idle_in_transaction_session_timeout = {};\
         {};\
         COMMIT",
        millis(limits.statement),
        millis(limits.lock),
        millis(limits.idle_in_transaction),
        statement.as_str(),
    )
}

/// A pooled connection that is closed unless it is given back on purpose.
///
/// A connection that is dropped in the middle of an exchange would otherwise return to the pool in a state that nobody
/// knows: with rows to come, or inside a failed transaction.
struct Lent(Option<PoolConnection<Postgres>>);

impl Lent {
    async fn send(&mut self, message: String) -> Result<Vec<PgRow>, sqlx::Error> {
        let connection: &mut PgConnection = match &mut self.0 {
            Some(connection) => connection,
            None => return Err(sqlx::Error::PoolClosed),
        };
        // Only `Statement` and numbers get into a message.
        sqlx::raw_sql(AssertSqlSafe(message)).fetch_all(connection).await
    }

    fn give_back(mut self) {
        drop(self.0.take());
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(connection) = self.0.take() {
            // Detached, it is closed by being dropped, and the pool may open another one at once.
            drop(connection.detach());
        }
    }
}
