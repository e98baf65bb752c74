//! The inbox: what a consumer has handled, and which aggregates wait behind a parked message.

use std::time::Duration;

use application_core::{
    inbox::ParkedAggregate,
    outbox::{AggregateId, AggregateType, Attribution, EventId, Reason},
    ports::{
        ConsumerName, FirstSeen, GiveUp, InboxMaintenancePort, InboxOperationsPort, InboxPort, LeaderTerm, ParkingPort,
        StoreError,
    },
};
use async_trait::async_trait;
use sea_orm::{ConnectionTrait, DbBackend};
use sqlx::{Row, postgres::PgRow};

use crate::{
    Database, PgTransaction,
    error::from_sqlx,
    short_transaction::{run, run_for_row},
    sql::{Arguments, Statement},
};

/// Records handled events in the caller's transaction, keeps the list of parked aggregates, and forgets by age.
#[derive(Debug, Clone)]
pub struct PostgresInbox {
    database: Database,
}

impl PostgresInbox {
    /// The most events that one transaction forgets.
    pub const FORGOTTEN_AT_ONCE: usize = 1_000;

    /// Works on this database; recording uses the caller's transaction alone.
    #[must_use]
    pub const fn new(database: Database) -> Self {
        Self { database }
    }

    async fn parked_rows(&self, statement: &Statement) -> Result<Vec<ParkedAggregate>, StoreError> {
        let rows = run(&self.database, statement).await?;
        rows.iter().map(parked_aggregate).collect::<Result<_, _>>().map_err(|error| self.unreadable(&error))
    }

    fn unreadable(&self, error: &sqlx::Error) -> StoreError {
        from_sqlx(error, self.database.limits().statement)
    }
}

/// The term is looked at first, and its row stays locked until the records are gone (rule R23).
const CLEAN_UP: &str = "WITH leader AS MATERIALIZED ( \
        SELECT FROM outbox_leader l \
         WHERE l.name = $1 AND l.holder = $2 AND l.term = $3 AND l.expires_at > statement_timestamp() FOR SHARE \
     ), old AS MATERIALIZED ( \
        SELECT i.ctid FROM outbox_inbox i \
         WHERE i.processed_at < statement_timestamp() - $4 AND EXISTS (SELECT FROM leader) \
         ORDER BY i.processed_at LIMIT $5 FOR UPDATE SKIP LOCKED \
     ), gone AS ( \
        DELETE FROM outbox_inbox i WHERE i.ctid = ANY (ARRAY(SELECT old.ctid FROM old)) RETURNING 1 \
     ) SELECT EXISTS (SELECT FROM leader), (SELECT count(*) FROM gone)";

const RECORD: &str = "INSERT INTO outbox_inbox (consumer, event_id) VALUES ($1, $2) ON CONFLICT DO NOTHING";

const PARK: &str = "INSERT INTO outbox_inbox_parked (consumer, aggregate_type, aggregate_id, event_id, reason) \
     VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING";

const UNPARK: &str = "DELETE FROM outbox_inbox_parked \
     WHERE consumer = $1 AND aggregate_type = $2 AND aggregate_id = $3 RETURNING 1";

const FIND_PARKED: &str = "SELECT aggregate_type, aggregate_id, event_id, reason FROM outbox_inbox_parked \
     WHERE consumer = $1 AND aggregate_type = $2 AND aggregate_id = $3";

const LIST_PARKED: &str = "SELECT aggregate_type, aggregate_id, event_id, reason FROM outbox_inbox_parked \
     WHERE consumer = $1 ORDER BY parked_at LIMIT $2";

/// From name to name through the index: there are few names and many records.
const CONSUMERS: &str = "WITH RECURSIVE recorded AS ( \
        (SELECT consumer FROM outbox_inbox ORDER BY consumer LIMIT 1) \
        UNION ALL \
        SELECT (SELECT i.consumer FROM outbox_inbox i WHERE i.consumer > r.consumer ORDER BY i.consumer LIMIT 1) \
          FROM recorded r WHERE r.consumer IS NOT NULL \
     ) SELECT consumer FROM recorded WHERE consumer IS NOT NULL \
     UNION SELECT consumer FROM outbox_inbox_parked ORDER BY consumer";

fn parked_aggregate(row: &PgRow) -> Result<ParkedAggregate, sqlx::Error> {
    Ok(ParkedAggregate {
        aggregate_type: AggregateType::from_stored(row.try_get::<String, _>(0)?),
        aggregate_id: AggregateId::from_stored(row.try_get::<String, _>(1)?),
        event: EventId::new(row.try_get(2)?),
        reason: row.try_get(3)?,
    })
}

fn attributed(arguments: Arguments, by: &Attribution) -> Arguments {
    arguments.text(by.operator.as_str()).optional_text(by.reason.as_ref().map(Reason::as_str))
}

fn key(consumer: &ConsumerName, aggregate_type: &AggregateType, aggregate_id: &AggregateId) -> Arguments {
    Arguments::new().text(consumer.as_str()).text(aggregate_type.as_str()).text(aggregate_id.as_str())
}

