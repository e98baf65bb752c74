//! What statements cost, as `pg_stat_statements` counts it.

use sqlx::{Connection, PgConnection, Row};

use crate::error::BenchError;

/// The counts of some statements.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Usage {
    pub(crate) calls: f64,
    pub(crate) millis: f64,
    /// Pages of tables and indexes that were touched.
    pub(crate) buffers: f64,
    pub(crate) wal_bytes: f64,
}

/// The counts of one database. A server without the extension counts nothing.
pub(crate) struct Statements {
    connection: Option<PgConnection>,
}

impl Statements {
    pub(crate) async fn of(database_url: &str) -> Result<Self, BenchError> {
        let mut connection = PgConnection::connect(database_url).await?;
        let loaded = "SELECT current_setting('shared_preload_libraries') LIKE '%pg_stat_statements%'";
        if !sqlx::query(loaded).fetch_one(&mut connection).await?.try_get::<bool, _>(0)? {
            return Ok(Self { connection: None });
        }
        sqlx::raw_sql("CREATE EXTENSION IF NOT EXISTS pg_stat_statements").execute(&mut connection).await?;
        Ok(Self { connection: Some(connection) })
    }

    pub(crate) async fn reset(&mut self) -> Result<(), BenchError> {
        if let Some(connection) = &mut self.connection {
            sqlx::raw_sql("SELECT pg_stat_statements_reset()").execute(connection).await?;
        }
        Ok(())
    }

    /// The sum over the statements whose text is like the pattern, since the last reset; `None` without the extension.
    pub(crate) async fn usage(&mut self, pattern: &str) -> Result<Option<Usage>, BenchError> {
        let Some(connection) = &mut self.connection else { return Ok(None) };
        let sum = "SELECT coalesce(sum(calls), 0)::float8, coalesce(sum(total_exec_time), 0)::float8, \
                          coalesce(sum(shared_blks_hit + shared_blks_read), 0)::float8, \
                          coalesce(sum(wal_bytes), 0)::float8 \
                     FROM pg_stat_statements \
                    WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) \
                      AND query LIKE $1 AND query NOT LIKE '%pg_stat_statements%'";
        let row = sqlx::query(sum).bind(pattern).fetch_one(connection).await?;
        let (calls, millis) = (row.try_get(0)?, row.try_get(1)?);
        Ok(Some(Usage { calls, millis, buffers: row.try_get(2)?, wal_bytes: row.try_get(3)? }))
    }
}
