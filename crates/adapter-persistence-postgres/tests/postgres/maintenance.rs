//! Reap and clean up: what comes back, what dies, what is removed, and by whom.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use application_core::{
    outbox::{AggregateType, HolderName},
    ports::{
        LeaderTerm, LeadershipPort, NoObserver, OutboxAppendPort, OutboxMaintenancePort, OutboxOperationsPort,
        OutboxStatistics, OutboxStatisticsPort, OutboxStorePort, ReapReport, ReapRequest, UnitOfWork,
    },
    usecases::ReapOutboxUseCase,
};

use adapter_persistence_postgres::{OutboxReaper, PostgresLeadership};

use super::support::{Claim, Fixture, PATIENCE, event, event_of, events, ids};

fn reap() -> ReapRequest {
    ReapRequest { max_claims: 10, dead_after_expiries: 10, skip_types: vec![] }
}

async fn claim_and_expire(fixture: &Fixture) -> Claim {
    let claim = fixture.claim().await;
    fixture.expire(claim.token).await;
    claim
}

#[tokio::test]
async fn an_expired_lease_returns_its_events_without_touching_their_attempts() {
    let fixture = Fixture::new("expired").await;
    let appended = events("a", 3);
    fixture.append(&appended).await;
    claim_and_expire(&fixture).await;
    let report = fixture.reaper.reap(&reap()).await.expect("reaped");
    assert_eq!(report, ReapReport { claims: 1, lanes: 1, postponed: 0, dead: 0 });
    let again = fixture.claim().await;
    assert_eq!(again.ids(), ids(&appended));
    assert!(again.only_run().events.iter().all(|event| event.attempts == 0));
    assert_eq!(fixture.reaper.reap(&reap()).await.expect("reaped"), ReapReport::default());
}

/// Case L14.
#[tokio::test]
async fn a_relay_that_dies_with_five_thousand_leases_gets_nothing_stuck() {
    const LANES: u32 = 5_000;
    let fixture = Fixture::new("hoard").await;
    let one_each: Vec<_> = (0..LANES).map(|n| event(&format!("a{n}"))).collect();
    for batch in one_each.chunks(1_000) {
        fixture.append(batch).await;
    }
    let mut held = 0;
    while held < one_each.len() {
        held += fixture.claim().await.ids().len();
    }
    let all = "UPDATE outbox_claim SET lease_expires_at = statement_timestamp() - interval '1 s'";
    let mut sql = fixture.sql().await;
    let claims = sql.execute(all).await;

    let before = fixture.events.statistics().await.expect("read");
    assert_eq!((before.in_flight, before.oldest_in_flight_age.is_some()), (u64::from(LANES), true));

    // What a process does once in a period of the reaper, a few claims a call.
    let reaper = ReapOutboxUseCase::new(
        Arc::new(OutboxReaper::new(fixture.database.clone())),
        Arc::new(NoObserver),
        ReapRequest { max_claims: 7, ..reap() },
    );
    let report = reaper.run_once().await.expect("reaped");
    assert!(claims > 7, "{claims} claims need more than one call");
    assert_eq!((u64::from(report.claims), report.lanes, report.postponed), (claims, LANES, 0));
    assert_eq!(sql.one::<i64>("SELECT count(*) FROM outbox_claim").await, 0);
    let after = fixture.events.statistics().await.expect("read");
    assert_eq!((after.in_flight, after.oldest_in_flight_age), (0, None));
    let mut again = std::collections::BTreeSet::new();
    while again.len() < one_each.len() {
        let claim = fixture.claim().await;
        assert!(!claim.runs.is_empty(), "{} of {LANES} came back", again.len());
        again.extend(claim.ids());
        fixture.store.acknowledge(claim.token, &claim.confirmed()).await.expect("settled");
    }
    fixture.assert_lanes_are_sound().await;
}

#[tokio::test]
async fn an_acknowledgement_that_comes_before_the_reaper_counts_even_after_the_lease() {
    let fixture = Fixture::new("late").await;
    fixture.append(&events("a", 1)).await;
    let claim = claim_and_expire(&fixture).await;
    let settled = fixture.store.acknowledge(claim.token, &claim.confirmed()).await.expect("settled");
    assert_eq!((settled.events, settled.stale), (1, false));
    assert_eq!(fixture.reaper.reap(&reap()).await.expect("reaped"), ReapReport::default());
    assert_eq!(fixture.status(claim.ids()[0]).await, "PUBLISHED");
}

#[tokio::test]
async fn reapers_and_late_acknowledgements_at_once_never_both_win() {
    let fixture = Fixture::new("race").await;
    for _ in 0..30 {
        let one = event("a");
        fixture.append(std::slice::from_ref(&one)).await;
        let claim = claim_and_expire(&fixture).await;
        assert_eq!(claim.ids(), [one.id()]);
        let confirmed = claim.confirmed();
        let request = reap();
        let (settled, first, second) = tokio::join!(
            fixture.store.acknowledge(claim.token, &confirmed),
            fixture.reaper.reap(&request),
            fixture.reaper.reap(&request),
        );
        let reaped = first.expect("reaped").claims + second.expect("reaped").claims;
        let stale = settled.expect("answered").stale;
        assert_eq!(reaped, u32::from(stale), "exactly one of them has the claim");
        let expected = if stale { "PENDING" } else { "PUBLISHED" };
        assert_eq!(fixture.status(one.id()).await, expected);
        let rest = fixture.claim().await;
        fixture.store.acknowledge(rest.token, &rest.confirmed()).await.expect("settled");
    }
    fixture.assert_lanes_are_sound().await;
}

