//! Unit tests of the operator's use case, against mocked ports.

use std::time::Duration;

use uuid::Uuid;

use super::*;
use crate::{
    outbox::{AggregateId, AggregateType, EventType, OperatorName, Sequence},
    ports::{
        MockOutboxAuditPort, MockOutboxHoldersPort, MockOutboxOperationsPort, MockOutboxPausePort,
        MockOutboxStatisticsPort, MockRelayRegistryPort, MockWakeupPort, PausedDestination,
    },
};

fn operate(operations: MockOutboxOperationsPort) -> OperateOutboxUseCase {
    let mut wakeup = MockWakeupPort::new();
    wakeup.expect_wake().return_const(());
    OperateOutboxUseCase::new(OperatePorts {
        operations: Arc::new(operations),
        audit: Arc::new(MockOutboxAuditPort::new()),
        pause: Arc::new(MockOutboxPausePort::new()),
        holders: Arc::new(MockOutboxHoldersPort::new()),
        registry: Arc::new(MockRelayRegistryPort::new()),
        statistics: Arc::new(MockOutboxStatisticsPort::new()),
        wakeup: Arc::new(wakeup),
    })
}

fn somebody() -> Attribution {
    Attribution { operator: OperatorName::try_new("somebody").unwrap(), reason: None }
}

async fn replay_of_what_is_not_there(on_publish: OnPublish) -> OperateError {
    let mut operations = MockOutboxOperationsPort::new();
    operations.expect_act().times(1).returning(|_, _, _| Ok(Vec::new()));
    operations.expect_find().times(1).returning(|_| Ok(None));
    let operate = operate(operations).on_publish(on_publish);
    operate.act(EventAction::Replay, EventId::new(Uuid::from_u128(1)), &somebody()).await.unwrap_err()
}

#[tokio::test]
async fn a_replay_is_refused_with_the_reason_where_published_events_are_deleted() {
    let kept = replay_of_what_is_not_there(OnPublish::Keep).await;
    assert!(matches!(kept, OperateError::NotFound { .. }), "{kept:?}");
    let deleted = replay_of_what_is_not_there(OnPublish::Delete).await;
    assert!(matches!(deleted, OperateError::HistoryNotKept { .. }), "{deleted:?}");
    assert!(deleted.to_string().contains("deletes events when they are published"), "{deleted}");
}

fn dead(n: u128) -> OutboxEventState {
    OutboxEventState {
        id: EventId::new(Uuid::from_u128(n)),
        sequence: Sequence(7),
        aggregate_type: AggregateType::from_stored("order"),
        aggregate_id: AggregateId::from_stored("1"),
        event_type: EventType::from_stored("OrderPlaced"),
        status: OutboxEventStatus::Dead,
        attempts: 3,
        replays: 0,
        created_at: time::OffsetDateTime::UNIX_EPOCH,
        published_at: None,
        due_at: None,
        last_error: None,
        resolved_at: None,
        resolution: None,
        holder: None,
        lease_expires_at: None,
        blocked_behind: None,
    }
}

#[tokio::test]
async fn a_relay_is_shown_once_with_its_report_and_its_leases_and_one_that_is_gone_without_its_pauses() {
    let registered = |holder: &str, gone| RegisteredRelay {
        holder: HolderName::new(holder),
        version: "1.0.0".to_owned(),
        running: Duration::from_secs(60),
        silent: Duration::from_secs(1),
        gone,
        paused: vec![PausedDestination {
            destination: None,
            reason: "no connection".to_owned(),
            paused_for: Duration::from_secs(5),
        }],
    };
    let leases = |holder: &str| RelayLeases {
        holder: HolderName::new(holder),
        claims: 1,
        lanes: 2,
        expired: 0,
        oldest_claim_age: Duration::ZERO,
    };
    let mut operate = operate(MockOutboxOperationsPort::new());
    let mut registry = MockRelayRegistryPort::new();
    registry.expect_registered().returning(move || Ok(vec![registered("a", false), registered("b", true)]));
    let mut holders = MockOutboxHoldersPort::new();
    holders.expect_relays().returning(move || Ok(vec![leases("a"), leases("c")]));
    operate.ports.registry = Arc::new(registry);
    operate.ports.holders = Arc::new(holders);
    let relays = operate.relays().await.unwrap();
    let seen: Vec<_> = relays
        .iter()
        .map(|relay| {
            let pauses = relay.registered.as_ref().map_or(0, |registered| registered.paused.len());
            (relay.holder.as_str(), relay.state(), pauses, relay.leases.is_some())
        })
        .collect();
    assert_eq!(seen, [("a", "alive", 1, true), ("b", "gone", 0, false), ("c", "unknown", 0, true)]);
}

