//! What the doctor looks at beside lanes and rights: schema, indexes, autovacuum, old snapshots, clocks, the server's
//! settings, and events that were returned.

use std::{fmt, sync::Arc, time::Duration};

use application_core::ports::{Clock, Finding, OutboxCheckPort, ReadinessCheck, StoreError};
use async_trait::async_trait;
use sqlx::{Row, postgres::PgRow};

use crate::{
    Database, History, SchemaReadiness,
    error::from_sqlx,
    short_transaction::{run, run_for_row},
    sql::{Arguments, Statement},
};

/// Versions, tables, views, sequences and functions: what readiness asks for.
#[derive(Debug, Clone)]
pub struct SchemaCheck(SchemaReadiness);

impl SchemaCheck {
    /// Expects at least these versions.
    #[must_use]
    pub const fn new(database: Database, expected: Vec<(History, i32)>) -> Self {
        Self(SchemaReadiness::new(database, expected))
    }
}

#[async_trait]
impl OutboxCheckPort for SchemaCheck {
    fn name(&self) -> &'static str {
        "schema"
    }

    async fn look(&self) -> Result<Vec<Finding>, StoreError> {
        let problem = self.0.check().await.err();
        let finding = |problem| Finding {
            problem,
            subject: "schema".to_owned(),
            cure: "`app migrate`; what somebody dropped or renamed is made again as `migrations/outbox` has it"
                .to_owned(),
        };
        Ok(problem.map(finding).into_iter().collect())
    }
}

/// The indexes of the outbox that no constraint makes.
const INDEXES: [&str; 9] = [
    "outbox_audit_events",
    "outbox_event_dead",
    "outbox_event_open",
    "outbox_event_published",
    "outbox_event_resolved",
    "outbox_event_troubled",
    "outbox_inbox_parked_aggregate",
    "outbox_inbox_processed",
    "outbox_lane_due",
];

const UNUSABLE: &str = "SELECT name, i.indexrelid IS NULL FROM unnest($1) name \
     LEFT JOIN pg_index i ON i.indexrelid = to_regclass(name) \
     WHERE i.indexrelid IS NULL OR NOT i.indisvalid ORDER BY name";

/// Whether every index is there and usable: without one, a claim or a list reads whole tables.
#[derive(Debug, Clone)]
pub struct IndexCheck(Database);

impl IndexCheck {
    /// Looks in this database.
    #[must_use]
    pub const fn new(database: Database) -> Self {
        Self(database)
    }
}

#[async_trait]
impl OutboxCheckPort for IndexCheck {
    fn name(&self) -> &'static str {
        "indexes"
    }

    async fn look(&self) -> Result<Vec<Finding>, StoreError> {
        rows(&self.0, &Arguments::new().texts(INDEXES).fill(UNUSABLE), |row| {
            let (index, missing): (String, bool) = (row.try_get(0)?, row.try_get(1)?);
            let (problem, cure) = if missing {
                ("an index is missing", "make it again as `migrations/outbox` has it, with CONCURRENTLY".to_owned())
            } else {
                ("an index is invalid and not used", format!("REINDEX INDEX CONCURRENTLY {index}"))
            };
            Ok(Finding { problem: problem.to_owned(), subject: index, cure })
        })
        .await
    }
}

/// Tables whose rows change all the time, with a threshold of their own.
const TUNED: [&str; 3] = ["outbox_claim", "outbox_event", "outbox_lane"];

const UNVACUUMED: &str = "SELECT name || ' is off', 'server', 'ALTER SYSTEM SET ' || name || ' = on, then reload' \
       FROM unnest(ARRAY['autovacuum', 'track_counts']) name WHERE current_setting(name) = 'off' \
     UNION ALL \
     SELECT 'autovacuum is off for a table', c.relname::text, 'ALTER TABLE ' || c.relname || ' RESET (autovacuum_enabled)' \
       FROM pg_class c CROSS JOIN LATERAL pg_options_to_table(c.reloptions) o \
      WHERE c.relkind = 'r' AND starts_with(c.relname, 'outbox_') AND pg_table_is_visible(c.oid) \
        AND o.option_name = 'autovacuum_enabled' AND NOT o.option_value::boolean \
     UNION ALL \
     SELECT 'a table has lost its threshold for autovacuum', c.relname::text, \
            'ALTER TABLE ' || c.relname || ' SET (…) with the values of `migrations/outbox`' \
       FROM pg_class c WHERE c.oid = ANY (SELECT to_regclass(name) FROM unnest($1) name) \
        AND NOT EXISTS (SELECT FROM pg_options_to_table(c.reloptions) o WHERE o.option_name = 'autovacuum_vacuum_threshold')";

