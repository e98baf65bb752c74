//! What every maintenance port must do: rules R14, R15 and R23, cases L12 and L20.

#![expect(missing_docs, reason = "the names of the cases are sentences")]

use std::time::Duration;

use application_core::{
    outbox::{FailedOutcome, HolderName, OutboxEventStatus as Status, SettledHistory},
    ports::{LeaderTerm, ReapReport},
};

use super::{
    OutboxHarness,
    bench::{AFTER_LEASE, Bench, LEASE, LONG, default_type, settled},
};
use crate::operate::{OperateOne, tester};

const ROLE: &str = "outbox-maintenance";
const RETENTION: Duration = LONG;

fn reaped(claims: u32, lanes: u32) -> ReapReport {
    ReapReport { claims, lanes, ..ReapReport::default() }
}

// Reap

pub async fn an_expired_lease_returns_its_events_without_touching_their_attempts<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let ids = bench.appended("a", 2).await;
    bench.appended("b", 1).await;
    bench.let_a_claim_expire().await;
    assert_eq!(bench.reap().await, reaped(1, 2));
    assert_eq!(bench.statuses(&ids).await, [Status::Pending; 2]);
    let again = bench.claim().await;
    assert_eq!(again.runs.len(), 2);
    assert!(again.runs.iter().flat_map(|run| &run.events).all(|event| event.attempts == 0));
}

pub async fn a_failed_event_returns_as_failed_with_its_attempts<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let id = bench.appended("a", 1).await[0];
    let claim = bench.claim().await;
    bench.fail(&claim, 0, FailedOutcome::Retry { after: Duration::ZERO }).await;
    bench.let_a_claim_expire().await;
    assert_eq!(bench.reap().await, reaped(1, 1));
    let state = bench.state(id).await;
    assert_eq!((state.status, state.attempts), (Status::Failed, 1));
}

pub async fn a_lease_that_runs_is_not_reaped<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let id = bench.appended("a", 1).await[0];
    let claim = bench.claim().await;
    bench.harness.advance(LEASE / 2).await;
    assert_eq!(bench.reap().await, ReapReport::default());
    assert_eq!(bench.status(id).await, Status::InFlight);
    assert_eq!(bench.acknowledge(&claim).await, settled(1, 1));
}

pub async fn a_claim_that_was_renewed_in_time_or_late_is_not_reaped<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    bench.appended("a", 1).await;
    let claim = bench.claim().await;
    for wait in [LEASE / 2, AFTER_LEASE] {
        bench.harness.advance(wait).await;
        assert!(bench.harness.store().renew(claim.token, LEASE).await.unwrap());
        assert_eq!(bench.reap().await, ReapReport::default());
    }
    assert_eq!(bench.acknowledge(&claim).await, settled(1, 1));
}

pub async fn a_claim_that_was_settled_is_not_reaped<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let id = bench.appended("a", 1).await[0];
    let claim = bench.let_a_claim_expire().await;
    bench.acknowledge(&claim).await;
    assert_eq!(bench.reap().await, ReapReport::default());
    assert_eq!(bench.status(id).await, Status::Published);
}

pub async fn what_was_settled_of_an_expired_claim_stays_settled<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let ids = [bench.appended("a", 1).await[0], bench.appended("b", 1).await[0]];
    let claim = bench.claim().await;
    let settled_id = claim.runs[0].events[0].id;
    bench.harness.store().acknowledge(claim.token, &claim.whole()[..1]).await.unwrap();
    bench.harness.advance(AFTER_LEASE).await;
    assert_eq!(bench.reap().await, reaped(1, 1));
    for id in ids {
        let expected = if id == settled_id { Status::Published } else { Status::Pending };
        assert_eq!(bench.status(id).await, expected);
    }
}

pub async fn one_call_reaps_no_more_claims_than_asked<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    for name in ["a", "b", "c"] {
        bench.appended(name, 1).await;
        bench.claim().await;
    }
    bench.harness.advance(AFTER_LEASE).await;
    assert_eq!(bench.reap_with(|request| request.max_claims = 2).await, reaped(2, 2));
    assert_eq!(bench.reap_with(|request| request.max_claims = 2).await, reaped(1, 1));
    assert_eq!(bench.reap_with(|request| request.max_claims = 2).await, ReapReport::default());
}

pub async fn a_lane_that_an_appender_holds_is_returned_by_a_later_call<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let id = bench.appended("a", 1).await[0];
    let claim = bench.let_a_claim_expire().await;
    let more = bench.events.many_of("a", 1);
    let tx = bench.open_append(&more).await;
    assert_eq!(bench.reap().await, ReapReport { claims: 1, postponed: 1, ..ReapReport::default() });
    assert_eq!(bench.harness.store().acknowledge(claim.token, &claim.whole()).await.unwrap(), super::bench::stale());
    assert!(!bench.harness.store().renew(claim.token, LEASE).await.unwrap());
    bench.commit(tx).await;
    assert!(bench.claim().await.runs.is_empty(), "the lane is not returned yet");
    assert_eq!(bench.reap().await, reaped(0, 1));
    assert_eq!(bench.claim().await.ids(), [[id, more[0].id()]]);
}

