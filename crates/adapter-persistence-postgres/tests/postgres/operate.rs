//! Operate: requeue, discard, replay, pause, repair, and what lists show.

use std::{collections::BTreeSet, time::Duration};

use adapter_persistence_postgres::{Database, OutboxEventRepository};
use application_core::{
    outbox::{AggregateId, AggregateType, EventId, FailedOutcome, FailedRun, OutboxEventStatus, SettledHistory},
    ports::{
        EventFilter, OutboxAuditPort, OutboxMaintenancePort, OutboxOperationsPort, OutboxPausePort,
        OutboxStatisticsPort, OutboxStorePort, PauseScope, StoreError,
    },
};

use test_support::operate::{OperateOne, tester};

use super::support::{Fixture, confirmed, event, event_of, events, fresh_id, ids};

/// Kills the first event of the only lane that is due.
pub(crate) async fn kill_head(fixture: &Fixture) -> EventId {
    let claim = fixture.claim().await;
    let run = claim.only_run();
    let head = run.events[0].id;
    let runs =
        [FailedRun { run: confirmed(run, 0), failed: head, outcome: FailedOutcome::Block, error: "poison".to_owned() }];
    fixture.store.fail(claim.token, &runs).await.expect("settled");
    head
}

pub(crate) async fn publish_all(fixture: &Fixture) -> Vec<EventId> {
    let claim = fixture.claim().await;
    fixture.store.acknowledge(claim.token, &claim.confirmed()).await.expect("settled");
    claim.ids()
}

#[tokio::test]
async fn a_requeued_dead_head_is_sent_again_and_the_rest_follows_in_order() {
    let fixture = Fixture::new("requeue").await;
    let appended = events("a", 3);
    fixture.append(&appended).await;
    let head = kill_head(&fixture).await;
    assert!(fixture.events.requeue(head).await.expect("asked"));
    assert!(!fixture.events.requeue(head).await.expect("asked"), "it is no longer DEAD");
    let claim = fixture.claim().await;
    assert_eq!(claim.ids(), ids(&appended));
    assert_eq!(claim.only_run().events[0].attempts, 0);
    fixture.assert_lanes_are_sound().await;
}

/// Case O9: one operator discards what another one, who took a list of it, requeues.
#[tokio::test]
async fn a_requeue_that_was_taken_from_a_list_does_not_revive_what_is_discarded_beside_it() {
    let fixture = Fixture::new("revive").await;
    let appended = events("a", 2);
    fixture.append(&appended).await;
    let head = kill_head(&fixture).await;
    let mut other = fixture.sql().await;
    other.execute(&format!("BEGIN; SELECT outbox_discard('{{{head}}}', 'another')")).await;
    let operations = fixture.events.clone();
    let requeue = tokio::spawn(async move { operations.requeue_unresolved(&[head], &tester()).await });
    let waits = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() \
         AND wait_event_type = 'Lock' AND query LIKE '%outbox_requeue%')";
    fixture.sql().await.wait_for("the requeue waits for the lane", waits).await;
    other.execute("COMMIT").await;
    assert_eq!(requeue.await.expect("ended").expect("asked"), []);
    let state = fixture.events.find(head).await.expect("read").expect("found");
    assert_eq!((state.status, state.resolution.as_deref()), (OutboxEventStatus::Dead, Some("discarded")));
    assert_eq!(publish_all(&fixture).await, [appended[1].id()]);
    assert!(fixture.events.requeue(head).await.expect("asked"), "by its name it is revived");
    assert_eq!(publish_all(&fixture).await, [head]);
    fixture.assert_lanes_are_sound().await;
}

