//! Another writer, which knows nothing of the outbox but its table: plain INSERTs of events, each time of a new aggregate.
//!
//! Every work log of the clients is a new aggregate as well, so that lanes are made and removed all the time, by the append
//! and by the trigger of the table side by side.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use sqlx::{Connection, PgConnection};
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::{appenders::EVENTS, error::ChaosError, timer::lasting};
use crate::pause;

/// How long the database may be away.
const PATIENCE: Duration = Duration::from_mins(3);
/// The identifiers of its events begin here; a round has 2^24 of them.
const IDS: u128 = 0x0198_c5a0_0000_7000_8000_0000_0000_0000;
const IDS_OF_A_ROUND: u32 = 24;
/// An INSERT whose answer was lost is sent again, and then finds its events.
const INSERT: &str = "INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload) \
     SELECT own.id, 'note', $2::text, 'Noted', '{}'::json FROM unnest($1::uuid[]) WITH ORDINALITY AS own (id, position) \
      WHERE NOT EXISTS (SELECT FROM outbox_event e WHERE e.id = own.id) ORDER BY own.position";

/// The writer at work; dropping it stops it where it is.
#[derive(Debug)]
pub(crate) struct Writer {
    stop: Arc<AtomicBool>,
    task: JoinHandle<Result<i64, sqlx::Error>>,
}

impl Writer {
    /// Inserts the events of a new aggregate, as many as a work log has, `every` so often. `round` tells its identifiers
    /// from others.
    pub(crate) fn start(database_url: &str, round: u32, every: Duration) -> Self {
        let (url, stop) = (database_url.to_owned(), Arc::new(AtomicBool::new(false)));
        let stopped = Arc::clone(&stop);
        let task = tokio::spawn(async move {
            let (mut connection, mut aggregates) = (None, 0_u32);
            while !stopped.load(Ordering::Relaxed) {
                let begun = Instant::now();
                insert(&mut connection, &url, round, aggregates).await?;
                aggregates += 1;
                lasting(every.saturating_sub(begun.elapsed())).await;
            }
            Ok(i64::from(aggregates))
        });
        Self { stop, task }
    }

    /// Lets it finish what it is at; returns how many aggregates it has written.
    pub(crate) async fn finish(mut self) -> Result<i64, ChaosError> {
        self.stop.store(true, Ordering::Relaxed);
        Ok((&mut self.task).await.map_err(std::io::Error::other)??)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Inserts the events of one aggregate, again and again while the database may come back.
async fn insert(
    connection: &mut Option<PgConnection>,
    url: &str,
    round: u32,
    aggregate: u32,
) -> Result<(), sqlx::Error> {
    let begun = Instant::now();
    loop {
        let Err(error) = insert_once(connection, url, round, aggregate).await else { return Ok(()) };
        *connection = None;
        if begun.elapsed() > PATIENCE {
            return Err(error);
        }
        pause().await;
    }
}

async fn insert_once(
    connection: &mut Option<PgConnection>,
    url: &str,
    round: u32,
    aggregate: u32,
) -> Result<(), sqlx::Error> {
    let connection = match connection {
        Some(connection) => connection,
        None => connection.insert(PgConnection::connect(url).await?),
    };
    let insert = sqlx::query(INSERT).bind(ids(round, aggregate)).bind(format!("{round}-{aggregate}"));
    insert.execute(connection).await.map(drop)
}

fn ids(round: u32, aggregate: u32) -> Vec<Uuid> {
    let first = (u128::from(round) << IDS_OF_A_ROUND) + u128::from(aggregate) * u128::from(EVENTS);
    (0..EVENTS).map(|nth| Uuid::from_u128(IDS + first + u128::from(nth))).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::ids;

    #[test]
    fn no_two_events_of_the_writer_have_one_identifier() {
        let rounds = (1..=3).flat_map(|round| (0..100).flat_map(move |aggregate| ids(round, aggregate)));
        assert_eq!(rounds.collect::<HashSet<_>>().len(), 3 * 100 * 3);
    }
}
