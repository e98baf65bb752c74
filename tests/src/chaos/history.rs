//! Published events of long ago, for the leader to clean.

use sqlx::{Connection, PgConnection, Row};

/// How much is added at a time; with the batches of the fleet's settings its cleaning takes a while.
const EVENTS: i64 = 4_000;

#[derive(Debug)]
pub(crate) struct History(pub(crate) PgConnection);

impl History {
    /// Adds what was published long ago, with sequences as the table takes them from an append alone.
    pub(crate) async fn add(&mut self) -> Result<(), sqlx::Error> {
        let add = "INSERT INTO outbox_event
                       (id, sequence, aggregate_type, aggregate_id, event_type, payload, status, created_at, published_at)
                   SELECT gen_random_uuid(), nextval('outbox_event_sequence'), 'history', n::text, 'aged', '{}',
                          'PUBLISHED', statement_timestamp() - interval '60 days', statement_timestamp() - interval '60 days'
                     FROM generate_series(1, $1) n";
        let mut transaction = self.0.begin().await?;
        sqlx::query("SELECT set_config('outbox.lanes_are_taken', 'yes', true)").execute(&mut *transaction).await?;
        sqlx::query(add).bind(EVENTS).execute(&mut *transaction).await?;
        transaction.commit().await
    }

    pub(crate) async fn left(&mut self) -> Result<i64, sqlx::Error> {
        let count = "SELECT count(*) FROM outbox_event WHERE published_at < statement_timestamp() - interval '59 days'";
        sqlx::query(count).fetch_one(&mut self.0).await?.try_get(0)
    }

    /// The instance that leads maintenance now.
    pub(crate) async fn leader(&mut self) -> Result<Option<String>, sqlx::Error> {
        let leader =
            "SELECT split_part(holder, '#', 1) FROM outbox_leader WHERE expires_at > statement_timestamp() LIMIT 1";
        sqlx::query(leader).fetch_optional(&mut self.0).await?.map(|row| row.try_get(0)).transpose()
    }
}
