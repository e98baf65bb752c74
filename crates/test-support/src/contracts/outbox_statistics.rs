//! What every statistics port must tell: rule R27.

#![expect(missing_docs, reason = "the names of the cases are sentences")]

use std::time::Duration;

use application_core::{
    outbox::{FailedOutcome, FailureClass, HolderName},
    ports::{OutboxStatistics, RecentPublishing},
};

use super::{
    OutboxHarness,
    bench::{Bench, LONG},
};
use crate::operate::OperateOne;

const AGE: Duration = Duration::from_secs(500);

async fn figures<H: OutboxHarness>(bench: &Bench<H>) -> OutboxStatistics {
    bench.harness.statistics().statistics().await.expect("the figures are read")
}

const fn counts(figures: &OutboxStatistics) -> [u64; 5] {
    [figures.pending, figures.in_flight, figures.failed, figures.dead, figures.blocked_aggregates]
}

pub async fn an_empty_outbox_counts_nothing<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let figures = figures(&bench).await;
    assert_eq!(counts(&figures), [0; 5]);
    let ages = [figures.oldest_pending_age, figures.oldest_in_flight_age, figures.oldest_blocked_age];
    assert_eq!(ages, [None; 3]);
}

pub async fn every_open_event_is_counted_once_by_its_status<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    bench.appended("published", 7).await;
    bench.publish_due().await;
    bench.appended("failed", 3).await;
    bench.kill_due(FailedOutcome::Retry { after: LONG }).await;
    bench.appended("dead", 2).await;
    bench.kill_due(FailedOutcome::Block).await;
    bench.appended("skipped", 1).await;
    bench.kill_due(FailedOutcome::Skip).await;
    bench.appended("in-flight", 4).await;
    bench.claim_with(|request| request.max_run = 3).await;
    bench.appended("pending", 2).await;
    // Pending: two behind the failed one, one behind the dead one, one behind the lease, and two.
    assert_eq!(counts(&figures(&bench).await), [6, 3, 1, 1, 1]);
}

pub async fn a_failed_event_in_flight_is_counted_as_in_flight_alone<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    bench.appended("a", 3).await;
    bench.kill_due(FailedOutcome::Retry { after: Duration::ZERO }).await;
    bench.claim_with(|request| request.max_run = 1).await;
    assert_eq!(counts(&figures(&bench).await), [2, 1, 0, 0, 0]);
}

pub async fn the_oldest_pending_age_is_that_of_what_waits_longest<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    bench.appended("a", 1).await;
    bench.harness.advance(AGE).await;
    bench.appended("b", 1).await;
    let oldest = figures(&bench).await.oldest_pending_age.expect("two are pending");
    assert!(oldest >= AGE, "{oldest:?}");
}

pub async fn dead_events_what_is_behind_them_and_replays_are_no_backlog<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    bench.appended("dead", 2).await;
    bench.kill_due(FailedOutcome::Block).await;
    let replayed = bench.appended("replayed", 1).await[0];
    bench.publish_due().await;
    bench.harness.advance(AGE).await;
    assert!(bench.harness.operations().replay(replayed).await.unwrap());
    assert_eq!(figures(&bench).await.oldest_pending_age, None);
}

pub async fn the_oldest_blocked_age_is_that_of_the_dead_event_that_was_stored_first_until_it_is_resolved<
    H: OutboxHarness,
>() {
    let bench = Bench::<H>::fresh().await;
    let first = bench.appended("a", 2).await[0];
    bench.kill_due(FailedOutcome::Block).await;
    bench.harness.advance(AGE).await;
    bench.appended("b", 1).await;
    bench.kill_due(FailedOutcome::Block).await;
    assert!(figures(&bench).await.oldest_blocked_age.is_some_and(|age| age >= AGE));
    assert!(bench.harness.operations().discard(first).await.unwrap());
    assert!(figures(&bench).await.oldest_blocked_age.is_some_and(|age| age < AGE));
}

pub async fn unresolved_dead_events_are_grouped_by_class_and_types<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let kill = async |error: &str, outcome: FailedOutcome| {
        let claim = bench.claim().await;
        let mut failing = claim.failing_at(0, outcome);
        for run in &mut failing {
            error.clone_into(&mut run.error);
        }
        bench.harness.store().fail(claim.token, &failing).await.unwrap();
    };
    assert_eq!(bench.harness.statistics().dead_groups().await.unwrap(), []);
    bench.appended("old", 1).await;
    kill("rejected: full", FailedOutcome::Block).await;
    bench.harness.advance(AGE).await;
    bench.appended("young", 1).await;
    kill("rejected: full", FailedOutcome::Block).await;
    bench.append(&[bench.events.of("other").event_type("Other").build()]).await;
    kill("lease expired: 10 times", FailedOutcome::Block).await;
    bench.appended("skipped", 1).await;
    kill("rejected: full", FailedOutcome::Skip).await;
    bench.appended("waiting", 1).await;
    let groups = bench.harness.statistics().dead_groups().await.unwrap();
    assert_eq!(groups.len(), 2, "{groups:?}");
    let (rejected, other) = (&groups[0], &groups[1]);
    assert_eq!((rejected.class, rejected.events), (Some(FailureClass::Rejected), 2));
    assert_eq!(rejected.example.as_deref(), Some("rejected: full"));
    assert!(rejected.oldest_age >= AGE && other.oldest_age < AGE, "{groups:?}");
    assert_eq!((other.class, other.event_type.as_str(), other.events), (None, "Other", 1));
}