#[tokio::test]
async fn a_discarded_dead_head_lets_its_aggregate_go_on() {
    let fixture = Fixture::new("discard").await;
    let appended = events("a", 2);
    fixture.append(&appended).await;
    assert!(!fixture.events.discard(appended[0].id()).await.expect("asked"), "not DEAD");
    let head = kill_head(&fixture).await;
    assert!(fixture.events.discard(head).await.expect("asked"));
    assert!(!fixture.events.discard(head).await.expect("asked"), "resolved already");
    assert_eq!(publish_all(&fixture).await, [appended[1].id()]);
    let state = fixture.events.find(head).await.expect("read").expect("found");
    assert_eq!((state.status, state.resolution.as_deref()), (OutboxEventStatus::Dead, Some("discarded")));
    // It can still be brought back.
    assert!(fixture.events.requeue(head).await.expect("asked"));
    assert_eq!(publish_all(&fixture).await, [head]);
    fixture.assert_lanes_are_sound().await;
}

#[tokio::test]
async fn a_replayed_event_is_sent_again_and_counted() {
    let fixture = Fixture::new("replay").await;
    let appended = events("a", 2);
    fixture.append(&appended).await;
    assert!(!fixture.events.replay(appended[0].id()).await.expect("asked"), "not PUBLISHED");
    publish_all(&fixture).await;
    assert!(fixture.events.replay(appended[0].id()).await.expect("asked"));
    let late = event("a");
    fixture.append(std::slice::from_ref(&late)).await;
    let claim = fixture.claim().await;
    assert_eq!(claim.ids(), [appended[0].id(), late.id()], "ahead of what is open");
    assert_eq!(claim.only_run().events[0].replays, 1);
    assert!(!fixture.events.replay(fresh_id()).await.expect("asked"), "unknown");
}

#[tokio::test]
async fn an_event_reopened_below_a_leased_run_is_sent_after_the_lease() {
    let fixture = Fixture::new("leased").await;
    let old = events("a", 2);
    fixture.append(&old).await;
    publish_all(&fixture).await;
    let new = events("a", 2);
    fixture.append(&new).await;
    let skipped = {
        let claim = fixture.claim().await;
        let runs = [FailedRun {
            run: confirmed(claim.only_run(), 0),
            failed: new[0].id(),
            outcome: FailedOutcome::Skip,
            error: "no".to_owned(),
        }];
        fixture.store.fail(claim.token, &runs).await.expect("settled");
        new[0].id()
    };
    let leased = fixture.claim().await;
    assert_eq!(leased.ids(), [new[1].id()]);
    assert!(fixture.events.replay(old[1].id()).await.expect("asked"));
    assert!(fixture.events.requeue(skipped).await.expect("asked"));
    assert_eq!(fixture.claim().await.runs, [], "the lane is leased");
    let settled = fixture.store.acknowledge(leased.token, &leased.confirmed()).await.expect("settled");
    assert_eq!((settled.events, settled.freed), (1, 1));
    assert_eq!(fixture.claim().await.ids(), [old[1].id(), skipped]);
    fixture.assert_lanes_are_sound().await;
}

#[tokio::test]
async fn a_run_ends_at_the_first_event_of_a_paused_type_that_shares_the_lane() {
    let fixture = Fixture::new("collision").await;
    let mut sql = fixture.sql().await;
    // Two types whose hashes collide share a lane; here every aggregate does.
    sql.execute(
        "CREATE OR REPLACE FUNCTION outbox_lane_of(p_aggregate_type text, p_aggregate_id text) RETURNS bigint \
         LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN 7::bigint",
    )
    .await;
    let appended = [event_of("free", "a"), event_of("held", "b"), event_of("free", "a")];
    let held = PauseScope::Type(AggregateType::try_new("held").expect("valid"));
    assert!(fixture.events.pause(&held, &tester()).await.expect("asked"));
    fixture.append(&appended).await;
    assert_eq!(publish_all(&fixture).await, [appended[0].id()]);
    assert_eq!(fixture.claim().await.runs, [], "the lane parks");
    assert_eq!(sql.one::<i64>("SELECT count(*) FROM outbox_doctor").await, 0);
    assert!(fixture.events.resume(&held, &tester()).await.expect("asked"));
    assert_eq!(publish_all(&fixture).await, [appended[1].id(), appended[2].id()]);
}

