//! What every operator's port must do: rules R1, R2, R13, cases O8, O9 and L29.

#![expect(missing_docs, reason = "the names of the cases are sentences")]

use std::time::Duration;

use application_core::{
    outbox::{
        AggregateId, AggregateType, EventAction, EventId, EventType, FailedOutcome, FailureClass, HolderName,
        OutboxEventStatus as Status,
    },
    ports::EventFilter,
};

use super::{
    OutboxHarness,
    bench::{Bench, LONG, settled},
};
use crate::operate::{OperateOne, tester};

async fn requeue<H: OutboxHarness>(bench: &Bench<H>, id: EventId) -> bool {
    bench.harness.operations().requeue(id).await.unwrap()
}

async fn discard<H: OutboxHarness>(bench: &Bench<H>, id: EventId) -> bool {
    bench.harness.operations().discard(id).await.unwrap()
}

async fn replay<H: OutboxHarness>(bench: &Bench<H>, id: EventId) -> bool {
    bench.harness.operations().replay(id).await.unwrap()
}

/// One event in each status: pending, in flight, published, failed, dead.
async fn one_of_each<H: OutboxHarness>(bench: &Bench<H>) -> [EventId; 5] {
    let published = bench.appended("published", 1).await[0];
    bench.publish_due().await;
    let failed = bench.appended("failed", 1).await[0];
    bench.kill_due(FailedOutcome::Retry { after: LONG }).await;
    let dead = bench.appended("dead", 1).await[0];
    bench.kill_due(FailedOutcome::Block).await;
    let in_flight = bench.appended("in-flight", 1).await[0];
    bench.claim().await;
    let pending = bench.appended("pending", 1).await[0];
    [pending, in_flight, published, failed, dead]
}

// Look

pub async fn find_tells_all_five_statuses_apart<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let ids = one_of_each(&bench).await;
    assert_eq!(bench.statuses(&ids).await, Status::ALL);
}

pub async fn an_event_that_is_not_there_is_not_found<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let id = bench.events.of("a").build().id();
    assert_eq!(bench.find(id).await, None);
    assert_eq!(bench.harness.operations().content(id).await.unwrap(), None);
    assert!(!requeue(&bench, id).await && !discard(&bench, id).await && !replay(&bench, id).await);
}

pub async fn only_an_event_in_flight_shows_a_holder_and_the_end_of_a_lease<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    for id in one_of_each(&bench).await {
        let state = bench.state(id).await;
        let in_flight = state.status == Status::InFlight;
        assert_eq!(state.holder, in_flight.then(|| HolderName::new("relay-1")));
        assert_eq!(state.lease_expires_at.is_some(), in_flight);
    }
    let ids = bench.appended("two", 2).await;
    bench.claim_with(|request| request.max_run = 1).await;
    assert_eq!(bench.state(ids[1]).await.holder, None, "its lane is leased, it is not");
}

pub async fn an_event_names_the_head_that_it_waits_behind<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let ids = bench.appended("a", 3).await;
    assert_eq!(bench.state(ids[0]).await.blocked_behind, None);
    assert_eq!(bench.state(ids[1]).await.blocked_behind, Some(ids[0]));
    assert_eq!(bench.state(ids[2]).await.blocked_behind, Some(ids[0]), "the head, not the one directly ahead");
    let claim = bench.claim_with(|request| request.max_run = 1).await;
    bench.acknowledge(&claim).await;
    assert_eq!(bench.state(ids[1]).await.blocked_behind, None);
    assert_eq!(bench.state(ids[0]).await.blocked_behind, None);
    assert_eq!(bench.state(ids[2]).await.blocked_behind, Some(ids[1]));
}

pub async fn a_list_filters_by_status_type_and_aggregate<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let [pending, _, _, _, dead] = one_of_each(&bench).await;
    let order = bench.events.of("pending").aggregate_type("order").build();
    bench.append(std::slice::from_ref(&order)).await;
    let list = async |filter: EventFilter| -> Vec<_> {
        let page = bench.harness.operations().list(&EventFilter { limit: 100, ..filter }).await.unwrap();
        assert_eq!(page.next, None, "that is all");
        page.events.into_iter().map(|event| event.id).collect()
    };
    let aggregate_id = Some(AggregateId::try_new("pending").unwrap());
    let aggregate_type = Some(AggregateType::try_new("order").unwrap());
    assert_eq!(list(EventFilter::default()).await.len(), 6);
    assert_eq!(list(EventFilter { status: Some(Status::Dead), ..EventFilter::default() }).await, [dead]);
    let in_flight = list(EventFilter { status: Some(Status::InFlight), ..EventFilter::default() }).await;
    assert_eq!(in_flight.len(), 1);
    let of_aggregate = EventFilter { aggregate_id, ..EventFilter::default() };
    assert_eq!(list(of_aggregate.clone()).await, [pending, order.id()]);
    assert_eq!(
        list(EventFilter { aggregate_type: aggregate_type.clone(), ..EventFilter::default() }).await,
        [order.id()]
    );
    assert_eq!(list(EventFilter { aggregate_type, ..of_aggregate }).await, [order.id()]);
}