pub async fn what_was_published_lately_is_counted_with_its_lag<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let recent = async || bench.harness.statistics().recent_publishing().await.unwrap();
    let nothing = RecentPublishing { events: 0, span: RecentPublishing::SPAN, lag: None };
    assert_eq!(recent().await, nothing);
    bench.appended("a", 1).await;
    bench.harness.advance(AGE).await;
    bench.appended("b", 2).await;
    bench.publish_due().await;
    bench.appended("waiting", 1).await;
    let seen = recent().await;
    assert_eq!((seen.events, seen.span), (3, RecentPublishing::SPAN));
    let lag = seen.lag.expect("three were published");
    assert!(lag.p50 < AGE && lag.p95 >= AGE && lag.p99 >= AGE, "{lag:?}");
    bench.harness.advance(RecentPublishing::SPAN).await;
    assert_eq!(recent().await, nothing);
}

pub async fn a_replay_is_counted_and_lags_behind_nothing<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let id = bench.appended("a", 1).await[0];
    bench.publish_due().await;
    bench.harness.advance(AGE).await;
    assert!(bench.harness.operations().replay(id).await.unwrap());
    bench.publish_due().await;
    let recent = bench.harness.statistics().recent_publishing().await.unwrap();
    assert_eq!((recent.events, recent.lag), (1, None));
}

pub async fn the_oldest_in_flight_age_is_that_of_the_oldest_claim_that_stands<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    bench.appended("a", 1).await;
    let old = bench.claim().await;
    bench.harness.advance(AGE).await;
    bench.appended("b", 1).await;
    bench.claim().await;
    assert!(figures(&bench).await.oldest_in_flight_age.is_some_and(|age| age >= AGE));
    bench.acknowledge(&old).await;
    assert!(figures(&bench).await.oldest_in_flight_age.is_some_and(|age| age < AGE));
}

pub async fn a_renewal_does_not_shorten_the_oldest_in_flight_age<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    bench.appended("a", 1).await;
    let claim = bench.claim().await;
    bench.harness.advance(AGE).await;
    assert!(bench.harness.store().renew(claim.token, LONG).await.unwrap());
    assert!(figures(&bench).await.oldest_in_flight_age.is_some_and(|age| age >= AGE));
    bench.acknowledge(&claim).await;
    assert_eq!(figures(&bench).await.oldest_in_flight_age, None);
}

pub async fn relays_that_hold_leases_are_counted_by_name<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    for aggregate in ["a", "b", "c"] {
        bench.appended(aggregate, 2).await;
    }
    let first = bench.claim_with(|request| request.max_lanes = 1).await;
    bench.harness.advance(AGE).await;
    assert!(bench.harness.store().renew(first.token, LONG).await.unwrap());
    let second = bench.claim_with(|request| request.holder = HolderName::new("relay-2")).await;
    let relays = bench.harness.holders().relays().await.unwrap();
    let seen: Vec<_> = relays.iter().map(|r| (r.holder.as_str(), r.claims, r.lanes, r.expired)).collect();
    assert_eq!(seen, [("relay-1", 1, 1, 0), ("relay-2", 1, 2, 0)]);
    assert!(relays[0].oldest_claim_age >= AGE && relays[1].oldest_claim_age < AGE, "{relays:?}");
    bench.acknowledge(&first).await;
    bench.acknowledge(&second).await;
    assert_eq!(bench.harness.holders().relays().await.unwrap(), []);
}

pub async fn a_lease_that_has_ended_is_shown_until_it_is_reaped<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    bench.appended("a", 1).await;
    bench.let_a_claim_expire().await;
    assert_eq!(bench.harness.holders().relays().await.unwrap()[0].expired, 1);
    bench.reap().await;
    assert_eq!(bench.harness.holders().relays().await.unwrap(), []);
}

pub async fn the_leader_of_a_role_is_shown_and_that_its_term_is_over<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    assert_eq!(bench.harness.holders().leaders().await.unwrap(), []);
    let holder = HolderName::new("a");
    bench.harness.leadership().acquire("upkeep", &holder, LONG).await.unwrap().unwrap();
    let leaders = bench.harness.holders().leaders().await.unwrap();
    assert_eq!((leaders[0].role.as_str(), &leaders[0].holder, leaders[0].term), ("upkeep", &holder, 1));
    assert!(leaders[0].expires_in.is_some_and(|left| left <= LONG), "{leaders:?}");
    bench.harness.advance(LONG + AGE).await;
    assert_eq!(bench.harness.holders().leaders().await.unwrap()[0].expires_in, None);
}