#[tokio::test]
async fn a_second_pause_of_a_type_lets_no_claim_take_the_first_for_lifted() {
    let fixture = Fixture::new("paused-twice").await;
    let order = PauseScope::Type(AggregateType::try_new("order").expect("valid"));
    assert!(fixture.events.pause(&order, &tester()).await.expect("asked"));
    fixture.append(&[event("a")]).await;
    let mut second = fixture.sql().await;
    second.execute("BEGIN").await;
    assert!(!second.one::<bool>("SELECT outbox_pause('order', 'somebody')").await, "it is paused");
    assert!(fixture.claim().await.runs.is_empty(), "the second pause is not committed yet");
    second.execute("COMMIT").await;
}

#[tokio::test]
async fn a_claim_that_waits_for_a_lane_takes_nothing_while_everything_is_paused() {
    let fixture = Fixture::new("overdue").await;
    fixture.append(&events("a", 1)).await;
    fixture.sql().await.execute("UPDATE outbox_lane SET due_at = due_at - interval '1 s'").await;
    assert!(fixture.events.pause(&PauseScope::Everything, &tester()).await.expect("asked"));
    let overdue = "SELECT count(*) FROM outbox_claim_overdue(gen_random_uuid(), 'relay', '1 min', 10, 10, 1000)";
    assert_eq!(fixture.sql().await.one::<i64>(overdue).await, 0);
    assert!(fixture.events.resume(&PauseScope::Everything, &tester()).await.expect("asked"));
    assert_eq!(fixture.sql().await.one::<i64>(overdue).await, 1);
}

#[tokio::test]
async fn lanes_can_be_rebuilt_and_forget_no_event_and_no_block() {
    let fixture = Fixture::new("repair").await;
    let (a, b) = (events("a", 2), events("b", 2));
    fixture.append(&a).await;
    let head = kill_head(&fixture).await;
    fixture.append(&b).await;
    let leased = fixture.claim().await;
    let refused = fixture.events.repair_lanes(&tester()).await;
    assert!(matches!(refused, Err(StoreError::Refused { .. })), "{refused:?}");
    fixture.expire(leased.token).await;
    fixture.sql().await.execute("TRUNCATE outbox_lane").await;
    assert_ne!(fixture.events.examine_lanes().await.expect("examined"), []);
    assert_eq!(fixture.events.repair_lanes(&tester()).await.expect("repaired"), 2);
    fixture.assert_lanes_are_sound().await;
    assert_eq!(fixture.events.repair_lanes(&tester()).await.expect("repaired"), 0, "a second one touches none");
    assert_eq!(fixture.claim().await.ids(), ids(&b));
    assert!(fixture.events.requeue(head).await.expect("asked"));
    assert_eq!(fixture.claim().await.ids(), ids(&a));
}

#[tokio::test]
async fn a_repair_mends_each_way_to_be_wrong_and_a_second_one_touches_no_lane_and_leaves_no_record() {
    let fixture = Fixture::new("wrong").await;
    fixture.append(&[event("a"), event("b")]).await;
    let mut sql = fixture.sql().await;
    let repair = async || fixture.events.repair_lanes(&tester()).await.expect("repaired");
    assert_eq!(repair().await, 0);
    for (wrong, lanes) in [
        ("DELETE FROM outbox_lane WHERE lane = (SELECT min(lane) FROM outbox_lane)", 2),
        ("UPDATE outbox_lane SET floor = floor + 10", 2),
        ("UPDATE outbox_lane SET due_at = NULL", 2),
        ("UPDATE outbox_lane SET due_at = statement_timestamp() + interval '1 day'", 2),
        (
            "UPDATE outbox_lane SET due_at = NULL; \
             INSERT INTO outbox_lane (lane, floor, due_at) VALUES (7, 1, statement_timestamp())",
            3,
        ),
    ] {
        sql.execute(wrong).await;
        assert_eq!((repair().await, repair().await), (lanes, 0), "{wrong}");
        fixture.assert_lanes_are_sound().await;
    }
    let order = PauseScope::Type(AggregateType::try_new("order").expect("valid"));
    assert!(fixture.events.pause(&order, &tester()).await.expect("asked"));
    assert!(fixture.claim().await.runs.is_empty());
    assert_eq!(repair().await, 0, "what a pause has parked is right");
    assert_eq!(sql.one::<i64>("SELECT count(*) FROM outbox_audit WHERE action = 'repair'").await, 5);
}

