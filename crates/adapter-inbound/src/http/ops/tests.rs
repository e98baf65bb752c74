//! Tests of `/ops` over mocked ports.

use std::time::Duration;

use application_core::{
    outbox::{
        AggregateId, AggregateType, Attribution, EventAction, EventId, EventType, FailureClass, OperatorName,
        OutboxEventStatus, Reason, Sequence,
    },
    ports::{
        AuditEntry, BlockedAggregate, EventFilter, MockOutboxAuditPort, MockOutboxHoldersPort,
        MockOutboxOperationsPort, MockOutboxPausePort, MockOutboxStatisticsPort, MockWakeupPort, OutboxEventState,
        OutboxStatistics, StoreError,
    },
    usecases::OperatePorts,
};
use axum::{
    body::Body,
    http::{Request, header::CONTENT_TYPE},
};
use http_body_util::BodyExt;
use mockall::predicate::eq;
use secrecy::SecretString;
use serde_json::{Value, json};
use time::macros::datetime;
use tower::ServiceExt;

use super::*;

const ID: &str = "0198c5a0-0000-7000-8000-000000000001";
const TOKEN: &str = "0123456789abcdef";

fn id() -> EventId {
    ID.parse().unwrap()
}

fn event(status: OutboxEventStatus) -> OutboxEventState {
    OutboxEventState {
        id: id(),
        sequence: Sequence(7),
        aggregate_type: AggregateType::from_stored("work-log"),
        aggregate_id: AggregateId::from_stored("42"),
        event_type: EventType::from_stored("WorkLogReserved"),
        status,
        attempts: 3,
        replays: 0,
        created_at: datetime!(2026-01-02 03:04:05 UTC),
        published_at: None,
        due_at: None,
        last_error: Some("rejected: full".to_owned()),
        resolved_at: None,
        resolution: None,
        holder: None,
        lease_expires_at: None,
        blocked_behind: None,
    }
}

fn audit_entry() -> AuditEntry {
    AuditEntry {
        number: 42,
        acted_at: datetime!(2026-01-02 03:04:05 UTC),
        by: Attribution {
            operator: OperatorName::try_new("zoe").unwrap(),
            reason: Some(Reason::try_new("fixed").unwrap()),
        },
        action: "discard".to_owned(),
        aggregate_type: None,
        events: vec![id()],
        affected: 1,
    }
}

fn router_for(access: OpsAccess, operations: MockOutboxOperationsPort) -> Router {
    let mut statistics = MockOutboxStatisticsPort::new();
    statistics.expect_statistics().returning(|| {
        Ok(OutboxStatistics {
            pending: 3,
            oldest_pending_age: Some(Duration::from_millis(1_500)),
            ..OutboxStatistics::default()
        })
    });
    let mut wakeup = MockWakeupPort::new();
    wakeup.expect_wake().return_const(());
    let mut audit = MockOutboxAuditPort::new();
    audit.expect_audit().with(eq(Some(43)), eq(1)).returning(|_, _| Ok(vec![audit_entry()]));
    let operate = OperateOutboxUseCase::new(OperatePorts {
        operations: Arc::new(operations),
        audit: Arc::new(audit),
        pause: Arc::new(MockOutboxPausePort::new()),
        holders: Arc::new(MockOutboxHoldersPort::new()),
        statistics: Arc::new(statistics),
        wakeup: Arc::new(wakeup),
    });
    ops_router(Arc::new(operate), access)
}

struct Answered {
    status: StatusCode,
    content_type: String,
    body: Value,
}

async fn send(router: Router, request: Request<Body>) -> Answered {
    let response = router.oneshot(request).await.unwrap();
    let status = response.status();
    let content_type = response.headers().get(CONTENT_TYPE).map_or("", |value| value.to_str().unwrap()).to_owned();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    Answered { status, content_type, body: serde_json::from_slice(&body).unwrap_or(Value::Null) }
}

async fn ask(operations: MockOutboxOperationsPort, method: &str, path: &str, body: &str) -> Answered {
    let request = Request::builder().method(method).uri(path).header("host", "127.0.0.1:9091");
    send(router_for(OpsAccess::Loopback, operations), request.body(Body::from(body.to_owned())).unwrap()).await
}

#[track_caller]
fn assert_problem(answered: &Answered, status: u16, detail: &str) {
    assert_eq!(answered.status.as_u16(), status, "{}", answered.body);
    assert_eq!(answered.content_type, "application/problem+json");
    assert_eq!(answered.body["status"], status);
    assert_eq!(answered.body["type"], "about:blank");
    let text = answered.body["detail"].as_str().unwrap();
    assert!(text.contains(detail), "{text}");
}

#[tokio::test]
async fn status_shows_the_figures_of_the_moment() {
    let answered = ask(MockOutboxOperationsPort::new(), "GET", "/ops/outbox/status", "").await;
    assert_eq!(answered.status, StatusCode::OK);
    assert_eq!(answered.body["pending"], 3);
    assert_eq!(answered.body["oldestPendingAgeSeconds"], 1.5);
    assert_eq!(answered.body["oldestSnapshotAgeSeconds"], Value::Null);
}