/// Five DEAD events, page by page.
fn five_dead() -> MockOutboxOperationsPort {
    let mut operations = MockOutboxOperationsPort::new();
    operations.expect_list().returning(|filter| {
        assert_eq!((filter.status, filter.unresolved), (Some(OutboxEventStatus::Dead), true));
        let later = (1..=5).map(dead).filter(|event| filter.after.is_none_or(|after| event.id > after));
        let events: Vec<_> = later.take(usize::try_from(filter.limit).unwrap()).collect();
        let next = events.last().map(|event| event.id).filter(|last| *last < dead(5).id);
        Ok(EventPage { events, next })
    });
    operations
}

/// Five DEAD events of which the fourth matches; each look goes through two.
fn one_in_five() -> MockOutboxOperationsPort {
    let mut operations = MockOutboxOperationsPort::new();
    operations.expect_list().returning(|filter| {
        let (events, next) = match filter.after {
            None => (Vec::new(), Some(dead(2).id)),
            Some(after) if after == dead(2).id => (vec![dead(4)], Some(dead(4).id)),
            Some(_) => (Vec::new(), None),
        };
        Ok(EventPage { events, next })
    });
    operations
}

#[tokio::test]
async fn a_look_that_finds_nothing_is_not_the_end() {
    let found = operate(one_in_five()).list(&EventFilter { limit: 9, ..EventFilter::default() }).await.unwrap();
    assert_eq!(found, [dead(4)]);
    let found = operate(one_in_five()).list(&EventFilter { limit: 1, ..EventFilter::default() }).await.unwrap();
    assert_eq!(found, [dead(4)]);
    let mut operations = one_in_five();
    operations.expect_requeue_unresolved().times(1).returning(|ids, _| Ok(ids.to_vec()));
    let (which, stop) = (Selection::Matching(EventFilter::default()), StopSignal::new());
    let requeued = operate(operations).act_on_many(EventAction::Requeue, &which, 2, &somebody(), &stop).await;
    assert_eq!(requeued.unwrap(), ManyReport { events: 1, ..ManyReport::default() });
}

#[tokio::test]
async fn a_stop_in_the_last_batch_interrupts_nothing() {
    let stop = StopSignal::new();
    let mut operations = MockOutboxOperationsPort::new();
    let told = stop.clone();
    operations.expect_act().times(1).returning(move |_, ids, _| {
        told.set();
        Ok(ids.to_vec())
    });
    let which = Selection::Events(vec![dead(1).id, dead(2).id]);
    let report = operate(operations).act_on_many(EventAction::Requeue, &which, 2, &somebody(), &stop).await;
    assert_eq!(report.unwrap(), ManyReport { events: 2, ..ManyReport::default() });
}

#[tokio::test]
async fn an_interrupted_action_on_many_goes_on_where_it_was() {
    let stop = StopSignal::new();
    let mut operations = five_dead();
    let told = stop.clone();
    operations.expect_requeue_unresolved().times(1).returning(move |ids, _| {
        told.set();
        Ok(ids.to_vec())
    });
    let which = Selection::Matching(EventFilter::default());
    let first = operate(operations).act_on_many(EventAction::Requeue, &which, 2, &somebody(), &stop).await.unwrap();
    let expected = ManyReport { events: 2, interrupted: true, next: Some(dead(2).id), ..ManyReport::default() };
    assert_eq!(first, expected);
    let mut operations = five_dead();
    operations
        .expect_requeue_unresolved()
        .withf(|ids, _| !ids.contains(&dead(2).id))
        .times(2)
        .returning(|ids, _| Ok(ids.to_vec()));
    let rest = Selection::Matching(EventFilter { after: first.next, ..EventFilter::default() });
    let stop = StopSignal::new();
    let second = operate(operations).act_on_many(EventAction::Requeue, &rest, 2, &somebody(), &stop).await.unwrap();
    assert_eq!(second, ManyReport { events: 3, ..ManyReport::default() });
}

