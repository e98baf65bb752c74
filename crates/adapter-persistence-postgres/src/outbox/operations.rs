//! What operators read of single events, and do to them.

use std::{collections::BTreeMap, time::Duration};

use application_core::{
    outbox::{
        AggregateId, AggregateType, Attribution, EventAction, EventHeaders, EventId, EventType, HolderName,
        OutboxEventStatus, Payload, Reason, Sequence,
    },
    ports::{BlockedAggregate, EventFilter, OutboxEventContent, OutboxEventState, OutboxOperationsPort, StoreError},
};
use async_trait::async_trait;
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, DbBackend, EntityTrait, FromQueryResult, QueryFilter, QueryOrder,
    QuerySelect, Select, Statement as OrmStatement,
    sea_query::{Expr, ExprTrait, Query},
};
use sqlx::Row;
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

    async fn list(&self, filter: &EventFilter) -> Result<Vec<OutboxEventState>, StoreError> {
        let tx = self.begin().await?;
        let found = page(filter).all(tx.orm()).await;
        found.map_err(|error| tx.store_error(&error))?.into_iter().map(event_state).collect()
    }

    async fn blocked(&self, limit: u32) -> Result<Vec<BlockedAggregate>, StoreError> {
        let tx = self.begin().await?;
        let statement = OrmStatement::from_sql_and_values(
            DbBackend::Postgres,
            BLOCKED,
            [i64::from(Ord::min(limit, MOST_LISTED)).into()],
        );
        let rows = tx.orm().query_all_raw(statement).await.map_err(|error| tx.store_error(&error))?;
        rows.iter()
            .map(|row| BlockedRow::from_query_result(row, "").map(blocked_aggregate))
            .collect::<Result<_, _>>()
            .map_err(|error| tx.store_error(&error))
    }

    async fn act(&self, action: EventAction, events: &[EventId], by: &Attribution) -> Result<Vec<EventId>, StoreError> {
        let ids: Vec<_> = events.iter().map(EventId::as_uuid).collect();
        let function = match action {
            EventAction::Requeue => "outbox_requeue",
            EventAction::Discard => "outbox_discard",
            EventAction::Replay => "outbox_replay",
        };
        let rows = run(&self.database, &attributed(Arguments::new().uuids(&ids), by).call(function, "*")).await?;
        let changed: Result<Vec<_>, _> = rows.iter().map(|row| row.try_get(0).map(EventId::new)).collect();
        changed.map_err(|error| self.unreadable(&error))
    }
}

pub(super) fn attributed(arguments: Arguments, by: &Attribution) -> Arguments {
    arguments.text(by.operator.as_str()).optional_text(by.reason.as_ref().map(Reason::as_str))
}

impl OutboxEventRepository {
    /// Builds all lanes anew from the open events, with the relays stopped (rule R30); returns the number of lanes.
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
        let read = |row: &sqlx::postgres::PgRow| -> Result<LaneProblem, sqlx::Error> {
            Ok(LaneProblem { problem: row.try_get(0)?, lane: row.try_get(1)?, head: row.try_get(2)? })
        };
        rows.iter().map(read).collect::<Result<_, _>>().map_err(|error| self.unreadable(&error))
    }

    async fn begin(&self) -> Result<PgTransaction, StoreError> {
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

    fn unreadable(&self, error: &sqlx::Error) -> StoreError {
        from_sqlx(error, self.database.limits().statement)
    }
}

/// One more than are listed, to know whether there are more.
const PROBLEMS: &str = "SELECT problem, lane, head FROM outbox_doctor ORDER BY lane LIMIT 1001";

/// DEAD events at the head of their lanes. Both looks, the one for an earlier open event and the one for the length of
/// the queue, walk the index of open events; the list itself walks that of troubled ones.
const BLOCKED: &str = "SELECT e.id, e.aggregate_type, e.aggregate_id, e.last_error, \
     (extract(epoch FROM statement_timestamp() - e.created_at) * 1000000)::bigint AS age_micros, \
     (SELECT count(*) FROM (SELECT FROM outbox_event w \
       WHERE w.published_at IS NULL AND w.resolved_at IS NULL AND w.lane = e.lane AND w.sequence >= e.sequence \
       LIMIT 10000) waiting) AS depth \
     FROM outbox_event e \
     WHERE e.status = 'DEAD' AND e.resolved_at IS NULL \
       AND NOT EXISTS (SELECT FROM outbox_event h \
         WHERE h.published_at IS NULL AND h.resolved_at IS NULL AND h.lane = e.lane AND h.sequence < e.sequence) \
     ORDER BY e.sequence LIMIT $1";

