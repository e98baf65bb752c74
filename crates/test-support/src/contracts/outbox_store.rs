//! What every store must do for a relay: rules R11 to R17, cases O1, O2, L12, L27 and L32.

#![expect(missing_docs, reason = "the names of the cases are sentences")]

use std::time::Duration;

use application_core::{
    outbox::{ClaimScope, ConfirmedRun, EventId, FailedOutcome, FailedRun, OutboxEventStatus as Status},
    ports::StoreError,
};

use super::{
    OutboxHarness,
    bench::{AFTER_LEASE, Bench, LEASE, LONG, settled, stale},
};
use crate::operate::OperateOne;

const RETRY: FailedOutcome = FailedOutcome::Retry { after: LONG };

// Claim

pub async fn an_empty_outbox_gives_an_empty_claim<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let claim = bench.claim().await;
    assert!(claim.runs.is_empty());
    assert!(!bench.harness.store().renew(claim.token, LEASE).await.unwrap(), "a claim of nothing is no claim");
}

pub async fn a_claimed_event_is_invisible_to_a_second_claim<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let ids = bench.appended("a", 2).await;
    assert_eq!(bench.claim().await.ids(), std::slice::from_ref(&ids));
    assert!(bench.claim().await.runs.is_empty());
    assert_eq!(bench.statuses(&ids).await, [Status::InFlight; 2]);
}

pub async fn events_behind_a_leased_head_are_not_claimed<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let ids = bench.appended("a", 3).await;
    assert_eq!(bench.claim_with(|request| request.max_run = 1).await.ids(), [[ids[0]]]);
    assert!(bench.claim().await.runs.is_empty());
    assert_eq!(bench.statuses(&ids).await, [Status::InFlight, Status::Pending, Status::Pending]);
}

pub async fn a_claim_takes_no_more_lanes_than_asked<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    for name in ["a", "b", "c"] {
        bench.appended(name, 1).await;
    }
    assert_eq!(bench.claim_with(|request| request.max_lanes = 2).await.runs.len(), 2);
    assert_eq!(bench.claim().await.runs.len(), 1);
}

pub async fn a_run_is_no_longer_than_asked<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let (a, b) = (bench.appended("a", 5).await, bench.appended("b", 1).await);
    assert_eq!(bench.claim_with(|request| request.max_run = 3).await.ids(), [a[..3].to_vec(), b]);
}

pub async fn a_claim_takes_no_more_events_than_asked<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    for name in ["a", "b", "c"] {
        bench.appended(name, 4).await;
    }
    let claim = bench.claim_with(|request| request.max_events = 6).await;
    assert_eq!(claim.runs.iter().map(|run| run.events.len()).sum::<usize>(), 6);
    let rest = bench.claim().await;
    assert!(!rest.runs.is_empty(), "a lane that found no room stays due");
}

pub async fn a_claim_takes_no_more_bytes_than_asked<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let events: Vec<_> = (0..4).map(|_| bench.events.of("a").payload_of_bytes(100).build()).collect();
    bench.append(&events).await;
    let claim = bench.claim_with(|request| request.max_bytes = 250).await;
    assert_eq!(claim.ids(), [[events[0].id(), events[1].id()]]);
}

pub async fn a_lane_that_does_not_fit_stays_due<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    for name in ["a", "b"] {
        bench.append(&[bench.events.of(name).payload_of_bytes(100).build()]).await;
        bench.harness.advance(Duration::from_secs(1)).await;
    }
    assert_eq!(bench.claim_with(|request| request.max_bytes = 150).await.runs.len(), 1);
    assert_eq!(bench.claim_with(|request| request.max_bytes = 150).await.runs.len(), 1);
}

pub async fn an_event_larger_than_the_byte_limit_is_handed_out_alone<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let large = bench.events.of("a").payload_of_bytes(1_000).build();
    bench.append(&[large.clone(), bench.events.of("a").build()]).await;
    assert_eq!(bench.claim_with(|request| request.max_bytes = 10).await.ids(), [[large.id()]]);
}

