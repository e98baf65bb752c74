//! What the database says at the end, told to the checker.

use application_core::outbox::{EventId, OutboxEventStatus};
use sqlx::{Connection, PgConnection, Row};
use test_support::checker::DeliveryChecker;
use uuid::Uuid;

// sample-only: begin
/// Counts at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Work logs committed.
    pub work_logs: i64,
    /// Events committed.
    pub events: i64,
    /// Events that the broker confirmed, as far as the database knows.
    pub published: i64,
    /// Events under a lease.
    pub in_flight: i64,
    /// DEAD events.
    pub dead: i64,
    /// Events whose effect was applied.
    pub applied: i64,
}
// sample-only: end

/// Looks into the database.
#[derive(Debug)]
pub struct Tally {
    connection: PgConnection,
}

impl Tally {
    /// Connects.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn connect(database_url: &str) -> Result<Self, sqlx::Error> {
        Ok(Self { connection: PgConnection::connect(database_url).await? })
    }

    // sample-only: begin
    /// Counts.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn counts(&mut self) -> Result<Counts, sqlx::Error> {
        let row = sqlx::query(
            "SELECT (SELECT count(*) FROM work_log),
                    count(*),
                    count(*) FILTER (WHERE status = 'PUBLISHED'),
                    count(*) FILTER (WHERE status = 'IN_FLIGHT'),
                    count(*) FILTER (WHERE status = 'DEAD'),
                    (SELECT count(*) FROM outbox_inbox)
               FROM outbox_event_state",
        )
        .fetch_one(&mut self.connection)
        .await?;
        Ok(Counts {
            work_logs: row.try_get(0)?,
            events: row.try_get(1)?,
            published: row.try_get(2)?,
            in_flight: row.try_get(3)?,
            dead: row.try_get(4)?,
            applied: row.try_get(5)?,
        })
    }
    // sample-only: end

    /// How many events the processes of this instance have under a lease.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn held_by(&mut self, instance: &str) -> Result<i64, sqlx::Error> {
        let count = "SELECT count(*) FROM outbox_event_state
                      WHERE status = 'IN_FLIGHT' AND split_part(holder, '#', 1) = $1";
        sqlx::query(count).bind(instance).fetch_one(&mut self.connection).await?.try_get(0)
    }

    /// The aggregates, `limit` at most, of which the processes of this instance have events under a lease, as
    /// `type/identifier`.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn aggregates_held_by(&mut self, instance: &str, limit: i64) -> Result<Vec<String>, sqlx::Error> {
        let aggregates = "SELECT DISTINCT aggregate_type || '/' || aggregate_id FROM outbox_event_state
                           WHERE status = 'IN_FLIGHT' AND split_part(holder, '#', 1) = $1 ORDER BY 1 LIMIT $2";
        let aggregates = sqlx::query_scalar(aggregates).bind(instance).bind(limit);
        aggregates.fetch_all(&mut self.connection).await
    }

    /// Lanes and claims that are left; both are zero once everything is settled.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn leftovers(&mut self) -> Result<(i64, i64), sqlx::Error> {
        let count = "SELECT (SELECT count(*) FROM outbox_lane), (SELECT count(*) FROM outbox_claim)";
        let row = sqlx::query(count).fetch_one(&mut self.connection).await?;
        Ok((row.try_get(0)?, row.try_get(1)?))
    }

    /// Tells the checker of every committed event, of every effect, and of every event that is still open.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn tell(&mut self, checker: &DeliveryChecker) -> Result<(), sqlx::Error> {
        let events = "SELECT id, aggregate_type || '/' || aggregate_id, sequence, status FROM outbox_event_state";
        for row in sqlx::query(events).fetch_all(&mut self.connection).await? {
            let id = EventId::new(row.try_get::<Uuid, _>(0)?);
            checker.committed(&row.try_get::<String, _>(1)?, id, row.try_get(2)?);
            let status: String = row.try_get(3)?;
            match status.parse::<OutboxEventStatus>() {
                Ok(OutboxEventStatus::Published) => {}
                Ok(open) => checker.still_open(id, open),
                Err(error) => return Err(sqlx::Error::Decode(error.into())),
            }
        }
        self.tell_effects(checker).await
    }

    /// Tells the checker of every effect.
    ///
    /// # Errors
    /// What the driver says.
    pub async fn tell_effects(&mut self, checker: &DeliveryChecker) -> Result<(), sqlx::Error> {
        let effects = "SELECT event_id FROM outbox_inbox ORDER BY processed_at";
        for row in sqlx::query(effects).fetch_all(&mut self.connection).await? {
            checker.effect(EventId::new(row.try_get::<Uuid, _>(0)?));
        }
        Ok(())
    }
}