/// Whether autovacuum keeps up the tables: dead rows are met again by every poll.
#[derive(Debug, Clone)]
pub struct AutovacuumCheck(Database);

impl AutovacuumCheck {
    /// Looks in this database.
    #[must_use]
    pub const fn new(database: Database) -> Self {
        Self(database)
    }
}

#[async_trait]
impl OutboxCheckPort for AutovacuumCheck {
    fn name(&self) -> &'static str {
        "autovacuum"
    }

    async fn look(&self) -> Result<Vec<Finding>, StoreError> {
        rows(&self.0, &Arguments::new().texts(TUNED).fill(UNVACUUMED), finding).await
    }
}

const HELD: &str = "SELECT 'a transaction is open for ' || date_trunc('second', statement_timestamp() - a.xact_start), \
            format('session %s (%s, %s)', a.pid, coalesce(a.usename, '-'), coalesce(nullif(a.application_name, ''), '-')), \
            format('end it, or SELECT pg_terminate_backend(%s)', a.pid) \
       FROM pg_stat_activity a \
      WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() \
        AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL) AND a.xact_start < statement_timestamp() - $1 \
     UNION ALL \
     SELECT 'a prepared transaction is open for ' || date_trunc('second', statement_timestamp() - p.prepared), \
            format('prepared transaction %L', p.gid), format('COMMIT PREPARED %L or ROLLBACK PREPARED %1$L', p.gid) \
       FROM pg_prepared_xacts p WHERE p.database = current_database() AND p.prepared < statement_timestamp() - $1 \
     UNION ALL \
     SELECT 'an inactive replication slot holds an old snapshot', format('slot %s', s.slot_name), \
            format('start its consumer, or SELECT pg_drop_replication_slot(%L)', s.slot_name) \
       FROM pg_replication_slots s WHERE NOT s.active AND (s.xmin IS NOT NULL OR s.catalog_xmin IS NOT NULL)";

/// Whether somebody holds back vacuum: what other users do is visible with the role `pg_read_all_stats`.
#[derive(Debug, Clone)]
pub struct SnapshotCheck {
    database: Database,
    longest: Duration,
}

impl SnapshotCheck {
    /// Finds what is open for longer than `longest`.
    #[must_use]
    pub const fn new(database: Database, longest: Duration) -> Self {
        Self { database, longest }
    }
}

#[async_trait]
impl OutboxCheckPort for SnapshotCheck {
    fn name(&self) -> &'static str {
        "snapshots"
    }

    async fn look(&self) -> Result<Vec<Finding>, StoreError> {
        rows(&self.database, &Arguments::new().interval(self.longest).fill(HELD), finding).await
    }
}

/// Whether the clocks of this process and of the database agree: ids and logs carry the one, leases and ages the other.
pub struct ClockCheck {
    database: Database,
    clock: Arc<dyn Clock>,
    tolerance: Duration,
}

impl ClockCheck {
    /// Finds an offset above `tolerance`; what the question itself took is allowed for.
    #[must_use]
    pub fn new(database: Database, clock: Arc<dyn Clock>, tolerance: Duration) -> Self {
        Self { database, clock, tolerance }
    }
}

impl fmt::Debug for ClockCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClockCheck").field("tolerance", &self.tolerance).finish_non_exhaustive()
    }
}