#[tokio::test]
async fn resolved_events_are_purged_by_age_and_others_are_not() {
    let fixture = Fixture::new("purge").await;
    fixture.append(&events("a", 2)).await;
    let resolved = kill_head(&fixture).await;
    fixture.events.discard(resolved).await.expect("asked");
    let dead = kill_head(&fixture).await;
    let purge = async |age| fixture.reaper.purge(SettledHistory::Resolved, age, 10, &tester()).await.expect("purged");
    assert_eq!(purge(Duration::from_hours(1)).await, 0, "too young");
    assert_eq!(purge(Duration::ZERO).await, 1);
    assert_eq!(fixture.events.find(resolved).await.expect("read"), None);
    assert!(fixture.events.find(dead).await.expect("read").is_some());
}

#[tokio::test]
async fn a_resume_wakes_its_lanes_in_steps_and_goes_on_where_it_was_interrupted() {
    let fixture = Fixture::new("resume").await;
    let order = PauseScope::Type(AggregateType::try_new("order").expect("valid"));
    let aggregates = ["a", "b", "c", "d", "e"];
    assert!(fixture.events.pause(&order, &tester()).await.expect("asked"));
    for aggregate in aggregates {
        fixture.append(&[event(aggregate)]).await;
    }
    assert!(fixture.claim().await.runs.is_empty());
    let mut sql = fixture.sql().await;
    let parked = "SELECT count(*) FROM outbox_lane WHERE token IS NULL AND due_at IS NULL";
    assert_eq!(sql.one::<i64>(parked).await, 5);

    assert!(sql.one::<bool>("SELECT outbox_resume('order', 'somebody')").await);
    assert_eq!(sql.one::<i64>(parked).await, 5, "each step is a statement of its own");
    let step = "SELECT outbox_wake_parked('order', NULL, 2) IS NOT NULL";
    assert!(sql.one::<bool>(step).await, "more are to be looked at");
    assert_eq!(sql.one::<i64>(parked).await, 3);
    // Interrupted here: the pause is listed, and holds nothing back that is not parked yet.
    assert_eq!(fixture.events.pauses().await.expect("read").len(), 1);
    fixture.append(&[event("f")]).await;
    assert_eq!(fixture.claim().await.ids().len(), 3);

    assert!(fixture.events.resume(&order, &tester()).await.expect("asked"));
    assert_eq!((sql.one::<i64>(parked).await, fixture.events.pauses().await.expect("read").len()), (0, 0));
    assert_eq!(fixture.claim().await.ids().len(), 3);
    assert!(!fixture.events.resume(&order, &tester()).await.expect("asked"));
    let record = fixture.events.audit(None, 10).await.expect("read");
    let record: Vec<_> = record.iter().map(|entry| (entry.action.as_str(), entry.by.operator.as_str())).collect();
    assert_eq!(record, [("resume", "somebody"), ("pause", "tester")]);
}

#[tokio::test]
async fn a_type_that_is_paused_anew_while_its_resume_is_interrupted_is_paused() {
    let fixture = Fixture::new("paused-anew").await;
    let order = PauseScope::Type(AggregateType::try_new("order").expect("valid"));
    assert!(fixture.events.pause(&order, &tester()).await.expect("asked"));
    fixture.append(&[event("a"), event("b"), event("c")]).await;
    assert!(fixture.claim().await.runs.is_empty());
    let mut sql = fixture.sql().await;
    assert!(sql.one::<bool>("SELECT outbox_resume('order', 'somebody')").await);
    assert!(sql.one::<bool>("SELECT outbox_wake_parked('order', NULL, 1) IS NOT NULL").await);
    assert!(fixture.events.pause(&order, &tester()).await.expect("asked"), "it was not paused any more");
    assert!(!fixture.events.pause(&order, &tester()).await.expect("asked"));
    assert!(sql.one::<bool>("SELECT outbox_wake_parked('order', NULL, 10) IS NULL").await, "nothing is to be woken");
    assert!(fixture.claim().await.runs.is_empty());
    fixture.assert_lanes_are_sound().await;
    assert!(fixture.events.resume(&order, &tester()).await.expect("asked"));
    assert_eq!(fixture.claim().await.ids().len(), 3);
}