#[tokio::test]
async fn an_action_on_many_ends_after_the_batch_in_which_it_is_told_to_stop() {
    let stop = StopSignal::new();
    let mut operations = five_dead();
    let told = stop.clone();
    operations.expect_act().times(2).returning(move |_, ids, _| {
        if ids.contains(&dead(4).id) {
            told.set();
        }
        Ok(ids.to_vec())
    });
    let which = Selection::Matching(EventFilter::default());
    let report = operate(operations).act_on_many(EventAction::Discard, &which, 2, &somebody(), &stop).await.unwrap();
    let expected = ManyReport { events: 4, interrupted: true, next: Some(dead(4).id), ..ManyReport::default() };
    assert_eq!(report, expected);
}

/// The store alone can tell what was resolved since the list was taken.
#[tokio::test]
async fn a_requeue_by_filter_asks_for_what_is_unresolved_and_one_of_named_events_does_not() {
    let (by, stop) = (somebody(), StopSignal::new());
    let mut operations = five_dead();
    operations.expect_requeue_unresolved().times(1).returning(|ids, _| Ok(ids.iter().copied().skip(1).collect()));
    operations.expect_act().never();
    let found = Selection::Matching(EventFilter::default());
    let report = operate(operations).act_on_many(EventAction::Requeue, &found, 5, &by, &stop).await.unwrap();
    assert_eq!(report, ManyReport { events: 4, ..ManyReport::default() }, "the first was discarded meanwhile");
    let mut operations = MockOutboxOperationsPort::new();
    operations.expect_act().times(1).returning(|_, ids, _| Ok(ids.to_vec()));
    operations.expect_requeue_unresolved().never();
    let named = Selection::Events(vec![dead(1).id]);
    let report = operate(operations).act_on_many(EventAction::Requeue, &named, 5, &by, &stop).await.unwrap();
    assert_eq!(report.events, 1);
}

#[tokio::test]
async fn a_range_that_ends_before_it_begins_is_refused_with_both_ends_and_nothing_is_looked_at() {
    let now = time::OffsetDateTime::UNIX_EPOCH;
    let ids = EventFilter { from: Some(dead(2).id), to: Some(dead(1).id), ..EventFilter::default() };
    let times = EventFilter { published_from: Some(now), published_until: Some(now), ..EventFilter::default() };
    for (filter, ends) in
        [(ids, [dead(2).id.to_string(), dead(1).id.to_string()]), (times, [now.to_string(), now.to_string()])]
    {
        let operate = operate(MockOutboxOperationsPort::new());
        let which = Selection::Matching(filter.clone());
        let stop = StopSignal::new();
        for error in [
            operate.page(&filter).await.unwrap_err(),
            operate.count_many(EventAction::Replay, &which, &stop).await.unwrap_err(),
            operate.act_on_many(EventAction::Replay, &which, 2, &somebody(), &stop).await.unwrap_err().source,
        ] {
            let text = error.to_string();
            assert!(ends.iter().all(|end| text.contains(end)), "{text}");
        }
    }
    let one = EventFilter { from: Some(dead(1).id), to: Some(dead(1).id), ..EventFilter::default() };
    let mut operations = MockOutboxOperationsPort::new();
    operations.expect_list().times(1).returning(|_| Ok(EventPage { events: Vec::new(), next: None }));
    operate(operations).page(&one).await.unwrap();
}

#[tokio::test]
async fn a_replay_by_filter_is_about_published_events_of_the_range_and_goes_on_behind_its_last_batch() {
    let published = |n: u128| OutboxEventState { status: OutboxEventStatus::Published, ..dead(n) };
    let range = EventFilter {
        from: Some(dead(1).id),
        to: Some(dead(4).id),
        published_until: Some(time::OffsetDateTime::UNIX_EPOCH),
        ..EventFilter::default()
    };
    let stop = StopSignal::new();
    let mut operations = MockOutboxOperationsPort::new();
    operations.expect_published_gone_until().returning(|| Ok(None));
    operations.expect_list().times(1).returning(move |filter| {
        assert_eq!((filter.status, filter.limit), (Some(OutboxEventStatus::Published), 2));
        assert_eq!((filter.from, filter.to), (Some(dead(1).id), Some(dead(4).id)));
        assert_eq!(filter.published_until, Some(time::OffsetDateTime::UNIX_EPOCH));
        Ok(EventPage { events: vec![published(1), published(2)], next: Some(dead(2).id) })
    });
    let told = stop.clone();
    operations.expect_act().times(1).returning(move |action, ids, _| {
        assert_eq!(action, EventAction::Replay);
        told.set();
        Ok(ids.to_vec())
    });
    let which = Selection::Matching(range);
    let report = operate(operations).act_on_many(EventAction::Replay, &which, 2, &somebody(), &stop).await.unwrap();
    let expected = ManyReport { events: 2, interrupted: true, next: Some(dead(2).id), ..ManyReport::default() };
    assert_eq!(report, expected);
}

