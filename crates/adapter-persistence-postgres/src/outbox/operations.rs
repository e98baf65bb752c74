//! What operators read of single events, and do to them.

use std::{collections::BTreeMap, time::Duration};

use application_core::{
    outbox::{
        AggregateId, AggregateType, Attribution, EventAction, EventHeaders, EventId, EventType, HolderName,
        OutboxEventStatus, Payload, Reason, Sequence,
    },
    ports::{
        BlockedAggregate, EventFilter, EventPage, OutboxEventContent, OutboxEventState, OutboxOperationsPort,
        OutboxStatistics, StoreError,
    },
};
use async_trait::async_trait;
use sea_orm::EntityTrait;
use sqlx::{Row, postgres::PgRow};
use time::OffsetDateTime;

use super::{
    OutboxEventEntity, OutboxEventRepository, OutboxEventStateEntity,
    entity::{outbox_event, outbox_event_state},
};
use crate::{
    PgTransaction, PostgresUnitOfWork,
    error::from_sqlx,
    short_transaction::{run, run_for_row},
    sql::{Arguments, Statement},
};

/// The most events of one page.
pub(super) const MOST_LISTED: u32 = 1_000;

/// Something that must not exist, found by [`OutboxEventRepository::examine_lanes`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneProblem {
    /// What is wrong, in words.
    pub problem: String,
    /// The lane.
    pub lane: i64,
    /// The sequence of its first open event.
    pub head: Option<i64>,
}

#[async_trait]
impl OutboxOperationsPort for OutboxEventRepository {
    async fn find(&self, id: EventId) -> Result<Option<OutboxEventState>, StoreError> {
        let tx = self.begin().await?;
        let found = OutboxEventStateEntity::find_by_id(id.as_uuid()).one(tx.orm()).await;
        found.map_err(|error| tx.store_error(&error))?.map(event_state).transpose()
    }

    async fn content(&self, id: EventId) -> Result<Option<OutboxEventContent>, StoreError> {
        let tx = self.begin().await?;
        let found = OutboxEventEntity::find_by_id(id.as_uuid()).one(tx.orm()).await;
        found.map_err(|error| tx.store_error(&error))?.map(event_content).transpose()
    }

    async fn list(&self, filter: &EventFilter) -> Result<EventPage, StoreError> {
        self.page(filter).await
    }

    async fn published_gone_until(&self) -> Result<Option<OffsetDateTime>, StoreError> {
        let rows = run(&self.database, &Statement::fixed(GONE_UNTIL)).await?;
        rows.first().map(|row| row.try_get(0)).transpose().map_err(|error| self.unreadable(&error))
    }

    async fn blocked(&self, limit: u32) -> Result<Vec<BlockedAggregate>, StoreError> {
        let looked_at = u32::try_from(OutboxStatistics::COUNT_LIMIT).unwrap_or(u32::MAX);
        let arguments = Arguments::new().int(looked_at).int(limit.min(MOST_LISTED)).int(BlockedAggregate::DEEPEST);
        let rows = run(&self.database, &arguments.fill(BLOCKED).by_index()).await?;
        rows.iter().map(blocked_aggregate).collect::<Result<_, _>>().map_err(|error| self.unreadable(&error))
    }

    async fn act(&self, action: EventAction, events: &[EventId], by: &Attribution) -> Result<Vec<EventId>, StoreError> {
        let ids: Vec<_> = events.iter().map(EventId::as_uuid).collect();
        let function = match action {
            EventAction::Requeue => "outbox_requeue",
            EventAction::Discard => "outbox_discard",
            EventAction::Replay => "outbox_replay",
        };
        self.acted(function, attributed(Arguments::new().uuids(&ids), by)).await
    }

    async fn requeue_unresolved(&self, events: &[EventId], by: &Attribution) -> Result<Vec<EventId>, StoreError> {
        let ids: Vec<_> = events.iter().map(EventId::as_uuid).collect();
        let resolved_too = false;
        self.acted("outbox_requeue", attributed(Arguments::new().uuids(&ids), by).boolean(resolved_too)).await
    }
}

pub(super) fn attributed(arguments: Arguments, by: &Attribution) -> Arguments {
    arguments.text(by.operator.as_str()).optional_text(by.reason.as_ref().map(Reason::as_str))
}

impl OutboxEventRepository {
    /// Builds all lanes anew from the open events, with the relays stopped (rule R30), unless they are as these say; returns
    /// the number of lanes that were touched.
    ///
    /// # Errors
    /// [`StoreError::Refused`] while a relay holds a lease.
    pub async fn repair_lanes(&self, by: &Attribution) -> Result<u64, StoreError> {
        self.counted("outbox_repair_lanes", attributed(Arguments::new(), by)).await
    }