#[async_trait]
impl OutboxCheckPort for ClockCheck {
    fn name(&self) -> &'static str {
        "clock"
    }

    async fn look(&self) -> Result<Vec<Finding>, StoreError> {
        let before = self.clock.now();
        let row = run_for_row(&self.database, &Statement::fixed("SELECT clock_timestamp()")).await?;
        let after = self.clock.now();
        let there: time::OffsetDateTime =
            row.try_get(0).map_err(|error| from_sqlx(&error, self.database.limits().statement))?;
        // At most one of the two is positive.
        let offset = (before - there).max(there - after);
        if offset <= self.tolerance {
            return Ok(Vec::new());
        }
        let direction = if there < before { "behind" } else { "ahead of" };
        Ok(vec![Finding {
            problem: format!("the database's clock is {:.1} s {direction} this process's", offset.as_seconds_f64()),
            subject: "clocks".to_owned(),
            cure: "let both machines take their time from the same source (NTP)".to_owned(),
        }])
    }
}

const CONTRADICTIONS: &str = "SELECT 'transactions are read only by default', 'default_transaction_read_only', \
            'set it to off for this role or database, or connect to the primary' \
      WHERE current_setting('default_transaction_read_only') = 'on' \
     UNION ALL \
     SELECT 'a crash of the server can lose commits that were reported', 'synchronous_commit', \
            'ALTER DATABASE … RESET synchronous_commit, or for the role' \
      WHERE current_setting('synchronous_commit') = 'off' \
     UNION ALL \
     SELECT format('the pool may open %s connections, the server takes %s', $1, room), 'database.pool.max_connections', \
            'lower it, or raise max_connections of the server; all processes share them' \
       FROM (SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int) s (room) \
      WHERE $1 > room";

/// Whether settings of the server and of this process contradict each other or what is promised.
#[derive(Debug, Clone)]
pub struct ServerSettingsCheck {
    database: Database,
    pool: u32,
}

impl ServerSettingsCheck {
    /// A process whose pool holds at most `pool` connections.
    #[must_use]
    pub const fn new(database: Database, pool: u32) -> Self {
        Self { database, pool }
    }
}

#[async_trait]
impl OutboxCheckPort for ServerSettingsCheck {
    fn name(&self) -> &'static str {
        "settings"
    }

    async fn look(&self) -> Result<Vec<Finding>, StoreError> {
        rows(&self.database, &Arguments::new().int(self.pool).fill(CONTRADICTIONS), finding).await
    }
}

/// Few kinds of events, each counted up to a bound; the index of troubled events is walked.
const RETURNED: &str = "SELECT CASE count(*) WHEN 1 THEN '1 event was returned: no queue is bound for it' \
                 ELSE format('%s%s events were returned: no queue is bound for them', \
                             CASE WHEN count(*) >= 10000 THEN 'at least ' ELSE '' END, count(*)) END, \
            format('events %s of %s', t.event_type, t.aggregate_type), \
            'bind a queue for them, or correct outbound.route; DEAD ones then go by `app outbox requeue --class unroutable`' \
       FROM (SELECT e.event_type, e.aggregate_type FROM outbox_event e \
              WHERE e.status IN ('FAILED', 'DEAD') AND e.resolved_at IS NULL AND starts_with(e.last_error, 'unroutable: ') \
              LIMIT 10000) t \
      GROUP BY t.event_type, t.aggregate_type ORDER BY count(*) DESC, 2 LIMIT 20";

/// Whether the broker returned events: then a binding is missing, which the broker cannot be asked for.
#[derive(Debug, Clone)]
pub struct RoutingCheck(Database);

impl RoutingCheck {
    /// Looks in this database.
    #[must_use]
    pub const fn new(database: Database) -> Self {
        Self(database)
    }
}

#[async_trait]
impl OutboxCheckPort for RoutingCheck {
    fn name(&self) -> &'static str {
        "routing"
    }

    async fn look(&self) -> Result<Vec<Finding>, StoreError> {
        rows(&self.0, &Statement::fixed(RETURNED), finding).await
    }
}

pub(super) fn finding(row: &PgRow) -> Result<Finding, sqlx::Error> {
    Ok(Finding { problem: row.try_get(0)?, subject: row.try_get(1)?, cure: row.try_get(2)? })
}

pub(super) async fn rows<T>(
    database: &Database,
    statement: &Statement,
    read: impl Fn(&PgRow) -> Result<T, sqlx::Error>,
) -> Result<Vec<T>, StoreError> {
    let rows = run(database, statement).await?;
    let read: Result<_, _> = rows.iter().map(read).collect();
    read.map_err(|error| from_sqlx(&error, database.limits().statement))
}