pub async fn a_list_filters_by_event_type_class_age_and_resolution<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let list = async |filter: EventFilter| -> Vec<_> {
        let page = bench.harness.operations().list(&EventFilter { limit: 100, ..filter }).await.unwrap();
        assert_eq!(page.next, None, "that is all");
        page.events.into_iter().map(|event| event.id).collect()
    };
    let kill = async |error: &str| {
        let claim = bench.claim().await;
        let mut failing = claim.failing_at(0, FailedOutcome::Block);
        for run in &mut failing {
            error.clone_into(&mut run.error);
        }
        bench.harness.store().fail(claim.token, &failing).await.unwrap();
    };
    let old = bench.appended("old", 1).await[0];
    kill("rejected: full").await;
    bench.harness.advance(Duration::from_secs(60)).await;
    let young = bench.events.of("young").event_type("Other").build();
    bench.append(std::slice::from_ref(&young)).await;
    kill("poison: rejected: too large").await;
    let young = young.id();

    let class = |class| EventFilter { class: Some(class), ..EventFilter::default() };
    assert_eq!(list(class(FailureClass::Rejected)).await, [old]);
    assert_eq!(list(class(FailureClass::Poison)).await, [young]);
    assert_eq!(list(class(FailureClass::Unroutable)).await, []);
    let event_type = Some(EventType::try_new("Other").unwrap());
    assert_eq!(list(EventFilter { event_type, ..EventFilter::default() }).await, [young]);
    let older = |seconds| EventFilter { older_than: Some(Duration::from_secs(seconds)), ..EventFilter::default() };
    assert_eq!(list(older(60)).await, [old]);
    assert_eq!(list(older(0)).await, [old, young]);
    assert_eq!(list(EventFilter { older_than: Some(Duration::MAX), ..EventFilter::default() }).await, []);
    assert!(discard(&bench, old).await);
    let open = EventFilter { status: Some(Status::Dead), unresolved: true, ..EventFilter::default() };
    assert_eq!(list(open).await, [young]);
}

pub async fn a_list_filters_by_a_range_of_ids_and_by_the_time_of_the_last_confirm<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let list = async |filter: EventFilter| -> Vec<_> {
        let page = bench.harness.operations().list(&EventFilter { limit: 100, ..filter }).await.unwrap();
        assert_eq!(page.next, None, "that is all");
        page.events.into_iter().map(|event| event.id).collect()
    };
    let early = bench.appended("early", 2).await;
    bench.publish_due().await;
    bench.harness.advance(Duration::from_secs(60)).await;
    let late = bench.appended("late", 2).await;
    bench.publish_due().await;
    let open = bench.appended("open", 1).await[0];
    let at = bench.state(late[0]).await.published_at.unwrap();

    let between =
        |published_from, published_until| EventFilter { published_from, published_until, ..EventFilter::default() };
    let before = at - Duration::from_secs(30);
    assert_eq!(list(between(Some(at), None)).await, late, "the first moment is within");
    assert_eq!(list(between(None, Some(at))).await, early, "the last one is not");
    assert_eq!(list(between(Some(before), Some(at))).await, []);
    let of_early = Some(AggregateId::try_new("early").unwrap());
    assert_eq!(list(EventFilter { aggregate_id: of_early, ..between(Some(before), None) }).await, []);
    let dead = EventFilter { status: Some(Status::Dead), ..between(None, Some(at)) };
    assert_eq!(list(dead).await, []);

    let range = |from, to| EventFilter { from, to, ..EventFilter::default() };
    assert_eq!(list(range(Some(early[1]), Some(late[0]))).await, [early[1], late[0]]);
    assert_eq!(list(range(Some(late[1]), None)).await, [late[1], open]);
    assert_eq!(list(range(None, Some(early[0]))).await, [early[0]]);
    let behind = EventFilter { after: Some(early[0]), ..range(Some(early[0]), Some(early[1])) };
    assert_eq!(list(behind).await, [early[1]]);

    assert!(replay(&bench, early[0]).await);
    bench.publish_due().await;
    assert_eq!(list(between(None, Some(before))).await, [early[1]], "what was sent again has left the range");
}