/// One event in each status, in the order of [`OutboxEventStatus::ALL`].
async fn one_of_each(fixture: &Fixture) -> Vec<(OutboxEventStatus, EventId)> {
    let [pending, in_flight, published, failed, dead] = ["p", "i", "u", "f", "d"].map(event);
    fixture.append(std::slice::from_ref(&published)).await;
    publish_all(fixture).await;
    fixture.append(std::slice::from_ref(&dead)).await;
    kill_head(fixture).await;
    fixture.append(std::slice::from_ref(&failed)).await;
    let claim = fixture.claim().await;
    let runs = [FailedRun {
        run: confirmed(claim.only_run(), 0),
        failed: failed.id(),
        outcome: FailedOutcome::Retry { after: Duration::from_hours(1) },
        error: "rejected".to_owned(),
    }];
    fixture.store.fail(claim.token, &runs).await.expect("settled");
    fixture.append(std::slice::from_ref(&in_flight)).await;
    fixture.claim().await;
    fixture.append(std::slice::from_ref(&pending)).await;
    OutboxEventStatus::ALL
        .into_iter()
        .zip([pending.id(), in_flight.id(), published.id(), failed.id(), dead.id()])
        .collect()
}

#[tokio::test]
async fn the_view_and_the_constraint_know_the_five_statuses_of_the_core() {
    let fixture = Fixture::new("registry").await;
    for (status, id) in one_of_each(&fixture).await {
        assert_eq!(fixture.status(id).await, status.as_str());
        let state = fixture.events.find(id).await.expect("read").expect("found");
        assert_eq!(state.status, status);
        assert_eq!(state.holder.is_some(), status == OutboxEventStatus::InFlight);
        assert_eq!(state.published_at.is_some(), status == OutboxEventStatus::Published);
    }
    let constraint: String = fixture
        .sql()
        .await
        .one("SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'outbox_event_status_check'")
        .await;
    let named: BTreeSet<&str> = constraint.split('\'').skip(1).step_by(2).collect();
    assert_eq!(named, OutboxEventStatus::STORED.map(OutboxEventStatus::as_str).into());
}

#[tokio::test]
async fn a_list_shows_what_its_filter_asks_for_page_by_page() {
    let fixture = Fixture::new("list").await;
    let all = one_of_each(&fixture).await;
    let list = async |filter: EventFilter| -> Vec<EventId> {
        let limit = if filter.limit == 0 { 100 } else { filter.limit };
        let rows = fixture.events.list(&EventFilter { limit, ..filter }).await.expect("read");
        rows.events.into_iter().map(|row| row.id).collect()
    };
    for (status, id) in &all {
        assert_eq!(list(EventFilter { status: Some(*status), ..EventFilter::default() }).await, [*id], "{status}");
    }
    let mut every: Vec<EventId> = all.iter().map(|(_, id)| *id).collect();
    every.sort();
    assert_eq!(list(EventFilter::default()).await, every);
    let mut paged = Vec::new();
    loop {
        let page = list(EventFilter { after: paged.last().copied(), limit: 2, ..EventFilter::default() }).await;
        if page.is_empty() {
            break;
        }
        paged.extend(page);
    }
    assert_eq!(paged, every);
    let aggregate = EventFilter {
        aggregate_type: Some(AggregateType::try_new("order").expect("valid")),
        aggregate_id: Some(AggregateId::try_new("u").expect("valid")),
        ..EventFilter::default()
    };
    assert_eq!(list(aggregate).await, [all[2].1]);
}