    /// What must not exist among the lanes, the first 1,001 of them; reads all open events.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn examine_lanes(&self) -> Result<Vec<LaneProblem>, StoreError> {
        let rows = run(&self.database, &Statement::fixed(PROBLEMS)).await?;
        let read = |row: &PgRow| -> Result<LaneProblem, sqlx::Error> {
            Ok(LaneProblem { problem: row.try_get(0)?, lane: row.try_get(1)?, head: row.try_get(2)? })
        };
        rows.iter().map(read).collect::<Result<_, _>>().map_err(|error| self.unreadable(&error))
    }

    /// The events that a function of operators changed.
    async fn acted(&self, function: &'static str, arguments: Arguments) -> Result<Vec<EventId>, StoreError> {
        let rows = run(&self.database, &arguments.call(function, "*")).await?;
        let changed: Result<Vec<_>, _> = rows.iter().map(|row| row.try_get(0).map(EventId::new)).collect();
        changed.map_err(|error| self.unreadable(&error))
    }

    pub(super) async fn begin(&self) -> Result<PgTransaction, StoreError> {
        use application_core::ports::UnitOfWork;
        PostgresUnitOfWork::new(self.database.clone()).begin().await
    }

    pub(super) async fn changed(&self, function: &'static str, arguments: Arguments) -> Result<bool, StoreError> {
        let row = run_for_row(&self.database, &arguments.call(function, "*")).await?;
        row.try_get(0).map_err(|error| self.unreadable(&error))
    }

    async fn counted(&self, function: &'static str, arguments: Arguments) -> Result<u64, StoreError> {
        let row = run_for_row(&self.database, &arguments.call(function, "*")).await?;
        let count: i64 = row.try_get(0).map_err(|error| self.unreadable(&error))?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    pub(super) fn unreadable(&self, error: &sqlx::Error) -> StoreError {
        from_sqlx(error, self.database.limits().statement)
    }
}

const GONE_UNTIL: &str = "SELECT gone_until FROM outbox_retention";

/// One more than are listed, to know whether there are more.
const PROBLEMS: &str = "SELECT problem, lane, head FROM outbox_doctor ORDER BY lane LIMIT 1001";

/// DEAD events at the head of their lanes: of the oldest $1 that nobody has resolved, the first $2. Both looks of each, the
/// one for the first open event of its lane and the one for the length of the queue, walk the index of open events.
const BLOCKED: &str = "SELECT d.id, d.aggregate_type::text, d.aggregate_id::text, d.last_error, \
     (extract(epoch FROM statement_timestamp() - d.created_at) * 1000000)::bigint, \
     (SELECT count(*) FROM (SELECT FROM outbox_event w \
       WHERE w.published_at IS NULL AND w.resolved_at IS NULL AND w.lane = d.lane AND w.sequence >= d.sequence \
       ORDER BY w.lane, w.sequence LIMIT $3) waiting) \
     FROM (SELECT e.id, e.sequence, e.lane, e.aggregate_type, e.aggregate_id, e.last_error, e.created_at \
             FROM outbox_event e WHERE e.status = 'DEAD' AND e.resolved_at IS NULL ORDER BY e.sequence LIMIT $1) d \
    CROSS JOIN LATERAL (SELECT h.sequence FROM outbox_event h \
           WHERE h.published_at IS NULL AND h.resolved_at IS NULL AND h.lane = d.lane ORDER BY h.lane, h.sequence LIMIT 1) head \
    WHERE head.sequence = d.sequence ORDER BY d.sequence LIMIT $2";

fn blocked_aggregate(row: &PgRow) -> Result<BlockedAggregate, sqlx::Error> {
    Ok(BlockedAggregate {
        head: EventId::new(row.try_get(0)?),
        aggregate_type: AggregateType::from_stored(row.try_get::<String, _>(1)?),
        aggregate_id: AggregateId::from_stored(row.try_get::<String, _>(2)?),
        reason: row.try_get(3)?,
        age: micros(row.try_get(4)?),
        depth: u32::try_from(row.try_get::<i64, _>(5)?).unwrap_or(u32::MAX),
    })
}

pub(super) fn micros(value: i64) -> Duration {
    Duration::from_micros(u64::try_from(value).unwrap_or(0))
}

pub(super) fn event_state(row: outbox_event_state::Model) -> Result<OutboxEventState, StoreError> {
    let unreadable = |column| corrupt("outbox_event_state", column, row.id);
    let status = row.status.parse().ok().ok_or_else(|| unreadable("status"))?;
    let attempts = u32::try_from(row.attempts).ok().ok_or_else(|| unreadable("attempts"))?;
    let replays = u32::try_from(row.replays).ok().ok_or_else(|| unreadable("replays"))?;
    let due_at: Option<OffsetDateTime> = row.due_at;
    Ok(OutboxEventState {
        id: EventId::new(row.id),
        sequence: Sequence(row.sequence),
        aggregate_type: AggregateType::from_stored(row.aggregate_type),
        aggregate_id: AggregateId::from_stored(row.aggregate_id),
        event_type: EventType::from_stored(row.event_type),
        status,
        attempts,
        replays,
        created_at: row.created_at,
        published_at: row.published_at,
        // Behind another event or under a lease it is due with what it waits for.
        due_at: due_at.filter(|_| row.blocked_behind.is_none() && status != OutboxEventStatus::InFlight),
        last_error: row.last_error,
        resolved_at: row.resolved_at,
        resolution: row.resolution,
        holder: row.holder.map(HolderName::new),
        lease_expires_at: row.lease_expires_at,
        blocked_behind: row.blocked_behind.map(EventId::new),
    })
}

fn event_content(row: outbox_event::Model) -> Result<OutboxEventContent, StoreError> {
    let headers: BTreeMap<String, String> =
        serde_json::from_value(row.headers).ok().ok_or_else(|| corrupt("outbox_event", "headers", row.id))?;
    Ok(OutboxEventContent { payload: Payload::from_stored(row.payload), headers: EventHeaders::from_stored(headers) })
}

fn corrupt(table: &'static str, column: &'static str, row: uuid::Uuid) -> StoreError {
    StoreError::Corrupt { table, column, id: row.to_string() }
}
