//! Append: all events of a unit of work in one statement of its transaction.

use application_core::{
    outbox::{EventId, NewOutboxEvent},
    ports::{OutboxAppendError, OutboxAppendPort, StoreError},
};
use async_trait::async_trait;
use sea_orm::{ConnectionTrait, DbBackend, Statement, Value};

use super::OutboxEventRepository;
use crate::{PgTransaction, error::driver_error};

/// Locks the lanes in their order, then draws the sequences and inserts.
const APPEND: &str = include_str!("append.sql");

#[async_trait]
impl OutboxAppendPort<PgTransaction> for OutboxEventRepository {
    async fn append(&self, tx: &mut PgTransaction, events: &[NewOutboxEvent]) -> Result<(), OutboxAppendError> {
        if events.is_empty() {
            return Ok(());
        }
        let statement = Statement::from_sql_and_values(DbBackend::Postgres, APPEND, columns(events)?);
        let inserted = tx
            .orm()
            .query_all_raw(statement)
            .await
            .map_err(|error| duplicate_or_store(tx.store_error(&error), events))?;
        let (expected, actual) = (count(events.len()), count(inserted.len()));
        if expected == actual {
            Ok(())
        } else {
            Err(StoreError::RowsAffected { operation: "append", expected, actual }.into())
        }
    }
}

fn count(rows: usize) -> u64 {
    u64::try_from(rows).unwrap_or(u64::MAX)
}

/// The events as six arrays, one for each column.
fn columns(events: &[NewOutboxEvent]) -> Result<[Value; 6], StoreError> {
    let text = |part: fn(&NewOutboxEvent) -> &str| -> Value {
        events.iter().map(|event| part(event).to_owned()).collect::<Vec<String>>().into()
    };
    let headers: Vec<String> = events
        .iter()
        .map(|event| serde_json::to_string(event.headers()))
        .collect::<Result<_, _>>()
        .map_err(|source| StoreError::Refused { source: Box::new(source) })?;
    Ok([
        events.iter().map(|event| event.id().as_uuid()).collect::<Vec<_>>().into(),
        text(|event| event.aggregate_type().as_str()),
        text(|event| event.aggregate_id().as_str()),
        text(|event| event.event_type().as_str()),
        text(|event| event.payload().as_str()),
        headers.into(),
    ])
}

fn duplicate_or_store(error: StoreError, events: &[NewOutboxEvent]) -> OutboxAppendError {
    let duplicate = driver_error(&error).filter(|driver| driver.constraint() == Some("outbox_event_pkey"));
    let Some(driver) = duplicate else {
        return error.into();
    };
    // Without the right to read the table, the server does not say which; then the first of the call stands for it.
    let named = driver.key().and_then(|key| key.parse::<EventId>().ok());
    match named.or_else(|| events.first().map(NewOutboxEvent::id)) {
        Some(id) => OutboxAppendError::Duplicate { id },
        None => error.into(),
    }
}