pub async fn a_list_goes_on_page_by_page_in_the_order_of_ids<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let mut ids = Vec::new();
    for n in 0..5 {
        ids.extend(bench.appended(&format!("a{n}"), 1).await);
    }
    let mut filter = EventFilter { limit: 2, ..EventFilter::default() };
    let mut seen = Vec::new();
    loop {
        let page = bench.harness.operations().list(&filter).await.unwrap();
        assert!(page.events.len() <= 2);
        seen.extend(page.events.iter().map(|event| event.id));
        let Some(next) = page.next else { break };
        assert_eq!(seen.last(), Some(&next), "nothing is passed over");
        filter.after = Some(next);
    }
    assert_eq!(seen, ids);
}

pub async fn blocked_aggregates_are_listed_oldest_head_first_with_reason_and_depth<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let first = bench.appended("a", 3).await;
    bench.kill_due(FailedOutcome::Block).await;
    bench.harness.advance(Duration::from_secs(60)).await;
    let second = bench.appended("b", 1).await;
    bench.kill_due(FailedOutcome::Block).await;
    bench.appended("healthy", 1).await;
    bench.appended("skipped", 1).await;
    bench.appended("failed", 1).await;
    let operations = bench.harness.operations();
    let blocked = operations.blocked(100).await.unwrap();
    let heads: Vec<_> = blocked.iter().map(|blocked| (blocked.head, blocked.depth)).collect();
    assert_eq!(heads, [(first[0], 3), (second[0], 1)]);
    assert_eq!((blocked[0].aggregate_id.as_str(), blocked[0].reason.as_deref()), ("a", Some("no")));
    assert!(blocked[0].age >= Duration::from_secs(60) && blocked[0].age > blocked[1].age);
    let oldest = operations.blocked(1).await.unwrap();
    assert_eq!(oldest.iter().map(|blocked| blocked.head).collect::<Vec<_>>(), [first[0]]);
}

// Requeue

pub async fn a_requeued_head_flows_again_with_its_attempts_to_come<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let ids = bench.appended("a", 2).await;
    bench.kill_due(FailedOutcome::Block).await;
    assert!(requeue(&bench, ids[0]).await);
    let state = bench.state(ids[0]).await;
    assert_eq!((state.status, state.attempts), (Status::Pending, 0));
    assert!(bench.harness.operations().blocked(10).await.unwrap().is_empty());
    assert_eq!(bench.publish_due().await, [ids]);
}

pub async fn a_skipped_event_is_requeued_although_its_lane_is_gone<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let id = bench.appended("a", 1).await[0];
    bench.kill_due(FailedOutcome::Skip).await;
    assert!(requeue(&bench, id).await);
    let state = bench.state(id).await;
    assert_eq!((state.status, state.resolved_at, state.resolution), (Status::Pending, None, None));
    assert_eq!(bench.publish_due().await, [[id]]);
}

pub async fn a_requeued_event_goes_before_those_that_are_open<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let skipped = bench.appended("a", 1).await[0];
    bench.kill_due(FailedOutcome::Skip).await;
    let open = bench.appended("a", 1).await[0];
    assert!(requeue(&bench, skipped).await);
    assert_eq!(bench.publish_due().await, [[skipped, open]]);
}

pub async fn an_event_requeued_below_a_leased_run_is_delivered_after_it<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let ids = bench.appended("a", 2).await;
    bench.kill_due(FailedOutcome::Skip).await;
    let claim = bench.claim().await;
    assert_eq!(claim.ids(), [[ids[1]]]);
    assert!(requeue(&bench, ids[0]).await);
    assert!(bench.claim().await.runs.is_empty(), "the lane is leased");
    assert_eq!(bench.status(ids[0]).await, Status::Pending);
    assert_eq!(bench.acknowledge(&claim).await, settled(1, 1));
    assert_eq!(bench.publish_due().await, [[ids[0]]]);
}

pub async fn a_requeue_on_a_leased_lane_survives_the_end_of_the_lease<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let ids = bench.appended("a", 2).await;
    bench.kill_due(FailedOutcome::Skip).await;
    bench.let_a_claim_expire().await;
    assert!(requeue(&bench, ids[0]).await);
    assert_eq!(bench.reap().await.lanes, 1);
    assert_eq!(bench.publish_due().await, [ids]);
}

