//! Settle: what becomes of claimed events, and who may still say so.

use std::time::Duration;

use application_core::{
    outbox::{ClaimRequest, FailedOutcome, FailedRun, FailureClass, NewOutboxEvent, PublishFailure, Settlement},
    ports::{
        OutboxAppendPort, OutboxMaintenancePort, OutboxOperationsPort, OutboxStorePort, ReapRequest, StoreError,
        UnitOfWork,
    },
};

use super::support::{Claim, Fixture, confirmed, event, events, fresh_token, ids, request};

fn stale() -> Settlement {
    Settlement { stale: true, ..Settlement::default() }
}

fn failed(claim: &Claim, first_confirmed: usize, outcome: FailedOutcome) -> Vec<FailedRun> {
    claim
        .runs
        .iter()
        .map(|run| FailedRun {
            run: confirmed(run, first_confirmed),
            failed: run.events[first_confirmed].id,
            outcome,
            error: "rejected: it's \"no\"".to_owned(),
        })
        .collect()
}

#[tokio::test]
async fn an_acknowledgement_publishes_its_events_and_frees_their_lanes() {
    let fixture = Fixture::new("ack").await;
    let appended: Vec<NewOutboxEvent> = ["a", "b", "a"].map(event).into();
    fixture.append(&appended).await;
    let claim = fixture.claim().await;
    let settled = fixture.store.acknowledge(claim.token, &claim.confirmed()).await.expect("settled");
    assert_eq!(settled, Settlement { freed: 2, events: 3, postponed: vec![], stale: false });
    for id in ids(&appended) {
        assert_eq!(fixture.status(id).await, "PUBLISHED");
    }
    let mut sql = fixture.sql().await;
    assert_eq!(sql.one::<i64>("SELECT count(*) FROM outbox_lane").await, 0);
    assert_eq!(sql.one::<i64>("SELECT count(*) FROM outbox_claim").await, 0);
}

#[tokio::test]
async fn no_settling_call_of_a_lost_claim_changes_anything() {
    let fixture = Fixture::new("fence").await;
    fixture.append(&events("a", 2)).await;
    let lost = fixture.claim().await;
    fixture.expire(lost.token).await;
    let reap = ReapRequest { max_claims: 10, dead_after_expiries: 10, skip_types: vec![] };
    fixture.reaper.reap(&reap).await.expect("reaped");
    let owner = fixture.claim().await;
    let mut sql = fixture.sql().await;
    let image = "SELECT md5(string_agg(r::text, ';')) FROM (SELECT (e.*)::text || (l.*)::text || (c.*)::text \
         FROM outbox_event e JOIN outbox_lane l USING (lane) JOIN outbox_claim c ON c.token = l.token ORDER BY e.id) r";
    let before: String = sql.one(image).await;
    for token in [lost.token, fresh_token()] {
        let store = &fixture.store;
        let zero = Duration::ZERO;
        let retry = FailedOutcome::Retry { after: zero };
        assert_eq!(store.acknowledge(token, &lost.confirmed()).await.expect("answered"), stale());
        assert_eq!(store.acknowledge(token, &lost.unconfirmed()).await.expect("answered"), stale());
        assert_eq!(store.fail(token, &failed(&lost, 1, retry)).await.expect("answered"), stale());
        assert_eq!(store.release(token, &lost.confirmed(), zero).await.expect("answered"), stale());
        assert!(!store.renew(token, Duration::from_mins(1)).await.expect("answered"));
    }
    assert_eq!(sql.one::<String>(image).await, before);
    let settled = fixture.store.acknowledge(owner.token, &owner.confirmed()).await.expect("settled");
    assert_eq!(settled.events, 2);
}

#[tokio::test]
async fn an_acknowledged_event_that_is_not_there_to_settle_is_an_error() {
    let fixture = Fixture::new("rows").await;
    fixture.append(&events("a", 2)).await;
    let claim = fixture.claim().await;
    fixture
        .sql()
        .await
        .execute("DELETE FROM outbox_event WHERE sequence = (SELECT max(sequence) FROM outbox_event)")
        .await;
    let answer = fixture.store.acknowledge(claim.token, &claim.confirmed()).await;
    assert!(
        matches!(answer, Err(StoreError::RowsAffected { operation: "acknowledge", expected: 2, actual: 1 })),
        "{answer:?}"
    );
}

