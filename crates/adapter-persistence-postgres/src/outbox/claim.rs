//! Claim and settle, statement by statement: the seam between the outbox's SQL and everything above it.

use std::time::Duration;

use application_core::{
    outbox::{ClaimRequest, OnPublish},
    ports::StoreError,
};
use async_trait::async_trait;
use sqlx::{Row, postgres::PgRow};
use uuid::Uuid;

use crate::{
    Database,
    error::from_sqlx,
    short_transaction::{run, run_for_row},
    sql::Arguments,
};

/// A claimed event as the database hands it out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedRow {
    /// The lane.
    pub lane: i64,
    /// The place in the order of the lane.
    pub sequence: i64,
    /// The event.
    pub id: Uuid,
    /// The aggregate's type.
    pub aggregate_type: String,
    /// The aggregate's identifier.
    pub aggregate_id: String,
    /// The event's type.
    pub event_type: String,
    /// The payload's text.
    pub payload: application_core::outbox::Payload,
    /// The headers: a JSON object of strings.
    pub headers: String,
    /// Deliveries that failed.
    pub attempts: i32,
    /// Replays.
    pub replays: i32,
    /// When it was stored: microseconds since 1970.
    pub created_at_micros: i64,
    /// How long it had been stored when it was claimed, by the database's clock: microseconds.
    pub age_micros: i64,
}

/// What a settling statement answers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SettlementRow {
    /// The claim is gone: nothing was changed.
    pub stale: bool,
    /// Events whose state was changed.
    pub events: i32,
    /// Lanes that were freed.
    pub lanes: i32,
    /// Lanes that an appender holds: settled, but still leased.
    pub postponed: Vec<i64>,
    /// An earlier report settled some of the lanes: this one counts no event of theirs.
    pub repeated: bool,
}

/// An event whose delivery failed, as the database takes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureRow {
    /// The event.
    pub id: Uuid,
    /// `retry`, `block` or `skip`.
    pub outcome: &'static str,
    /// Class and reason.
    pub error: String,
    /// How long it waits; counts with `retry` alone.
    pub delay: Duration,
}

/// The statements of a claim's life, one transaction each.
///
/// A call either took effect as a whole or not at all; after [`StoreError::Unavailable`] and [`StoreError::Timeout`]
/// which of the two is unknown.
#[async_trait]
pub trait OutboxClaimRepository: Send + Sync {
    /// Leases lanes that are due, longest waiting first; passes by those that are locked, and waits for nothing.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<ClaimedRow>, StoreError>;

    /// Leases one lane that [`claim`](Self::claim) keeps passing by because appenders hold it; waits a second at
    /// most, and not at all when no lane is overdue.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn claim_overdue(&self, request: &ClaimRequest) -> Result<Vec<ClaimedRow>, StoreError>;

    /// Marks all events of the lanes' runs published and frees the lanes.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn acknowledge(&self, token: Uuid, lanes: &[i64], confirmed: &[Uuid]) -> Result<SettlementRow, StoreError>;

    /// Marks the confirmed events published, records the failures, and frees the lanes.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn fail(
        &self,
        token: Uuid,
        lanes: &[i64],
        confirmed: &[Uuid],
        failures: &[FailureRow],
    ) -> Result<SettlementRow, StoreError>;

    /// Marks the confirmed events published and frees the lanes, due after the delay.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn release(
        &self,
        token: Uuid,
        lanes: &[i64],
        confirmed: &[Uuid],
        delay: Duration,
    ) -> Result<SettlementRow, StoreError>;

    /// Frees lanes that were postponed; waits half a second at most.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn free_postponed(&self, token: Uuid, lanes: &[i64]) -> Result<SettlementRow, StoreError>;

    /// Extends the lease; `false`: the claim is gone.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn renew(&self, token: Uuid, lease: Duration) -> Result<bool, StoreError>;
}

/// The statements on PostgreSQL: functions of the migrations, called in short transactions.
#[derive(Debug, Clone)]
pub struct PostgresOutboxClaimRepository {
    database: Database,
    delete_published: bool,
}

impl PostgresOutboxClaimRepository {
    /// Works on this database; published events are kept until their retention is over.
    #[must_use]
    pub const fn new(database: Database) -> Self {
        Self { database, delete_published: false }
    }

    /// Keeps events when they are published, or deletes them.
    #[must_use]
    pub fn on_publish(mut self, on_publish: OnPublish) -> Self {
        self.delete_published = on_publish == OnPublish::Delete;
        self
    }

    async fn claimed(&self, function: &'static str, arguments: Arguments) -> Result<Vec<ClaimedRow>, StoreError> {
        let rows = run(&self.database, &arguments.call(function, CLAIMED)).await?;
        rows.iter().map(claimed_row).collect::<Result<_, _>>().map_err(|error| self.unreadable(&error))
    }

