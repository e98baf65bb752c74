//! Work logs in PostgreSQL: repository and reader.

use std::{fmt, sync::Arc};

use adapter_persistence_postgres::PgTransaction;
use application_core::ports::{StoreError, UnitOfWork};
use async_trait::async_trait;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder, QuerySelect};

use super::{
    expect_rows,
    work_log_entity::{Column, Entity, from_row, to_integer, to_row},
};
use crate::{
    domain::{PortfolioId, Version, WorkLog, WorkLogId, WorkLogSnapshot},
    ports::{WorkLogReader, WorkLogRepository},
};

/// The table `work_log`.
pub struct PostgresWorkLogs {
    reads: Arc<dyn UnitOfWork<Tx = PgTransaction>>,
}

impl PostgresWorkLogs {
    /// Reads in transactions begun here; writes in those of the caller.
    #[must_use]
    pub fn new(reads: Arc<dyn UnitOfWork<Tx = PgTransaction>>) -> Self {
        Self { reads }
    }
}

#[async_trait]
impl WorkLogRepository<PgTransaction> for PostgresWorkLogs {
    async fn insert(&self, tx: &mut PgTransaction, work_log: &WorkLog) -> Result<(), StoreError> {
        let insert = Entity::insert(to_row(work_log.state())?);
        let rows = insert.exec_without_returning(tx.orm()).await.map_err(|error| tx.store_error(&error))?;
        expect_rows("insert work log", 1, rows)
    }

    async fn find_for_update(
        &self,
        tx: &mut PgTransaction,
        portfolio: PortfolioId,
        id: WorkLogId,
    ) -> Result<Option<WorkLog>, StoreError> {
        let select =
            Entity::find_by_id(id.as_uuid()).filter(Column::PortfolioId.eq(portfolio.as_uuid())).lock_exclusive();
        let row = select.one(tx.orm()).await.map_err(|error| tx.store_error(&error))?;
        row.map(|row| from_row(row).map(WorkLog::restore)).transpose()
    }

    async fn save(&self, tx: &mut PgTransaction, work_log: &WorkLog) -> Result<(), StoreError> {
        // No row has version 0: a work log that was never stored is refused like one that has changed.
        let stored = work_log.stored_version().map_or(0, Version::get);
        let state = work_log.state();
        let update = Entity::update_many()
            .set(to_row(state)?)
            .filter(Column::Id.eq(state.id.as_uuid()))
            .filter(Column::Version.eq(to_integer(stored)?));
        let changed = update.exec(tx.orm()).await.map_err(|error| tx.store_error(&error))?;
        expect_rows("save work log", 1, changed.rows_affected)
    }
}

#[async_trait]
impl WorkLogReader for PostgresWorkLogs {
    async fn find(&self, portfolio: PortfolioId, id: WorkLogId) -> Result<Option<WorkLogSnapshot>, StoreError> {
        let tx = self.reads.begin().await?;
        let select = Entity::find_by_id(id.as_uuid()).filter(Column::PortfolioId.eq(portfolio.as_uuid()));
        let row = select.one(tx.orm()).await.map_err(|error| tx.store_error(&error))?;
        row.map(from_row).transpose()
    }

    async fn list(
        &self,
        portfolio: PortfolioId,
        after: Option<WorkLogId>,
        max: u32,
    ) -> Result<Vec<WorkLogSnapshot>, StoreError> {
        let tx = self.reads.begin().await?;
        let mut select = Entity::find().filter(Column::PortfolioId.eq(portfolio.as_uuid()));
        if let Some(after) = after {
            select = select.filter(Column::Id.gt(after.as_uuid()));
        }
        let select = select.order_by_asc(Column::Id).limit(u64::from(max));
        let rows = select.all(tx.orm()).await.map_err(|error| tx.store_error(&error))?;
        rows.into_iter().map(from_row).collect()
    }
}

impl fmt::Debug for PostgresWorkLogs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresWorkLogs").finish_non_exhaustive()
    }
}