// Discard

pub async fn a_discarded_head_lets_the_rest_flow_and_stays_dead<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let ids = bench.appended("a", 2).await;
    bench.kill_due(FailedOutcome::Block).await;
    assert!(discard(&bench, ids[0]).await);
    let state = bench.state(ids[0]).await;
    assert_eq!((state.status, state.resolution.as_deref()), (Status::Dead, Some("discarded")));
    assert!(state.resolved_at.is_some());
    assert_eq!(bench.publish_due().await, [[ids[1]]]);
}

pub async fn a_lane_whose_last_event_is_discarded_takes_new_ones<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let dead = bench.appended("a", 1).await[0];
    bench.kill_due(FailedOutcome::Block).await;
    assert!(discard(&bench, dead).await);
    assert!(bench.claim().await.runs.is_empty());
    let next = bench.appended("a", 1).await;
    assert_eq!(bench.publish_due().await, [next]);
}

pub async fn a_discarded_event_can_be_requeued<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let id = bench.appended("a", 1).await[0];
    bench.kill_due(FailedOutcome::Block).await;
    assert!(discard(&bench, id).await && requeue(&bench, id).await);
    assert_eq!(bench.publish_due().await, [[id]]);
}

pub async fn a_requeue_of_what_is_unresolved_revives_nothing_that_was_resolved<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let skipped = bench.appended("a", 1).await[0];
    bench.kill_due(FailedOutcome::Skip).await;
    let (discarded, dead) = (bench.appended("b", 1).await[0], bench.appended("c", 1).await[0]);
    bench.kill_due(FailedOutcome::Block).await;
    let pending = bench.appended("d", 1).await[0];
    assert!(discard(&bench, discarded).await);
    let before = [bench.state(skipped).await, bench.state(discarded).await];
    let listed = [skipped, discarded, dead, pending];
    let operations = bench.harness.operations();
    assert_eq!(operations.requeue_unresolved(&listed, &tester()).await.unwrap(), [dead]);
    assert_eq!([bench.state(skipped).await, bench.state(discarded).await], before);
    let newest = bench.harness.audit().audit(None, 1).await.unwrap();
    assert_eq!((newest[0].action.as_str(), newest[0].events.as_slice()), ("requeue", &[dead][..]));
    assert_eq!(operations.requeue_unresolved(&listed, &tester()).await.unwrap(), []);
    assert_eq!(bench.harness.audit().audit(None, 10).await.unwrap().len(), 2, "what changed nothing is not recorded");
    assert!(requeue(&bench, discarded).await, "by its name it is revived");
}

pub async fn a_dead_event_behind_a_leased_run_is_discarded_and_what_follows_flows<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let ids = bench.appended("a", 3).await;
    // The first is published, the second DEAD; a replay of the first makes the DEAD one second in the lane.
    let claim = bench.claim().await;
    bench.fail(&claim, 1, FailedOutcome::Block).await;
    assert!(replay(&bench, ids[0]).await);
    let claim = bench.claim().await;
    assert_eq!(claim.ids(), [[ids[0]]], "a run ends before a DEAD event");
    assert!(discard(&bench, ids[1]).await);
    assert_eq!(bench.acknowledge(&claim).await, settled(1, 1));
    assert_eq!(bench.publish_due().await, [[ids[2]]]);
}

// Replay

pub async fn a_replayed_event_is_delivered_again_and_says_so<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let id = bench.appended("a", 1).await[0];
    let claim = bench.claim().await;
    bench.fail(&claim, 0, FailedOutcome::Retry { after: Duration::ZERO }).await;
    bench.publish_due().await;
    assert!(replay(&bench, id).await);
    let state = bench.state(id).await;
    assert_eq!((state.status, state.attempts, state.replays), (Status::Pending, 0, 1));
    assert!(state.published_at.is_none() && state.last_error.is_none());
    let claim = bench.claim().await;
    assert_eq!(claim.ids(), [[id]]);
    assert_eq!((claim.runs[0].events[0].attempts, claim.runs[0].events[0].replays), (0, 1));
    assert_eq!(bench.acknowledge(&claim).await, settled(1, 1));
}

pub async fn a_replayed_event_goes_before_those_that_are_open<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let published = bench.appended("a", 1).await[0];
    bench.publish_due().await;
    let open = bench.appended("a", 1).await[0];
    assert!(replay(&bench, published).await);
    assert_eq!(bench.publish_due().await, [[published, open]]);
}

