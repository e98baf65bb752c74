//! The list of relays.

use std::time::Duration;

use application_core::{
    outbox::HolderName,
    ports::{Destination, LeaderTerm, PausedDestination, RegisteredRelay, RelayRegistryPort, RelayReport, StoreError},
};
use async_trait::async_trait;
use sqlx::{Row, postgres::PgRow};
use uuid::Uuid;

use super::{OutboxEventRepository, operations::micros};
use crate::{
    error::from_sqlx,
    short_transaction::{run, run_for_row},
    sql::Arguments,
};

/// A row for each pause of a relay, and one for a relay without any.
const REGISTERED: &str = "SELECT r.holder, r.version, \
     (extract(epoch FROM statement_timestamp() - r.started_at) * 1000000)::bigint, \
     (extract(epoch FROM statement_timestamp() - r.seen_at) * 1000000)::bigint, \
     r.seen_at < statement_timestamp() - r.reports_every * $1, \
     p.destination, p.reason, (extract(epoch FROM statement_timestamp() - p.since) * 1000000)::bigint \
     FROM (SELECT * FROM outbox_relay ORDER BY holder LIMIT 1000) r \
     LEFT JOIN LATERAL unnest(r.paused, r.paused_reasons, r.paused_since) \
          WITH ORDINALITY AS p (destination, reason, since, place) ON true \
     ORDER BY r.holder, p.place";

#[async_trait]
impl RelayRegistryPort for OutboxEventRepository {
    async fn report(&self, report: &RelayReport) -> Result<(), StoreError> {
        let RelayReport { holder, run, version, running, every, paused } = report;
        let arguments = Arguments::new()
            .text(holder.as_str())
            .uuid(*run)
            .text(version)
            .interval(*running)
            .interval(*every)
            .texts(paused.iter().map(|paused| paused.destination.as_ref().map_or("", Destination::as_str)))
            .texts(paused.iter().map(|paused| paused.reason.as_str()))
            .intervals(paused.iter().map(|paused| paused.paused_for));
        run_for_row(&self.database, &arguments.call("outbox_report", "*")).await?;
        Ok(())
    }

    async fn withdraw(&self, holder: &HolderName, run: Uuid) -> Result<bool, StoreError> {
        let arguments = Arguments::new().text(holder.as_str()).uuid(run);
        let row = run_for_row(&self.database, &arguments.call("outbox_withdraw", "*")).await?;
        row.try_get(0).map_err(|error| self.unreadable_relay(&error))
    }

    async fn registered(&self) -> Result<Vec<RegisteredRelay>, StoreError> {
        let rows = run(&self.database, &Arguments::new().int(RegisteredRelay::MISSED).fill(REGISTERED)).await?;
        grouped(&rows).map_err(|error| self.unreadable_relay(&error))
    }

    async fn forget_gone(&self, term: &LeaderTerm, age: Duration, batch: u32) -> Result<Option<u32>, StoreError> {
        let arguments =
            Arguments::new().text(&term.role).text(term.holder.as_str()).bigint(term.term).interval(age).int(batch);
        let row = run_for_row(&self.database, &arguments.call("outbox_forget_relays", "leads, deleted")).await?;
        let read = || -> Result<(bool, i64), sqlx::Error> { Ok((row.try_get(0)?, row.try_get(1)?)) };
        let (leads, deleted) = read().map_err(|error| self.unreadable_relay(&error))?;
        Ok(leads.then(|| u32::try_from(deleted).unwrap_or(batch)))
    }
}

impl OutboxEventRepository {
    fn unreadable_relay(&self, error: &sqlx::Error) -> StoreError {
        from_sqlx(error, self.database.limits().statement)
    }
}

fn grouped(rows: &[PgRow]) -> Result<Vec<RegisteredRelay>, sqlx::Error> {
    let mut relays: Vec<RegisteredRelay> = Vec::new();
    for row in rows {
        let holder = HolderName::new(row.try_get::<String, _>(0)?);
        if relays.last().is_none_or(|last| last.holder != holder) {
            relays.push(relay(holder, row)?);
        }
        if let (Some(relay), Some(paused)) = (relays.last_mut(), paused(row)?) {
            relay.paused.push(paused);
        }
    }
    Ok(relays)
}

fn relay(holder: HolderName, row: &PgRow) -> Result<RegisteredRelay, sqlx::Error> {
    Ok(RegisteredRelay {
        holder,
        version: row.try_get(1)?,
        running: micros(row.try_get(2)?),
        silent: micros(row.try_get(3)?),
        gone: row.try_get(4)?,
        paused: Vec::new(),
    })
}

fn paused(row: &PgRow) -> Result<Option<PausedDestination>, sqlx::Error> {
    let Some(destination) = row.try_get::<Option<String>, _>(5)? else { return Ok(None) };
    Ok(Some(PausedDestination {
        destination: (!destination.is_empty()).then(|| Destination::new(destination)),
        reason: row.try_get::<Option<String>, _>(6)?.unwrap_or_default(),
        paused_for: micros(row.try_get::<Option<i64>, _>(7)?.unwrap_or_default()),
    }))
}
