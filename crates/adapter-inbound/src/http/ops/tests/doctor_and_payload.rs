//! What is wrong, and what an event says.

use std::collections::BTreeMap;

use application_core::{
    outbox::{EventHeaders, Payload},
    ports::{Finding, MockOutboxCheckPort, OutboxCheckPort},
};

use super::*;

const PAYLOAD: &str = r#"{"amount": 12345678901234567890.10}"#;

async fn get(parts: OpsParts, path: &str) -> Answered {
    let request = Request::get(path).header("host", "localhost").body(Body::empty()).unwrap();
    send(ops_router(parts, OpsAccess::Loopback), request).await
}

fn check(name: &'static str, answer: Result<Vec<Finding>, StoreError>) -> Arc<dyn OutboxCheckPort> {
    let mut check = MockOutboxCheckPort::new();
    check.expect_name().return_const(name);
    check.expect_look().times(1).return_once(|| answer);
    Arc::new(check)
}

#[tokio::test]
async fn the_doctor_tells_findings_with_their_cures_and_what_it_may_not_look_at() {
    let finding = Finding {
        problem: "a lane has no event".to_owned(),
        subject: "lane 7".to_owned(),
        cure: "run the repair".to_owned(),
    };
    let checks = vec![
        check("lanes", Ok(vec![finding])),
        check("secret", Err(StoreError::Forbidden { source: "permission denied".into() })),
        check("sound", Ok(Vec::new())),
    ];
    let doctor = Arc::new(ExamineOutboxUseCase::new(checks, Arc::new(MockLaneRepairPort::new())));
    let answered = get(OpsParts { doctor, ..parts(MockOutboxOperationsPort::new()) }, "/ops/doctor").await;
    let finding = json!({
        "check": "lanes", "problem": "a lane has no event", "subject": "lane 7", "cure": "run the repair",
    });
    let expected = json!({ "findings": [finding], "notLookedAt": ["secret"] });
    assert_eq!((answered.status, answered.body), (StatusCode::OK, expected));
}

fn content() -> OutboxEventContent {
    let headers = BTreeMap::from([("origin".to_owned(), "shop".to_owned())]);
    OutboxEventContent { payload: Payload::from_stored(PAYLOAD), headers: EventHeaders::from_stored(headers) }
}

#[tokio::test]
async fn a_payload_is_shown_as_it_was_appended_where_the_setting_allows_it_and_nowhere_else() {
    let path = format!("/ops/outbox/events/{ID}/payload");
    let mut operations = MockOutboxOperationsPort::new();
    operations.expect_content().with(eq(id())).times(1).returning(|_| Ok(Some(content())));
    let shown = get(OpsParts { payloads: true, ..parts(operations) }, &path).await;
    let expected = json!({ "id": ID, "headers": { "origin": "shop" }, "payload": PAYLOAD });
    assert_eq!((shown.status, shown.body), (StatusCode::OK, expected));

    let mut operations = MockOutboxOperationsPort::new();
    operations.expect_content().never();
    let refused = get(parts(operations), &path).await;
    assert_problem(&refused, 403, "the setting operations.payloads is false");
}

#[tokio::test]
async fn a_payload_that_the_database_withholds_or_does_not_have_is_said_to_be_so() {
    let path = format!("/ops/outbox/events/{ID}/payload");
    let mut operations = MockOutboxOperationsPort::new();
    let withheld = || StoreError::Forbidden { source: "permission denied for table outbox_event".into() };
    operations.expect_content().returning(move |_| Err(withheld()));
    let refused = get(OpsParts { payloads: true, ..parts(operations) }, &path).await;
    assert_problem(&refused, 403, "the database does not let this process read payloads");
    let mut operations = MockOutboxOperationsPort::new();
    operations.expect_content().returning(|_| Ok(None));
    let unknown = get(OpsParts { payloads: true, ..parts(operations) }, &path).await;
    assert_problem(&unknown, 404, "is not in the outbox");
}