/// A filter that begins behind the first event; each look finds two.
#[tokio::test]
async fn a_replay_by_filter_that_fails_says_how_many_it_has_done_and_behind_which_event_it_goes_on() {
    let published = |n: u128| OutboxEventState { status: OutboxEventStatus::Published, ..dead(n) };
    let timeout = || StoreError::Timeout { limit: Duration::from_secs(5) };
    // Of the calls that list or act, in their order, the one that fails.
    for (failing_list, failing_act, done, next) in [(1, 0, 0, 1), (0, 1, 0, 1), (2, 0, 2, 3), (0, 2, 2, 3)] {
        let mut operations = MockOutboxOperationsPort::new();
        operations.expect_published_gone_until().returning(|| Ok(None));
        let (mut lists, mut acts) = (0, 0);
        operations.expect_list().returning(move |filter| {
            lists += 1;
            if lists == failing_list {
                return Err(timeout());
            }
            let later = (1..=9).map(published).filter(|event| filter.after.is_none_or(|after| event.id > after));
            let events: Vec<_> = later.take(2).collect();
            Ok(EventPage { next: events.last().map(|event| event.id), events })
        });
        operations.expect_act().returning(move |_, ids, _| {
            acts += 1;
            if acts == failing_act { Err(timeout()) } else { Ok(ids.to_vec()) }
        });
        let which = Selection::Matching(EventFilter { after: Some(dead(1).id), ..EventFilter::default() });
        let (operate, stop) = (operate(operations), StopSignal::new());
        let failed = operate.act_on_many(EventAction::Replay, &which, 2, &somebody(), &stop).await.unwrap_err();
        assert_eq!((failed.events, failed.next), (done, Some(dead(next).id)), "{failing_list} {failing_act}");
        assert!(matches!(failed.source, OperateError::Store { source: StoreError::Timeout { .. } }), "{failed:?}");
    }
}

/// An outbox without an event that matches, whose published history is gone until that second; asked for it, the answer to
/// a replay and to its count.
async fn replayed_where_history_is_gone_until(
    second: u64,
    range: EventFilter,
) -> [Result<ManyReport, OperateError>; 2] {
    let mut operations = MockOutboxOperationsPort::new();
    operations.expect_published_gone_until().returning(move || Ok(Some(at(second))));
    operations.expect_list().returning(|_| Ok(EventPage::default()));
    let (operate, which, stop) = (operate(operations), Selection::Matching(range), StopSignal::new());
    let replayed = operate.act_on_many(EventAction::Replay, &which, 2, &somebody(), &stop).await;
    let counted = operate.count_many(EventAction::Replay, &which, &stop).await;
    [replayed.map_err(|failed| failed.source), counted]
}

fn at(second: u64) -> time::OffsetDateTime {
    time::OffsetDateTime::UNIX_EPOCH + Duration::from_secs(second)
}

#[tokio::test]
async fn a_replay_of_a_range_that_reaches_behind_what_is_kept_is_refused_and_one_without_a_beginning_says_so() {
    let (from, until) = (
        |second| EventFilter { published_from: Some(at(second)), ..EventFilter::default() },
        |second| EventFilter { published_until: Some(at(second)), ..EventFilter::default() },
    );
    for (range, field) in [(from(9), "published_from"), (from(10), "published_from"), (until(10), "published_until")] {
        for refused in replayed_where_history_is_gone_until(10, range).await {
            let error = refused.unwrap_err();
            assert!(matches!(error, OperateError::HistoryGone { .. }), "{error:?}");
            let text = error.to_string();
            assert!(text.starts_with(field) && text.contains("are gone until 1970-01-01T00:00:10Z"), "{text}");
        }
    }
    let by_id = EventFilter { from: Some(dead(1).id), ..EventFilter::default() };
    for (range, told) in [(from(11), None), (until(11), Some(at(10))), (by_id, Some(at(10)))] {
        for report in replayed_where_history_is_gone_until(10, range.clone()).await {
            assert_eq!(report.unwrap(), ManyReport { gone_until: told, ..ManyReport::default() }, "{range:?}");
        }
    }
}

