//! Leadership: a lease row with a term.

use std::time::Duration;

use application_core::{
    outbox::HolderName,
    ports::{LeaderTerm, LeadershipPort, StoreError},
};
use async_trait::async_trait;
use sqlx::Row;

use crate::{Database, error::from_sqlx, short_transaction::run_for_row, sql::Arguments};

/// Takes and gives up roles in the table `outbox_leader`, by the database's clock.
#[derive(Debug, Clone)]
pub struct PostgresLeadership {
    database: Database,
}

impl PostgresLeadership {
    /// Works on this database.
    #[must_use]
    pub const fn new(database: Database) -> Self {
        Self { database }
    }
}

#[async_trait]
impl LeadershipPort for PostgresLeadership {
    async fn acquire(
        &self,
        role: &str,
        holder: &HolderName,
        lease: Duration,
    ) -> Result<Option<LeaderTerm>, StoreError> {
        let lead = Arguments::new().text(role).text(holder.as_str()).interval(lease);
        let row = run_for_row(&self.database, &lead.call("outbox_lead", "*")).await?;
        let term: Option<i64> = row.try_get(0).map_err(|e| from_sqlx(&e, self.database.limits().statement))?;
        Ok(term.map(|term| LeaderTerm { role: role.to_owned(), holder: holder.clone(), term }))
    }

    async fn resign(&self, term: &LeaderTerm) -> Result<bool, StoreError> {
        let resign = Arguments::new().text(&term.role).text(term.holder.as_str()).bigint(term.term);
        let row = run_for_row(&self.database, &resign.call("outbox_resign", "*")).await?;
        row.try_get(0).map_err(|e| from_sqlx(&e, self.database.limits().statement))
    }
}
