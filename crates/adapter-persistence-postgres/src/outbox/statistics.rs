//! The figures by which the outbox is watched.

use std::time::Duration;

use application_core::{
    outbox::{AggregateType, EventType, FailureClass},
    ports::{DeadGroup, LagPercentiles, OutboxStatistics, OutboxStatisticsPort, RecentPublishing, StoreError},
};
use async_trait::async_trait;
use sqlx::{Row, postgres::PgRow};

use super::{OutboxEventRepository, operations::micros};
use crate::{
    error::from_sqlx,
    short_transaction::{run, run_for_row},
    sql::Arguments,
};

/// Ages in microseconds by the database's clock. The oldest snapshot is that of any session that holds back vacuum, and
/// of prepared transactions, which have no session; what other users do is visible with the role `pg_read_all_stats`.
const FIGURES: &str = "pending, in_flight, failed, dead, blocked_lanes, \
     (extract(epoch FROM statement_timestamp() - oldest_pending_at) * 1000000)::bigint, \
     (extract(epoch FROM statement_timestamp() - oldest_in_flight_at) * 1000000)::bigint, \
     (SELECT (extract(epoch FROM statement_timestamp() - min(began)) * 1000000)::bigint FROM ( \
        SELECT a.xact_start FROM pg_stat_activity a \
         WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() \
           AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL) \
         UNION ALL SELECT p.prepared FROM pg_prepared_xacts p WHERE p.database = current_database()) held (began)), \
     (extract(epoch FROM statement_timestamp() - oldest_blocked_at) * 1000000)::bigint";

/// The list walks the index of DEAD events, so that what is read follows the bound and not the table.
const DEAD_GROUPS: &str = "SELECT CASE WHEN d.class = ANY ($1) THEN d.class END, d.aggregate_type, d.event_type, count(*), \
     (extract(epoch FROM statement_timestamp() - min(d.created_at)) * 1000000)::bigint, min(d.last_error) \
     FROM (SELECT split_part(e.last_error, ': ', 1) AS class, e.aggregate_type::text, e.event_type::text, e.created_at, \
                  e.last_error FROM outbox_event e \
            WHERE e.status = 'DEAD' AND e.resolved_at IS NULL ORDER BY e.sequence LIMIT $2) d \
    GROUP BY 1, 2, 3 ORDER BY 4 DESC, 2, 3 LIMIT $3";

/// The index of published events is walked from its end, so that what is read follows the bound and not the rate.
const RECENT: &str = "SELECT count(*), (extract(epoch FROM statement_timestamp() - min(r.published_at)) * 1000000)::bigint, \
     percentile_disc(0.5) WITHIN GROUP (ORDER BY r.lag), percentile_disc(0.95) WITHIN GROUP (ORDER BY r.lag), \
     percentile_disc(0.99) WITHIN GROUP (ORDER BY r.lag) \
     FROM (SELECT e.published_at, \
                  CASE WHEN e.replays = 0 THEN extract(epoch FROM e.published_at - e.created_at)::float8 END AS lag \
             FROM outbox_event e \
            WHERE e.published_at IS NOT NULL AND e.published_at > statement_timestamp() - $1 \
            ORDER BY e.published_at DESC LIMIT $2) r";

#[async_trait]
impl OutboxStatisticsPort for OutboxEventRepository {
    async fn statistics(&self) -> Result<OutboxStatistics, StoreError> {
        let limit = u32::try_from(OutboxStatistics::COUNT_LIMIT).unwrap_or(u32::MAX);
        let row = run_for_row(&self.database, &Arguments::new().int(limit).call("outbox_statistics", FIGURES)).await?;
        figures(&row).map_err(|error| from_sqlx(&error, self.database.limits().statement))
    }

    async fn dead_groups(&self) -> Result<Vec<DeadGroup>, StoreError> {
        let limit = u32::try_from(OutboxStatistics::COUNT_LIMIT).unwrap_or(u32::MAX);
        let classes = FailureClass::ALL.map(FailureClass::as_str);
        let arguments = Arguments::new().texts(classes).int(limit).int(DeadGroup::MOST);
        let rows = run(&self.database, &arguments.fill(DEAD_GROUPS).by_index()).await?;
        let groups: Result<Vec<_>, _> = rows.iter().map(dead_group).collect();
        groups.map_err(|error| from_sqlx(&error, self.database.limits().statement))
    }

    async fn recent_publishing(&self) -> Result<RecentPublishing, StoreError> {
        let most = u32::try_from(RecentPublishing::MOST).unwrap_or(u32::MAX);
        let statement = Arguments::new().interval(RecentPublishing::SPAN).int(most).fill(RECENT).by_index();
        let row = run_for_row(&self.database, &statement).await?;
        recent(&row).map_err(|error| from_sqlx(&error, self.database.limits().statement))
    }
}

fn recent(row: &PgRow) -> Result<RecentPublishing, sqlx::Error> {
    let events = u64::try_from(row.try_get::<i64, _>(0)?).unwrap_or(0);
    let oldest: Option<i64> = row.try_get(1)?;
    // With fewer than are looked at, the whole time was.
    let span = oldest.filter(|_| events >= RecentPublishing::MOST).map_or(RecentPublishing::SPAN, micros);
    let seconds = |column: usize| {
        let lag: Option<f64> = row.try_get(column)?;
        Ok::<_, sqlx::Error>(lag.map(|lag| Duration::try_from_secs_f64(lag.max(0.0)).unwrap_or_default()))
    };
    let lag = match (seconds(2)?, seconds(3)?, seconds(4)?) {
        (Some(p50), Some(p95), Some(p99)) => Some(LagPercentiles { p50, p95, p99 }),
        _ => None,
    };
    Ok(RecentPublishing { events, span, lag })
}

fn dead_group(row: &PgRow) -> Result<DeadGroup, sqlx::Error> {
    Ok(DeadGroup {
        class: row.try_get::<Option<String>, _>(0)?.and_then(|class| class.parse().ok()),
        aggregate_type: AggregateType::from_stored(row.try_get::<String, _>(1)?),
        event_type: EventType::from_stored(row.try_get::<String, _>(2)?),
        events: u64::try_from(row.try_get::<i64, _>(3)?).unwrap_or(0),
        oldest_age: micros(row.try_get(4)?),
        example: row.try_get(5)?,
    })
}

fn figures(row: &PgRow) -> Result<OutboxStatistics, sqlx::Error> {
    let count = |column: usize| row.try_get::<i64, _>(column).map(|n| u64::try_from(n).unwrap_or(0));
    let age = |column: usize| {
        let micros: Option<i64> = row.try_get(column)?;
        // A transaction that began after this statement is no older than nothing.
        Ok::<_, sqlx::Error>(micros.map(|n| Duration::from_micros(u64::try_from(n).unwrap_or(0))))
    };
    Ok(OutboxStatistics {
        pending: count(0)?,
        in_flight: count(1)?,
        failed: count(2)?,
        dead: count(3)?,
        blocked_aggregates: count(4)?,
        oldest_pending_age: age(5)?,
        oldest_in_flight_age: age(6)?,
        oldest_snapshot_age: age(7)?,
        oldest_blocked_age: age(8)?,
    })
}