#[tokio::test]
async fn a_lane_that_an_appender_holds_is_settled_at_once_and_freed_later() {
    let fixture = Fixture::new("postponed").await;
    fixture.append(&[event("held"), event("free")]).await;
    let claim = fixture.claim().await;
    let late = event("held");
    let mut appender = fixture.work.begin().await.expect("begun");
    fixture.events.append(&mut appender, std::slice::from_ref(&late)).await.expect("appended");
    let settled = fixture.store.acknowledge(claim.token, &claim.confirmed()).await.expect("settled");
    assert_eq!((settled.events, settled.freed, settled.postponed.len()), (2, 1, 1));
    let waiting: Vec<_> = claim.unconfirmed().into_iter().filter(|run| settled.postponed.contains(&run.lane)).collect();
    let again = fixture.store.acknowledge(claim.token, &waiting).await.expect("answered");
    assert_eq!(again.postponed, settled.postponed, "the appender still holds it");
    fixture.work.commit(appender).await.expect("committed");
    let freed = fixture.store.acknowledge(claim.token, &waiting).await.expect("answered");
    assert_eq!((freed.freed, freed.postponed.len(), freed.stale), (1, 0, false));
    assert_eq!(fixture.claim().await.ids(), [late.id()]);
    assert_eq!(fixture.store.acknowledge(claim.token, &waiting).await.expect("answered"), stale());
    fixture.assert_lanes_are_sound().await;
}

#[tokio::test]
async fn a_refused_event_is_tried_again_after_its_delay_and_holds_up_its_lane_alone() {
    let fixture = Fixture::new("retry").await;
    let (a, b) = (events("a", 3), events("b", 1));
    fixture.append(&a).await;
    let claim = fixture.claim().await;
    let outcome = FailedOutcome::Retry { after: Duration::from_hours(1) };
    let settled = fixture.store.fail(claim.token, &failed(&claim, 1, outcome)).await.expect("settled");
    assert_eq!((settled.events, settled.freed), (2, 1));
    fixture.append(&b).await;
    assert_eq!(fixture.claim().await.ids(), ids(&b), "the lane of a waits");
    let state = fixture.events.find(a[1].id()).await.expect("read").expect("found");
    assert_eq!((state.status.as_str(), state.attempts), ("FAILED", 1));
    assert_eq!(state.last_error.as_deref(), Some("rejected: it's \"no\""));
    let mut sql = fixture.sql().await;
    let wait = "SELECT extract(epoch FROM due_at - statement_timestamp())::int BETWEEN 3500 AND 3600 \
         FROM outbox_event_state WHERE status = 'FAILED'";
    assert!(sql.one::<bool>(wait).await, "due by the database's clock");
    sql.execute("UPDATE outbox_event SET next_attempt_at = statement_timestamp() WHERE status = 'FAILED'").await;
    sql.execute("UPDATE outbox_lane SET due_at = statement_timestamp() WHERE token IS NULL").await;
    let again = fixture.claim().await;
    assert_eq!(again.ids(), [a[1].id(), a[2].id()]);
    assert_eq!(again.only_run().events[0].attempts, 1);
    assert_eq!(again.only_run().events[1].attempts, 0);
}

/// Case Y53: the update that records a failure does not fail for what the broker says of it.
#[tokio::test]
async fn a_brokers_words_of_any_characters_are_stored_with_the_failure_that_they_explain() {
    let fixture = Fixture::new("words").await;
    let long = "é".repeat(2_000);
    let said = [
        "a\0b\u{1}\u{7f}\u{85}",
        "\u{fffd}\u{d7ff}\u{e000}\u{10ffff}",
        "'; DROP TABLE outbox_event; --",
        "\\u0000\\'",
        long.as_str(),
    ];
    for (n, words) in said.into_iter().enumerate() {
        let refused = event(&format!("a{n}"));
        fixture.append(std::slice::from_ref(&refused)).await;
        let claim = fixture.claim().await;
        assert_eq!(claim.ids(), [refused.id()]);
        let error = PublishFailure::new(FailureClass::Rejected, words).to_string();
        let runs: Vec<_> = failed(&claim, 0, FailedOutcome::Block)
            .into_iter()
            .map(|run| FailedRun { error: error.clone(), ..run })
            .collect();
        let settled = fixture.store.fail(claim.token, &runs).await.expect("settled");
        assert_eq!((settled.events, settled.freed), (1, 1), "{words:?}");
        let state = fixture.events.find(refused.id()).await.expect("read").expect("found");
        assert_eq!((state.status.as_str(), state.last_error.as_deref()), ("DEAD", Some(error.as_str())));
    }
}