pub async fn an_event_replayed_while_its_lane_is_leased_is_delivered_after_the_run<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let published = bench.appended("a", 1).await[0];
    bench.publish_due().await;
    let next = bench.appended("a", 1).await[0];
    let claim = bench.claim().await;
    assert_eq!(claim.ids(), [[next]]);
    assert!(replay(&bench, published).await);
    assert!(bench.claim().await.runs.is_empty(), "the lane is leased");
    assert_eq!(bench.acknowledge(&claim).await, settled(1, 1));
    assert_eq!(bench.publish_due().await, [[published]]);
}

// Many at once

pub async fn one_action_on_many_events_keeps_the_order_of_each_aggregate<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let (a, b) = (bench.appended("a", 3).await, bench.appended("b", 2).await);
    bench.publish_due().await;
    let behind = bench.appended("a", 1).await[0];
    let unknown = bench.events.of("c").build().id();
    let named = [a[2], b[0], unknown, a[0], b[1], behind, a[0]];
    let mut changed = bench.harness.operations().act(EventAction::Replay, &named, &tester()).await.unwrap();
    changed.sort();
    let mut expected = vec![a[0], a[2], b[0], b[1]];
    expected.sort();
    assert_eq!(changed, expected);
    assert_eq!(bench.publish_due().await, [vec![a[0], a[2], behind], b]);
    assert_eq!(bench.harness.operations().act(EventAction::Requeue, &named, &tester()).await.unwrap(), []);
}

pub async fn a_replay_in_batches_sends_each_event_of_an_aggregate_once_and_in_order<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let ids = bench.appended("a", 5).await;
    bench.publish_due().await;
    let operations = bench.harness.operations();
    let mut filter = EventFilter { status: Some(Status::Published), limit: 2, ..EventFilter::default() };
    let mut sent = Vec::new();
    loop {
        let page = operations.list(&filter).await.unwrap();
        let batch: Vec<_> = page.events.iter().map(|event| event.id).collect();
        operations.act(EventAction::Replay, &batch, &tester()).await.unwrap();
        // The relay is quicker than the next batch.
        sent.extend(bench.publish_due().await.concat());
        let Some(next) = page.next else { break };
        filter.after = Some(next);
    }
    assert_eq!(sent, ids);
}

pub async fn events_of_one_batch_are_sent_again_in_the_order_of_their_aggregate_whatever_their_ids<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let (low, high) = (bench.events.of("a").build(), bench.events.of("a").build());
    let ids = [high.id(), low.id()];
    assert!(low.id() < high.id());
    bench.append(&[high]).await;
    bench.append(&[low]).await;
    assert_eq!(bench.publish_due().await, [ids]);
    let operations = bench.harness.operations();
    operations.act(EventAction::Replay, &[ids[1], ids[0]], &tester()).await.unwrap();
    assert_eq!(bench.publish_due().await, [ids]);
    // One by one, in the order of ids, they come in that order.
    let mut sent = Vec::new();
    for id in [ids[1], ids[0]] {
        assert!(replay(&bench, id).await);
        sent.extend(bench.publish_due().await.concat());
    }
    assert_eq!(sent, [ids[1], ids[0]]);
}

// Repeated and misplaced

pub async fn a_second_identical_action_changes_nothing<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let published = bench.appended("published", 1).await[0];
    bench.publish_due().await;
    let dead = [bench.appended("dead", 1).await[0], bench.appended("discarded", 1).await[0]];
    bench.kill_due(FailedOutcome::Block).await;
    assert!(requeue(&bench, dead[0]).await && discard(&bench, dead[1]).await && replay(&bench, published).await);
    let mut before = Vec::new();
    for id in [dead[0], dead[1], published] {
        before.push(bench.state(id).await);
    }
    assert!(!requeue(&bench, dead[0]).await && !discard(&bench, dead[1]).await && !replay(&bench, published).await);
    for state in before {
        assert_eq!(bench.state(state.id).await, state);
    }
}

pub async fn an_action_from_a_status_that_it_does_not_start_from_changes_nothing<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    for id in one_of_each(&bench).await {
        let before = bench.state(id).await;
        if before.status != Status::Dead {
            assert!(!requeue(&bench, id).await && !discard(&bench, id).await, "{:?}", before.status);
        }
        if before.status != Status::Published {
            assert!(!replay(&bench, id).await, "{:?}", before.status);
        }
        assert_eq!(bench.state(id).await, before);
    }
}
