//! The life of an event's row: written at the append and at each settlement, and by every transition of the core alone.

use std::{collections::BTreeSet, time::Duration};

use application_core::{
    outbox::{
        EventId, FailedOutcome, FailedRun, IllegalTransition, LeaseToken, OutboxEventStatus, OutboxTransition, Run,
        TRANSITIONS, bounds,
    },
    ports::{OutboxMaintenancePort, OutboxOperationsPort, ReapRequest},
};
use test_support::{
    fixtures::{Events, event_id},
    operate::OperateOne,
};

use super::postgres::{Postgres, confirmed};

/// Where a row stands in its table and which transaction wrote it: both change with every version of it.
async fn versions(postgres: &Postgres) -> Vec<String> {
    postgres.sql().await.column("SELECT ctid || ' ' || xmin::text FROM outbox_event ORDER BY sequence").await
}

async fn reap(postgres: &Postgres) {
    postgres.advance(Duration::from_mins(2)).await;
    let request = ReapRequest { max_claims: 10, dead_after_expiries: 10, skip_types: Vec::new() };
    let report = postgres.maintenance().reap(&request).await.expect("reaped");
    assert_eq!(report.claims, 1);
}

fn failed(runs: &[Run], outcome: FailedOutcome) -> Vec<FailedRun> {
    let failed = |(run, start): (&Run, _)| FailedRun {
        run: start,
        failed: run.events[0].id,
        outcome,
        error: "refused".to_owned(),
    };
    runs.iter().zip(confirmed(runs, 0)).map(failed).collect()
}

#[tokio::test]
async fn a_row_has_one_version_until_it_is_settled_and_one_more_after() {
    let postgres = Postgres::fresh().await;
    postgres.append_all(&Events::new().many_of("a", 4)).await;
    let appended = versions(&postgres).await;
    let (token, _) = postgres.claim().await;
    assert_eq!(versions(&postgres).await, appended, "a claim changes no event");
    assert!(postgres.store().renew(token, Duration::from_mins(2)).await.expect("renewed"));
    assert_eq!(versions(&postgres).await, appended, "a renewal changes no event");
    postgres.advance(Duration::from_mins(3)).await;
    // Ageing wrote each row: the count begins anew.
    let aged = versions(&postgres).await;
    let request = ReapRequest { max_claims: 10, dead_after_expiries: 10, skip_types: Vec::new() };
    assert_eq!(postgres.maintenance().reap(&request).await.expect("reaped").lanes, 1);
    assert_eq!(versions(&postgres).await, aged, "the end of a lease changes no event");
    let (token, runs) = postgres.claim().await;
    let released = postgres.store().release(token, &confirmed(&runs, 2), Duration::ZERO).await.expect("released");
    assert_eq!(released.events, 2);
    let settled = versions(&postgres).await;
    assert_eq!(settled[2..], aged[2..], "what was not confirmed is as it was");
    assert!(settled.iter().take(2).all(|version| !aged.contains(version)), "{settled:?} after {aged:?}");
    let (token, runs) = postgres.claim().await;
    postgres.store().acknowledge(token, &confirmed(&runs, 2)).await.expect("acknowledged");
    assert_eq!(versions(&postgres).await[..2], settled[..2], "a published row is not written again");
}

#[tokio::test]
async fn an_ordinary_event_is_inserted_once_and_updated_once() {
    let postgres = Postgres::fresh().await;
    postgres.append_all(&Events::new().many_of("a", 10)).await;
    let (token, runs) = postgres.claim().await;
    postgres.store().acknowledge(token, &confirmed(&runs, 10)).await.expect("acknowledged");
    // Counters are flushed when a session ends.
    postgres.database.orm().clone().close().await.expect("closed");
    let query = "SELECT n_tup_ins = 10 AND n_tup_upd = 10 AND n_tup_del = 0 \
                 FROM pg_stat_user_tables WHERE relname = 'outbox_event'";
    let counted = system_tests::eventually("the counters are flushed", Duration::from_secs(30), async || {
        postgres.sql().await.one::<bool>(query).await.then_some(())
    });
    counted.await.expect("ten inserts and ten updates");
}

/// An event alone in its lane, brought to a status.
struct Walker {
    postgres: Postgres,
    event: EventId,
    claim: Option<(LeaseToken, Vec<Run>)>,
    ever_failed: bool,
}

impl Walker {
    async fn appended() -> Self {
        let postgres = Postgres::fresh().await;
        let events = Events::new().many_of("a", 1);
        postgres.append_all(&events).await;
        Self { event: events[0].id(), postgres, claim: None, ever_failed: false }
    }

    async fn at(status: OutboxEventStatus) -> Self {
        use OutboxTransition::{Claim, Confirm, Die, Retry};
        let way: &[OutboxTransition] = match status {
            OutboxEventStatus::Pending => &[],
            OutboxEventStatus::InFlight => &[Claim],
            OutboxEventStatus::Published => &[Claim, Confirm],
            OutboxEventStatus::Failed => &[Claim, Retry],
            OutboxEventStatus::Dead => &[Claim, Die],
        };
        let mut walker = Self::appended().await;
        for step in way {
            walker.take(*step).await;
        }
        assert_eq!(walker.status().await, status);
        walker
    }

    /// The same, with a failure in its past.
    async fn in_flight_again() -> Self {
        let mut walker = Self::at(OutboxEventStatus::Failed).await;
        walker.take(OutboxTransition::Claim).await;
        walker
    }

    async fn status(&self) -> OutboxEventStatus {
        self.postgres.operations().find(self.event).await.expect("looked for").expect("found").status
    }