#[tokio::test]
async fn a_dead_head_blocks_its_aggregate_and_a_skipped_one_does_not() {
    let fixture = Fixture::new("dead").await;
    let (a, b) = (events("a", 2), events("b", 2));
    fixture.append(&a).await;
    let claim = fixture.claim().await;
    fixture.store.fail(claim.token, &failed(&claim, 0, FailedOutcome::Block)).await.expect("settled");
    fixture.append(&b).await;
    let claim = fixture.claim().await;
    assert_eq!(claim.ids(), ids(&b), "a is blocked");
    fixture.store.fail(claim.token, &failed(&claim, 0, FailedOutcome::Skip)).await.expect("settled");
    assert_eq!(fixture.claim().await.ids(), [b[1].id()], "b goes on");
    let blocked = fixture.events.blocked(10).await.expect("read");
    assert_eq!(blocked.len(), 1);
    assert_eq!((blocked[0].head, blocked[0].depth, blocked[0].aggregate_id.as_str()), (a[0].id(), 2, "a"));
    let skipped = fixture.events.find(b[0].id()).await.expect("read").expect("found");
    assert_eq!((skipped.status.as_str(), skipped.resolution.as_deref()), ("DEAD", Some("skipped")));
    fixture.assert_lanes_are_sound().await;
}

#[tokio::test]
async fn a_release_settles_what_was_confirmed_and_leaves_the_rest_as_it_was() {
    let fixture = Fixture::new("release").await;
    let appended = events("a", 3);
    fixture.append(&appended).await;
    let claim = fixture.claim().await;
    let runs = [confirmed(claim.only_run(), 1)];
    let settled = fixture.store.release(claim.token, &runs, Duration::from_hours(1)).await.expect("settled");
    assert_eq!((settled.events, settled.freed), (1, 1));
    assert_eq!(fixture.claim().await.runs, [], "not due yet");
    fixture.sql().await.execute("UPDATE outbox_lane SET due_at = statement_timestamp()").await;
    let again = fixture.claim().await;
    assert_eq!(again.ids(), ids(&appended[1..]));
    assert!(again.only_run().events.iter().all(|event| event.attempts == 0));
}

#[tokio::test]
async fn a_renewed_claim_is_not_reaped() {
    let fixture = Fixture::new("renew").await;
    fixture.append(&events("a", 1)).await;
    let claim = fixture.claim_as(ClaimRequest { lease: Duration::from_millis(1), ..request() }).await;
    assert!(fixture.store.renew(claim.token, Duration::from_mins(1)).await.expect("renewed"));
    let reap = ReapRequest { max_claims: 10, dead_after_expiries: 10, skip_types: vec![] };
    assert_eq!(fixture.reaper.reap(&reap).await.expect("reaped").claims, 0);
    let settled = fixture.store.acknowledge(claim.token, &claim.confirmed()).await.expect("settled");
    assert_eq!((settled.events, settled.stale), (1, false));
}

#[tokio::test]
async fn settling_nothing_asks_nobody() {
    let fixture = Fixture::new("nothing").await;
    let token = fresh_token();
    let nothing = Settlement::default();
    assert_eq!(fixture.store.acknowledge(token, &[]).await.expect("answered"), nothing);
    assert_eq!(fixture.store.fail(token, &[]).await.expect("answered"), nothing);
    assert_eq!(fixture.store.release(token, &[], Duration::ZERO).await.expect("answered"), nothing);
}
