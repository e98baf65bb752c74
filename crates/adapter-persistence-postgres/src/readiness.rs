//! Readiness: the database answers, and its schema is new enough; and the one check that start-up makes.

use std::time::Duration;

use application_core::ports::{ReadinessCheck, StoreError, with_causes};
use async_trait::async_trait;
use sqlx::Row;

use crate::{
    Database,
    error::from_sqlx,
    migrate::{History, schema_version},
    short_transaction::run,
    sql::{Arguments, Statement},
};

/// A check must have answered by then.
const CHECK_LIMIT: Duration = Duration::from_millis(1_800);

/// Whether the database answers.
#[derive(Debug, Clone)]
pub struct DatabaseReadiness {
    database: Database,
}

impl DatabaseReadiness {
    /// Asks this database.
    #[must_use]
    pub const fn new(database: Database) -> Self {
        Self { database }
    }
}

#[async_trait]
impl ReadinessCheck for DatabaseReadiness {
    fn name(&self) -> &'static str {
        "database"
    }

    async fn check(&self) -> Result<(), String> {
        in_time(async { run(&self.database, &Statement::fixed("SELECT 1")).await.map(drop) }).await?;
        Ok(())
    }
}

/// The tables, views and sequences of the outbox.
const RELATIONS: [&str; 15] = [
    "outbox_audit",
    "outbox_audit_id_seq",
    "outbox_claim",
    "outbox_doctor",
    "outbox_due_floor",
    "outbox_event",
    "outbox_event_sequence",
    "outbox_event_state",
    "outbox_inbox",
    "outbox_inbox_parked",
    "outbox_lane",
    "outbox_leader",
    "outbox_pause",
    "outbox_relay",
    "outbox_retention",
];

/// The functions of the outbox, those included that others call.
const FUNCTIONS: [&str; 45] = [
    "outbox_acknowledge",
    "outbox_claim",
    "outbox_claim_overdue",
    "outbox_cleanup",
    "outbox_delete_published",
    "outbox_discard",
    "outbox_due_from",
    "outbox_event_forget_lanes",
    "outbox_event_refuse_sequence",
    "outbox_event_take_lane",
    "outbox_fail",
    "outbox_fail_events",
    "outbox_forget",
    "outbox_forget_relays",
    "outbox_free_lanes",
    "outbox_free_postponed",
    "outbox_json_is_deeper",
    "outbox_kill_expired_heads",
    "outbox_lane_of",
    "outbox_lanes_to_settle",
    "outbox_lead",
    "outbox_lease_lanes",
    "outbox_lock_leases",
    "outbox_open_lanes",
    "outbox_pause",
    "outbox_paused_types",
    "outbox_purge",
    "outbox_reap",
    "outbox_record",
    "outbox_record_unpark",
    "outbox_release",
    "outbox_renew",
    "outbox_repair_lanes",
    "outbox_replay",
    "outbox_report",
    "outbox_requeue",
    "outbox_resign",
    "outbox_resume",
    "outbox_settle_events",
    "outbox_stale",
    "outbox_statistics",
    "outbox_take_leases",
    "outbox_wait_for_lane",
    "outbox_wake_parked",
    "outbox_withdraw",
];

/// Looks names up in the catalog and reads no row.
const MISSING: &str = "SELECT name FROM unnest($1) name WHERE to_regclass(name) IS NULL \
     UNION ALL SELECT name || '()' FROM unnest($2) name WHERE to_regproc(name) IS NULL";

/// Whether the schema is at least at the versions that this program expects, newer is fine, and whether every table, view,
/// sequence and function of the outbox is there: a history says what was applied, not what somebody dropped or renamed.
#[derive(Debug, Clone)]
pub struct SchemaReadiness {
    database: Database,
    expected: Vec<(History, i32)>,
}

impl SchemaReadiness {
    /// Expects at least these versions; a version of 0 expects nothing.
    #[must_use]
    pub const fn new(database: Database, expected: Vec<(History, i32)>) -> Self {
        Self { database, expected }
    }
}

