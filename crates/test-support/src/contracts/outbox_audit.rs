//! What every record of an operator's changes must hold.

#![expect(missing_docs, reason = "the names of the cases are sentences")]

use application_core::{
    outbox::{
        Attribution, EventAction, EventId, FailedOutcome, OperatorName, OutboxEventStatus as Status, Reason, bounds,
    },
    ports::{AuditEntry, StoreError},
};

use super::{OutboxHarness, bench::Bench};

fn by(operator: &str, reason: &str) -> Attribution {
    Attribution { operator: OperatorName::try_new(operator).unwrap(), reason: Some(Reason::try_new(reason).unwrap()) }
}

async fn audit<H: OutboxHarness>(bench: &Bench<H>) -> Vec<AuditEntry> {
    bench.harness.audit().audit(None, 100).await.unwrap()
}

async fn dead<H: OutboxHarness>(bench: &Bench<H>, aggregates: &[&str]) -> Vec<EventId> {
    let mut ids = Vec::new();
    for aggregate in aggregates {
        ids.extend(bench.appended(aggregate, 1).await);
    }
    bench.kill_due(FailedOutcome::Block).await;
    ids
}

async fn act<H: OutboxHarness>(
    bench: &Bench<H>,
    action: EventAction,
    ids: &[EventId],
    by: &Attribution,
) -> Vec<EventId> {
    let mut changed = bench.harness.operations().act(action, ids, by).await.unwrap();
    changed.sort();
    changed
}

pub async fn an_action_is_recorded_with_who_when_what_why_and_which<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let before = bench.state(bench.appended("clock", 1).await[0]).await.created_at;
    bench.publish_due().await;
    let ids = dead(&bench, &["a", "b"]).await;
    let who = by("Zoë", "it's \"fixed\"");
    assert_eq!(act(&bench, EventAction::Requeue, &ids, &who).await, ids);
    let entries = audit(&bench).await;
    assert_eq!(entries.len(), 1, "one entry");
    let entry = &entries[0];
    assert_eq!((&entry.by, entry.action.as_str(), entry.affected), (&who, "requeue", 2));
    let mut events = entry.events.clone();
    events.sort();
    assert_eq!(events, ids);
    assert!(entry.acted_at >= before, "{} is before {before}", entry.acted_at);
}

pub async fn every_action_has_its_name_and_a_reason_is_optional<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let ids = dead(&bench, &["a"]).await;
    let who = Attribution { operator: OperatorName::try_new("somebody").unwrap(), reason: None };
    act(&bench, EventAction::Discard, &ids, &who).await;
    act(&bench, EventAction::Requeue, &ids, &who).await;
    bench.publish_due().await;
    act(&bench, EventAction::Replay, &ids, &who).await;
    let entries = audit(&bench).await;
    let actions: Vec<_> = entries.iter().map(|entry| entry.action.as_str()).collect();
    assert_eq!(actions, ["replay", "requeue", "discard"], "newest first");
    assert!(entries.iter().all(|entry| entry.by == who && entry.events == ids));
}

pub async fn what_changed_nothing_is_not_recorded<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let id = bench.appended("a", 1).await[0];
    let unknown = bench.events.of("b").build().id();
    for action in EventAction::ALL {
        assert_eq!(act(&bench, action, &[id, unknown], &by("somebody", "why")).await, []);
        assert_eq!(act(&bench, action, &[], &by("somebody", "why")).await, []);
    }
    assert_eq!(audit(&bench).await, []);
}

pub async fn only_the_events_that_were_changed_are_recorded<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let ids = dead(&bench, &["a", "b"]).await;
    let pending = bench.appended("c", 1).await[0];
    let who = by("somebody", "why");
    assert_eq!(act(&bench, EventAction::Discard, &ids[..1], &who).await, ids[..1]);
    let all = [ids[0], ids[1], pending, ids[1]];
    assert_eq!(act(&bench, EventAction::Discard, &all, &who).await, ids[1..]);
    assert_eq!(audit(&bench).await[0].events, ids[1..]);
    assert_eq!(audit(&bench).await[0].affected, 1);
}

pub async fn a_change_whose_record_is_refused_is_not_made<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let ids = dead(&bench, &["a"]).await;
    let nobody = "x".repeat(bounds::MAX_OPERATOR_BYTES + 1);
    let endless = "x".repeat(bounds::MAX_REASON_BYTES + 1);
    let refused = [
        Attribution { operator: OperatorName::from_stored(nobody), reason: None },
        Attribution { operator: OperatorName::from_stored(""), reason: None },
        Attribution { operator: OperatorName::from_stored("a\u{9f}"), reason: None },
        Attribution { operator: OperatorName::from_stored("a"), reason: Some(Reason::from_stored(endless)) },
    ];
    for who in refused {
        let answer = bench.harness.operations().act(EventAction::Requeue, &ids, &who).await;
        assert!(matches!(answer, Err(StoreError::Refused { .. })), "{answer:?}");
        assert_eq!(bench.status(ids[0]).await, Status::Dead);
    }
    assert_eq!(audit(&bench).await, []);
}

pub async fn the_record_goes_on_page_by_page_newest_first<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let ids = dead(&bench, &["a", "b", "c", "d", "e"]).await;
    for id in &ids {
        act(&bench, EventAction::Discard, &[*id], &by("somebody", "why")).await;
    }
    let mut seen = Vec::new();
    let mut before = None;
    loop {
        let page = bench.harness.audit().audit(before, 2).await.unwrap();
        assert!(page.len() <= 2);
        let Some(last) = page.last() else { break };
        before = Some(last.number);
        seen.extend(page.iter().map(|entry| entry.events[0]));
    }
    seen.reverse();
    assert_eq!(seen, ids);
}

pub async fn the_record_of_one_event_leaves_the_others_out<H: OutboxHarness>() {
    let bench = Bench::<H>::fresh().await;
    let ids = dead(&bench, &["a", "b", "c"]).await;
    let who = by("somebody", "why");
    act(&bench, EventAction::Discard, &ids, &who).await;
    act(&bench, EventAction::Requeue, &ids[1..], &who).await;
    let actions = async |id: EventId, limit: u32| -> Vec<_> {
        let entries = bench.harness.audit().audit_of(id, limit).await.unwrap();
        entries.into_iter().map(|entry| entry.action).collect()
    };
    assert_eq!(actions(ids[0], 100).await, ["discard"]);
    assert_eq!(actions(ids[2], 100).await, ["requeue", "discard"], "newest first");
    assert_eq!(actions(ids[2], 1).await, ["requeue"]);
    assert_eq!(actions(bench.events.of("d").build().id(), 100).await, Vec::<String>::new());
}
