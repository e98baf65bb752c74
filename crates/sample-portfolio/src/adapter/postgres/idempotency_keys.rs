//! Idempotency keys in PostgreSQL: the primary key decides who is first, and makes the others wait.

use adapter_persistence_postgres::PgTransaction;
use application_core::ports::StoreError;
use async_trait::async_trait;
use sea_orm::{ConnectionTrait, DbBackend, FromQueryResult, Statement};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uuid::Uuid;

use super::work_log_entity::read_status;
use crate::{
    domain::{Version, WorkLogId},
    ports::{IdempotencyKeys, KeyUse, KeyedRequest, WorkLogReceipt},
};

// Waits for a transaction that is inserting the same key; does nothing if that one commits.
const TAKE: &str = "
    INSERT INTO work_log_idempotency (portfolio_id, key, request_digest, result)
    VALUES ($1, $2, sha256(convert_to($3, 'UTF8')), $4)
    ON CONFLICT (portfolio_id, key) DO NOTHING";

// A statement of its own: under READ COMMITTED it sees what the insert has waited for.
const USED: &str = "
    SELECT request_digest = sha256(convert_to($3, 'UTF8')) AS same_request, result
    FROM work_log_idempotency
    WHERE portfolio_id = $1 AND key = $2";

/// The table `work_log_idempotency`.
#[derive(Debug, Clone, Copy, Default)]
pub struct PostgresIdempotencyKeys;

/// A stored result. Old rows are read by newer code: fields are only ever added, with a default.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StoredResult {
    work_log_id: Uuid,
    status: String,
    version: u32,
    #[serde(with = "time::serde::rfc3339")]
    changed_at: OffsetDateTime,
}

#[derive(Debug, FromQueryResult)]
struct Used {
    same_request: bool,
    result: serde_json::Value,
}

#[async_trait]
impl IdempotencyKeys<PgTransaction> for PostgresIdempotencyKeys {
    async fn take(
        &self,
        tx: &mut PgTransaction,
        request: &KeyedRequest,
        result: &WorkLogReceipt,
    ) -> Result<KeyUse, StoreError> {
        let (portfolio, key) = (request.portfolio.as_uuid(), request.key.as_str());
        let result = to_stored(result)?;
        let take = statement(TAKE, [portfolio.into(), key.into(), request.content.as_str().into(), result.into()]);
        let taken = tx.orm().execute_raw(take).await.map_err(|error| tx.store_error(&error))?;
        if taken.rows_affected() == 1 {
            return Ok(KeyUse::First);
        }
        let used = statement(USED, [portfolio.into(), key.into(), request.content.as_str().into()]);
        let used = Used::find_by_statement(used).one(tx.orm()).await.map_err(|error| tx.store_error(&error))?;
        match used {
            Some(Used { same_request: true, result }) => from_stored(request, result).map(KeyUse::SameRequest),
            Some(Used { same_request: false, .. }) => Ok(KeyUse::OtherRequest),
            None => Err(StoreError::Conflict { source: "the key was removed meanwhile".into() }),
        }
    }
}

fn statement<const N: usize>(sql: &str, values: [sea_orm::Value; N]) -> Statement {
    Statement::from_sql_and_values(DbBackend::Postgres, sql, values)
}

fn to_stored(receipt: &WorkLogReceipt) -> Result<serde_json::Value, StoreError> {
    let WorkLogReceipt { id, portfolio: _, status, version, changed_at } = *receipt;
    let stored = StoredResult {
        work_log_id: id.as_uuid(),
        status: status.as_str().to_owned(),
        version: version.get(),
        changed_at,
    };
    serde_json::to_value(stored).map_err(|error| StoreError::Refused { source: error.into() })
}

fn from_stored(request: &KeyedRequest, result: serde_json::Value) -> Result<WorkLogReceipt, StoreError> {
    let corrupt = || StoreError::Corrupt {
        table: "work_log_idempotency",
        column: "result",
        id: format!("{} {}", request.portfolio, request.key.as_str()),
    };
    let stored: StoredResult = serde_json::from_value(result).map_err(|_unreadable| corrupt())?;
    Ok(WorkLogReceipt {
        id: WorkLogId::new(stored.work_log_id),
        portfolio: request.portfolio,
        // What is remembered is a creation: no minutes are spent yet.
        status: read_status(&stored.status, None).ok_or_else(corrupt)?,
        version: Version::new(stored.version),
        changed_at: stored.changed_at,
    })
}