pub async fn from_the_third_expiry_on_the_run_is_the_head_alone<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let ids = bench.appended("a", 3).await;
    for _ in 0..3 {
        assert_eq!(bench.let_a_claim_expire().await.ids(), std::slice::from_ref(&ids));
        bench.reap().await;
    }
    assert_eq!(bench.claim().await.ids(), [[ids[0]]]);
}

pub async fn an_acknowledgement_resets_the_expiries<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let ids = bench.appended("a", 3).await;
    for _ in 0..3 {
        bench.let_a_claim_expire().await;
        bench.reap().await;
    }
    assert_eq!(bench.publish_due().await, [[ids[0]]]);
    assert_eq!(bench.claim().await.ids(), [&ids[1..]], "the new head has outlived nothing yet");
}

async fn expire_until_dead<H: OutboxHarness>(bench: &Bench<H>, skip: bool) {
    const LIMIT: u32 = 5;
    for expiry in 1..=LIMIT {
        bench.let_a_claim_expire().await;
        let report = bench
            .reap_with(|request| {
                request.dead_after_expiries = LIMIT;
                request.skip_types = if skip { vec![default_type()] } else { Vec::new() };
            })
            .await;
        assert_eq!(report, ReapReport { dead: u32::from(expiry == LIMIT), ..reaped(1, 1) });
    }
}

pub async fn a_head_that_outlives_too_many_leases_goes_dead_and_blocks<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let ids = bench.appended("a", 2).await;
    expire_until_dead(&bench, false).await;
    let state = bench.state(ids[0]).await;
    assert_eq!((state.status, state.attempts, state.resolved_at), (Status::Dead, 0, None));
    assert!(state.last_error.is_some());
    assert!(bench.claim().await.runs.is_empty());
    assert_eq!(bench.status(ids[1]).await, Status::Pending);
}

pub async fn a_head_that_outlives_too_many_leases_is_skipped_where_its_type_says_so<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let ids = bench.appended("a", 2).await;
    expire_until_dead(&bench, true).await;
    let state = bench.state(ids[0]).await;
    assert_eq!((state.status, state.resolution.as_deref()), (Status::Dead, Some("skipped")));
    assert_eq!(bench.publish_due().await, [[ids[1]]]);
}

// Clean up

async fn lead<H: OutboxHarness>(bench: &Bench<H>) -> LeaderTerm {
    let holder = HolderName::new("leader-1");
    bench.harness.leadership().acquire(ROLE, &holder, 100 * LONG).await.unwrap().expect("the role is vacant")
}

async fn clean<H: OutboxHarness>(bench: &Bench<H>, term: &LeaderTerm, batch: u32) -> Option<u32> {
    bench.harness.maintenance().clean_up(term, RETENTION, batch).await.unwrap()
}

pub async fn published_events_go_when_their_retention_is_over_and_not_before<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let term = lead(&bench).await;
    let old = bench.appended("a", 2).await;
    bench.publish_due().await;
    bench.harness.advance(RETENTION / 2).await;
    let young = bench.appended("a", 1).await;
    bench.publish_due().await;
    assert_eq!(clean(&bench, &term, 100).await, Some(0));
    bench.harness.advance(RETENTION / 2 + Duration::from_secs(1)).await;
    assert_eq!(clean(&bench, &term, 100).await, Some(2));
    assert_eq!(bench.find(old[0]).await, None);
    assert_eq!(bench.status(young[0]).await, Status::Published);
}

pub async fn open_and_dead_events_stay_however_old<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let term = lead(&bench).await;
    let mut ids = Vec::new();
    for (name, outcome) in [
        ("blocked", FailedOutcome::Block),
        ("skipped", FailedOutcome::Skip),
        ("failed", FailedOutcome::Retry { after: LONG }),
    ] {
        ids.extend(bench.appended(name, 1).await);
        bench.kill_due(outcome).await;
    }
    ids.extend(bench.appended("in-flight", 1).await);
    bench.claim().await;
    ids.extend(bench.appended("pending", 1).await);
    bench.harness.advance(10 * RETENTION).await;
    assert_eq!(clean(&bench, &term, 100).await, Some(0));
    let expected = [Status::Dead, Status::Dead, Status::Failed, Status::InFlight, Status::Pending];
    assert_eq!(bench.statuses(&ids).await, expected);
}

pub async fn one_call_removes_no_more_than_a_batch_and_the_oldest_first<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let term = lead(&bench).await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.extend(bench.appended("a", 1).await);
        bench.publish_due().await;
        bench.harness.advance(Duration::from_secs(1)).await;
    }
    bench.harness.advance(RETENTION).await;
    assert_eq!(clean(&bench, &term, 2).await, Some(2));
    assert_eq!((bench.find(ids[1]).await, bench.find(ids[2]).await.is_some()), (None, true));
    assert_eq!(clean(&bench, &term, 2).await, Some(2));
    assert_eq!(clean(&bench, &term, 2).await, Some(1));
}