#[tokio::test]
async fn a_list_is_filtered_and_names_the_next_page_when_it_is_full() {
    let mut operations = MockOutboxOperationsPort::new();
    let filter = EventFilter {
        status: Some(OutboxEventStatus::Dead),
        aggregate_type: Some(AggregateType::from_stored("work-log")),
        aggregate_id: Some(AggregateId::from_stored("a b")),
        event_type: Some(EventType::from_stored("WorkLogReserved")),
        class: Some(FailureClass::Rejected),
        after: Some(id()),
        limit: 1,
        ..EventFilter::default()
    };
    operations.expect_list().with(eq(filter)).returning(|_| Ok(vec![event(OutboxEventStatus::Dead)]));
    let known = "status=dead&aggregateType=work-log&aggregateId=a%20b&eventType=WorkLogReserved&class=rejected";
    let path = format!("/ops/outbox/events?{known}&after={ID}&limit=1");
    let answered = ask(operations, "GET", &path, "").await;
    assert_eq!(answered.status, StatusCode::OK);
    assert_eq!(answered.body["next"], ID);
    let item = &answered.body["items"][0];
    assert_eq!((&item["status"], &item["createdAt"]), (&json!("DEAD"), &json!("2026-01-02T03:04:05Z")));
    assert_eq!((&item["sequence"], &item["lastError"]), (&json!(7), &json!("rejected: full")));
    assert_eq!(item.get("payload"), None);

    let mut operations = MockOutboxOperationsPort::new();
    operations.expect_list().returning(|filter| {
        assert_eq!(filter.limit, 100);
        Ok(vec![event(OutboxEventStatus::Dead)])
    });
    assert_eq!(ask(operations, "GET", "/ops/outbox/events", "").await.body.get("next"), None);
}

