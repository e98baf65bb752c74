//! The relay's store over the statements of a claim: rows to runs, second tries, and counting what was changed.

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use application_core::{
    outbox::{
        AggregateId, AggregateType, ClaimRequest, ClaimScope, ConfirmedRun, EventHeaders, EventId, EventType,
        FailedOutcome, FailedRun, LaneId, LeaseToken, OutboxEvent, Run, Sequence, Settlement,
    },
    ports::{OutboxStorePort, StoreError, with_causes},
};
use async_trait::async_trait;
use time::OffsetDateTime;
use uuid::Uuid;

use super::claim::{ClaimedRow, FailureRow, OutboxClaimRepository, SettlementRow};

/// How often a call is made when its transaction lost against another one.
const TRIES: u32 = 4;
/// The wait before the second try; doubled before each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// Implements the relay's port over an [`OutboxClaimRepository`].
///
/// A transaction that lost against another one (serialization failure, deadlock) changed nothing and is tried again a
/// few times (case P49). Nothing else is: after a time-out only the relay knows whether its lease still runs.
#[derive(Clone)]
pub struct OutboxStoreAdapter {
    repository: Arc<dyn OutboxClaimRepository>,
    call_limit: Duration,
}

impl OutboxStoreAdapter {
    /// Works over this repository; a call that takes longer than `call_limit`, second tries included, is given up.
    ///
    /// The limit should leave room for the repository's own time-outs, which know more about what happened.
    #[must_use]
    pub fn new(repository: Arc<dyn OutboxClaimRepository>, call_limit: Duration) -> Self {
        Self { repository, call_limit }
    }

    /// Makes the call, again if its transaction lost, all within the limit.
    async fn call<T, F>(&self, attempt: impl Fn() -> F + Send + Sync) -> Result<T, StoreError>
    where
        T: Send,
        F: Future<Output = Result<T, StoreError>> + Send,
    {
        let tries = async {
            let mut pause = FIRST_PAUSE;
            for _ in 1..TRIES {
                match attempt().await {
                    Err(error @ StoreError::Conflict { .. }) => {
                        tracing::debug!(error = with_causes(&error), "the transaction is tried again");
                    }
                    answer => return answer,
                }
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
            attempt().await
        };
        match tokio::time::timeout(self.call_limit, tries).await {
            Ok(answer) => answer,
            Err(_) => Err(StoreError::Timeout { limit: self.call_limit }),
        }
    }
}

impl fmt::Debug for OutboxStoreAdapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboxStoreAdapter").field("call_limit", &self.call_limit).finish_non_exhaustive()
    }
}

#[async_trait]
impl OutboxStorePort for OutboxStoreAdapter {
    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<Run>, StoreError> {
        let rows = match request.scope {
            ClaimScope::Due => self.call(|| self.repository.claim(request)).await?,
            ClaimScope::Overdue => self.call(|| self.repository.claim_overdue(request)).await?,
        };
        runs(rows)
    }

    async fn acknowledge(&self, token: LeaseToken, runs: &[ConfirmedRun]) -> Result<Settlement, StoreError> {
        if runs.is_empty() {
            return Ok(Settlement::default());
        }
        let (lanes, confirmed) = arrays(runs);
        let token = token.as_uuid();
        if confirmed.is_empty() {
            let freed = self.call(|| self.repository.free_postponed(token, &lanes)).await?;
            return settlement(freed);
        }
        let answer = self.call(|| self.repository.acknowledge(token, &lanes, &confirmed)).await?;
        checked("acknowledge", answer, confirmed.len(), lanes.len())
    }

    async fn fail(&self, token: LeaseToken, runs: &[FailedRun]) -> Result<Settlement, StoreError> {
        if runs.is_empty() {
            return Ok(Settlement::default());
        }
        let (lanes, confirmed) = arrays(runs.iter().map(|failed| &failed.run));
        let failures: Vec<FailureRow> = runs.iter().map(failure_row).collect();
        let token = token.as_uuid();
        let answer = self.call(|| self.repository.fail(token, &lanes, &confirmed, &failures)).await?;
        checked("fail", answer, confirmed.len() + failures.len(), lanes.len())
    }

    async fn release(
        &self,
        token: LeaseToken,
        runs: &[ConfirmedRun],
        delay: Duration,
    ) -> Result<Settlement, StoreError> {
        if runs.is_empty() {
            return Ok(Settlement::default());
        }
        let (lanes, confirmed) = arrays(runs);
        let token = token.as_uuid();
        let answer = self.call(|| self.repository.release(token, &lanes, &confirmed, delay)).await?;
        checked("release", answer, confirmed.len(), lanes.len())
    }