#[async_trait]
impl InboxPort<PgTransaction> for PostgresInbox {
    async fn record(
        &self,
        tx: &mut PgTransaction,
        consumer: &ConsumerName,
        event: EventId,
    ) -> Result<FirstSeen, StoreError> {
        let values = [consumer.as_str().to_owned().into(), event.as_uuid().into()];
        let statement = sea_orm::Statement::from_sql_and_values(DbBackend::Postgres, RECORD, values);
        let done = tx.orm().execute_raw(statement).await.map_err(|error| tx.store_error(&error))?;
        Ok(if done.rows_affected() == 1 { FirstSeen::Yes } else { FirstSeen::No })
    }
}

#[async_trait]
impl ParkingPort for PostgresInbox {
    async fn parked(
        &self,
        consumer: &ConsumerName,
        aggregate_type: &AggregateType,
        aggregate_id: &AggregateId,
    ) -> Result<Option<ParkedAggregate>, StoreError> {
        let statement = key(consumer, aggregate_type, aggregate_id).fill(FIND_PARKED);
        Ok(self.parked_rows(&statement).await?.into_iter().next())
    }

    async fn park(&self, consumer: &ConsumerName, parked: &ParkedAggregate) -> Result<(), StoreError> {
        let arguments = key(consumer, &parked.aggregate_type, &parked.aggregate_id)
            .uuid(parked.event.as_uuid())
            .text(&parked.reason);
        run(&self.database, &arguments.fill(PARK)).await?;
        Ok(())
    }

    async fn unpark(
        &self,
        consumer: &ConsumerName,
        aggregate_type: &AggregateType,
        aggregate_id: &AggregateId,
    ) -> Result<bool, StoreError> {
        let statement = key(consumer, aggregate_type, aggregate_id).fill(UNPARK);
        Ok(!run(&self.database, &statement).await?.is_empty())
    }
}

#[async_trait]
impl InboxOperationsPort for PostgresInbox {
    /// More than [`Self::FORGOTTEN_AT_ONCE`] events are several transactions.
    async fn forget(&self, consumer: &ConsumerName, events: &[EventId], by: &Attribution) -> Result<u64, StoreError> {
        let mut forgotten = 0;
        for batch in events.chunks(Self::FORGOTTEN_AT_ONCE) {
            let ids: Vec<_> = batch.iter().map(EventId::as_uuid).collect();
            let arguments = attributed(Arguments::new().text(consumer.as_str()).uuids(&ids), by);
            let rows = run(&self.database, &arguments.call("outbox_forget", "*")).await?;
            forgotten += u64::try_from(rows.len()).unwrap_or(u64::MAX);
        }
        Ok(forgotten)
    }

    async fn list_parked(&self, consumer: &ConsumerName, limit: u32) -> Result<Vec<ParkedAggregate>, StoreError> {
        let arguments = Arguments::new().text(consumer.as_str()).int(limit);
        self.parked_rows(&arguments.fill(LIST_PARKED)).await
    }

    async fn consumers(&self) -> Result<Vec<String>, StoreError> {
        let rows = run(&self.database, &Statement::fixed(CONSUMERS)).await?;
        rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>().map_err(|error| self.unreadable(&error))
    }

    async fn record_unpark(
        &self,
        aggregate_type: &AggregateType,
        aggregate_id: &AggregateId,
        discard: Option<GiveUp>,
        unmarked: bool,
        by: &Attribution,
    ) -> Result<u64, StoreError> {
        let arguments = Arguments::new().text(aggregate_type.as_str()).text(aggregate_id.as_str());
        let event = discard.as_ref().map(|discard| discard.event.as_uuid());
        let consumer = discard.as_ref().and_then(|discard| discard.consumer.as_ref()).map(ConsumerName::as_str);
        let arguments = attributed(arguments.optional_uuid(event), by).boolean(unmarked).optional_text(consumer);
        let row = run_for_row(&self.database, &arguments.call("outbox_record_unpark", "*")).await?;
        let parked: i64 = row.try_get(0).map_err(|error| self.unreadable(&error))?;
        Ok(parked.unsigned_abs())
    }
}

#[async_trait]
impl InboxMaintenancePort for PostgresInbox {
    async fn clean_up(&self, term: &LeaderTerm, retention: Duration, batch: u32) -> Result<Option<u32>, StoreError> {
        let arguments = Arguments::new()
            .text(&term.role)
            .text(term.holder.as_str())
            .bigint(term.term)
            .interval(retention)
            .int(batch);
        let row = run_for_row(&self.database, &arguments.fill(CLEAN_UP)).await?;
        let answer: Result<(bool, i64), sqlx::Error> = (|| Ok((row.try_get(0)?, row.try_get(1)?)))();
        let (leads, removed) = answer.map_err(|error| self.unreadable(&error))?;
        Ok(leads.then(|| u32::try_from(removed).unwrap_or(batch)))
    }
}