#[tokio::test]
async fn a_head_that_outlives_too_many_leases_is_sent_alone_and_then_dies() {
    let fixture = Fixture::new("suspect").await;
    let appended = events("a", 3);
    fixture.append(&appended).await;
    let mut lengths = Vec::new();
    for expiry in 1..=10 {
        let claim = claim_and_expire(&fixture).await;
        lengths.push(claim.only_run().events.len());
        let report = fixture.reaper.reap(&reap()).await.expect("reaped");
        assert_eq!(report.dead, u32::from(expiry == 10));
    }
    assert_eq!(lengths, [3, 3, 3, 1, 1, 1, 1, 1, 1, 1]);
    let head = fixture.events.find(appended[0].id()).await.expect("read").expect("found");
    assert_eq!((head.status.as_str(), head.attempts), ("DEAD", 0));
    assert_eq!(fixture.claim().await.runs, [], "blocked");
}

#[tokio::test]
async fn an_acknowledgement_begins_the_count_of_expiries_anew() {
    let fixture = Fixture::new("anew").await;
    let appended = events("a", 2);
    fixture.append(&appended).await;
    for _ in 0..3 {
        claim_and_expire(&fixture).await;
        fixture.reaper.reap(&reap()).await.expect("reaped");
    }
    let alone = fixture.claim().await;
    assert_eq!(alone.ids(), [appended[0].id()]);
    fixture.append(&events("a", 2)).await;
    fixture.store.acknowledge(alone.token, &alone.confirmed()).await.expect("settled");
    assert_eq!(fixture.claim().await.ids().len(), 3);
}

#[tokio::test]
async fn a_type_that_skips_goes_on_behind_a_head_that_died_of_expiries() {
    let fixture = Fixture::new("skip").await;
    let (head, next) = (event_of("skipping", "a"), event_of("skipping", "a"));
    fixture.append(&[head.clone(), next.clone()]).await;
    let skipping = AggregateType::try_new("skipping").expect("valid");
    let request = ReapRequest { dead_after_expiries: 2, skip_types: vec![skipping], ..reap() };
    for _ in 0..2 {
        claim_and_expire(&fixture).await;
        fixture.reaper.reap(&request).await.expect("reaped");
    }
    assert_eq!(fixture.claim().await.ids(), [next.id()]);
    let state = fixture.events.find(head.id()).await.expect("read").expect("found");
    assert_eq!((state.status.as_str(), state.resolution.as_deref()), ("DEAD", Some("skipped")));
}

#[tokio::test]
async fn a_lane_that_an_appender_holds_is_reaped_once_it_is_free() {
    let fixture = Fixture::new("heldreap").await;
    fixture.append(&[event("held"), event("free")]).await;
    let claim = claim_and_expire(&fixture).await;
    let mut appender = fixture.work.begin().await.expect("begun");
    fixture.events.append(&mut appender, &[event("held")]).await.expect("appended");
    let report = fixture.reaper.reap(&reap()).await.expect("reaped");
    assert_eq!((report.claims, report.lanes, report.postponed), (1, 1, 1));
    let late = fixture.store.acknowledge(claim.token, &claim.confirmed()).await.expect("answered");
    assert!(late.stale, "the claim is void though it holds a lane");
    fixture.work.commit(appender).await.expect("committed");
    let report = fixture.reaper.reap(&reap()).await.expect("reaped");
    assert_eq!((report.claims, report.lanes, report.postponed), (0, 1, 0));
    assert_eq!(fixture.claim().await.ids().len(), 3);
    fixture.assert_lanes_are_sound().await;
}

async fn published(fixture: &Fixture, count: usize) {
    fixture.append(&events("history", count)).await;
    let claim = fixture.claim().await;
    fixture.store.acknowledge(claim.token, &claim.confirmed()).await.expect("settled");
    let past = "UPDATE outbox_event SET published_at = published_at - interval '10 days' WHERE status = 'PUBLISHED'";
    fixture.sql().await.execute(past).await;
}

async fn lead(fixture: &Fixture, holder: &str) -> Option<LeaderTerm> {
    let leadership = PostgresLeadership::new(fixture.database.clone());
    leadership.acquire("outbox-maintenance", &HolderName::new(holder), Duration::from_mins(1)).await.expect("asked")
}

const DAY: Duration = Duration::from_hours(24);

