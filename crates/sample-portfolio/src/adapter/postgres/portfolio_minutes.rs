//! The sums of each portfolio in PostgreSQL: repository and reader.

use std::{fmt, sync::Arc};

use adapter_persistence_postgres::PgTransaction;
use application_core::ports::{StoreError, UnitOfWork};
use async_trait::async_trait;
use sea_orm::{ConnectionTrait, DbBackend, FromQueryResult, Statement};

use super::expect_rows;
use crate::{
    domain::PortfolioId,
    ports::{PortfolioMinutes, PortfolioMinutesReader, PortfolioMinutesRepository},
};

const ADD: &str = "
    INSERT INTO portfolio_minutes AS sums
        (portfolio_id, completed_minutes, reserved, started, completed, cancelled)
    VALUES ($1, $2, $3, $4, $5, $6)
    ON CONFLICT (portfolio_id) DO UPDATE SET
        completed_minutes = sums.completed_minutes + EXCLUDED.completed_minutes,
        reserved = sums.reserved + EXCLUDED.reserved,
        started = sums.started + EXCLUDED.started,
        completed = sums.completed + EXCLUDED.completed,
        cancelled = sums.cancelled + EXCLUDED.cancelled,
        updated_at = now()";

const FIND: &str = "
    SELECT completed_minutes, reserved, started, completed, cancelled
    FROM portfolio_minutes
    WHERE portfolio_id = $1";

/// The table `portfolio_minutes`.
pub struct PostgresPortfolioMinutes {
    reads: Arc<dyn UnitOfWork<Tx = PgTransaction>>,
}

impl PostgresPortfolioMinutes {
    /// Reads in transactions begun here; writes in those of the caller.
    #[must_use]
    pub fn new(reads: Arc<dyn UnitOfWork<Tx = PgTransaction>>) -> Self {
        Self { reads }
    }
}

#[derive(Debug, FromQueryResult)]
struct Sums {
    completed_minutes: i64,
    reserved: i64,
    started: i64,
    completed: i64,
    cancelled: i64,
}

#[async_trait]
impl PortfolioMinutesRepository<PgTransaction> for PostgresPortfolioMinutes {
    async fn add(
        &self,
        tx: &mut PgTransaction,
        portfolio: PortfolioId,
        more: &PortfolioMinutes,
    ) -> Result<(), StoreError> {
        let PortfolioMinutes { completed_minutes, reserved, started, completed, cancelled } = *more;
        let mut values = vec![portfolio.as_uuid().into()];
        for number in [completed_minutes, reserved, started, completed, cancelled] {
            let number = i64::try_from(number).map_err(|error| StoreError::Refused { source: error.into() })?;
            values.push(number.into());
        }
        let add = Statement::from_sql_and_values(DbBackend::Postgres, ADD, values);
        let added = tx.orm().execute_raw(add).await.map_err(|error| tx.store_error(&error))?;
        expect_rows("add portfolio minutes", 1, added.rows_affected())
    }
}

#[async_trait]
impl PortfolioMinutesReader for PostgresPortfolioMinutes {
    async fn find(&self, portfolio: PortfolioId) -> Result<Option<PortfolioMinutes>, StoreError> {
        let tx = self.reads.begin().await?;
        let find = Statement::from_sql_and_values(DbBackend::Postgres, FIND, [portfolio.as_uuid().into()]);
        let sums = Sums::find_by_statement(find).one(tx.orm()).await.map_err(|error| tx.store_error(&error))?;
        sums.map(|sums| from_row(portfolio, &sums)).transpose()
    }
}

fn from_row(portfolio: PortfolioId, sums: &Sums) -> Result<PortfolioMinutes, StoreError> {
    let read = |column, number: i64| {
        let corrupt = |_negative| StoreError::Corrupt { table: "portfolio_minutes", column, id: portfolio.to_string() };
        u64::try_from(number).map_err(corrupt)
    };
    Ok(PortfolioMinutes {
        completed_minutes: read("completed_minutes", sums.completed_minutes)?,
        reserved: read("reserved", sums.reserved)?,
        started: read("started", sums.started)?,
        completed: read("completed", sums.completed)?,
        cancelled: read("cancelled", sums.cancelled)?,
    })
}

impl fmt::Debug for PostgresPortfolioMinutes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresPortfolioMinutes").finish_non_exhaustive()
    }
}