pub async fn lanes_that_waited_longest_are_claimed_first<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let mut appended = Vec::new();
    for name in ["a", "b", "c"] {
        appended.push(bench.appended(name, 1).await);
        bench.harness.advance(Duration::from_secs(1)).await;
    }
    for ids in appended {
        assert_eq!(bench.claim_with(|request| request.max_lanes = 1).await.ids(), [ids]);
    }
}

pub async fn an_overdue_claim_takes_one_lane_that_has_been_due_for_long<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let overdue = |request: &mut application_core::outbox::ClaimRequest| request.scope = ClaimScope::Overdue;
    assert!(bench.claim_with(overdue).await.runs.is_empty());
    for name in ["a", "b"] {
        bench.appended(name, 2).await;
    }
    bench.harness.advance(Duration::from_secs(1)).await;
    for _ in 0..2 {
        let claim = bench.claim_with(overdue).await;
        assert_eq!(claim.runs.len(), 1);
        assert_eq!(bench.acknowledge(&claim).await, settled(1, 2));
    }
    assert!(bench.claim_with(overdue).await.runs.is_empty());
}

pub async fn concurrent_claims_hand_out_each_event_to_one<H: OutboxHarness>() {
    const LANES: usize = 40;
    let bench = Bench::<H>::fresh().await;
    let mut all = Vec::new();
    for n in 0..LANES {
        all.push(bench.appended(&format!("a{n}"), 2).await);
    }
    let relay = async || {
        let mut mine = Vec::new();
        loop {
            let claim = bench.claim_with(|request| request.max_lanes = 3).await;
            if claim.runs.is_empty() {
                return mine;
            }
            mine.extend(claim.ids());
        }
    };
    let (one, two, three) = futures_util::join!(relay(), relay(), relay());
    let mut claimed = [one, two, three].concat();
    // Locked lanes are passed over: the last ones may be left to a claim that comes later.
    claimed.extend(bench.claim().await.ids());
    claimed.sort();
    assert_eq!(claimed, all);
}

pub async fn a_token_is_good_for_one_claim<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    bench.appended("a", 1).await;
    let first = bench.claim().await;
    bench.appended("b", 1).await;
    let mut request = bench.request();
    request.token = first.token;
    let refusal = bench.harness.store().claim(&request).await.expect_err("the token is taken");
    assert!(matches!(refusal, StoreError::Refused { .. }), "{refusal:?}");
}

pub async fn a_lane_that_an_appender_holds_is_passed_over<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let held = bench.appended("a", 1).await;
    let free = bench.appended("b", 1).await;
    let more = bench.events.many_of("a", 1);
    let tx = bench.open_append(&more).await;
    assert_eq!(bench.claim().await.ids(), [free]);
    bench.commit(tx).await;
    assert_eq!(bench.claim().await.ids(), [[held[0], more[0].id()]]);
}

// Acknowledge

pub async fn an_acknowledgement_publishes_the_run_and_ends_the_claim<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let ids = [bench.appended("a", 2).await, bench.appended("b", 1).await].concat();
    let claim = bench.claim().await;
    assert_eq!(bench.acknowledge(&claim).await, settled(2, 3));
    assert_eq!(bench.statuses(&ids).await, [Status::Published; 3]);
    assert!(bench.state(ids[0]).await.published_at.is_some());
    assert!(bench.claim().await.runs.is_empty());
    assert!(!bench.harness.store().renew(claim.token, LEASE).await.unwrap());
}

pub async fn the_next_events_of_a_lane_flow_after_an_acknowledgement<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let ids = bench.appended("a", 5).await;
    for expected in ids.chunks(2) {
        let claim = bench.claim_with(|request| request.max_run = 2).await;
        assert_eq!(claim.ids(), [expected]);
        bench.acknowledge(&claim).await;
    }
}

