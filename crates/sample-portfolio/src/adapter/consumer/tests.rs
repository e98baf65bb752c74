//! The projection behind the inbox, with mocks: what it adds, passes over and refuses.

use std::{collections::BTreeMap, sync::Arc};

use application_core::{
    inbox::InboundMessage,
    outbox::{AggregateId, AggregateType, EventHeaders, EventId, EventType, Payload, Sequence},
    ports::{ConsumerName, FirstSeen, MockInboxPort, MockOutboxAppendPort, MockWakeupPort, StoreError},
    usecases::{HandleMessageOnce, Handled, HandlerError, Transactional},
};
use proptest::prelude::*;
use test_support::corpus;
use time::OffsetDateTime;
use uuid::Uuid;

use super::*;
use crate::{application::testing::MockUnitOfWork, ports::MockPortfolioMinutesRepository};

const PORTFOLIO: Uuid = Uuid::from_u128(0x0190_b2c3_0000_7000_8000_0000_0000_00aa);

fn message(event_type: &str, payload: &str) -> InboundMessage {
    InboundMessage {
        id: EventId::new(Uuid::from_u128(7)),
        event_type: EventType::from_stored(event_type),
        aggregate_type: AggregateType::from_stored(AGGREGATE_TYPE),
        aggregate_id: AggregateId::from_stored("0190b2c3-0000-7000-8000-000000000001"),
        sequence: Sequence(1),
        schema_version: 1,
        idempotency_key: "7".to_owned(),
        occurred_at: OffsetDateTime::UNIX_EPOCH,
        replay: false,
        payload: Payload::from_stored(payload),
        headers: EventHeaders::from_stored(BTreeMap::new()),
    }
}

fn completed() -> InboundMessage {
    message("WorkLogCompleted", include_str!("../../../../../docs/events/golden/WorkLogCompleted.v1.json"))
}

/// Handles a message for the first time; the transaction commits if and only if `commits`.
async fn handle(
    minutes: MockPortfolioMinutesRepository<()>,
    message: &InboundMessage,
    seen: FirstSeen,
    commits: bool,
) -> Result<Handled, HandlerError> {
    let (mut unit_of_work, mut inbox) = (MockUnitOfWork::new(), MockInboxPort::new());
    unit_of_work.expect_begin().times(1).return_once(|| Ok(()));
    unit_of_work.expect_commit().times(usize::from(commits)).returning(|()| Ok(()));
    inbox.expect_record().times(1).return_once(move |(), _, _| Ok(seen));
    let transactional = Transactional::new(
        Arc::new(unit_of_work),
        Arc::new(MockOutboxAppendPort::new()),
        Arc::new(MockWakeupPort::new()),
    );
    let projection = PortfolioMinutesProjection::new(Arc::new(minutes));
    let consumer = ConsumerName::new("portfolio-minutes");
    HandleMessageOnce::new(Arc::new(transactional), Arc::new(inbox), consumer, Arc::new(projection))
        .handle(message)
        .await
}

async fn added(message: &InboundMessage) -> PortfolioMinutes {
    let mut minutes = MockPortfolioMinutesRepository::new();
    let (told, heard) = std::sync::mpsc::channel();
    minutes.expect_add().times(1).return_once(move |(), portfolio, more| {
        told.send((portfolio, *more)).expect("heard");
        Ok(())
    });
    assert_eq!(handle(minutes, message, FirstSeen::Yes, true).await.expect("handled"), Handled::Applied);
    let (portfolio, more) = heard.recv().expect("told");
    assert_eq!(portfolio, PortfolioId::new(PORTFOLIO));
    more
}

