//! Lists of events, page by page, each page at a bounded price.
//!
//! Events are looked at in the order of their ids, in an index that is entered where the page begins. What a filter leaves
//! out has been looked at all the same; so a page ends after so many looks, however little it has found, and says where
//! the next one begins. What is open or in flight, and what was published between two times, stands in no index by id: as
//! long as it is little, all of it is looked at.

use application_core::{
    outbox::{AggregateId, AggregateType, EventId, EventType, OutboxEventStatus},
    ports::{EventFilter, EventPage, OutboxEventState, StoreError},
};
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter, QueryOrder};
use sqlx::{Decode, Postgres, Row, Type};
use uuid::Uuid;

use super::{
    OutboxEventRepository, OutboxEventStateEntity,
    entity::outbox_event_state::Column,
    operations::{MOST_LISTED, event_state},
};
use crate::{
    short_transaction::run_for_row,
    sql::{Arguments, Statement},
};

/// The most events that are looked at for one page.
const MOST_LOOKED_AT: u32 = 100_000;

/// No more than an operator's role may read.
macro_rules! looked_at {
    () => {
        "e.id, e.aggregate_type, e.aggregate_id, e.event_type, e.status, e.created_at, e.published_at, e.resolved_at, e.last_error"
    };
}

/// From what is looked at to the ids of the page. Text is compared with the answer of a query, which is had once and not
/// for each row.
macro_rules! page {
    () => {
        ", page AS MATERIALIZED ( \
             SELECT l.id FROM looked l \
              WHERE ($1 IS NULL OR l.id > $1) AND $3 \
                AND ((SELECT $4) IS NULL OR l.aggregate_type = (SELECT $4)) \
                AND ((SELECT $5) IS NULL OR l.aggregate_id = (SELECT $5)) \
                AND ((SELECT $6) IS NULL OR l.event_type = (SELECT $6)) \
                AND ((SELECT $7) IS NULL OR starts_with(l.last_error, (SELECT $7))) \
                AND ($8 IS NULL OR l.created_at <= statement_timestamp() - $8) \
                AND (NOT $9 OR l.resolved_at IS NULL) \
                AND ($11 IS NULL OR l.id >= $11) AND ($12 IS NULL OR l.id <= $12) \
                AND ($13 IS NULL OR l.published_at >= $13) AND ($14 IS NULL OR l.published_at < $14) \
              ORDER BY l.id LIMIT $10) \
         SELECT ARRAY(SELECT p.id FROM page p ORDER BY p.id), "
    };
}

/// Where the look ended is answered if the page is not full; NULL: all were looked at.
const BY_ID: &str = concat!(
    "WITH looked AS NOT MATERIALIZED ( \
         SELECT ",
    looked_at!(),
    " FROM outbox_event e WHERE $15 AND ($1 IS NULL OR e.id > $1) \
       AND ($11 IS NULL OR e.id >= $11) AND ($12 IS NULL OR e.id <= $12) ORDER BY e.id LIMIT $2)",
    page!(),
    "CASE WHEN (SELECT count(*) FROM page) < $10 THEN (SELECT l.id FROM looked l ORDER BY l.id OFFSET $2 - 1 LIMIT 1) END"
);

/// Whether all that is open was looked at is answered beside the page: of one aggregate, if the filter names one.
const OPEN: &str = concat!(
    "WITH looked AS NOT MATERIALIZED ( \
         SELECT ",
    looked_at!(),
    " FROM outbox_event e WHERE e.published_at IS NULL AND e.resolved_at IS NULL \
       AND (NOT $15 OR e.lane = outbox_lane_of($4, $5)) ORDER BY e.lane, e.sequence LIMIT $2)",
    page!(),
    "(SELECT count(*) FROM looked) < $2"
);

/// As [`OPEN`], for what the claims hold.
const IN_FLIGHT: &str = concat!(
    "WITH looked AS NOT MATERIALIZED ( \
         SELECT ",
    looked_at!(),
    " FROM outbox_claim c CROSS JOIN LATERAL unnest(c.lanes) AS w (lane) \
      JOIN outbox_lane v ON v.lane = w.lane AND v.token = c.token \
     CROSS JOIN LATERAL ( \
           SELECT o.id, o.aggregate_type, o.aggregate_id, o.event_type, o.status, o.created_at, o.published_at, o.resolved_at, \
                  o.last_error \
             FROM outbox_event o \
            WHERE o.published_at IS NULL AND o.resolved_at IS NULL \
              AND (o.lane, o.sequence) >= (v.lane, v.claimed_from) AND (o.lane, o.sequence) <= (v.lane, v.claimed_through) \
            ORDER BY o.lane, o.sequence LIMIT $2) e LIMIT $2)",
    page!(),
    "(SELECT count(*) FROM looked) < $2"
);

/// As [`OPEN`], for what was published between two times.
const PUBLISHED: &str = concat!(
    "WITH looked AS NOT MATERIALIZED ( \
         SELECT ",
    looked_at!(),
    " FROM outbox_event e WHERE e.published_at IS NOT NULL \
       AND ($13 IS NULL OR e.published_at >= $13) AND ($14 IS NULL OR e.published_at < $14) \
     ORDER BY e.published_at LIMIT $2)",
    page!(),
    "(SELECT count(*) FROM looked) < $2"
);

