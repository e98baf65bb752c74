//! What a consumer has parked, and what it is to forget or to handle again.

use application_core::{
    inbox::ParkedAggregate,
    ports::{ConsumerName, GiveUp, UnparkRequestError},
};

use super::*;

async fn ask_of(
    of_inbox: MockInboxOperationsPort,
    requests: MockUnparkRequestPort,
    request: Request<Body>,
) -> Answered {
    let parts = OpsParts { inbox: inbox(of_inbox, requests), ..parts(MockOutboxOperationsPort::new()) };
    send(ops_router(parts, OpsAccess::Loopback), request).await
}

fn get(path: &str) -> Request<Body> {
    Request::get(path).header("host", "localhost").body(Body::empty()).unwrap()
}

fn change(path: &str, body: &str) -> Request<Body> {
    let request = Request::post(path).header("host", "localhost").header(CONTENT_TYPE, "application/json");
    request.body(Body::from(body.to_owned())).unwrap()
}

#[tokio::test]
async fn what_a_consumer_has_parked_is_listed_with_event_and_reason() {
    let mut of_inbox = MockInboxOperationsPort::new();
    of_inbox.expect_list_parked().with(eq(ConsumerName::new("minutes")), eq(2)).returning(|_, _| {
        Ok(vec![ParkedAggregate {
            aggregate_type: AggregateType::from_stored("work-log"),
            aggregate_id: AggregateId::from_stored("42"),
            event: id(),
            reason: "no such minutes".to_owned(),
        }])
    });
    let asked = get("/ops/inbox/parked?consumer=minutes&limit=2");
    let answered = ask_of(of_inbox, MockUnparkRequestPort::new(), asked).await;
    let item = json!({ "aggregateType": "work-log", "aggregateId": "42", "event": ID, "reason": "no such minutes" });
    assert_eq!((answered.status, answered.body), (StatusCode::OK, json!({ "items": [item] })));
}

#[tokio::test]
async fn a_name_without_records_is_answered_with_those_that_have_some() {
    let nothing = || {
        let mut of_inbox = MockInboxOperationsPort::new();
        of_inbox.expect_list_parked().returning(|_, _| Ok(Vec::new()));
        of_inbox.expect_forget().returning(|_, _, _| Ok(0));
        of_inbox.expect_consumers().returning(|| Ok(vec!["minutes".to_owned()]));
        of_inbox
    };
    let parked = |consumer: &str| get(&format!("/ops/inbox/parked?consumer={consumer}"));
    let forget =
        |consumer: &str| change("/ops/inbox/forget", &json!({ "consumer": consumer, "events": [ID] }).to_string());
    for (request, expected) in [
        (parked("minuets"), json!({ "items": [], "knownConsumers": ["minutes"] })),
        (parked("minutes"), json!({ "items": [] })),
        (forget("minuets"), json!({ "forgotten": 0, "knownConsumers": ["minutes"] })),
        (forget("minutes"), json!({ "forgotten": 0 })),
    ] {
        let answered = ask_of(nothing(), MockUnparkRequestPort::new(), request).await;
        assert_eq!((answered.status, answered.body), (StatusCode::OK, expected));
    }
}

#[tokio::test]
async fn a_consumer_forgets_the_events_that_are_named_and_who_wanted_it_is_passed_on() {
    let mut of_inbox = MockInboxOperationsPort::new();
    of_inbox
        .expect_forget()
        .times(1)
        .withf(|consumer, events, by| {
            consumer.as_str() == "minutes" && *events == [id()] && by.operator.as_str() == "zoe" && by.reason.is_some()
        })
        .returning(|_, _, _| Ok(1));
    let body = json!({ "consumer": "minutes", "events": [ID], "by": "zoe", "reason": "counted twice" }).to_string();
    let answered = ask_of(of_inbox, MockUnparkRequestPort::new(), change("/ops/inbox/forget", &body)).await;
    assert_eq!((answered.status, answered.body), (StatusCode::OK, json!({ "forgotten": 1 })));
}

#[tokio::test]
async fn an_unpark_is_recorded_then_asked_for_and_answered_without_waiting_for_the_consumer() {
    let of = |consumer| Some(GiveUp { event: id(), consumer });
    for discard in [None, of(None), of(Some(ConsumerName::new("minutes")))] {
        let (to_record, to_ask) = (discard.clone(), discard.clone());
        let (mut of_inbox, mut requests) = (MockInboxOperationsPort::new(), MockUnparkRequestPort::new());
        of_inbox
            .expect_record_unpark()
            .times(1)
            .withf(move |kind, aggregate, given_up, unmarked, by| {
                (kind.as_str(), aggregate.as_str(), given_up, *unmarked) == ("order", "42", &to_record, false)
                    && by.operator.as_str() == "ops-http"
            })
            .returning(|_, _, _, _, _| Ok(1));
        requests
            .expect_request()
            .times(1)
            .withf(move |kind, aggregate, given_up| {
                (kind.as_str(), aggregate.as_str(), given_up) == ("order", "42", &to_ask)
            })
            .returning(|_, _, _| Ok(()));
        let consumer = discard.as_ref().and_then(|discard| discard.consumer.as_ref()).map(ConsumerName::as_str);
        let given_up = discard.as_ref().map(|discard| discard.event.to_string());
        let body = json!({ "aggregateType": "order", "aggregateId": "42", "discard": given_up, "consumer": consumer });
        let answered = ask_of(of_inbox, requests, change("/ops/inbox/unpark", &body.to_string())).await;
        assert_eq!((answered.status, answered.body), (StatusCode::OK, json!({ "asked": true, "aggregates": 1 })));
    }
}

