//! Appending as a service does it: a business row and its events in one transaction of the unit of work.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use adapter_persistence_postgres::{Database, OutboxEventRepository, PgTransaction, PostgresUnitOfWork};
use app_bootstrap::clock::{SystemClock, SystemRandom};
use application_core::{
    outbox::{EventId, NewOutboxEvent},
    ports::{OutboxAppendPort, UnitOfWork, WakeupPort},
    usecases::{Transaction, Transactional},
};
use futures_util::future::try_join_all;
use sea_orm::{ConnectionTrait, DbBackend, Statement};

use crate::{
    error::BenchError,
    seed::{AGGREGATE_TYPE, PAYLOAD_BYTES},
};

/// Appends on one database and wakes somebody, or nobody.
#[derive(Clone)]
pub(crate) struct Appender {
    unit_of_work: Arc<PostgresUnitOfWork>,
    outbox: Arc<OutboxEventRepository>,
    wakeup: Arc<dyn WakeupPort>,
}

/// An event that was committed, and when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Committed {
    pub(crate) event: EventId,
    pub(crate) at: Instant,
}

/// Wakes nobody.
pub(crate) struct Nobody;

impl WakeupPort for Nobody {
    fn wake(&self) {}
}

/// Remembers when it was called, which is when the commit was answered, and passes the call on.
struct Stamp {
    then: Arc<dyn WakeupPort>,
    at: Mutex<Option<Instant>>,
}

impl WakeupPort for Stamp {
    fn wake(&self) {
        *self.at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        self.then.wake();
    }
}

impl Appender {
    pub(crate) fn new(database: &Database, wakeup: Arc<dyn WakeupPort>) -> Self {
        let unit_of_work = Arc::new(PostgresUnitOfWork::new(database.clone()));
        Self { unit_of_work, outbox: Arc::new(OutboxEventRepository::new(database.clone())), wakeup }
    }

    /// Commits a business row and one event for each of these aggregates.
    pub(crate) async fn append(&self, aggregates: &[String]) -> Result<Vec<Committed>, BenchError> {
        let events: Vec<_> = aggregates.iter().map(|aggregate| event(aggregate)).collect::<Result<_, _>>()?;
        let ids: Vec<_> = events.iter().map(NewOutboxEvent::id).collect();
        let stamp = Arc::new(Stamp { then: Arc::clone(&self.wakeup), at: Mutex::new(None) });
        let (unit_of_work, outbox) = (Arc::clone(&self.unit_of_work), Arc::clone(&self.outbox));
        let transactional = Transactional::new(unit_of_work, outbox, Arc::<Stamp>::clone(&stamp));
        let work = async |transaction: &mut Transaction<PgTransaction>| {
            insert_business_row(transaction.tx()).await?;
            for event in events {
                transaction.record(event);
            }
            Ok::<_, BenchError>(())
        };
        transactional.run(work).await?;
        let at = stamp.at.lock().unwrap_or_else(PoisonError::into_inner).unwrap_or_else(Instant::now);
        Ok(ids.into_iter().map(|event| Committed { event, at }).collect())
    }

    /// Commits nothing in so many transactions that are open at the same time, so that as many connections are there.
    pub(crate) async fn warm_up(&self, connections: usize) -> Result<(), BenchError> {
        let open = try_join_all((0..connections).map(|_| self.unit_of_work.begin())).await?;
        for tx in open {
            self.unit_of_work.commit(tx).await?;
        }
        Ok(())
    }

    /// Commits a business row without an event.
    pub(crate) async fn business_row_alone(&self) -> Result<(), BenchError> {
        let mut tx = self.unit_of_work.begin().await?;
        insert_business_row(&mut tx).await?;
        Ok(self.unit_of_work.commit(tx).await?)
    }

    /// Commits events of their own aggregates, appended in one call or in a call each.
    pub(crate) async fn events_alone(&self, events: usize, in_one_call: bool) -> Result<(), BenchError> {
        let events: Vec<_> = (0..events).map(|_| event(&fresh_aggregate())).collect::<Result<_, _>>()?;
        let mut tx = self.unit_of_work.begin().await?;
        let at_once = if in_one_call { events.len() } else { 1 };
        for part in events.chunks(at_once.max(1)) {
            self.outbox.append(&mut tx, part).await?;
        }
        Ok(self.unit_of_work.commit(tx).await?)
    }
}

/// An aggregate that has no other event.
pub(crate) fn fresh_aggregate() -> String {
    fresh_id().to_string()
}

fn fresh_id() -> EventId {
    EventId::generate(&SystemClock::new(), &SystemRandom)
}

fn event(aggregate: &str) -> Result<NewOutboxEvent, BenchError> {
    let payload = format!("{{\"filler\":\"{}\"}}", "x".repeat(PAYLOAD_BYTES - 13));
    Ok(NewOutboxEvent::draft_raw(fresh_id(), (AGGREGATE_TYPE, aggregate), "Benched", payload).build()?)
}

async fn insert_business_row(tx: &mut PgTransaction) -> Result<(), BenchError> {
    let insert = "INSERT INTO bench_business (id, body) VALUES ($1, $2)";
    let values = [fresh_id().as_uuid().into(), "x".repeat(100).into()];
    let statement = Statement::from_sql_and_values(DbBackend::Postgres, insert, values);
    tx.orm().execute_raw(statement).await.map_err(|error| tx.store_error(&error))?;
    Ok(())
}