/// The events of a page, and where the next one begins.
struct Found {
    ids: Vec<Uuid>,
    next: Option<EventId>,
}

impl OutboxEventRepository {
    pub(super) async fn page(&self, filter: &EventFilter) -> Result<EventPage, StoreError> {
        let Found { ids, next } = self.look(filter).await?;
        Ok(EventPage { events: self.states(ids, filter.status).await?, next })
    }

    async fn look(&self, filter: &EventFilter) -> Result<Found, StoreError> {
        let limit = filter.limit.clamp(1, MOST_LISTED);
        let of_one_aggregate = filter.aggregate_type.is_some() && filter.aggregate_id.is_some();
        let between = filter.published_from.is_some() || filter.published_until.is_some();
        let few = match filter.status {
            Some(OutboxEventStatus::Pending) => Some(OPEN),
            Some(OutboxEventStatus::InFlight) => Some(IN_FLIGHT),
            None | Some(OutboxEventStatus::Published) if between => Some(PUBLISHED),
            _ => None,
        };
        if let Some(few) = few {
            let statement = wanted(filter, limit).boolean(of_one_aggregate).fill(few).by_index();
            let (ids, all): (_, bool) = self.ids_and(&statement).await?;
            if all {
                return Ok(found(ids, limit, None));
            }
        }
        let statement = wanted(filter, limit).own(indexed(filter.status)).fill(BY_ID).by_index();
        let (ids, end) = self.ids_and(&statement).await?;
        Ok(found(ids, limit, end))
    }

    /// The ids of a page, and what is answered beside them.
    async fn ids_and<T>(&self, statement: &Statement) -> Result<(Vec<Uuid>, T), StoreError>
    where
        T: for<'r> Decode<'r, Postgres> + Type<Postgres>,
    {
        let row = run_for_row(&self.database, statement).await?;
        let read = || -> Result<(Vec<Uuid>, T), sqlx::Error> { Ok((row.try_get(0)?, row.try_get(1)?)) };
        read().map_err(|error| self.unreadable(&error))
    }

    /// What the view says of the events. One that has another status by now is left out.
    async fn states(
        &self,
        ids: Vec<Uuid>,
        status: Option<OutboxEventStatus>,
    ) -> Result<Vec<OutboxEventState>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut select = OutboxEventStateEntity::find().filter(Column::Id.is_in(ids)).order_by_asc(Column::Id);
        if let Some(status) = status {
            select = select.filter(Column::Status.eq(status.as_str()));
        }
        let tx = self.begin().await?;
        let found = select.all(tx.orm()).await;
        found.map_err(|error| tx.store_error(&error))?.into_iter().map(event_state).collect()
    }
}

/// A full page is followed by another one, behind its last event.
fn found(ids: Vec<Uuid>, limit: u32, end: Option<Uuid>) -> Found {
    let full = u32::try_from(ids.len()).is_ok_and(|count| count >= limit);
    let next = if full { ids.last().copied() } else { end };
    Found { ids, next: next.map(EventId::new) }
}

/// The arguments that the statements have in common, `$1` to `$14`.
fn wanted(filter: &EventFilter, limit: u32) -> Arguments {
    Arguments::new()
        .optional_uuid(filter.after.as_ref().map(EventId::as_uuid))
        .int(MOST_LOOKED_AT)
        .own(stored(filter.status))
        .optional_text(filter.aggregate_type.as_ref().map(AggregateType::as_str))
        .optional_text(filter.aggregate_id.as_ref().map(AggregateId::as_str))
        .optional_text(filter.event_type.as_ref().map(EventType::as_str))
        .optional_text(filter.class.map(|class| format!("{class}: ")).as_deref())
        .optional_interval(filter.older_than)
        .boolean(filter.unresolved)
        .int(limit)
        .optional_uuid(filter.from.as_ref().map(EventId::as_uuid))
        .optional_uuid(filter.to.as_ref().map(EventId::as_uuid))
        .optional_time(filter.published_from)
        .optional_time(filter.published_until)
}

/// What a row says of a status; whether it is in flight is known to its lane alone.
const fn stored(status: Option<OutboxEventStatus>) -> &'static str {
    match status {
        None => "true",
        Some(OutboxEventStatus::Pending) => "l.status = 'PENDING'",
        Some(OutboxEventStatus::InFlight) => "l.status IN ('PENDING', 'FAILED')",
        Some(OutboxEventStatus::Published) => "l.status = 'PUBLISHED'",
        Some(OutboxEventStatus::Failed) => "l.status = 'FAILED'",
        Some(OutboxEventStatus::Dead) => "l.status = 'DEAD'",
    }
}

/// What picks the index that is walked.
const fn indexed(status: Option<OutboxEventStatus>) -> &'static str {
    match status {
        Some(OutboxEventStatus::Failed) => "e.status = 'FAILED'",
        Some(OutboxEventStatus::Dead) => "e.status = 'DEAD'",
        _ => "true",
    }
}