#[tokio::test]
async fn an_event_behind_another_says_behind_which() {
    let fixture = Fixture::new("behind").await;
    let appended = events("a", 2);
    fixture.append(&appended).await;
    let second = fixture.events.find(appended[1].id()).await.expect("read").expect("found");
    assert_eq!((second.blocked_behind, second.due_at), (Some(appended[0].id()), None));
    let first = fixture.events.find(appended[0].id()).await.expect("read").expect("found");
    assert!(first.blocked_behind.is_none() && first.due_at.is_some());
    assert_eq!(fixture.events.content(fresh_id()).await.expect("read"), None);
}

/// How often the event table was read from end to end so far, and how many rows its indexes led to, once every session of
/// the pool has told its counts, which it does at its end.
async fn reads(fixture: &Fixture, database: &Database) -> (i64, i64) {
    database.close().await;
    let mut sql = fixture.sql().await;
    let gone = "SELECT count(*) = 0 FROM pg_stat_activity \
         WHERE datname = current_database() AND application_name = 'adapter test'";
    sql.wait_for("the pool's sessions have ended", gone).await;
    let counted = |column: &str| format!("SELECT {column} FROM pg_stat_user_tables WHERE relname = 'outbox_event'");
    (sql.one(&counted("seq_scan")).await, sql.one(&counted("idx_tup_fetch")).await)
}

/// Case P42.
#[tokio::test]
async fn lists_of_troubled_and_leased_events_read_no_table_from_end_to_end() {
    const EVENTS: i64 = 100_000;
    let fixture = Fixture::new("plans").await;
    let mut sql = fixture.sql().await;
    sql.execute(&format!(
        "SET LOCAL outbox.lanes_are_taken = 'yes'; \
         INSERT INTO outbox_event (id, sequence, aggregate_type, aggregate_id, event_type, payload) \
         SELECT gen_random_uuid(), nextval('outbox_event_sequence'), 'order', (n % 500)::text, 'Many', '1' \
           FROM generate_series(1, {EVENTS}) n; \
         INSERT INTO outbox_lane (lane, floor, due_at) \
         SELECT e.lane, min(e.sequence), statement_timestamp() FROM outbox_event e GROUP BY e.lane",
    ))
    .await;
    // Three aggregates are blocked.
    sql.execute(
        "UPDATE outbox_event SET status = 'DEAD', attempts = 3 WHERE sequence IN ( \
             SELECT min(sequence) FROM outbox_event WHERE aggregate_id IN ('1', '2', '3') GROUP BY aggregate_id); \
         UPDATE outbox_lane SET due_at = NULL WHERE lane IN ( \
             SELECT lane FROM outbox_event WHERE status = 'DEAD')",
    )
    .await;
    publish_all(&fixture).await;
    sql.execute("ANALYZE outbox_event").await;
    // What this connection has read is told now, and not later on.
    sql.rows("SELECT pg_stat_force_next_flush()").await;
    let begun = reads(&fixture, &fixture.database).await;

    let database = Database::connect(&fixture.settings).await.expect("a pool");
    let repository = OutboxEventRepository::new(database.clone());
    for (status, found) in [(OutboxEventStatus::Dead, 3), (OutboxEventStatus::Failed, 0)] {
        let filter = EventFilter { status: Some(status), limit: 10, ..EventFilter::default() };
        assert_eq!(repository.list(&filter).await.expect("read").events.len(), found, "{status}");
    }
    repository.list(&EventFilter { limit: 10, ..EventFilter::default() }).await.expect("read");
    assert_eq!(repository.blocked(10).await.expect("read").len(), 3);
    repository.find(fresh_id()).await.expect("read");
    let listed = reads(&fixture, &database).await;
    assert_eq!(listed.0, begun.0);
    // An index that is walked from end to end is no better than the table.
    assert!(listed.1 - begun.1 < EVENTS / 10, "{} rows", listed.1 - begun.1);

    let database = Database::connect(&fixture.settings).await.expect("a pool");
    let repository = OutboxEventRepository::new(database.clone());
    let filter = EventFilter { status: Some(OutboxEventStatus::InFlight), limit: 10, ..EventFilter::default() };
    repository.list(&filter).await.expect("read");
    repository.statistics().await.expect("read");
    assert_eq!(reads(&fixture, &database).await.0, begun.0);
}