    async fn renew(&self, token: LeaseToken, lease: Duration) -> Result<bool, StoreError> {
        self.call(|| self.repository.renew(token.as_uuid(), lease)).await
    }
}

/// The lanes of the runs, and all their confirmed events.
fn arrays<'a>(runs: impl IntoIterator<Item = &'a ConfirmedRun>) -> (Vec<i64>, Vec<Uuid>) {
    let (mut lanes, mut confirmed) = (Vec::new(), Vec::new());
    for run in runs {
        lanes.push(run.lane.0);
        confirmed.extend(run.confirmed.iter().map(EventId::as_uuid));
    }
    (lanes, confirmed)
}

fn failure_row(failed: &FailedRun) -> FailureRow {
    let (outcome, delay) = match failed.outcome {
        FailedOutcome::Retry { after } => ("retry", after),
        FailedOutcome::Block => ("block", Duration::ZERO),
        FailedOutcome::Skip => ("skip", Duration::ZERO),
    };
    FailureRow { id: failed.failed.as_uuid(), outcome, error: failed.error.clone(), delay }
}

/// Checks that a claim that stands had everything that was settled (rule R2).
fn checked(
    operation: &'static str,
    answer: SettlementRow,
    events: usize,
    lanes: usize,
) -> Result<Settlement, StoreError> {
    let repeated = answer.repeated;
    let settlement = settlement(answer)?;
    // Of a repeated report the first one has changed, and counted, what there was.
    if settlement.stale || repeated {
        return Ok(settlement);
    }
    let wide = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    let (expected, actual) = (wide(events), u64::from(settlement.events));
    if expected != actual {
        return Err(StoreError::RowsAffected { operation, expected, actual });
    }
    let (expected, actual) = (wide(lanes), u64::from(settlement.freed) + wide(settlement.postponed.len()));
    if expected != actual {
        return Err(StoreError::RowsAffected { operation, expected, actual });
    }
    Ok(settlement)
}

fn settlement(row: SettlementRow) -> Result<Settlement, StoreError> {
    let count =
        |column, value: i32| u32::try_from(value).ok().ok_or_else(|| corrupt("outbox_settlement", column, value));
    Ok(Settlement {
        freed: count("lanes", row.lanes)?,
        events: count("events", row.events)?,
        postponed: row.postponed.into_iter().map(LaneId).collect(),
        stale: row.stale,
    })
}

/// Groups rows, which come in the order of lane and sequence, into the runs of their lanes.
fn runs(rows: Vec<ClaimedRow>) -> Result<Vec<Run>, StoreError> {
    let mut runs: Vec<Run> = Vec::new();
    for row in rows {
        let lane = LaneId(row.lane);
        let event = event(row)?;
        match runs.last_mut() {
            Some(run) if run.lane == lane => run.events.push(event),
            _ => runs.push(Run { lane, events: vec![event] }),
        }
    }
    Ok(runs)
}

fn event(row: ClaimedRow) -> Result<OutboxEvent, StoreError> {
    const TABLE: &str = "outbox_event";
    let unreadable = |column| corrupt(TABLE, column, row.id);
    let headers: BTreeMap<String, String> =
        serde_json::from_str(&row.headers).ok().ok_or_else(|| unreadable("headers"))?;
    let created_at = OffsetDateTime::from_unix_timestamp_nanos(i128::from(row.created_at_micros) * 1_000)
        .ok()
        .ok_or_else(|| unreadable("created_at"))?;
    Ok(OutboxEvent {
        id: EventId::new(row.id),
        sequence: Sequence(row.sequence),
        aggregate_type: AggregateType::from_stored(row.aggregate_type),
        aggregate_id: AggregateId::from_stored(row.aggregate_id),
        event_type: EventType::from_stored(row.event_type),
        payload: row.payload,
        headers: EventHeaders::from_stored(headers),
        attempts: u32::try_from(row.attempts).ok().ok_or_else(|| unreadable("attempts"))?,
        replays: u32::try_from(row.replays).ok().ok_or_else(|| unreadable("replays"))?,
        created_at,
        // An event of a transaction that began before this statement may look younger than nothing.
        age_at_claim: Duration::from_micros(u64::try_from(row.age_micros).unwrap_or(0)),
    })
}

fn corrupt(table: &'static str, column: &'static str, row: impl fmt::Display) -> StoreError {
    StoreError::Corrupt { table, column, id: row.to_string() }
}