#[tokio::test]
async fn history_that_goes_while_a_replay_runs_is_told_and_what_was_done_stays_done() {
    let mut operations = MockOutboxOperationsPort::new();
    let mut looks = 0;
    operations.expect_published_gone_until().times(2).returning(move || {
        looks += 1;
        Ok(Some(at(looks * 10)))
    });
    let published = OutboxEventState { status: OutboxEventStatus::Published, ..dead(1) };
    operations.expect_list().returning(move |_| Ok(EventPage { events: vec![published.clone()], next: None }));
    operations.expect_act().times(1).returning(|_, ids, _| Ok(ids.to_vec()));
    let range = EventFilter { published_from: Some(at(15)), ..EventFilter::default() };
    let (which, stop) = (Selection::Matching(range), StopSignal::new());
    let report = operate(operations).act_on_many(EventAction::Replay, &which, 2, &somebody(), &stop).await.unwrap();
    assert_eq!(report, ManyReport { events: 1, gone_until: Some(at(20)), ..ManyReport::default() });
}

#[tokio::test]
async fn a_range_is_not_replayed_where_published_events_are_deleted() {
    let operate = operate(MockOutboxOperationsPort::new()).on_publish(OnPublish::Delete);
    let (which, stop) = (Selection::Matching(EventFilter::default()), StopSignal::new());
    let failed = operate.act_on_many(EventAction::Replay, &which, 2, &somebody(), &stop).await.unwrap_err();
    assert!(matches!(failed.source, OperateError::RangeNotKept), "{failed:?}");
    let refused = operate.count_many(EventAction::Replay, &which, &stop).await.unwrap_err();
    assert!(matches!(refused, OperateError::RangeNotKept), "{refused:?}");
}

#[tokio::test]
async fn a_count_changes_nothing_and_counts_what_the_action_would_change() {
    let which = Selection::Matching(EventFilter::default());
    let stop = StopSignal::new();
    let report = operate(five_dead()).count_many(EventAction::Requeue, &which, &stop).await.unwrap();
    assert_eq!(report, ManyReport { events: 5, ..ManyReport::default() });
    let mut operations = MockOutboxOperationsPort::new();
    operations.expect_find().returning(|id| Ok((id == dead(1).id).then(|| dead(1))));
    let which = Selection::Events(vec![dead(1).id, dead(2).id]);
    let report = operate(operations).count_many(EventAction::Requeue, &which, &stop).await.unwrap();
    let left = vec![LeftAlone { id: dead(2).id, found: None }];
    assert_eq!(report, ManyReport { events: 1, left, ..ManyReport::default() });
}

#[tokio::test]
async fn named_events_that_are_unknown_or_in_another_status_are_told_and_the_others_are_changed() {
    let mut operations = MockOutboxOperationsPort::new();
    operations.expect_act().times(1).returning(|_, ids, _| Ok(ids.iter().copied().take(1).collect()));
    operations.expect_find().times(2).returning(|id| {
        let pending = OutboxEventState { status: OutboxEventStatus::Pending, ..dead(2) };
        Ok((id == dead(2).id).then_some(pending))
    });
    let which = Selection::Events(vec![dead(1).id, dead(2).id, dead(3).id]);
    let (operate, stop) = (operate(operations), StopSignal::new());
    let report = operate.act_on_many(EventAction::Requeue, &which, 9, &somebody(), &stop).await.unwrap();
    let left = vec![
        LeftAlone { id: dead(2).id, found: Some((OutboxEventStatus::Pending, false)) },
        LeftAlone { id: dead(3).id, found: None },
    ];
    assert_eq!(report, ManyReport { events: 1, left, ..ManyReport::default() });
    let why: Vec<_> = report.left.iter().map(|left| operate.why_left(EventAction::Requeue, left)).collect();
    assert!(
        matches!(why[..], [OperateError::NotAllowed { .. }, OperateError::NotFound { id }] if id == dead(3).id),
        "{why:?}"
    );
}