pub async fn lanes_of_one_claim_may_be_settled_one_after_the_other<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    bench.appended("a", 1).await;
    bench.appended("b", 1).await;
    let claim = bench.claim().await;
    for run in claim.whole() {
        let settlement = bench.harness.store().acknowledge(claim.token, &[run]).await.unwrap();
        assert_eq!(settlement, settled(1, 1));
    }
}

pub async fn an_aggregate_whose_lane_was_emptied_flows_again<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    for _ in 0..3 {
        let ids = bench.appended("a", 1).await;
        assert_eq!(bench.publish_due().await, [ids]);
    }
}

pub async fn events_appended_while_their_lane_is_leased_are_neither_lost_nor_handed_out_early<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let first = bench.appended("a", 1).await;
    let claim = bench.claim().await;
    let second = bench.appended("a", 1).await;
    assert!(bench.claim().await.runs.is_empty(), "the head is not confirmed yet");
    assert_eq!(bench.acknowledge(&claim).await, settled(1, 1));
    assert_eq!(bench.status(first[0]).await, Status::Published);
    assert_eq!(bench.publish_due().await, [second]);
}

pub async fn a_settlement_postpones_a_lane_that_an_appender_holds_and_frees_it_later<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let store = bench.harness.store();
    let id = bench.appended("a", 1).await[0];
    let claim = bench.claim().await;
    let next = bench.events.many_of("a", 1);
    let tx = bench.open_append(&next).await;
    let settlement = bench.acknowledge(&claim).await;
    assert_eq!((settlement.freed, settlement.events, settlement.postponed.len()), (0, 1, 1));
    assert_eq!(bench.status(id).await, Status::Published, "the event does not wait for the appender");
    let again = store.acknowledge(claim.token, &claim.start(0)).await.unwrap();
    assert_eq!((again.freed, again.postponed), (0, settlement.postponed), "it is held still");
    bench.commit(tx).await;
    assert!(bench.claim().await.runs.is_empty(), "the lease stands until it is given back");
    assert_eq!(store.acknowledge(claim.token, &claim.start(0)).await.unwrap(), settled(1, 0));
    assert_eq!(store.acknowledge(claim.token, &claim.start(0)).await.unwrap(), stale());
    assert_eq!(bench.claim().await.ids(), [[next[0].id()]]);
}

pub async fn a_settlement_that_is_repeated_settles_and_charges_nothing_again<H: OutboxHarness>() {
    // Its answer was lost, and an appender kept the claim alive: the relay says it again (rules R2 and R3).
    let bench = Bench::<H>::fresh().await;
    let store = bench.harness.store();
    let sent = bench.appended("a", 1).await[0];
    let claim = bench.claim().await;
    let tx = bench.open_append(&bench.events.many_of("a", 1)).await;
    assert_eq!(bench.acknowledge(&claim).await.postponed.len(), 1);
    bench.commit(tx).await;
    assert!(bench.harness.operations().replay(sent).await.unwrap());
    assert_eq!(store.acknowledge(claim.token, &claim.start(1)).await.unwrap(), settled(1, 0));
    assert_ne!(bench.status(sent).await, Status::Published, "the replay is to be sent yet");
    assert!(bench.publish_due().await.concat().contains(&sent));

    let refused = bench.appended("b", 1).await[0];
    let claim = bench.claim().await;
    let tx = bench.open_append(&bench.events.many_of("b", 1)).await;
    let retry = FailedOutcome::Retry { after: Duration::ZERO };
    for events in [1, 0, 0] {
        assert_eq!(bench.fail(&claim, 0, retry).await.events, events);
    }
    bench.commit(tx).await;
    assert_eq!(bench.fail(&claim, 0, retry).await, settled(1, 0));
    assert_eq!(bench.state(refused).await.attempts, 1);
}

pub async fn freeing_lanes_of_which_some_are_free_already_does_no_harm<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    bench.appended("a", 1).await;
    bench.appended("b", 1).await;
    let claim = bench.claim().await;
    let tx = bench.open_append(&bench.events.many_of("a", 1)).await;
    let settlement = bench.acknowledge(&claim).await;
    assert_eq!((settlement.freed, settlement.postponed.len()), (1, 1));
    bench.commit(tx).await;
    let again = bench.harness.store().acknowledge(claim.token, &claim.start(0)).await.unwrap();
    assert_eq!(again, settled(1, 0));
}

