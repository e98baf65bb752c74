//! Return of expired leases, and removal of history.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use application_core::{
    outbox::{AggregateType, Attribution, SettledHistory},
    ports::{LeaderTerm, OutboxMaintenancePort, OutboxStatistics, ReapReport, ReapRequest, StoreError},
};
use async_trait::async_trait;
use sqlx::{Row, postgres::PgRow};

use super::operations::attributed;
use crate::{Database, error::from_sqlx, short_transaction::run_for_row, sql::Arguments};

/// Reaps expired leases and cleans up published events, each call one short transaction.
#[derive(Debug)]
pub struct OutboxReaper {
    database: Database,
    round: Mutex<Option<Round>>,
    /// Where the next batch of a purge begins, and the age that it is for.
    purge: Mutex<Option<(Duration, i64)>>,
}

/// A round of cleaning that is under way: the next batch begins where the last one ended, so that it does not walk again
/// over deleted rows that an old snapshot keeps in the index.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Round {
    term: LeaderTerm,
    retention: Duration,
    from_micros: i64,
}

impl OutboxReaper {
    /// Works on this database.
    #[must_use]
    pub const fn new(database: Database) -> Self {
        Self { database, round: Mutex::new(None), purge: Mutex::new(None) }
    }

    fn round(&self) -> MutexGuard<'_, Option<Round>> {
        // The value is whole between any two statements of its users.
        self.round.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_purge(&self) -> MutexGuard<'_, Option<(Duration, i64)>> {
        self.purge.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unreadable(&self, error: &sqlx::Error) -> StoreError {
        from_sqlx(error, self.database.limits().statement)
    }
}

#[async_trait]
impl OutboxMaintenancePort for OutboxReaper {
    async fn reap(&self, request: &ReapRequest) -> Result<ReapReport, StoreError> {
        let arguments = Arguments::new()
            .int(request.max_claims)
            .int(request.dead_after_expiries)
            .texts(request.skip_types.iter().map(AggregateType::as_str));
        let row = run_for_row(&self.database, &arguments.call("outbox_reap", "claims, lanes, postponed, dead")).await?;
        reap_report(&row).map_err(|error| self.unreadable(&error))
    }

    async fn clean_up(&self, term: &LeaderTerm, retention: Duration, batch: u32) -> Result<Option<u32>, StoreError> {
        let from = self
            .round()
            .as_ref()
            .filter(|round| round.term == *term && round.retention == retention)
            .map(|round| round.from_micros);
        let arguments = Arguments::new()
            .text(&term.role)
            .text(term.holder.as_str())
            .bigint(term.term)
            .interval(retention)
            .int(batch)
            .optional_timestamp(from);
        let row = run_for_row(&self.database, &arguments.call("outbox_cleanup", CLEANED)).await?;
        let (leads, deleted, through) = cleaned(&row).map_err(|error| self.unreadable(&error))?;
        let deleted = u32::try_from(deleted).ok().ok_or_else(|| StoreError::RowsAffected {
            operation: "clean up",
            expected: batch.into(),
            actual: deleted.unsigned_abs(),
        })?;
        *self.round() = match through {
            Some(from_micros) if leads && deleted == batch => {
                Some(Round { term: term.clone(), retention, from_micros })
            }
            _ => None,
        };
        Ok(leads.then_some(deleted))
    }

    async fn purge(
        &self,
        history: SettledHistory,
        age: Duration,
        batch: u32,
        by: &Attribution,
    ) -> Result<u32, StoreError> {
        let from = self.next_purge().take().filter(|(of, _)| *of == age && history == SettledHistory::Published);
        let arguments = Arguments::new().text(history.as_str()).interval(age).int(batch);
        let arguments = attributed(arguments, by).optional_timestamp(from.map(|(_, micros)| micros));
        let row = run_for_row(&self.database, &arguments.call("outbox_purge", PURGED)).await?;
        let read = || -> Result<(i64, Option<i64>), sqlx::Error> { Ok((row.try_get(0)?, row.try_get(1)?)) };
        let (deleted, through) = read().map_err(|error| self.unreadable(&error))?;
        *self.next_purge() = through.filter(|_| deleted == i64::from(batch)).map(|micros| (age, micros));
        u32::try_from(deleted).ok().ok_or_else(|| StoreError::RowsAffected {
            operation: "purge",
            expected: batch.into(),
            actual: deleted.unsigned_abs(),
        })
    }

    async fn count_purgeable(&self, history: SettledHistory, age: Duration) -> Result<u64, StoreError> {
        let limit = u32::try_from(OutboxStatistics::COUNT_LIMIT).unwrap_or(u32::MAX);
        let query = match history {
            SettledHistory::Published => PURGEABLE_PUBLISHED,
            SettledHistory::Resolved => PURGEABLE_RESOLVED,
        };
        let row = run_for_row(&self.database, &Arguments::new().interval(age).int(limit).fill(query)).await?;
        let count: i64 = row.try_get(0).map_err(|error| self.unreadable(&error))?;
        Ok(count.unsigned_abs())
    }
}

const PURGEABLE_PUBLISHED: &str = "SELECT count(*) FROM (SELECT FROM outbox_event e \
     WHERE e.published_at IS NOT NULL AND e.published_at < statement_timestamp() - $1 LIMIT $2) old";

const PURGEABLE_RESOLVED: &str = "SELECT count(*) FROM (SELECT FROM outbox_event e \
     WHERE e.resolved_at IS NOT NULL AND e.resolved_at < statement_timestamp() - $1 LIMIT $2) old";

/// As [`CLEANED`].
const PURGED: &str = "deleted, floor(extract(epoch FROM deleted_through) * 1000000)::bigint";

/// The end of a batch rounded down: a row beside it is met again rather than passed over.
const CLEANED: &str = "leads, deleted, floor(extract(epoch FROM deleted_through) * 1000000)::bigint";

fn reap_report(row: &PgRow) -> Result<ReapReport, sqlx::Error> {
    let count = |column: usize| row.try_get::<i32, _>(column).map(|n| u32::try_from(n).unwrap_or(0));
    Ok(ReapReport { claims: count(0)?, lanes: count(1)?, postponed: count(2)?, dead: count(3)? })
}

fn cleaned(row: &PgRow) -> Result<(bool, i64, Option<i64>), sqlx::Error> {
    Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?))
}
