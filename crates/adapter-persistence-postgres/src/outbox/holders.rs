//! Which processes hold what.

use application_core::{
    outbox::HolderName,
    ports::{LeaderState, OutboxHoldersPort, RelayLeases, StoreError},
};
use async_trait::async_trait;
use sqlx::{Row, postgres::PgRow};

use super::{OutboxEventRepository, operations::micros};
use crate::{error::from_sqlx, short_transaction::run, sql::Statement};

/// A row that outlived its reaping holds no lease: appenders hold the rest of its lanes.
const RELAYS: &str = "SELECT c.holder, count(*), sum(c.held)::bigint, \
     count(*) FILTER (WHERE c.lease_expires_at < statement_timestamp()), \
     (extract(epoch FROM statement_timestamp() - min(c.claimed_at)) * 1000000)::bigint \
     FROM outbox_claim c WHERE c.reaped_at IS NULL GROUP BY c.holder ORDER BY c.holder LIMIT 1000";

const LEADERS: &str = "SELECT name, holder, term, \
     (extract(epoch FROM expires_at - statement_timestamp()) * 1000000)::bigint \
     FROM outbox_leader ORDER BY name LIMIT 1000";

#[async_trait]
impl OutboxHoldersPort for OutboxEventRepository {
    async fn relays(&self) -> Result<Vec<RelayLeases>, StoreError> {
        self.read(RELAYS, relay).await
    }

    async fn leaders(&self) -> Result<Vec<LeaderState>, StoreError> {
        self.read(LEADERS, leader).await
    }
}

impl OutboxEventRepository {
    async fn read<T>(
        &self,
        statement: &'static str,
        of: fn(&PgRow) -> Result<T, sqlx::Error>,
    ) -> Result<Vec<T>, StoreError> {
        let rows = run(&self.database, &Statement::fixed(statement)).await?;
        let read: Result<_, _> = rows.iter().map(of).collect();
        read.map_err(|error| from_sqlx(&error, self.database.limits().statement))
    }
}

fn relay(row: &PgRow) -> Result<RelayLeases, sqlx::Error> {
    let count = |column: usize| row.try_get::<i64, _>(column).map(|n| u32::try_from(n).unwrap_or(u32::MAX));
    Ok(RelayLeases {
        holder: HolderName::new(row.try_get::<String, _>(0)?),
        claims: count(1)?,
        lanes: count(2)?,
        expired: count(3)?,
        oldest_claim_age: micros(row.try_get(4)?),
    })
}

fn leader(row: &PgRow) -> Result<LeaderState, sqlx::Error> {
    let left: i64 = row.try_get(3)?;
    Ok(LeaderState {
        role: row.try_get(0)?,
        holder: HolderName::new(row.try_get::<String, _>(1)?),
        term: row.try_get(2)?,
        expires_in: (left > 0).then(|| micros(left)),
    })
}