pub async fn failing_and_releasing_postpone_as_well<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let store = bench.harness.store();
    for failing in [false, true] {
        let name = format!("a{failing}");
        let id = bench.appended(&name, 1).await[0];
        let claim = bench.claim().await;
        let tx = bench.open_append(&bench.events.many_of(&name, 1)).await;
        let settlement = if failing {
            bench.fail(&claim, 0, FailedOutcome::Skip).await
        } else {
            bench.release(&claim, 0, Duration::ZERO).await
        };
        assert_eq!((settlement.freed, settlement.postponed.len()), (0, 1));
        drop(tx);
        // The drop may reach the database later than this call: then it is postponed once more.
        while store.acknowledge(claim.token, &claim.start(0)).await.unwrap() != settled(1, 0) {}
        assert_eq!(bench.status(id).await, if failing { Status::Dead } else { Status::Pending });
        bench.publish_due().await;
    }
}

// Release

pub async fn a_release_publishes_the_confirmed_start_and_gives_the_rest_back_untouched<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let ids = bench.appended("a", 3).await;
    let claim = bench.claim().await;
    assert_eq!(bench.release(&claim, 1, Duration::ZERO).await, settled(1, 1));
    assert_eq!(bench.statuses(&ids).await, [Status::Published, Status::Pending, Status::Pending]);
    let again = bench.claim().await;
    assert_eq!(again.ids(), [&ids[1..]]);
    assert_eq!(again.runs[0].events[0].attempts, 0);
}

pub async fn a_released_lane_is_due_after_its_delay_and_not_before<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let ids = bench.appended("a", 1).await;
    let claim = bench.claim().await;
    bench.release(&claim, 0, LONG).await;
    bench.harness.advance(LONG / 2).await;
    assert!(bench.claim().await.runs.is_empty());
    bench.harness.advance(LONG / 2).await;
    assert_eq!(bench.claim().await.ids(), [ids]);
}

// Fail

pub async fn a_retry_counts_one_attempt_and_is_due_after_its_backoff_and_not_before<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let ids = bench.appended("a", 3).await;
    let claim = bench.claim().await;
    assert_eq!(bench.fail(&claim, 1, RETRY).await, settled(1, 2));
    assert_eq!(bench.statuses(&ids).await, [Status::Published, Status::Failed, Status::Pending]);
    let state = bench.state(ids[1]).await;
    assert_eq!((state.attempts, state.last_error.as_deref()), (1, Some("no")));
    bench.harness.advance(LONG / 2).await;
    assert!(bench.claim().await.runs.is_empty(), "neither the failed event nor what is behind it");
    bench.harness.advance(LONG / 2).await;
    let again = bench.claim().await;
    assert_eq!(again.ids(), [&ids[1..]]);
    assert_eq!(again.runs[0].events[0].attempts, 1);
    assert_eq!(again.runs[0].events[1].attempts, 0);
}

pub async fn a_run_ends_before_an_event_that_waits_for_its_backoff<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let ids = bench.appended("a", 3).await;
    let claim = bench.claim().await;
    bench.fail(&claim, 1, RETRY).await;
    // The replayed first event is due, the second is not yet.
    assert!(bench.harness.operations().replay(ids[0]).await.unwrap());
    assert_eq!(bench.publish_due().await, [[ids[0]]]);
    bench.harness.advance(LONG / 2).await;
    assert!(bench.claim().await.runs.is_empty());
    bench.harness.advance(LONG / 2).await;
    assert_eq!(bench.claim().await.ids(), [&ids[1..]]);
}

