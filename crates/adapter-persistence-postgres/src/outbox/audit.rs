//! The record of what operators have changed.

use application_core::{
    outbox::{Attribution, EventId, OperatorName, Reason},
    ports::{AuditEntry, OutboxAuditPort, StoreError},
};
use async_trait::async_trait;
use sqlx::{Row, postgres::PgRow};

use super::{OutboxEventRepository, operations::MOST_LISTED};
use crate::{
    error::from_sqlx,
    short_transaction::run,
    sql::{Arguments, Statement},
};

const ENTRIES: &str = "SELECT id, acted_at, operator::text, reason::text, action, aggregate_type, events, affected, aggregate_id, consumer \
     FROM outbox_audit WHERE id < $1 ORDER BY id DESC LIMIT $2";

/// Looked up before it is sorted: sorted by the primary key, all later entries would be read.
const ENTRIES_OF: &str = "WITH found AS MATERIALIZED (SELECT * FROM outbox_audit WHERE events @> ARRAY[$1]) \
     SELECT id, acted_at, operator::text, reason::text, action, aggregate_type, events, affected, aggregate_id, consumer \
     FROM found ORDER BY id DESC LIMIT $2";

#[async_trait]
impl OutboxAuditPort for OutboxEventRepository {
    async fn audit(&self, before: Option<i64>, limit: u32) -> Result<Vec<AuditEntry>, StoreError> {
        let arguments = Arguments::new().bigint(before.unwrap_or(i64::MAX)).int(limit.min(MOST_LISTED));
        self.entries(&arguments.fill(ENTRIES)).await
    }

    async fn audit_of(&self, event: EventId, limit: u32) -> Result<Vec<AuditEntry>, StoreError> {
        let arguments = Arguments::new().uuid(event.as_uuid()).int(limit.min(MOST_LISTED));
        self.entries(&arguments.fill(ENTRIES_OF)).await
    }
}

impl OutboxEventRepository {
    async fn entries(&self, statement: &Statement) -> Result<Vec<AuditEntry>, StoreError> {
        let rows = run(&self.database, statement).await?;
        let entries: Result<Vec<_>, _> = rows.iter().map(entry).collect();
        entries.map_err(|error| from_sqlx(&error, self.database.limits().statement))
    }
}

fn entry(row: &PgRow) -> Result<AuditEntry, sqlx::Error> {
    let events: Vec<uuid::Uuid> = row.try_get(6)?;
    Ok(AuditEntry {
        number: row.try_get(0)?,
        acted_at: row.try_get(1)?,
        by: Attribution {
            operator: OperatorName::from_stored(row.try_get::<String, _>(2)?),
            reason: row.try_get::<Option<String>, _>(3)?.map(Reason::from_stored),
        },
        action: row.try_get(4)?,
        aggregate_type: row.try_get::<Option<String>, _>(5)?.filter(|name| !name.is_empty()),
        aggregate_id: row.try_get(8)?,
        consumer: row.try_get(9)?,
        events: events.into_iter().map(EventId::new).collect(),
        affected: u64::try_from(row.try_get::<i64, _>(7)?).unwrap_or(0),
    })
}