#[tokio::test]
async fn cleaning_removes_old_published_events_in_batches_and_nothing_else() {
    let fixture = Fixture::new("clean").await;
    let dead = event("dead");
    fixture.append(std::slice::from_ref(&dead)).await;
    let claim = fixture.claim().await;
    let runs = [application_core::outbox::FailedRun {
        run: super::support::confirmed(claim.only_run(), 0),
        failed: dead.id(),
        outcome: application_core::outbox::FailedOutcome::Block,
        error: "no".to_owned(),
    }];
    fixture.store.fail(claim.token, &runs).await.expect("settled");
    published(&fixture, 25).await;
    fixture.append(&events("open", 1)).await;
    let young = event("young");
    fixture.append(std::slice::from_ref(&young)).await;
    let mut sql = fixture.sql().await;
    sql.execute("UPDATE outbox_event SET created_at = created_at - interval '20 days'").await;
    let term = lead(&fixture, "one").await.expect("leads");
    let mut removed = Vec::new();
    for _ in 0..4 {
        removed.push(fixture.reaper.clean_up(&term, DAY, 10).await.expect("cleaned"));
    }
    assert_eq!(removed, [Some(10), Some(10), Some(5), Some(0)]);
    assert_eq!(sql.one::<i64>("SELECT count(*) FROM outbox_event").await, 3, "dead, open and young stay");
    // A new round begins at the beginning: what became old meanwhile is found.
    published(&fixture, 1).await;
    assert!(fixture.reaper.clean_up(&term, DAY, 10).await.expect("cleaned") >= Some(1));
}

#[tokio::test]
async fn a_leader_whose_term_is_over_removes_nothing() {
    let fixture = Fixture::new("term").await;
    published(&fixture, 5).await;
    let term = lead(&fixture, "one").await.expect("leads");
    let mut sql = fixture.sql().await;
    sql.execute("UPDATE outbox_leader SET expires_at = statement_timestamp() - interval '1 s'").await;
    assert_eq!(fixture.reaper.clean_up(&term, DAY, 10).await.expect("asked"), None, "expired");
    let next = lead(&fixture, "two").await.expect("leads");
    assert_eq!(fixture.reaper.clean_up(&term, DAY, 10).await.expect("asked"), None, "somebody else's");
    let forged = LeaderTerm { term: next.term + 1, ..next.clone() };
    assert_eq!(fixture.reaper.clean_up(&forged, DAY, 10).await.expect("asked"), None, "no such term");
    assert_eq!(sql.one::<i64>("SELECT count(*) FROM outbox_event").await, 5);
    assert_eq!(fixture.reaper.clean_up(&next, DAY, 10).await.expect("cleaned"), Some(5));
}

#[tokio::test]
async fn the_figures_tell_each_event_once_and_in_its_status() {
    let fixture = Fixture::new("figures").await;
    assert_eq!(
        OutboxStatistics { oldest_snapshot_age: None, ..fixture.events.statistics().await.expect("read") },
        OutboxStatistics::default()
    );
    fixture.append(&[event("in flight"), event("in flight")]).await;
    fixture.claim().await;
    fixture.append(&[event("in flight"), event("pending"), event("dead"), event("dead"), event("failed")]).await;
    let mut sql = fixture.sql().await;
    let set = |aggregate: &str, to: &str| {
        format!(
            "UPDATE outbox_event SET {to} WHERE sequence = \
             (SELECT min(sequence) FROM outbox_event WHERE aggregate_id = '{aggregate}')"
        )
    };
    sql.execute(&set("dead", "status = 'DEAD', attempts = 3")).await;
    sql.execute("UPDATE outbox_lane SET due_at = NULL WHERE lane = outbox_lane_of('order', 'dead')").await;
    sql.execute(&set("failed", "status = 'FAILED', attempts = 1, created_at = created_at - interval '2 h'")).await;
    sql.execute(&set("pending", "created_at = created_at - interval '1 h'")).await;
    let figures = fixture.events.statistics().await.expect("read");
    assert_eq!((figures.pending, figures.in_flight, figures.failed, figures.dead), (3, 2, 1, 1));
    assert_eq!(figures.blocked_aggregates, 1);
    assert!(figures.oldest_pending_age >= Some(Duration::from_hours(1)));
    assert!(figures.oldest_in_flight_age.is_some());
}

/// Case P51: the age is that of the snapshot that is held, which grows, and not that of whoever happens to look.
#[tokio::test]
async fn a_snapshot_that_is_held_shows_in_the_figures() {
    const GROWN_BY: Duration = Duration::from_millis(300);
    let fixture = Fixture::new("snapshot").await;
    let age = async || fixture.events.statistics().await.expect("read").oldest_snapshot_age;
    let mut holder = fixture.sql().await;
    holder.execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await;
    holder.rows("SELECT 1").await;
    let first = age().await.expect("a snapshot is held");
    let deadline = Instant::now() + PATIENCE;
    while age().await < Some(first + GROWN_BY) {
        assert!(Instant::now() < deadline, "the snapshot grows no older");
    }
    holder.execute("ROLLBACK").await;
    while age().await >= Some(first + GROWN_BY) {
        assert!(Instant::now() < deadline, "a snapshot that is over is still told");
    }
}