    /// Tries the step as the port offers it, whatever the status is.
    async fn take(&mut self, step: OutboxTransition) {
        let (store, operations) = (self.postgres.store(), self.postgres.operations());
        // Whoever has no claim settles with a token that was never given.
        let unknown = (LeaseToken::new(uuid::Uuid::from_u128(1)), Vec::new());
        let (token, runs) = self.claim.clone().unwrap_or(unknown);
        match step {
            OutboxTransition::Claim => {
                self.postgres.advance(Duration::from_millis(500)).await;
                let claim = self.postgres.claim().await;
                if !claim.1.is_empty() {
                    self.claim = Some(claim);
                }
                return;
            }
            OutboxTransition::Confirm => {
                store.acknowledge(token, &confirmed(&runs, 1)).await.expect("answered");
            }
            OutboxTransition::Retry => {
                let retry = FailedOutcome::Retry { after: Duration::ZERO };
                store.fail(token, &failed(&runs, retry)).await.expect("answered");
                self.ever_failed = true;
            }
            OutboxTransition::Die => {
                store.fail(token, &failed(&runs, FailedOutcome::Block)).await.expect("answered");
            }
            OutboxTransition::ReturnFresh | OutboxTransition::ReturnFailed => {
                store.release(token, &confirmed(&runs, 0), Duration::ZERO).await.expect("answered");
            }
            OutboxTransition::Requeue => {
                operations.requeue(self.event).await.expect("answered");
            }
            OutboxTransition::Resolve => {
                operations.discard(self.event).await.expect("answered");
            }
            OutboxTransition::Replay => {
                operations.replay(self.event).await.expect("answered");
            }
        }
        self.claim = None;
    }
}

#[tokio::test]
async fn every_transition_can_be_walked_and_leads_where_the_core_says() {
    for (from, step, to) in TRANSITIONS {
        let mut walker = match step {
            OutboxTransition::ReturnFailed => Walker::in_flight_again().await,
            _ => Walker::at(*from).await,
        };
        assert_eq!(walker.status().await, *from);
        walker.take(*step).await;
        assert_eq!(walker.status().await, *to, "{from} {step:?}");
        let resolved = "SELECT count(*) FROM outbox_event WHERE resolved_at IS NOT NULL";
        let expected = i64::from(*step == OutboxTransition::Resolve);
        assert_eq!(walker.postgres.sql().await.one::<i64>(resolved).await, expected, "{from} {step:?}");
    }
}

#[tokio::test]
async fn a_step_that_the_core_does_not_allow_changes_nothing() {
    for from in OutboxEventStatus::ALL {
        let mut walker = Walker::at(from).await;
        let mut refused = BTreeSet::new();
        for step in OutboxTransition::ALL {
            let Err(IllegalTransition { .. }) = from.after(step) else { continue };
            refused.insert(format!("{step:?}"));
            let before = walker.postgres.operations().find(walker.event).await.expect("looked for");
            let claim = walker.claim.clone();
            if step == OutboxTransition::Claim {
                // Without letting time pass, which would change the row.
                assert_eq!(walker.postgres.claim().await.1, []);
            } else {
                walker.take(step).await;
            }
            walker.claim = claim;
            let after = walker.postgres.operations().find(walker.event).await.expect("looked for");
            assert_eq!(after, before, "{from} {step:?}");
        }
        assert!(refused.len() > 2, "{from}: {refused:?}");
    }
}

#[tokio::test]
async fn the_end_of_a_lease_returns_an_event_to_what_it_was() {
    let fresh = Walker::at(OutboxEventStatus::InFlight).await;
    reap(&fresh.postgres).await;
    assert_eq!(fresh.status().await, OutboxEventStatus::Pending);
    let failed_before = Walker::in_flight_again().await;
    reap(&failed_before.postgres).await;
    assert!(failed_before.ever_failed);
    assert_eq!(failed_before.status().await, OutboxEventStatus::Failed);
}

#[tokio::test]
async fn the_table_holds_the_bounds_of_the_core() {
    let postgres = Postgres::fresh().await;
    let mut sql = postgres.sql().await;
    for (column, bound) in [
        ("aggregate_type", bounds::MAX_AGGREGATE_TYPE_BYTES),
        ("aggregate_id", bounds::MAX_AGGREGATE_ID_BYTES),
        ("event_type", bounds::MAX_EVENT_TYPE_BYTES),
        ("payload", bounds::MAX_PAYLOAD_BYTES),
        ("headers", bounds::MAX_HEADERS_BYTES),
    ] {
        for (bytes, fits) in [(bound, true), (bound + 1, false)] {
            let value = match column {
                // A JSON string takes its two quotes; the object {"h": "…"} takes nine bytes beside its value.
                "payload" => format!("'\"' || repeat('x', {}) || '\"'", bytes - 2),
                "headers" => format!("'{{\"h\": \"' || repeat('x', {}) || '\"}}'", bytes - 9),
                _ => format!("repeat('x', {bytes})"),
            };
            let mut values = [
                ("id", format!("'{}'", event_id(bytes as u64 * 10 + column.len() as u64))),
                ("aggregate_type", "'t'".to_owned()),
                ("aggregate_id", "'i'".to_owned()),
                ("event_type", "'e'".to_owned()),
                ("payload", "'1'".to_owned()),
                ("headers", "'{}'".to_owned()),
            ];
            for (name, expression) in &mut values {
                if *name == column {
                    expression.clone_from(&value);
                }
            }
            let [id, kind, aggregate, event, payload, headers] = values.map(|(_, expression)| expression);
            let insert = format!(
                "INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload, headers) \
                 VALUES ({id}, {kind}, {aggregate}, {event}, ({payload})::json, ({headers})::jsonb)"
            );
            let inserted = sql.try_execute(&insert).await;
            assert_eq!(inserted.is_ok(), fits, "{column} of {bytes} bytes: {inserted:?}");
        }
    }
}