#[derive(FromQueryResult)]
struct BlockedRow {
    id: uuid::Uuid,
    aggregate_type: String,
    aggregate_id: String,
    last_error: Option<String>,
    age_micros: i64,
    depth: i64,
}

fn blocked_aggregate(row: BlockedRow) -> BlockedAggregate {
    BlockedAggregate {
        aggregate_type: AggregateType::from_stored(row.aggregate_type),
        aggregate_id: AggregateId::from_stored(row.aggregate_id),
        head: EventId::new(row.id),
        reason: row.last_error,
        age: micros(row.age_micros),
        depth: u32::try_from(row.depth).unwrap_or(u32::MAX),
    }
}

pub(super) fn micros(value: i64) -> Duration {
    Duration::from_micros(u64::try_from(value).unwrap_or(0))
}

/// A century in microseconds: as good as for ever, and far from where dates overflow.
const LONGEST_AGE: i64 = 100 * 365 * 86_400 * 1_000_000;

/// One page of the view. What the view computes cannot be looked up in an index, so the events are narrowed down by the
/// table's own columns first.
fn page(filter: &EventFilter) -> Select<OutboxEventStateEntity> {
    use outbox_event_state::Column;
    let mut select = OutboxEventStateEntity::find().order_by_asc(Column::Id).limit(u64::from(Ord::clamp(
        filter.limit,
        1,
        MOST_LISTED,
    )));
    if let Some(after) = filter.after {
        select = select.filter(Column::Id.gt(after.as_uuid()));
    }
    if let Some(aggregate_type) = &filter.aggregate_type {
        select = select.filter(Column::AggregateType.eq(aggregate_type.as_str()));
    }
    if let Some(aggregate_id) = &filter.aggregate_id {
        select = select.filter(Column::AggregateId.eq(aggregate_id.as_str()));
    }
    if let (Some(aggregate_type), Some(aggregate_id)) = (&filter.aggregate_type, &filter.aggregate_id) {
        let lane = Expr::cust_with_values(
            "outbox_lane_of($1, $2)",
            [aggregate_type.as_str().to_owned(), aggregate_id.as_str().to_owned()],
        );
        select = select.filter(Expr::col((OutboxEventStateEntity, Column::Lane)).eq(lane));
    }
    if let Some(event_type) = &filter.event_type {
        select = select.filter(Column::EventType.eq(event_type.as_str()));
    }
    if let Some(class) = filter.class {
        select = select.filter(Column::LastError.starts_with(format!("{class}: ")));
    }
    if let Some(age) = filter.older_than {
        let micros = i64::try_from(age.as_micros()).map_or(LONGEST_AGE, |micros| Ord::min(micros, LONGEST_AGE));
        let earliest = Expr::cust_with_values("statement_timestamp() - $1 * interval '1 microsecond'", [micros]);
        select = select.filter(Expr::col((OutboxEventStateEntity, Column::CreatedAt)).lte(earliest));
    }
    if filter.unresolved {
        select = select.filter(Column::ResolvedAt.is_null());
    }
    match filter.status {
        Some(status) => select.filter(has_status(status)),
        None => select,
    }
}

fn has_status(status: OutboxEventStatus) -> Condition {
    use outbox_event_state::Column;
    let open = Condition::all().add(Column::PublishedAt.is_null());
    let exactly = Column::Status.eq(status.as_str());
    match status {
        OutboxEventStatus::Published => Condition::all().add(Column::PublishedAt.is_not_null()),
        OutboxEventStatus::Pending => open.add(Column::ResolvedAt.is_null()).add(exactly),
        OutboxEventStatus::InFlight => {
            open.add(Column::ResolvedAt.is_null()).add(Expr::cust(IN_A_LEASED_LANE)).add(exactly)
        }
        OutboxEventStatus::Failed | OutboxEventStatus::Dead => {
            let troubled = Query::select()
                .column(outbox_event::Column::Id)
                .from(OutboxEventEntity)
                .and_where(outbox_event::Column::Status.eq(status.as_str()))
                .to_owned();
            Condition::all().add(Column::Id.in_subquery(troubled)).add(exactly)
        }
    }
}

/// An array rather than a join: whatever the statistics say, the index of open events is walked lane by lane.
const IN_A_LEASED_LANE: &str = "outbox_event_state.lane = ANY (ARRAY(SELECT unnest(c.lanes) FROM outbox_claim c))";

fn event_state(row: outbox_event_state::Model) -> Result<OutboxEventState, StoreError> {
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