#[tokio::test]
async fn an_unpark_of_what_no_consumer_has_parked_says_that_nothing_was_asked_for() {
    let (mut of_inbox, mut requests) = (MockInboxOperationsPort::new(), MockUnparkRequestPort::new());
    of_inbox.expect_record_unpark().returning(|_, _, _, _, _| Ok(0));
    requests.expect_request().never();
    let asked = change("/ops/inbox/unpark", r#"{"aggregateType":"order","aggregateId":"42"}"#);
    let answered = ask_of(of_inbox, requests, asked).await;
    assert_eq!((answered.status, answered.body), (StatusCode::OK, json!({ "asked": false, "aggregates": 0 })));
}

#[tokio::test]
async fn an_unpark_of_what_may_be_parked_without_a_mark_is_asked_for_where_it_is_said() {
    for unmarked in [false, true] {
        let (mut of_inbox, mut requests) = (MockInboxOperationsPort::new(), MockUnparkRequestPort::new());
        of_inbox.expect_record_unpark().returning(|_, _, _, unmarked, _| Ok(u64::from(unmarked)));
        requests.expect_request().times(usize::from(unmarked)).returning(|_, _, _| Ok(()));
        let body = json!({ "aggregateType": "order", "aggregateId": "42", "unmarked": unmarked }).to_string();
        let answered = ask_of(of_inbox, requests, change("/ops/inbox/unpark", &body)).await;
        let expected = json!({ "asked": unmarked, "aggregates": u64::from(unmarked) });
        assert_eq!((answered.status, answered.body), (StatusCode::OK, expected));
    }
}

#[tokio::test]
async fn what_cannot_be_read_of_an_inbox_is_a_bad_request() {
    let (long, many) = ("x".repeat(101), json!({ "consumer": "minutes", "events": vec![ID; 201] }).to_string());
    let requests = [
        (get("/ops/inbox/parked"), "missing field `consumer`"),
        (get("/ops/inbox/parked?consumer="), "consumer: the consumer's name is empty"),
        (get(&format!("/ops/inbox/parked?consumer={long}")), "takes 101 bytes, at most 100 are allowed"),
        (get("/ops/inbox/parked?consumer=minutes&limit=1001"), "limit is 1001, it must be 1 to 1000"),
        (change("/ops/inbox/forget", r#"{"events":[]}"#), "missing field `consumer`"),
        (change("/ops/inbox/forget", r#"{"consumer":"minutes"}"#), "missing field `events`"),
        (change("/ops/inbox/forget", r#"{"consumer":"minutes","events":[]}"#), "events are 0, they must be 1 to 200"),
        (change("/ops/inbox/forget", &many), "events are 201, they must be 1 to 200"),
        (change("/ops/inbox/forget", r#"{"consumer":"minutes","events":["7"]}"#), "\"7\" is no event id"),
        (change("/ops/inbox/unpark", r#"{"aggregateType":"order"}"#), "missing field `aggregateId`"),
        (
            change("/ops/inbox/unpark", r#"{"aggregateType":"","aggregateId":"42"}"#),
            "aggregateType: aggregate_type is empty",
        ),
        (
            change("/ops/inbox/unpark", r#"{"aggregateType":"order","aggregateId":"4\n2"}"#),
            "aggregateId: aggregate_id holds a control character at byte 1",
        ),
        (
            change("/ops/inbox/unpark", r#"{"aggregateType":"order","aggregateId":"42","discard":"7"}"#),
            "discard: \"7\" is no event id",
        ),
        (
            change("/ops/inbox/unpark", r#"{"aggregateType":"order","aggregateId":"42","consumer":"minutes"}"#),
            "consumer is said without discard",
        ),
    ];
    for (request, detail) in requests {
        let answered = ask_of(MockInboxOperationsPort::new(), MockUnparkRequestPort::new(), request).await;
        assert_problem(&answered, 400, detail);
    }
}

#[tokio::test]
async fn a_broker_that_is_away_is_503_and_a_store_that_refuses_500() {
    let body = r#"{"aggregateType":"order","aggregateId":"42"}"#;
    let (mut of_inbox, mut requests) = (MockInboxOperationsPort::new(), MockUnparkRequestPort::new());
    of_inbox.expect_record_unpark().returning(|_, _, _, _, _| Ok(1));
    requests.expect_request().returning(|_, _, _| Err(UnparkRequestError { source: "certificates in /etc/x".into() }));
    let answered = ask_of(of_inbox, requests, change("/ops/inbox/unpark", body)).await;
    assert_problem(&answered, 503, "the consumer could not be asked; the log says why");
    assert!(!answered.body.to_string().contains("/etc/x"));

    let (mut of_inbox, mut requests) = (MockInboxOperationsPort::new(), MockUnparkRequestPort::new());
    let refused = || StoreError::Refused { source: "password of db.internal".into() };
    of_inbox.expect_record_unpark().returning(move |_, _, _, _, _| Err(refused()));
    requests.expect_request().never();
    let answered = ask_of(of_inbox, requests, change("/ops/inbox/unpark", body)).await;
    assert_problem(&answered, 500, "the inbox could not be read or changed: the database refused the statement");
    assert!(!answered.body.to_string().contains("password"));
}