pub async fn a_head_that_waits_for_its_backoff_waits_although_an_operator_made_its_lane_due<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let ids = bench.appended("a", 3).await;
    let claim = bench.claim().await;
    bench.fail(&claim, 1, FailedOutcome::Block).await;
    let operations = bench.harness.operations();
    assert!(operations.replay(ids[0]).await.unwrap());
    let claim = bench.claim().await;
    bench.fail(&claim, 0, RETRY).await;
    assert!(operations.discard(ids[1]).await.unwrap());
    assert!(bench.claim().await.runs.is_empty());
    bench.harness.advance(LONG / 2).await;
    assert!(bench.claim().await.runs.is_empty());
    bench.harness.advance(LONG / 2).await;
    assert_eq!(bench.claim().await.ids(), [[ids[0], ids[2]]]);
}

pub async fn attempts_add_up_over_retries<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let id = bench.appended("a", 1).await[0];
    for attempts in 1..=3 {
        let claim = bench.claim().await;
        bench.fail(&claim, 0, FailedOutcome::Retry { after: Duration::ZERO }).await;
        assert_eq!(bench.state(id).await.attempts, attempts);
    }
}

pub async fn block_makes_the_event_dead_and_stops_its_aggregate_alone<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let ids = bench.appended("a", 3).await;
    let claim = bench.claim().await;
    assert_eq!(bench.fail(&claim, 1, FailedOutcome::Block).await, settled(1, 2));
    assert_eq!(bench.statuses(&ids).await, [Status::Published, Status::Dead, Status::Pending]);
    let state = bench.state(ids[1]).await;
    assert_eq!((state.attempts, state.resolved_at, state.due_at), (1, None, None));
    assert_eq!(bench.state(ids[2]).await.due_at, None, "what is blocked is not due");
    let other = bench.appended("b", 1).await;
    let behind = bench.appended("a", 1).await;
    bench.harness.advance(LONG).await;
    assert_eq!(bench.publish_due().await, [other]);
    assert!(bench.claim().await.runs.is_empty());
    assert_eq!(bench.status(behind[0]).await, Status::Pending);
}

pub async fn skip_makes_the_event_dead_and_lets_its_aggregate_go_on<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let ids = bench.appended("a", 3).await;
    let claim = bench.claim().await;
    assert_eq!(bench.fail(&claim, 1, FailedOutcome::Skip).await, settled(1, 2));
    let state = bench.state(ids[1]).await;
    assert_eq!((state.status, state.resolution.as_deref()), (Status::Dead, Some("skipped")));
    assert!(state.resolved_at.is_some());
    assert_eq!(bench.publish_due().await, [[ids[2]]]);
}

pub async fn one_call_may_fail_lanes_in_different_ways<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let outcomes = [RETRY, FailedOutcome::Block, FailedOutcome::Skip];
    let mut ids = Vec::new();
    for name in ["a", "b", "c"] {
        ids.push(bench.appended(name, 1).await[0]);
    }
    let claim = bench.claim().await;
    let outcome_of = |id: EventId| outcomes[ids.iter().position(|known| *known == id).unwrap()];
    let failing: Vec<_> = claim
        .failing_at(0, RETRY)
        .into_iter()
        .map(|run| FailedRun { outcome: outcome_of(run.failed), error: format!("{:?}", run.failed), ..run })
        .collect();
    assert_eq!(bench.harness.store().fail(claim.token, &failing).await.unwrap(), settled(3, 3));
    assert_eq!(bench.statuses(&ids).await, [Status::Failed, Status::Dead, Status::Dead]);
    for (id, resolution) in ids.into_iter().zip([None, None, Some("skipped")]) {
        let state = bench.state(id).await;
        assert_eq!(state.last_error, Some(format!("{id:?}")));
        assert_eq!(state.resolution.as_deref(), resolution);
    }
}

// Fencing

