//! What every pause must do: paused events wait, nothing is lost, and order is kept.

#![expect(missing_docs, reason = "the names of the cases are sentences")]

use std::time::Duration;

use application_core::{
    outbox::{AggregateType, Attribution, EventId, FailedOutcome, OperatorName, OutboxEventStatus as Status, Reason},
    ports::PauseScope,
};

use super::{
    OutboxHarness,
    bench::{Bench, default_type, settled},
};
use crate::operate::{OperateOne, tester};

fn of(aggregate_type: &str) -> PauseScope {
    PauseScope::Type(AggregateType::try_new(aggregate_type).unwrap())
}

fn default_scope() -> PauseScope {
    PauseScope::Type(default_type())
}

async fn pause<H: OutboxHarness>(bench: &Bench<H>, scope: &PauseScope) -> bool {
    bench.harness.pause().pause(scope, &tester()).await.unwrap()
}

async fn resume<H: OutboxHarness>(bench: &Bench<H>, scope: &PauseScope) -> bool {
    bench.harness.pause().resume(scope, &tester()).await.unwrap()
}

/// Appends an event of another aggregate type.
async fn other<H: OutboxHarness>(bench: &Bench<H>, aggregate_id: &str) -> EventId {
    let event = bench.events.of(aggregate_id).aggregate_type("other").build();
    bench.append(std::slice::from_ref(&event)).await;
    event.id()
}

pub async fn events_of_a_paused_type_wait_and_others_flow<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let before = bench.appended("a", 2).await;
    assert!(pause(&bench, &default_scope()).await);
    let after = bench.appended("b", 1).await;
    let free = other(&bench, "a").await;
    assert_eq!(bench.publish_due().await, [[free]]);
    assert_eq!(bench.publish_due().await, Vec::<Vec<EventId>>::new());
    assert_eq!(bench.statuses(&[before[0], before[1], after[0]]).await, [Status::Pending; 3]);
}

pub async fn a_resumed_type_is_delivered_whole_and_in_order<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    assert!(pause(&bench, &default_scope()).await);
    let mut ids = bench.appended("a", 2).await;
    assert!(bench.claim().await.runs.is_empty(), "its lane parks");
    ids.extend(bench.appended("a", 2).await);
    assert!(bench.claim().await.runs.is_empty());
    assert!(resume(&bench, &default_scope()).await);
    assert_eq!(bench.publish_due().await, [ids]);
}

pub async fn the_pause_of_everything_holds_every_type_back_until_it_is_lifted<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let a = bench.appended("a", 2).await;
    assert!(pause(&bench, &PauseScope::Everything).await);
    let b = other(&bench, "b").await;
    assert!(bench.claim().await.runs.is_empty());
    assert!(resume(&bench, &PauseScope::Everything).await);
    assert_eq!(bench.publish_due().await, [a, vec![b]]);
}

pub async fn each_pause_is_lifted_by_itself<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    for scope in [PauseScope::Everything, default_scope(), of("other")] {
        assert!(pause(&bench, &scope).await);
    }
    let (a, b) = (bench.appended("a", 1).await[0], other(&bench, "b").await);
    assert!(resume(&bench, &default_scope()).await);
    assert!(bench.claim().await.runs.is_empty(), "everything is paused");
    assert!(resume(&bench, &PauseScope::Everything).await);
    assert_eq!(bench.publish_due().await, [[a]]);
    assert!(bench.claim().await.runs.is_empty(), "the other type is paused");
    assert!(resume(&bench, &of("other")).await);
    assert_eq!(bench.publish_due().await, [[b]]);
}

pub async fn what_is_in_flight_finishes_and_what_follows_waits<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let first = bench.appended("a", 1).await[0];
    let claim = bench.claim().await;
    let next = bench.appended("a", 1).await[0];
    assert!(pause(&bench, &default_scope()).await);
    assert_eq!(bench.acknowledge(&claim).await, settled(1, 1));
    assert_eq!(bench.status(first).await, Status::Published);
    assert!(bench.claim().await.runs.is_empty());
    assert!(resume(&bench, &default_scope()).await);
    assert_eq!(bench.publish_due().await, [[next]]);
}

pub async fn what_fails_while_it_is_paused_keeps_its_attempts_and_its_backoff<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let id = bench.appended("a", 1).await[0];
    let claim = bench.claim().await;
    assert!(pause(&bench, &default_scope()).await);
    bench.fail(&claim, 0, FailedOutcome::Retry { after: Duration::from_secs(60) }).await;
    assert!(resume(&bench, &default_scope()).await);
    assert!(bench.claim().await.runs.is_empty(), "it backs off");
    bench.harness.advance(Duration::from_secs(61)).await;
    let claim = bench.claim().await;
    assert_eq!((claim.ids(), claim.runs[0].events[0].attempts), (vec![vec![id]], 1));
}

pub async fn a_resume_does_not_wake_what_is_dead<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let ids = bench.appended("a", 2).await;
    bench.kill_due(FailedOutcome::Block).await;
    assert!(pause(&bench, &default_scope()).await);
    assert!(resume(&bench, &default_scope()).await);
    assert!(bench.claim().await.runs.is_empty());
    assert!(bench.harness.operations().requeue(ids[0]).await.unwrap());
    assert_eq!(bench.publish_due().await, [ids]);
}

pub async fn what_is_requeued_while_it_is_paused_waits_for_the_resume<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let ids = bench.appended("a", 2).await;
    bench.kill_due(FailedOutcome::Block).await;
    assert!(pause(&bench, &default_scope()).await);
    assert!(bench.harness.operations().requeue(ids[0]).await.unwrap());
    assert!(bench.claim().await.runs.is_empty());
    assert!(resume(&bench, &default_scope()).await);
    assert_eq!(bench.publish_due().await, [ids]);
}

pub async fn a_second_pause_or_resume_changes_and_records_nothing<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let who = Attribution {
        operator: OperatorName::try_new("zoe").unwrap(),
        reason: Some(Reason::try_new("broken").unwrap()),
    };
    let operator = bench.harness.pause();
    assert!(operator.pause(&default_scope(), &who).await.unwrap());
    assert!(!operator.pause(&default_scope(), &tester()).await.unwrap());
    assert!(operator.pause(&PauseScope::Everything, &tester()).await.unwrap());
    let pauses = operator.pauses().await.unwrap();
    let seen: Vec<_> = pauses.iter().map(|pause| (&pause.scope, &pause.by)).collect();
    assert_eq!(seen, [(&PauseScope::Everything, &tester()), (&default_scope(), &who)]);
    assert!(operator.resume(&default_scope(), &who).await.unwrap());
    assert!(!operator.resume(&default_scope(), &who).await.unwrap());
    assert!(operator.resume(&PauseScope::Everything, &who).await.unwrap());
    assert_eq!(operator.pauses().await.unwrap(), []);
    let record = bench.harness.audit().audit(None, 10).await.unwrap();
    let record: Vec<_> =
        record.iter().rev().map(|e| (e.action.as_str(), e.aggregate_type.as_deref(), e.affected)).collect();
    let named = Some(default_type());
    let named = named.as_ref().map(AggregateType::as_str);
    assert_eq!(record, [("pause", named, 1), ("pause", None, 1), ("resume", named, 1), ("resume", None, 1)]);
}