#[async_trait]
impl ReadinessCheck for SchemaReadiness {
    fn name(&self) -> &'static str {
        "schema"
    }

    async fn check(&self) -> Result<(), String> {
        for (history, expected) in &self.expected {
            let actual = in_time(schema_version(&self.database, *history)).await?.unwrap_or(0);
            if actual < *expected {
                return Err(format!(
                    "{history} is at version {actual}, at least {expected} is needed: run the migrations"
                ));
            }
        }
        all_exist(&self.database, &RELATIONS, &FUNCTIONS).await
    }
}

/// Whether the tables of a module are there.
#[derive(Debug, Clone)]
pub struct TablesReadiness {
    database: Database,
    module: &'static str,
    tables: &'static [&'static str],
}

impl TablesReadiness {
    /// Looks for these tables of the module.
    #[must_use]
    pub const fn new(database: Database, module: &'static str, tables: &'static [&'static str]) -> Self {
        Self { database, module, tables }
    }
}

#[async_trait]
impl ReadinessCheck for TablesReadiness {
    fn name(&self) -> &'static str {
        self.module
    }

    async fn check(&self) -> Result<(), String> {
        all_exist(&self.database, self.tables, &[]).await
    }
}

async fn all_exist(database: &Database, relations: &[&str], functions: &[&str]) -> Result<(), String> {
    let names = Arguments::new().texts(relations.iter().copied()).texts(functions.iter().copied());
    let statement = names.fill(MISSING);
    let rows = in_time(run(database, &statement)).await?;
    let names: Result<Vec<String>, sqlx::Error> = rows.iter().map(|row| row.try_get(0)).collect();
    match names {
        Ok(names) if names.is_empty() => Ok(()),
        Ok(names) => Err(format!("missing in the database: {}", names.join(", "))),
        Err(error) => Err(with_causes(&from_sqlx(&error, database.limits().statement))),
    }
}

async fn in_time<T>(question: impl Future<Output = Result<T, StoreError>>) -> Result<T, String> {
    match tokio::time::timeout(CHECK_LIMIT, question).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(with_causes(&error)),
        Err(_) => Err(format!("the database did not answer within {CHECK_LIMIT:?}")),
    }
}

/// Why the outbox's sequence cannot keep events in order (rule R10).
#[derive(Debug, thiserror::Error)]
pub enum SequenceError {
    /// There is none.
    #[error("the sequence outbox_event_sequence does not exist: run the migrations")]
    Missing,
    /// Sessions would draw numbers ahead of the lane's lock.
    #[error("outbox_event_sequence has CACHE {cache}, 1 is needed: ALTER SEQUENCE outbox_event_sequence CACHE 1")]
    Cached {
        /// The cache met.
        cache: i64,
    },
    /// Numbers would come again.
    #[error("outbox_event_sequence has CYCLE: ALTER SEQUENCE outbox_event_sequence NO CYCLE")]
    Cycles,
    /// Numbers would not grow.
    #[error("outbox_event_sequence has INCREMENT {increment}, a positive one is needed")]
    Descending {
        /// The increment met.
        increment: i64,
    },
    /// The database could not be asked.
    #[error("the sequence could not be checked")]
    Store {
        /// Why.
        #[source]
        source: StoreError,
    },
}

impl From<StoreError> for SequenceError {
    fn from(source: StoreError) -> Self {
        Self::Store { source }
    }
}

/// Checks that the sequence of the outbox hands out its numbers one by one, growing, and never twice.
///
/// # Errors
/// [`SequenceError`] says what to change.
pub async fn check_sequence(database: &Database) -> Result<(), SequenceError> {
    const QUERY: &str = "SELECT seqcache, seqincrement, seqcycle FROM pg_sequence \
         WHERE seqrelid = to_regclass('outbox_event_sequence')";
    let rows = run(database, &Statement::fixed(QUERY)).await?;
    let Some(row) = rows.first() else {
        return Err(SequenceError::Missing);
    };
    let read = || -> Result<(i64, i64, bool), sqlx::Error> { Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?)) };
    let (cache, increment, cycles) = read().map_err(|error| from_sqlx(&error, database.limits().statement))?;
    if cache != 1 {
        return Err(SequenceError::Cached { cache });
    }
    if increment < 1 {
        return Err(SequenceError::Descending { increment });
    }
    if cycles {
        return Err(SequenceError::Cycles);
    }
    Ok(())
}