#[tokio::test]
async fn what_cannot_be_read_is_a_bad_request() {
    for (path, detail) in [
        ("/ops/outbox/events?status=GONE", "status"),
        ("/ops/outbox/events?limit=0", "limit is 0, it must be 1 to 1000"),
        ("/ops/outbox/events?limit=many", "limit"),
        ("/ops/outbox/events?limit=4294967296", "limit"),
        ("/ops/outbox/events?stauts=DEAD", "stauts"),
        ("/ops/outbox/events?after=7", "after"),
        ("/ops/outbox/events?limit=1&limit=2", "limit"),
        ("/ops/outbox/events?status=DEAD&status=FAILED", "status"),
        ("/ops/outbox/blocked?limit=1&limit=1", "limit"),
        ("/ops/outbox/events?aggregateType=", "aggregate_type is empty"),
        ("/ops/outbox/events?aggregateId=%00", "aggregate_id holds a control character"),
        ("/ops/outbox/events?class=gone", "class"),
        ("/ops/outbox/audit?before=x", "before"),
        ("/ops/outbox/audit?limit=0", "limit is 0"),
        ("/ops/outbox/blocked?limit=1001", "limit is 1001"),
        ("/ops/outbox/events/7", "\"7\" is no event id"),
        ("/ops/outbox/events/%FF", "UTF-8"),
    ] {
        assert_problem(&ask(MockOutboxOperationsPort::new(), "GET", path, "").await, 400, detail);
    }
    let act = |body| {
        ask(
            MockOutboxOperationsPort::new(),
            "POST",
            "/ops/outbox/events/0198c5a0-0000-7000-8000-000000000001/replay",
            body,
        )
    };
    assert_problem(&act(r#"{"force":true}"#).await, 400, "replay takes by and reason: unknown field `force`");
    assert_problem(&act(r#"{"by":""}"#).await, 400, "by: operator is empty");
    assert_problem(&act(r#"{"reason":"a\nb"}"#).await, 400, "reason: reason holds a control character at byte 1");
}

#[tokio::test]
async fn an_unknown_event_path_or_method_is_said_to_be_unknown() {
    let unknown = || {
        let mut operations = MockOutboxOperationsPort::new();
        operations.expect_find().returning(|_| Ok(None));
        operations.expect_act().returning(|_, _, _| Ok(Vec::new()));
        operations
    };
    let event = format!("/ops/outbox/events/{ID}");
    assert_problem(&ask(unknown(), "GET", &event, "").await, 404, "is not in the outbox");
    assert_problem(&ask(unknown(), "POST", &format!("{event}/replay"), "").await, 404, "is not in the outbox");
    assert_problem(&ask(unknown(), "POST", &format!("{event}/explode"), "").await, 404, "is no action");
    assert_problem(&ask(unknown(), "GET", "/ops/nothing", "").await, 404, "there is no /ops/nothing");
    assert_problem(&ask(unknown(), "DELETE", &event, "").await, 405, "does not take DELETE");
}

#[tokio::test]
async fn an_action_answers_204_or_409_with_the_reason() {
    let by = |operator: &str, reason: Option<&str>| Attribution {
        operator: OperatorName::try_new(operator).unwrap(),
        reason: reason.map(|reason| Reason::try_new(reason).unwrap()),
    };
    for asked in [
        (EventAction::Requeue, "", by("ops-http", None)),
        (EventAction::Discard, "{}", by("ops-http", None)),
        (EventAction::Replay, r#"{"by":"zoe","reason":"lost"}"#, by("zoe", Some("lost"))),
    ] {
        for changes in [true, false] {
            let mut operations = MockOutboxOperationsPort::new();
            let (action, body, by) = asked.clone();
            operations
                .expect_act()
                .withf(move |a, ids, who| *a == action && *ids == [id()] && *who == by)
                .returning(move |_, ids, _| Ok(if changes { ids.to_vec() } else { Vec::new() }));
            operations.expect_find().returning(|_| Ok(Some(event(OutboxEventStatus::InFlight))));
            let path = format!("/ops/outbox/events/{ID}/{action}");
            let answered = ask(operations, "POST", &path, body).await;
            if changes {
                assert_eq!(answered.status, StatusCode::NO_CONTENT);
            } else {
                assert_problem(&answered, 409, "is IN_FLIGHT, so it cannot be");
            }
        }
    }
}

#[tokio::test]
async fn the_audit_is_listed_with_the_number_of_the_next_page() {
    let answered = ask(MockOutboxOperationsPort::new(), "GET", "/ops/outbox/audit?before=43&limit=1", "").await;
    assert_eq!((answered.status, &answered.body["next"]), (StatusCode::OK, &json!("42")));
    let entry = &answered.body["items"][0];
    assert_eq!(
        (&entry["operator"], &entry["reason"], &entry["action"]),
        (&json!("zoe"), &json!("fixed"), &json!("discard"))
    );
    assert_eq!(
        (&entry["events"], &entry["affected"], &entry["actedAt"]),
        (&json!([ID]), &json!(1), &json!("2026-01-02T03:04:05Z"))
    );
}

#[tokio::test]
async fn a_store_that_is_away_is_503_and_a_broken_one_500_without_its_own_words() {
    let failing = |error: fn() -> StoreError| {
        let mut operations = MockOutboxOperationsPort::new();
        operations.expect_blocked().returning(move |_| Err(error()));
        operations
    };
    let away = failing(|| StoreError::Unavailable { source: "password of db.internal".into() });
    let answered = ask(away, "GET", "/ops/outbox/blocked", "").await;
    assert_problem(&answered, 503, "the database cannot be reached");
    assert!(!answered.body.to_string().contains("password"));
    let broken = failing(|| StoreError::Refused { source: "no such table".into() });
    assert_problem(&ask(broken, "GET", "/ops/outbox/blocked", "").await, 500, "refused");
}

#[tokio::test]
async fn blocked_aggregates_are_listed() {
    let mut operations = MockOutboxOperationsPort::new();
    operations.expect_blocked().with(eq(5)).returning(|_| {
        Ok(vec![BlockedAggregate {
            aggregate_type: AggregateType::from_stored("work-log"),
            aggregate_id: AggregateId::from_stored("42"),
            head: id(),
            reason: None,
            age: Duration::from_secs(60),
            depth: 4,
        }])
    });
    let answered = ask(operations, "GET", "/ops/outbox/blocked?limit=5", "").await;
    let item = &answered.body["items"][0];
    assert_eq!((&item["head"], &item["depth"], &item["ageSeconds"]), (&json!(ID), &json!(4), &json!(60.0)));
}

#[tokio::test]
async fn only_the_bearer_of_the_token_is_let_in() {
    let ask = async |authorization: Option<&str>| {
        let mut request = Request::get("/ops/outbox/status").header("host", "ops.example");
        if let Some(value) = authorization {
            request = request.header("authorization", value);
        }
        let access = OpsAccess::new(Some(&SecretString::from(TOKEN)));
        send(router_for(access, MockOutboxOperationsPort::new()), request.body(Body::empty()).unwrap()).await
    };
    assert_eq!(ask(Some("Bearer 0123456789abcdef")).await.status, StatusCode::OK);
    assert_eq!(ask(Some("bearer 0123456789abcdef")).await.status, StatusCode::OK);
    for wrong in [
        None,
        Some(""),
        Some("Bearer"),
        Some("Bearer "),
        Some("Bearer 0123456789abcdeg"),
        Some("Bearer 0123456789abcde"),
        Some("Bearer 0123456789abcdef0"),
        Some("Basic 0123456789abcdef"),
    ] {
        let answered = ask(wrong).await;
        assert_problem(&answered, 401, "bearer token");
        assert!(!answered.body.to_string().contains(TOKEN));
    }
}

#[tokio::test]
async fn without_a_token_web_pages_are_kept_out() {
    for (name, value) in [("host", "evil.example:9091"), ("origin", "http://evil.example"), ("origin", "null")] {
        let mut request = Request::post(format!("/ops/outbox/events/{ID}/discard"));
        if name != "host" {
            request = request.header("host", "localhost:9091");
        }
        let request = request.header(name, value).body(Body::empty()).unwrap();
        let access = OpsAccess::new(None);
        assert_problem(&send(router_for(access, MockOutboxOperationsPort::new()), request).await, 403, "loopback");
    }
}
