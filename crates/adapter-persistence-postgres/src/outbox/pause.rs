//! Events that an operator holds back.

use application_core::{
    outbox::{AggregateType, Attribution, OperatorName, Reason},
    ports::{OutboxPausePort, Pause, PauseScope, StoreError},
};
use async_trait::async_trait;
use sqlx::{Row, postgres::PgRow};

use super::{
    OutboxEventRepository,
    operations::{attributed, micros},
};
use crate::{
    error::from_sqlx,
    short_transaction::{run, run_for_row},
    sql::{Arguments, Statement},
};

/// The most lanes that one transaction of a resume looks at.
const LANES_AT_ONCE: u32 = 1_000;

/// The empty text, which is everything, comes first.
const PAUSES: &str = "SELECT aggregate_type, (extract(epoch FROM statement_timestamp() - paused_at) * 1000000)::bigint, \
     operator, reason FROM outbox_pause ORDER BY aggregate_type";

#[async_trait]
impl OutboxPausePort for OutboxEventRepository {
    async fn pause(&self, scope: &PauseScope, by: &Attribution) -> Result<bool, StoreError> {
        self.changed("outbox_pause", attributed(Arguments::new().text(stored(scope)), by)).await
    }

    async fn resume(&self, scope: &PauseScope, by: &Attribution) -> Result<bool, StoreError> {
        let found = self.changed("outbox_resume", attributed(Arguments::new().text(stored(scope)), by)).await?;
        if found && scope.aggregate_type().is_some() {
            self.wake_parked(scope).await?;
        }
        Ok(found)
    }

    async fn pauses(&self) -> Result<Vec<Pause>, StoreError> {
        let rows = run(&self.database, &Statement::fixed(PAUSES)).await?;
        let pauses: Result<Vec<_>, _> = rows.iter().map(pause).collect();
        pauses.map_err(|error| from_sqlx(&error, self.database.limits().statement))
    }
}

impl OutboxEventRepository {
    /// Wakes the lanes that the pause has parked, in bounded transactions; then the pause is gone.
    ///
    /// # Cancellation
    /// What is woken stays so. The pause is listed without having an effect, and the next resume goes on.
    async fn wake_parked(&self, scope: &PauseScope) -> Result<(), StoreError> {
        let (mut after, mut looked_at) = (None, 0_u64);
        loop {
            tracing::info!(lanes = looked_at, "lanes that a pause has held back are being woken");
            let arguments = Arguments::new().text(stored(scope)).optional_bigint(after).int(LANES_AT_ONCE);
            let row = run_for_row(&self.database, &arguments.call("outbox_wake_parked", "*")).await?;
            after = row.try_get(0).map_err(|error| from_sqlx(&error, self.database.limits().statement))?;
            if after.is_none() {
                return Ok(());
            }
            looked_at += u64::from(LANES_AT_ONCE);
        }
    }
}

fn stored(scope: &PauseScope) -> &str {
    scope.aggregate_type().map_or("", AggregateType::as_str)
}

fn pause(row: &PgRow) -> Result<Pause, sqlx::Error> {
    let aggregate_type: String = row.try_get(0)?;
    let everything = aggregate_type.is_empty();
    Ok(Pause {
        scope: if everything {
            PauseScope::Everything
        } else {
            PauseScope::Type(AggregateType::from_stored(aggregate_type))
        },
        age: micros(row.try_get(1)?),
        by: Attribution {
            operator: OperatorName::from_stored(row.try_get::<String, _>(2)?),
            reason: row.try_get::<Option<String>, _>(3)?.map(Reason::from_stored),
        },
    })
}