    async fn settled(&self, function: &'static str, arguments: Arguments) -> Result<SettlementRow, StoreError> {
        let row = run_for_row(&self.database, &arguments.call(function, SETTLED)).await?;
        settlement_row(&row).map_err(|error| self.unreadable(&error))
    }

    fn unreadable(&self, error: &sqlx::Error) -> StoreError {
        from_sqlx(error, self.database.limits().statement)
    }
}

/// Times as microseconds: nothing depends on the session's date format, and ages are the database's.
const CLAIMED: &str = "lane, sequence, id, aggregate_type, aggregate_id, event_type, payload, headers, attempts, replays, \
     (extract(epoch FROM created_at) * 1000000)::bigint, \
     (extract(epoch FROM statement_timestamp() - created_at) * 1000000)::bigint";

const SETTLED: &str = "stale, events, lanes, postponed, repeated";

fn claimed_row(row: &PgRow) -> Result<ClaimedRow, sqlx::Error> {
    Ok(ClaimedRow {
        lane: row.try_get(0)?,
        sequence: row.try_get(1)?,
        id: row.try_get(2)?,
        aggregate_type: row.try_get(3)?,
        aggregate_id: row.try_get(4)?,
        event_type: row.try_get(5)?,
        payload: application_core::outbox::Payload::from_stored(row.try_get::<String, _>(6)?),
        headers: row.try_get(7)?,
        attempts: row.try_get(8)?,
        replays: row.try_get(9)?,
        created_at_micros: row.try_get(10)?,
        age_micros: row.try_get(11)?,
    })
}

fn settlement_row(row: &PgRow) -> Result<SettlementRow, sqlx::Error> {
    Ok(SettlementRow {
        stale: row.try_get(0)?,
        events: row.try_get(1)?,
        lanes: row.try_get(2)?,
        postponed: row.try_get(3)?,
        repeated: row.try_get(4)?,
    })
}

#[async_trait]
impl OutboxClaimRepository for PostgresOutboxClaimRepository {
    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<ClaimedRow>, StoreError> {
        let arguments = Arguments::new()
            .uuid(request.token.as_uuid())
            .text(request.holder.as_str())
            .interval(request.lease)
            .int(request.max_lanes);
        self.claimed("outbox_claim", with_bounds(arguments, request)).await
    }

    async fn claim_overdue(&self, request: &ClaimRequest) -> Result<Vec<ClaimedRow>, StoreError> {
        let arguments =
            Arguments::new().uuid(request.token.as_uuid()).text(request.holder.as_str()).interval(request.lease);
        self.claimed("outbox_claim_overdue", with_bounds(arguments, request)).await
    }

    async fn acknowledge(&self, token: Uuid, lanes: &[i64], confirmed: &[Uuid]) -> Result<SettlementRow, StoreError> {
        let arguments = Arguments::new().uuid(token).bigints(lanes).uuids(confirmed);
        self.settled("outbox_acknowledge", arguments.boolean(self.delete_published)).await
    }

    async fn fail(
        &self,
        token: Uuid,
        lanes: &[i64],
        confirmed: &[Uuid],
        failures: &[FailureRow],
    ) -> Result<SettlementRow, StoreError> {
        let failed: Vec<Uuid> = failures.iter().map(|failure| failure.id).collect();
        let arguments = Arguments::new()
            .uuid(token)
            .bigints(lanes)
            .uuids(confirmed)
            .uuids(&failed)
            .texts(failures.iter().map(|failure| failure.outcome))
            .texts(failures.iter().map(|failure| failure.error.as_str()))
            .intervals(failures.iter().map(|failure| failure.delay));
        self.settled("outbox_fail", arguments.boolean(self.delete_published)).await
    }

    async fn release(
        &self,
        token: Uuid,
        lanes: &[i64],
        confirmed: &[Uuid],
        delay: Duration,
    ) -> Result<SettlementRow, StoreError> {
        let arguments = Arguments::new().uuid(token).bigints(lanes).uuids(confirmed).interval(delay);
        self.settled("outbox_release", arguments.boolean(self.delete_published)).await
    }

    async fn free_postponed(&self, token: Uuid, lanes: &[i64]) -> Result<SettlementRow, StoreError> {
        self.settled("outbox_free_postponed", Arguments::new().uuid(token).bigints(lanes)).await
    }

    async fn renew(&self, token: Uuid, lease: Duration) -> Result<bool, StoreError> {
        let arguments = Arguments::new().uuid(token).interval(lease);
        let row = run_for_row(&self.database, &arguments.call("outbox_renew", "*")).await?;
        row.try_get(0).map_err(|error| self.unreadable(&error))
    }
}

fn with_bounds(arguments: Arguments, request: &ClaimRequest) -> Arguments {
    arguments.int(request.max_run).int(request.max_events).bigint(i64::try_from(request.max_bytes).unwrap_or(i64::MAX))
}