pub async fn a_term_that_is_not_the_running_one_removes_nothing<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let id = bench.appended("a", 1).await[0];
    bench.publish_due().await;
    bench.harness.advance(2 * RETENTION).await;
    let term = lead(&bench).await;
    let wrong = [
        LeaderTerm { term: term.term + 1, ..term.clone() },
        LeaderTerm { holder: HolderName::new("somebody else"), ..term.clone() },
        LeaderTerm { role: "another role".to_owned(), ..term.clone() },
    ];
    for wrong in &wrong {
        assert_eq!(clean(&bench, wrong, 100).await, None, "{wrong:?}");
    }
    bench.harness.advance(101 * LONG).await;
    assert_eq!(clean(&bench, &term, 100).await, None, "the term is over");
    assert_eq!(bench.status(id).await, Status::Published);
}

// Purge

async fn purge<H: OutboxHarness>(bench: &Bench<H>, history: SettledHistory, batch: u32) -> u32 {
    bench.harness.maintenance().purge(history, RETENTION, batch, &tester()).await.unwrap()
}

pub async fn a_purge_removes_old_history_batch_by_batch_and_records_each<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let old = bench.appended("a", 3).await;
    bench.publish_due().await;
    bench.harness.advance(RETENTION + Duration::from_secs(1)).await;
    let young = bench.appended("a", 1).await[0];
    bench.publish_due().await;
    let maintenance = bench.harness.maintenance();
    assert_eq!(maintenance.count_purgeable(SettledHistory::Published, RETENTION).await.unwrap(), 3);
    assert_eq!(purge(&bench, SettledHistory::Resolved, 2).await, 0);
    assert_eq!(purge(&bench, SettledHistory::Published, 2).await, 2);
    assert_eq!(purge(&bench, SettledHistory::Published, 2).await, 1);
    assert_eq!(purge(&bench, SettledHistory::Published, 2).await, 0);
    assert_eq!((bench.find(old[2]).await, bench.status(young).await), (None, Status::Published));
    let record = bench.harness.audit().audit(None, 10).await.unwrap();
    let record: Vec<_> = record.iter().map(|entry| (entry.action.as_str(), entry.affected, &entry.by)).collect();
    assert_eq!(record, [("purge", 1, &tester()), ("purge", 2, &tester())]);
}

pub async fn until_when_published_history_is_gone_is_known_whoever_removed_it<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let operations = bench.harness.operations();
    let gone_until = async || operations.published_gone_until().await.unwrap();
    assert_eq!(gone_until().await, None);
    let dead = bench.appended("dead", 1).await[0];
    bench.kill_due(FailedOutcome::Block).await;
    assert!(operations.discard(dead).await.unwrap());
    let mut ids = Vec::new();
    for aggregate in ["a", "b", "c"] {
        ids.push(bench.appended(aggregate, 1).await[0]);
        bench.publish_due().await;
        bench.harness.advance(Duration::from_secs(1)).await;
    }
    bench.harness.advance(RETENTION).await;
    let term = lead(&bench).await;
    let mut published = Vec::new();
    for id in ids {
        published.push(bench.state(id).await.published_at);
    }
    assert_eq!((clean(&bench, &term, 1).await, gone_until().await), (Some(1), published[0]));
    assert_eq!((purge(&bench, SettledHistory::Published, 1).await, gone_until().await), (1, published[1]));
    assert_eq!((purge(&bench, SettledHistory::Resolved, 10).await, gone_until().await), (1, published[1]));
    assert_eq!((clean(&bench, &term, 10).await, gone_until().await), (Some(1), published[2]));
    assert_eq!((clean(&bench, &term, 10).await, gone_until().await), (Some(0), published[2]), "it never goes back");
}

pub async fn a_purge_removes_what_was_resolved_and_never_what_is_open_or_dead<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let ids = bench.appended("a", 2).await;
    bench.kill_due(FailedOutcome::Block).await;
    assert!(bench.harness.operations().discard(ids[0]).await.unwrap());
    bench.kill_due(FailedOutcome::Block).await;
    let open = bench.appended("b", 1).await[0];
    bench.harness.advance(2 * RETENTION).await;
    let maintenance = bench.harness.maintenance();
    assert_eq!(maintenance.count_purgeable(SettledHistory::Resolved, RETENTION).await.unwrap(), 1);
    assert_eq!(purge(&bench, SettledHistory::Published, 10).await, 0);
    assert_eq!(purge(&bench, SettledHistory::Resolved, 10).await, 1);
    assert_eq!((bench.find(ids[0]).await, bench.status(ids[1]).await), (None, Status::Dead));
    assert_eq!(bench.status(open).await, Status::Pending);
}

pub async fn the_id_of_a_removed_event_is_free_again<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let term = lead(&bench).await;
    let event = bench.events.of("a").build();
    bench.append(std::slice::from_ref(&event)).await;
    bench.publish_due().await;
    bench.harness.advance(2 * RETENTION).await;
    assert_eq!(clean(&bench, &term, 100).await, Some(1));
    bench.append(std::slice::from_ref(&event)).await;
    assert_eq!(bench.publish_due().await, [[event.id()]]);
}
