//! Removal of old idempotency keys, each batch in a transaction of its own.

use std::{fmt, sync::Arc, time::Duration};

use adapter_persistence_postgres::PgTransaction;
use application_core::ports::{StoreError, UnitOfWork};
use async_trait::async_trait;
use sea_orm::{ConnectionTrait, DbBackend, Statement};

use crate::ports::IdempotencyKeyMaintenance;

// Rows that another process removes at the same moment are passed by.
const REMOVE: &str = "
    DELETE FROM work_log_idempotency k WHERE k.ctid = ANY (ARRAY(
        SELECT o.ctid FROM work_log_idempotency o
        WHERE o.created_at < statement_timestamp() - make_interval(secs => $1)
        ORDER BY o.created_at LIMIT $2 FOR UPDATE SKIP LOCKED))";

/// The table `work_log_idempotency`, by age.
pub struct PostgresIdempotencyKeyMaintenance {
    unit_of_work: Arc<dyn UnitOfWork<Tx = PgTransaction>>,
}

impl PostgresIdempotencyKeyMaintenance {
    /// Begins its transactions here.
    #[must_use]
    pub fn new(unit_of_work: Arc<dyn UnitOfWork<Tx = PgTransaction>>) -> Self {
        Self { unit_of_work }
    }
}

#[async_trait]
impl IdempotencyKeyMaintenance for PostgresIdempotencyKeyMaintenance {
    async fn remove_older_than(&self, retention: Duration, batch: u32) -> Result<u32, StoreError> {
        let tx = self.unit_of_work.begin().await?;
        let values = [retention.as_secs_f64().into(), i64::from(batch).into()];
        let remove = Statement::from_sql_and_values(DbBackend::Postgres, REMOVE, values);
        let removed = tx.orm().execute_raw(remove).await.map_err(|error| tx.store_error(&error))?.rows_affected();
        self.unit_of_work.commit(tx).await?;
        Ok(u32::try_from(removed).unwrap_or(batch))
    }
}

impl fmt::Debug for PostgresIdempotencyKeyMaintenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresIdempotencyKeyMaintenance").finish_non_exhaustive()
    }
}