/// Every settling call with this token is stale, and the event stays as it is.
async fn assert_void<H: OutboxHarness>(bench: &Bench<H>, claim: &super::bench::Claim, id: EventId) {
    let store = bench.harness.store();
    let before = bench.state(id).await;
    assert_eq!(store.acknowledge(claim.token, &claim.whole()).await.unwrap(), stale());
    assert_eq!(store.acknowledge(claim.token, &claim.start(0)).await.unwrap(), stale());
    assert_eq!(store.release(claim.token, &claim.whole(), LONG).await.unwrap(), stale());
    for outcome in [RETRY, FailedOutcome::Block, FailedOutcome::Skip] {
        assert_eq!(store.fail(claim.token, &claim.failing_at(0, outcome)).await.unwrap(), stale());
    }
    assert!(!store.renew(claim.token, LEASE).await.unwrap());
    assert_eq!(bench.state(id).await, before);
}

pub async fn a_token_that_was_never_given_changes_nothing<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let id = bench.appended("a", 1).await[0];
    let mut forged = bench.claim().await;
    forged.token = bench.fresh_token();
    assert_void(&bench, &forged, id).await;
}

pub async fn the_token_of_a_reaped_claim_changes_nothing<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let id = bench.appended("a", 1).await[0];
    let old = bench.let_a_claim_expire().await;
    assert_eq!(bench.reap().await.claims, 1);
    assert_void(&bench, &old, id).await;
}

pub async fn the_token_of_a_reaped_claim_does_not_touch_the_claim_after_it<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let id = bench.appended("a", 1).await[0];
    let old = bench.let_a_claim_expire().await;
    bench.reap().await;
    let new = bench.claim().await;
    assert_eq!(new.ids(), [[id]]);
    assert_void(&bench, &old, id).await;
    assert_eq!(bench.acknowledge(&new).await, settled(1, 1));
}

pub async fn the_token_of_a_settled_claim_changes_nothing<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let id = bench.appended("a", 1).await[0];
    let claim = bench.claim().await;
    bench.acknowledge(&claim).await;
    assert_void(&bench, &claim, id).await;
}

pub async fn a_claim_settles_nothing_of_another<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    bench.appended("a", 1).await;
    let mine = bench.claim().await;
    let theirs_id = bench.appended("b", 1).await[0];
    let theirs = bench.claim().await;
    let refusal = bench.harness.store().acknowledge(mine.token, &theirs.whole()).await.expect_err("not mine");
    assert!(matches!(refusal, StoreError::RowsAffected { .. }), "{refusal:?}");
    assert_eq!(bench.status(theirs_id).await, Status::InFlight);
    assert_eq!(bench.acknowledge(&theirs).await, settled(1, 1));
    assert_eq!(bench.acknowledge(&mine).await, settled(1, 1));
}

pub async fn a_confirmed_event_that_is_not_there_is_an_error<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    bench.appended("a", 1).await;
    let claim = bench.claim().await;
    let unknown = bench.events.of("a").build().id();
    let run = ConfirmedRun { lane: claim.runs[0].lane, confirmed: vec![unknown] };
    let refusal = bench.harness.store().acknowledge(claim.token, &[run]).await.expect_err("not there");
    assert!(matches!(refusal, StoreError::RowsAffected { expected: 1, actual: 0, .. }), "{refusal:?}");
}

// Renew

pub async fn a_renewed_lease_ends_later<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let id = bench.appended("a", 1).await[0];
    let claim = bench.claim().await;
    bench.harness.advance(LEASE / 2).await;
    let before = bench.state(id).await.lease_expires_at.expect("it is leased");
    assert!(bench.harness.store().renew(claim.token, LONG).await.unwrap());
    assert!(bench.state(id).await.lease_expires_at.expect("it is leased") > before);
    bench.harness.advance(AFTER_LEASE).await;
    assert_eq!(bench.reap().await.claims, 0);
    assert_eq!(bench.acknowledge(&claim).await, settled(1, 1));
}

pub async fn a_lease_that_ran_out_is_good_until_it_is_reaped<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    bench.appended("a", 1).await;
    let claim = bench.let_a_claim_expire().await;
    assert!(bench.claim().await.runs.is_empty(), "only the reaper returns it");
    assert!(bench.harness.store().renew(claim.token, LEASE).await.unwrap());
    assert_eq!(bench.acknowledge(&claim).await, settled(1, 1));
}