async fn rejected(message: &InboundMessage) -> String {
    match handle(MockPortfolioMinutesRepository::new(), message, FirstSeen::Yes, false).await {
        Err(HandlerError::Reject { reason }) => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn each_kind_of_event_is_counted_and_minutes_come_from_completed_work() {
    let nothing = PortfolioMinutes::default();
    let cases = [
        (
            message("WorkLogReserved", include_str!("../../../../../docs/events/golden/WorkLogReserved.v1.json")),
            PortfolioMinutes { reserved: 1, ..nothing },
        ),
        (
            message("WorkLogStarted", include_str!("../../../../../docs/events/golden/WorkLogStarted.v1.json")),
            PortfolioMinutes { started: 1, ..nothing },
        ),
        (completed(), PortfolioMinutes { completed: 1, completed_minutes: 75, ..nothing }),
        (
            message("WorkLogCancelled", include_str!("../../../../../docs/events/golden/WorkLogCancelled.v1.json")),
            PortfolioMinutes { cancelled: 1, ..nothing },
        ),
    ];
    for (message, expected) in cases {
        assert_eq!(added(&message).await, expected, "{}", message.event_type);
    }
}

#[tokio::test]
async fn a_message_handled_before_adds_nothing() {
    let outcome = handle(MockPortfolioMinutesRepository::new(), &completed(), FirstSeen::No, true).await;
    assert_eq!(outcome.expect("handled"), Handled::Duplicate);
}

#[tokio::test]
async fn events_unknown_here_are_recorded_as_handled_and_add_nothing() {
    let unknown = message("WorkLogReopened", "[]");
    let foreign = InboundMessage { aggregate_type: AggregateType::from_stored("invoice"), ..completed() };
    for message in [unknown, foreign] {
        let outcome = handle(MockPortfolioMinutesRepository::new(), &message, FirstSeen::Yes, true).await;
        assert_eq!(outcome.expect("handled"), Handled::Applied);
    }
}

#[tokio::test]
async fn a_newer_schema_is_rejected_with_both_versions_even_if_it_could_be_read() {
    let newer = InboundMessage { schema_version: 2, ..completed() };
    assert_eq!(rejected(&newer).await, "schema version 2 of WorkLogCompleted is newer than 1");
}

#[tokio::test]
async fn an_undecodable_payload_is_rejected_without_being_quoted() {
    let reason = rejected(&message("WorkLogCompleted", r#"{"workLogId":"ada@example.org"}"#)).await;
    assert_eq!(reason, "the payload is no WorkLogCompleted of version 1: Data at 1:30");
    let reason = rejected(&message("WorkLogCompleted", "{\n}")).await;
    assert_eq!(reason, "the payload is no WorkLogCompleted of version 1: Data at 2:1");
    let in_place = r#" ["0190b2c3-0000-7000-8000-000000000001","0190b2c3-0000-7000-8000-0000000000aa"]"#;
    let reason = rejected(&message("WorkLogStarted", in_place)).await;
    assert_eq!(reason, "the payload is no WorkLogStarted of version 1: no object");
}

#[tokio::test]
async fn a_failing_store_asks_for_another_try() {
    let mut minutes = MockPortfolioMinutesRepository::new();
    minutes.expect_add().times(1).return_once(|(), _, _| Err(StoreError::Unavailable { source: "gone".into() }));
    let outcome = handle(minutes, &completed(), FirstSeen::Yes, false).await;
    assert!(matches!(outcome, Err(HandlerError::Retry { .. })), "{outcome:?}");
}

proptest! {
    #[test]
    fn any_payload_under_any_type_is_counted_passed_over_or_rejected_in_few_words(
        event_type in prop_oneof![
            prop::sample::select(vec!["WorkLogReserved", "WorkLogStarted", "WorkLogCompleted", "WorkLogCancelled"])
                .prop_map(ToOwned::to_owned),
            "\\PC{0,20}",
        ],
        schema_version in any::<u32>(), begin in any::<usize>(), edits in prop::collection::vec(any::<corpus::Edit>(), 0..5),
    ) {
        let known = corpus::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/events/golden"));
        let bytes = corpus::edited(&known, begin, &edits);
        let payload = String::from_utf8_lossy(&bytes);
        let message = InboundMessage { schema_version: schema_version % 3, ..message(&event_type, &payload) };
        match interpret(&message) {
            Ok(_) => {}
            Err(HandlerError::Reject { reason }) => prop_assert!(reason.len() < 200, "{reason}"),
            Err(other) => prop_assert!(false, "{other:?}"),
        }
    }
}
