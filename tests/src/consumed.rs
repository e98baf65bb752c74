//! A service as its consumers meet it: a database and names on the broker of its own, and a queue that takes every event.

use std::{collections::HashSet, sync::Arc, time::Duration};

use adapter_persistence_postgres::{
    Database, DatabaseSettings, OutboxEventRepository, PgTransaction, PostgresUnitOfWork,
};
use application_core::{
    outbox::NewOutboxEvent,
    ports::{OutboxAppendError, StoreError, WakeupPort},
    usecases::{Transaction, Transactional},
};
use sqlx::{Connection, PgConnection};
use test_support::{
    fixtures,
    servers::{BrokerNames, TestDatabase, shared},
};

pub use crate::operated::Outcome;
use crate::{AppEnvironment, AppProcess, eventually, tap::Tap};

/// How long a message may take on a slow machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// A migrated database, names on a broker, and the environment of processes that use both.
#[derive(Debug)]
pub struct Consumed {
    environment: AppEnvironment,
    tap: Tap,
    // Behind what uses them, for fields are dropped in order.
    _names: BrokerNames,
    database: TestDatabase,
    _directory: tempfile::TempDir,
}

/// An event that could not be committed.
#[derive(Debug, thiserror::Error)]
enum NotCommitted {
    #[error(transparent)]
    Append(#[from] OutboxAppendError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

struct NobodyToWake;

impl WakeupPort for NobodyToWake {
    fn wake(&self) {}
}

impl Consumed {
    /// A place for one test, named after it.
    ///
    /// # Errors
    /// If there is no server, or the migration fails.
    pub async fn prepare(hint: &str) -> Outcome<Self> {
        let directory = tempfile::tempdir()?;
        let mut names = shared().broker_names(hint).await?;
        // Migrated anew, and no copy of what an earlier run has migrated: a new context has brought tables since.
        let database = shared().empty_database(hint).await?;
        let [exchange, queue, parking_queue, tap] =
            [names.exchange("events"), names.queue("work"), names.queue("parking"), names.queue("tap")];
        let environment = AppEnvironment::new(directory.path(), database.url(), Some(names.url())).with_topology_named(
            &exchange,
            &queue,
            &parking_queue,
        );
        let (status, output) = environment.run(&["migrate"]).await?;
        if !status.success() {
            return Err(output.into());
        }
        let tap = Tap::open_on(names.url(), &exchange, &tap).await?;
        Ok(Self { environment, tap, _names: names, database, _directory: directory })
    }

    /// Starts a service: its HTTP, its relay, its consumer.
    ///
    /// # Errors
    /// If it does not become ready.
    pub async fn serve(&self) -> Outcome<AppProcess> {
        Ok(self.environment.serve("consumed").await?)
    }

    /// Commits an event as a use case does; the relay of a process that serves finds it.
    ///
    /// # Errors
    /// If it breaks a bound of the outbox, or the database refuses it.
    pub async fn commit(&self, event_type: &str, payload: &str) -> Outcome {
        let event = NewOutboxEvent::draft_raw(fixtures::event_id(1), ("consumed", "1"), event_type, payload).build()?;
        let settings = DatabaseSettings { url: self.database.url().to_owned().into(), ..DatabaseSettings::default() };
        let database = Database::connect(&settings).await?;
        let (work, outbox) = (PostgresUnitOfWork::new(database.clone()), OutboxEventRepository::new(database));
        let transactional = Transactional::new(Arc::new(work), Arc::new(outbox), Arc::new(NobodyToWake));
        let committed = transactional.run(async move |transaction: &mut Transaction<PgTransaction>| {
            transaction.record(event);
            Ok::<_, NotCommitted>(())
        });
        Ok(committed.await?)
    }

    /// The types of an aggregate's events in the order of their arrival at the queue, each once; waits until there are
    /// `count`.
    ///
    /// # Errors
    /// If fewer arrive in time.
    pub async fn arrived(&self, aggregate: &str, count: usize) -> Outcome<Vec<String>> {
        let what = format!("the arrival of {count} events of {aggregate}");
        let arrived = eventually(&what, PATIENCE, || async {
            let mut known = HashSet::new();
            let mut seen = self.tap.seen();
            // Delivery is at least once.
            seen.retain(|seen| seen.aggregate == aggregate && known.insert(seen.event));
            (seen.len() >= count).then(|| seen.into_iter().map(|seen| seen.event_type).collect())
        });
        Ok(arrived.await?)
    }

    /// How many messages the consumer of this name has handled, each once; waits until there are `count`.
    ///
    /// # Errors
    /// If there are fewer in time.
    pub async fn handled(&self, consumer: &str, count: i64) -> Outcome<i64> {
        let what = format!("that {consumer} has handled {count} messages");
        let handled = eventually(&what, PATIENCE, || async {
            self.records_of(consumer).await.ok().filter(|records| *records >= count)
        });
        Ok(handled.await?)
    }

    async fn records_of(&self, consumer: &str) -> Result<i64, sqlx::Error> {
        let mut connection = PgConnection::connect(self.database.url()).await?;
        let count = sqlx::query_scalar("SELECT count(*) FROM outbox_inbox WHERE consumer = $1").bind(consumer);
        count.fetch_one(&mut connection).await
    }
}
