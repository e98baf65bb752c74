//! Creating a work log appends its event in the same transaction, and wakes the relay after the commit alone.

use std::sync::Arc;

use application_core::{
    outbox::{EventId, NewOutboxEvent, headers},
    ports::{OutboxAppendError, StoreError},
};
use mockall::Sequence;

use super::*;
use crate::{
    application::testing::{Mocks, NOON, PORTFOLIO, WORK_LOG, minutes, stored, title},
    domain::{Version, WorkLogStatus},
    ports::MockIdempotencyKeys,
};

const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn command() -> CreateWorkLogCommand {
    CreateWorkLogCommand {
        portfolio: PORTFOLIO,
        title: title(),
        planned: minutes(90),
        key: IdempotencyKey::try_new("first-try").expect("valid"),
        traceparent: Some(TRACEPARENT.to_owned()),
    }
}

fn refused() -> StoreError {
    StoreError::Refused { source: "constraint".into() }
}

fn reserved_event(events: &[NewOutboxEvent]) -> bool {
    let [event] = events else { return false };
    event.event_type().as_str() == "WorkLogReserved"
        && event.headers().get(headers::TRACEPARENT) == Some(TRACEPARENT)
        && event.headers().occurred_at() == Some(NOON)
        && event.payload().as_str().contains(r#""plannedMinutes":90"#)
        && !event.payload().as_str().contains("fence")
}

/// Begins and takes the key; the rest is the test's.
fn first_use(mocks: &mut Mocks, keys: &mut MockIdempotencyKeys<()>, order: &mut Sequence) {
    mocks.unit_of_work.expect_begin().times(1).in_sequence(order).return_once(|| Ok(()));
    keys.expect_take().times(1).in_sequence(order).return_once(|(), _, _| Ok(KeyUse::First));
}

async fn execute(mocks: Mocks, keys: MockIdempotencyKeys<()>) -> Result<CreatedWorkLog, CommandError> {
    CreateWorkLog::new(mocks.writer(), Arc::new(keys)).execute(command()).await
}

#[tokio::test]
async fn begin_key_insert_append_commit_wake_in_this_order() {
    let (mut mocks, mut keys, mut order) = (Mocks::default(), MockIdempotencyKeys::new(), Sequence::new());
    first_use(&mut mocks, &mut keys, &mut order);
    mocks
        .work_logs
        .expect_insert()
        .withf(|(), work_log| work_log.state().title == title() && work_log.stored_version().is_none())
        .times(1)
        .in_sequence(&mut order)
        .return_once(|(), _| Ok(()));
    mocks
        .outbox
        .expect_append()
        .withf(|(), events| reserved_event(events))
        .times(1)
        .in_sequence(&mut order)
        .return_once(|(), _| Ok(()));
    mocks.unit_of_work.expect_commit().times(1).in_sequence(&mut order).return_once(|()| Ok(()));
    mocks.wakeup.expect_wake().times(1).in_sequence(&mut order).return_const(());

    let created = execute(mocks, keys).await.expect("created");
    assert!(!created.replayed);
    assert_eq!((created.receipt.status, created.receipt.version), (WorkLogStatus::Reserved, Version::FIRST));
    assert_eq!(created.receipt.changed_at, NOON, "in microseconds, as stored");
}

#[tokio::test]
async fn a_failed_insert_appends_nothing_commits_nothing_and_wakes_nobody() {
    let (mut mocks, mut keys, mut order) = (Mocks::default(), MockIdempotencyKeys::new(), Sequence::new());
    first_use(&mut mocks, &mut keys, &mut order);
    mocks.work_logs.expect_insert().times(1).return_once(|(), _| Err(refused()));
    mocks.outbox.expect_append().never();
    mocks.unit_of_work.expect_commit().never();
    mocks.wakeup.expect_wake().never();
    assert!(matches!(execute(mocks, keys).await, Err(CommandError::Store { .. })));
}

#[tokio::test]
async fn a_failed_append_commits_nothing_and_wakes_nobody() {
    let (mut mocks, mut keys, mut order) = (Mocks::default(), MockIdempotencyKeys::new(), Sequence::new());
    first_use(&mut mocks, &mut keys, &mut order);
    mocks.work_logs.expect_insert().times(1).return_once(|(), _| Ok(()));
    let duplicate = OutboxAppendError::Duplicate { id: EventId::new(WORK_LOG.as_uuid()) };
    mocks.outbox.expect_append().times(1).return_once(|(), _| Err(duplicate));
    mocks.unit_of_work.expect_commit().never();
    mocks.wakeup.expect_wake().never();
    assert!(matches!(execute(mocks, keys).await, Err(CommandError::Append { .. })));
}

#[tokio::test]
async fn a_failed_commit_wakes_nobody() {
    let (mut mocks, mut keys, mut order) = (Mocks::default(), MockIdempotencyKeys::new(), Sequence::new());
    first_use(&mut mocks, &mut keys, &mut order);
    mocks.work_logs.expect_insert().times(1).return_once(|(), _| Ok(()));
    mocks.outbox.expect_append().times(1).return_once(|(), _| Ok(()));
    mocks.unit_of_work.expect_commit().times(1).return_once(|()| Err(refused()));
    mocks.wakeup.expect_wake().never();
    assert!(matches!(execute(mocks, keys).await, Err(CommandError::Store { .. })));
}

#[tokio::test]
async fn the_same_request_again_is_answered_with_the_first_result_and_without_an_event() {
    let (mut mocks, mut keys) = (Mocks::default(), MockIdempotencyKeys::new());
    let first = WorkLogReceipt::from(stored(WorkLogStatus::Reserved, 1).state());
    mocks.unit_of_work.expect_begin().times(1).return_once(|| Ok(()));
    keys.expect_take().times(1).return_once(move |(), _, _| Ok(KeyUse::SameRequest(first)));
    mocks.work_logs.expect_insert().never();
    mocks.outbox.expect_append().never();
    mocks.unit_of_work.expect_commit().times(1).return_once(|()| Ok(()));
    mocks.wakeup.expect_wake().never();
    let created = execute(mocks, keys).await.expect("replayed");
    assert_eq!(created, CreatedWorkLog { receipt: first, replayed: true });
}

#[tokio::test]
async fn a_key_of_another_request_is_refused_and_nothing_is_committed() {
    let (mut mocks, mut keys) = (Mocks::default(), MockIdempotencyKeys::new());
    mocks.unit_of_work.expect_begin().times(1).return_once(|| Ok(()));
    keys.expect_take().times(1).return_once(|(), _, _| Ok(KeyUse::OtherRequest));
    mocks.unit_of_work.expect_commit().never();
    mocks.wakeup.expect_wake().never();
    let error = execute(mocks, keys).await.expect_err("reused");
    assert_eq!(error.to_string(), "idempotency key first-try was used for another request");
}

#[test]
fn requests_differ_by_title_and_by_minutes() {
    let text = |title: &str, n| content(&Title::try_new(title).expect("valid"), minutes(n));
    assert_eq!(text("a", 1), text("a", 1));
    let different = [text("a", 1), text("a", 11), text("b", 1), text("1 a", 1)];
    for (nth, one) in different.iter().enumerate() {
        assert!(different.iter().skip(nth + 1).all(|other| other != one));
    }
}

#[test]
fn debug_of_a_command_shows_no_title() {
    let shown = format!("{:?}", command());
    assert!(!shown.contains("fence"), "{shown}");
}
