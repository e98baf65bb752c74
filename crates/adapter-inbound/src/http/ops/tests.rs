//! Tests of `/ops` over mocked ports.

mod any_request;
mod doctor_and_payload;
mod document;
mod forget_and_unpark;
mod replay_and_purge;

use std::time::Duration;

use application_core::{
    outbox::{
        AggregateId, AggregateType, Attribution, EventAction, EventId, EventType, FailureClass, HolderName,
        OperatorName, OutboxEventStatus, Reason, Sequence,
    },
    ports::{
        AuditEntry, BlockedAggregate, DeadGroup, Destination, EventFilter, EventPage, LagPercentiles, LeaderState,
        MockInboxOperationsPort, MockLaneRepairPort, MockOutboxAuditPort, MockOutboxHoldersPort,
        MockOutboxMaintenancePort, MockOutboxOperationsPort, MockOutboxPausePort, MockOutboxStatisticsPort,
        MockRelayRegistryPort, MockUnparkRequestPort, MockWakeupPort, OutboxEventContent, OutboxEventState,
        OutboxOperationsPort, OutboxStatistics, Pause, PauseScope, PausedDestination, RecentPublishing,
        RegisteredRelay, RelayLeases, StoreError,
    },
    usecases::OperatePorts,
};
use async_trait::async_trait;
use axum::{
    body::Body,
    http::{
        HeaderMap, Request,
        header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER},
    },
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
const SECOND: Duration = Duration::from_secs(1);

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

/// A page of so many DEAD events.
fn page(events: usize, next: Option<EventId>) -> EventPage {
    EventPage { events: vec![event(OutboxEventStatus::Dead); events], next }
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
        aggregate_id: None,
        consumer: Some("minutes".to_owned()),
        events: vec![id()],
        affected: 1,
    }
}

/// Ports that answer whatever is asked of them, but for the events and for other records than the one there is.
fn parts(operations: impl OutboxOperationsPort + 'static) -> OpsParts {
    let mut audit = MockOutboxAuditPort::new();
    audit.expect_audit().with(eq(Some(43)), eq(1)).returning(|_, _| Ok(vec![audit_entry()]));
    audit.expect_audit_of().with(eq(id()), eq(1)).returning(|_, _| Ok(vec![audit_entry()]));
    parts_with(operations, audit)
}

fn parts_with(operations: impl OutboxOperationsPort + 'static, audit: MockOutboxAuditPort) -> OpsParts {
    let mut statistics = MockOutboxStatisticsPort::new();
    statistics.expect_statistics().returning(|| {
        Ok(OutboxStatistics {
            pending: 3,
            oldest_pending_age: Some(Duration::from_millis(1_500)),
            ..OutboxStatistics::default()
        })
    });
    statistics.expect_dead_groups().returning(|| {
        Ok(vec![DeadGroup {
            class: Some(FailureClass::Rejected),
            aggregate_type: AggregateType::from_stored("work-log"),
            event_type: EventType::from_stored("WorkLogReserved"),
            events: 7,
            oldest_age: Duration::from_secs(60),
            example: Some("rejected: full".to_owned()),
        }])
    });
    statistics.expect_recent_publishing().returning(|| {
        let lag = LagPercentiles { p50: Duration::from_millis(250), p95: SECOND, p99: SECOND };
        Ok(RecentPublishing { events: 90, span: RecentPublishing::SPAN, lag: Some(lag) })
    });
    let mut wakeup = MockWakeupPort::new();
    wakeup.expect_wake().return_const(());
    let mut pause = MockOutboxPausePort::new();
    pause.expect_pause().returning(|scope, by| Ok(*scope == PauseScope::Everything && by.operator.as_str() == "zoe"));
    pause.expect_resume().returning(|scope, _| Ok(*scope == order()));
    let stands = || Pause { scope: order(), age: Duration::from_secs(9), by: audit_entry().by };
    pause.expect_pauses().returning(move || Ok(vec![stands()]));
    let mut holders = MockOutboxHoldersPort::new();
    holders.expect_relays().returning(|| {
        let (holder, oldest_claim_age) = (HolderName::new("relay-1"), Duration::from_secs(2));
        Ok(vec![RelayLeases { holder, claims: 1, lanes: 2, expired: 0, oldest_claim_age }])
    });
    holders.expect_leaders().returning(|| {
        let (role, holder) = ("upkeep".to_owned(), HolderName::new("relay-1"));
        Ok(vec![LeaderState { role, holder, term: 4, expires_in: None }])
    });
    let mut registry = MockRelayRegistryPort::new();
    registry.expect_registered().returning(|| {
        let (holder, reason) = (HolderName::new("relay-2"), "unavailable: no such exchange".to_owned());
        let paused = PausedDestination { destination: Some(Destination::new("orders")), reason, paused_for: SECOND };
        let (version, running, silent) = ("1.0.0".to_owned(), SECOND * 60, SECOND);
        Ok(vec![RegisteredRelay { holder, version, running, silent, gone: false, paused: vec![paused] }])
    });
    let operate = OperateOutboxUseCase::new(OperatePorts {
        operations: Arc::new(operations),
        audit: Arc::new(audit),
        pause: Arc::new(pause),
        holders: Arc::new(holders),
        registry: Arc::new(registry),
        statistics: Arc::new(statistics),
        wakeup: Arc::new(wakeup),
    });
    OpsParts {
        operate: Arc::new(operate),
        inbox: inbox(MockInboxOperationsPort::new(), MockUnparkRequestPort::new()),
        purge: Arc::new(PurgeOutboxUseCase::new(Arc::new(MockOutboxMaintenancePort::new()))),
        doctor: Arc::new(ExamineOutboxUseCase::new(Vec::new(), Arc::new(MockLaneRepairPort::new()))),
        payloads: false,
        settings: json!({ "service": { "instance": "one" } }),
        metrics: Arc::new(|| "up 1\n".to_owned()),
        bulk_time: Duration::from_secs(1),
    }
}

fn inbox(inbox: MockInboxOperationsPort, requests: MockUnparkRequestPort) -> Arc<OperateInboxUseCase> {
    Arc::new(OperateInboxUseCase::new(Arc::new(inbox), Arc::new(requests)))
}

fn order() -> PauseScope {
    PauseScope::Type(AggregateType::from_stored("order"))
}

fn router_for(access: OpsAccess, operations: MockOutboxOperationsPort) -> Router {
    ops_router(parts(operations), access)
}

struct Answered {
    status: StatusCode,
    headers: HeaderMap,
    content_type: String,
    body: Value,
}

async fn send(router: Router, request: Request<Body>) -> Answered {
    let response = router.oneshot(request).await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    let content_type = headers.get(CONTENT_TYPE).map_or("", |value| value.to_str().unwrap()).to_owned();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    Answered { status, headers, content_type, body: serde_json::from_slice(&body).unwrap_or(Value::Null) }
}

async fn ask(operations: MockOutboxOperationsPort, method: &str, path: &str, body: &str) -> Answered {
    let request = Request::builder().method(method).uri(path).header("host", "127.0.0.1:9091");
    let request = request.header(CONTENT_TYPE, "application/json");
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
    let recent = &answered.body["recentPublishing"];
    assert_eq!((&recent["perSecond"], &recent["lagP50Seconds"]), (&json!(1.5), &json!(0.25)));
    let pause = &answered.body["paused"][0];
    assert_eq!((&pause["aggregateType"], &pause["everything"]), (&json!("order"), &json!(false)));
    assert_eq!((&pause["operator"], &pause["reason"]), (&json!("zoe"), &json!("fixed")));
    let (holding, idle) = (&answered.body["relays"][0], &answered.body["relays"][1]);
    assert_eq!((&holding["state"], &holding["oldestClaimAgeSeconds"]), (&json!("unknown"), &json!(2.0)));
    assert_eq!((&idle["holder"], &idle["state"], &idle["lanes"]), (&json!("relay-2"), &json!("alive"), &json!(0)));
    let paused = json!([{ "destination": "orders", "reason": "unavailable: no such exchange", "ageSeconds": 1.0 }]);
    assert_eq!((&idle["paused"], &answered.body["relaysAlive"]), (&paused, &json!(1)));
    assert_eq!(answered.body["leaders"][0]["expiresInSeconds"], Value::Null);
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
        older_than: Some(Duration::from_secs(90)),
        published_from: Some(datetime!(2026-01-02 03:04:05 UTC)),
        published_until: Some(datetime!(2026-01-03 03:04:05.5 +9)),
        from: Some(id()),
        to: Some(id()),
        unresolved: true,
        after: Some(id()),
        limit: 1,
    };
    operations.expect_list().with(eq(filter)).returning(|_| Ok(page(1, Some(id()))));
    let known = "status=dead&aggregateType=work-log&aggregateId=a%20b&eventType=WorkLogReserved&class=rejected";
    let times = "publishedFrom=2026-01-02T03:04:05Z&publishedUntil=2026-01-03T03:04:05.5%2B09:00";
    let range = format!("{times}&from={ID}&to={ID}");
    let path = format!("/ops/outbox/events?{known}&olderThanSeconds=90&{range}&unresolved=true&after={ID}&limit=1");
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
        Ok(page(1, None))
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
        ("/ops/outbox/events?olderThanSeconds=-1", "olderThanSeconds"),
        ("/ops/outbox/events?unresolved=maybe", "unresolved"),
        ("/ops/outbox/events?publishedFrom=today", "publishedFrom: \"today\" is no time"),
        ("/ops/outbox/events?publishedUntil=2026-01-02", "publishedUntil: \"2026-01-02\" is no time"),
        ("/ops/outbox/events?from=7", "from: \"7\" is no event id"),
        ("/ops/outbox/events?to=7", "to: \"7\" is no event id"),
        ("/ops/outbox/events/7/payload", "\"7\" is no event id"),
        ("/ops/outbox/events/7/audit", "\"7\" is no event id"),
        ("/ops/outbox/events/0198c5a0-0000-7000-8000-000000000001/audit?limit=0", "limit is 0"),
        ("/ops/outbox/audit?before=x", "before"),
        ("/ops/outbox/audit?limit=0", "limit is 0"),
        ("/ops/outbox/blocked?limit=1001", "limit is 1001"),
        ("/ops/outbox/events/7", "\"7\" is no event id"),
        ("/ops/outbox/events/%FF", "UTF-8"),
    ] {
        assert_problem(&ask(MockOutboxOperationsPort::new(), "GET", path, "").await, 400, detail);
    }
    let event = "/ops/outbox/events/0198c5a0-0000-7000-8000-000000000001/replay";
    let two = r#"{"events":["0198c5a0-0000-7000-8000-000000000001"],"all":true}"#;
    let many = format!(r#"{{"events":{:?}}}"#, vec![ID; 201]);
    let after = format!(r#"{{"events":["{ID}"],"after":"{ID}"}}"#);
    for (path, body, detail) in [
        (event, "", "EOF"),
        (event, r#"["zoe", "by place"]"#, "expected a JSON object"),
        (event, r#"{"by":"zoe","by":"tom"}"#, "duplicate field `by`"),
        (event, r#"{"force":true}"#, "unknown field `force`"),
        (event, r#"{"by":""}"#, "by: operator is empty"),
        (event, r#"{"reason":"a\nb"}"#, "reason: reason holds a control character at byte 1"),
        ("/ops/outbox/requeue", "{}", "exactly one is to be said: events, filter, or all"),
        ("/ops/outbox/requeue", r#"{"all":false}"#, "exactly one"),
        ("/ops/outbox/requeue", two, "exactly one"),
        ("/ops/outbox/discard", r#"{"events":[]}"#, "events are 0, they must be 1 to 200"),
        ("/ops/outbox/discard", &many, "events are 201"),
        ("/ops/outbox/discard", r#"{"events":["7"]}"#, "\"7\" is no event id"),
        ("/ops/outbox/discard", r#"{"all":true,"after":"7"}"#, "after: \"7\" is no event id"),
        ("/ops/outbox/discard", &after, "after goes with filter or all"),
        ("/ops/outbox/discard", r#"{"filter":{}}"#, "filter is empty"),
        ("/ops/outbox/discard", r#"{"filter":["order", null, null, null, null]}"#, "expected a JSON object"),
        ("/ops/outbox/discard", r#"{"filter":{"class":"gone"}}"#, "filter.class"),
        ("/ops/outbox/discard", r#"{"filter":{"aggregateId":""}}"#, "filter.aggregateId: aggregate_id is empty"),
        ("/ops/outbox/discard", r#"{"filter":{"status":"DEAD"}}"#, "unknown field `status`"),
        ("/ops/outbox/replay", "{}", "exactly one is to be said: events or filter"),
        ("/ops/outbox/replay", r#"{"all":true}"#, "unknown field `all`"),
        ("/ops/outbox/replay", r#"{"events":[]}"#, "events are 0, they must be 1 to 200"),
        ("/ops/outbox/replay", &after, "after goes with filter, not with events"),
        ("/ops/outbox/replay", r#"{"filter":{}}"#, "filter is empty"),
        ("/ops/outbox/replay", r#"{"filter":{"class":"poison"}}"#, "unknown field `class`"),
        ("/ops/outbox/replay", r#"{"filter":{"from":"7"}}"#, "filter.from: \"7\" is no event id"),
        ("/ops/outbox/replay", r#"{"filter":{"publishedFrom":"now"}}"#, "filter.publishedFrom: \"now\" is no time"),
        ("/ops/outbox/purge", "{}", "missing field `olderThanSeconds`"),
        ("/ops/outbox/purge", r#"{"olderThanSeconds":-1}"#, "olderThanSeconds"),
        ("/ops/outbox/purge", r#"{"olderThanSeconds":60,"only":"dead"}"#, "only: \"dead\" is no history"),
        ("/ops/outbox/pause", "{}", "exactly one is to be said: aggregateType, or everything"),
        ("/ops/outbox/pause", r#"{"everything":true,"aggregateType":"order"}"#, "exactly one"),
        ("/ops/outbox/resume", r#"{"everything":false}"#, "exactly one"),
        ("/ops/outbox/resume", r#"{"aggregateType":""}"#, "aggregateType: aggregate_type is empty"),
    ] {
        assert_problem(&ask(MockOutboxOperationsPort::new(), "POST", path, body).await, 400, detail);
    }
}

#[tokio::test]
async fn a_change_that_is_not_said_to_be_json_is_refused() {
    let charsets = ["utf-16", "\"ISO-8859-1\"", "utf-8; charset=utf-7", "utf8", ""];
    let charsets = charsets.map(|charset| format!("application/json; Charset={charset}"));
    let foreign = charsets.iter().map(|text| (Some(text.as_str()), "only utf-8"));
    let others = [None, Some("text/plain"), Some("application/x-www-form-urlencoded")];
    let others = others.into_iter().map(|text| (text, "application/json"));
    for (content_type, detail) in others.chain(foreign) {
        for path in [&format!("/ops/outbox/events/{ID}/discard"), "/ops/outbox/discard", "/ops/outbox/pause"] {
            let mut request = Request::post(path).header("host", "localhost:9091");
            if let Some(content_type) = content_type {
                request = request.header(CONTENT_TYPE, content_type);
            }
            let request = request.body(Body::from(r#"{"all":true}"#)).unwrap();
            let answered = send(router_for(OpsAccess::Loopback, MockOutboxOperationsPort::new()), request).await;
            assert_problem(&answered, 415, detail);
            assert_eq!(answered.headers[ACCEPT], "application/json");
        }
    }
    for content_type in
        ["application/json;charset=UTF-8", "application/json; charset=\"utf-8\"", "application/json; a=b"]
    {
        let request =
            Request::post("/ops/outbox/resume").header("host", "localhost").header(CONTENT_TYPE, content_type);
        let request = request.body(Body::from(r#"{"everything":true}"#)).unwrap();
        let answered = send(router_for(OpsAccess::Loopback, MockOutboxOperationsPort::new()), request).await;
        assert_eq!(answered.status, StatusCode::OK, "{content_type}: {}", answered.body);
    }
}

#[tokio::test]
async fn json_that_cannot_be_taken_is_a_bad_request_whatever_is_wrong_with_it() {
    let nested = format!(r#"{{"all":{}1{}}}"#, "[".repeat(500), "]".repeat(500));
    for (path, body, detail) in [
        ("requeue", r#"{"all":true,"by":"a\u0000b"}"#, "by: operator holds a control character at byte 1"),
        ("requeue", r#"{"all":true,"reason":"\u0000"}"#, "reason: reason holds a control character at byte 0"),
        ("requeue", r#"{"filter":{"aggregateId":"o-\u0000"}}"#, "aggregate_id holds a control character at byte 2"),
        ("requeue", r#"{"events":["\u0000"]}"#, "is no event id"),
        ("pause", r#"{"aggregateType":"\u0000"}"#, "aggregate_type holds a control character at byte 0"),
        ("requeue", r#"{"all":true,"by":"\ud800"}"#, "hex escape"),
        ("requeue", r#"{"all":true,"all":true}"#, "duplicate field `all`"),
        ("requeue", r#"{"filter":{"class":"poison","class":"poison"}}"#, "duplicate field `class`"),
        ("requeue", r#"{"filter":{"olderThanSeconds":4294967296}}"#, "olderThanSeconds"),
        ("requeue", r#"{"filter":{"olderThanSeconds":-1}}"#, "olderThanSeconds"),
        ("requeue", r#"{"filter":{"olderThanSeconds":1.5}}"#, "olderThanSeconds"),
        ("requeue", r#"{"filter":{"olderThanSeconds":1e400}}"#, "number out of range"),
        ("requeue", &nested, "invalid type"),
        ("requeue", r#"{"all":true} {}"#, "trailing characters"),
        ("requeue", "\u{feff}{}", "line 1"),
    ] {
        let answered = ask(MockOutboxOperationsPort::new(), "POST", &format!("/ops/outbox/{path}"), body).await;
        assert_problem(&answered, 400, detail);
    }
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
    assert_problem(&ask(unknown(), "POST", &format!("{event}/replay"), "{}").await, 404, "is not in the outbox");
    assert_problem(&ask(unknown(), "POST", &format!("{event}/explode"), "{}").await, 404, "there is no /ops/outbox");
    assert_problem(&ask(unknown(), "GET", "/ops/nothing", "").await, 404, "there is no /ops/nothing");
    for (method, path, allowed) in [
        ("DELETE", event.clone(), "GET,HEAD"),
        ("OPTIONS", event.clone(), "GET,HEAD"),
        ("POST", "/ops/outbox/status".to_owned(), "GET,HEAD"),
        ("GET", format!("{event}/replay"), "POST"),
    ] {
        let answered = ask(unknown(), method, &path, "").await;
        assert_eq!(answered.headers[ALLOW], allowed, "{method} {path}");
        assert_problem(&answered, 405, &format!("does not take {method}"));
    }
}

#[tokio::test]
async fn a_head_request_is_answered_as_a_get_without_its_body() {
    let answered = ask(MockOutboxOperationsPort::new(), "HEAD", "/ops/outbox/status", "").await;
    assert_eq!((answered.status, answered.content_type.as_str()), (StatusCode::OK, "application/json"));
    assert_eq!(answered.body, Value::Null);
}

#[tokio::test]
async fn named_events_that_are_unknown_are_named_in_the_answer() {
    let other = "0198c5a0-0000-7000-8000-000000000002";
    for dry_run in [false, true] {
        let mut operations = MockOutboxOperationsPort::new();
        operations.expect_act().times(usize::from(!dry_run)).returning(|_, ids, _| Ok(ids[..1].to_vec()));
        operations.expect_find().returning(|asked| Ok((asked == id()).then(|| event(OutboxEventStatus::Dead))));
        let body = format!(r#"{{"events":["{ID}","{other}","{other}"],"dryRun":{dry_run}}}"#);
        let answered = ask(operations, "POST", "/ops/outbox/requeue", &body).await;
        assert_eq!((answered.status, &answered.body["events"]), (StatusCode::OK, &json!(1)), "{}", answered.body);
        assert_eq!(answered.body["unknown"], json!([other]));
    }
    let mut operations = MockOutboxOperationsPort::new();
    operations.expect_act().times(1).returning(|_, ids, _| Ok(ids.to_vec()));
    let answered = ask(operations, "POST", "/ops/outbox/requeue", &format!(r#"{{"events":["{ID}"]}}"#)).await;
    assert_eq!(answered.body.get("unknown"), None);
}

#[tokio::test]
async fn an_action_answers_204_or_409_with_the_reason() {
    let by = |operator: &str, reason: Option<&str>| Attribution {
        operator: OperatorName::try_new(operator).unwrap(),
        reason: reason.map(|reason| Reason::try_new(reason).unwrap()),
    };
    for asked in [
        (EventAction::Requeue, r#"{"by":null}"#, by("ops-http", None)),
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
async fn what_was_done_to_one_event_is_listed() {
    let path = format!("/ops/outbox/events/{ID}/audit?limit=1");
    let answered = ask(MockOutboxOperationsPort::new(), "GET", &path, "").await;
    assert_eq!((answered.status, &answered.body["items"][0]["number"]), (StatusCode::OK, &json!(42)));
}

#[tokio::test]
async fn dead_events_are_shown_in_groups_that_are_filters() {
    let answered = ask(MockOutboxOperationsPort::new(), "GET", "/ops/outbox/dead", "").await;
    let group = json!({
        "class": "rejected", "aggregateType": "work-log", "eventType": "WorkLogReserved",
        "events": 7, "oldestAgeSeconds": 60.0, "example": "rejected: full",
    });
    assert_eq!(answered.body, json!({ "groups": [group], "countLimit": 100_000 }));
}

#[tokio::test]
async fn settings_and_metrics_of_the_process_are_shown() {
    let answered = ask(MockOutboxOperationsPort::new(), "GET", "/ops/settings", "").await;
    assert_eq!(answered.body["service"]["instance"], "one");
    let answered = ask(MockOutboxOperationsPort::new(), "GET", "/ops/metrics", "").await;
    assert_eq!(
        (answered.status, answered.content_type.as_str()),
        (StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8")
    );
}

/// DEAD events without an end.
struct Endless;

#[async_trait]
impl OutboxOperationsPort for Endless {
    async fn find(&self, _: EventId) -> Result<Option<OutboxEventState>, StoreError> {
        Ok(None)
    }

    async fn content(&self, _: EventId) -> Result<Option<OutboxEventContent>, StoreError> {
        Ok(None)
    }

    async fn list(&self, filter: &EventFilter) -> Result<EventPage, StoreError> {
        assert_eq!((filter.status, filter.unresolved), (Some(OutboxEventStatus::Dead), true));
        tokio::task::yield_now().await;
        Ok(page(1, Some(id())))
    }

    async fn published_gone_until(&self) -> Result<Option<time::OffsetDateTime>, StoreError> {
        Ok(None)
    }

    async fn blocked(&self, _: u32) -> Result<Vec<BlockedAggregate>, StoreError> {
        Ok(Vec::new())
    }

    async fn act(&self, _: EventAction, events: &[EventId], _: &Attribution) -> Result<Vec<EventId>, StoreError> {
        Ok(events.to_vec())
    }

    async fn requeue_unresolved(&self, events: &[EventId], _: &Attribution) -> Result<Vec<EventId>, StoreError> {
        Ok(events.to_vec())
    }
}

#[tokio::test]
async fn many_events_are_counted_or_changed_and_the_answer_says_which() {
    let filter = r#""filter":{"class":"rejected","aggregateType":"order","olderThanSeconds":60}"#;
    let filter = format!(r#"{filter},"after":"{ID}""#);
    for (body, dry_run) in
        [(format!("{{{filter},\"dryRun\":true}}"), true), (format!("{{{filter},\"by\":\"zoe\"}}"), false)]
    {
        let mut operations = MockOutboxOperationsPort::new();
        operations.expect_list().times(1).returning(|filter| {
            assert_eq!(
                (filter.class, filter.older_than),
                (Some(FailureClass::Rejected), Some(Duration::from_secs(60)))
            );
            assert_eq!(filter.aggregate_type.as_ref().map(AggregateType::as_str), Some("order"));
            assert_eq!(filter.after, Some(id()));
            Ok(page(3, None))
        });
        let times = usize::from(!dry_run);
        operations.expect_act().times(times).returning(|action, ids, by| {
            assert_eq!((action, by.operator.as_str()), (EventAction::Discard, "zoe"));
            Ok(ids.to_vec())
        });
        let answered = ask(operations, "POST", "/ops/outbox/discard", &body).await;
        assert_eq!(answered.body, json!({ "action": "discard", "events": 3, "dryRun": dry_run, "interrupted": false }));
    }
    let mut operations = MockOutboxOperationsPort::new();
    operations.expect_list().times(1).returning(|_| Ok(page(3, None)));
    operations.expect_requeue_unresolved().times(1).returning(|ids, _| Ok(ids[1..].to_vec()));
    let answered = ask(operations, "POST", "/ops/outbox/requeue", r#"{"all":true}"#).await;
    assert_eq!(answered.body["events"], json!(2), "one was discarded meanwhile");
    let mut operations = MockOutboxOperationsPort::new();
    operations.expect_act().times(1).returning(|_, ids, _| Ok(ids[..1].to_vec()));
    operations.expect_find().times(1).returning(|_| Ok(None));
    let body = format!(r#"{{"events":["{ID}","0198c5a0-0000-7000-8000-000000000002"]}}"#);
    let answered = ask(operations, "POST", "/ops/outbox/requeue", &body).await;
    assert_eq!((&answered.body["events"], &answered.body["action"]), (&json!(1), &json!("requeue")));
    assert_eq!(answered.body["unknown"], json!(["0198c5a0-0000-7000-8000-000000000002"]));
}

#[tokio::test]
async fn an_action_on_many_answers_that_it_was_interrupted_when_its_time_is_over() {
    for body in [r#"{"all":true}"#, r#"{"all":true,"dryRun":true}"#] {
        let router = ops_router(OpsParts { bulk_time: Duration::ZERO, ..parts(Endless) }, OpsAccess::Loopback);
        let request =
            Request::post("/ops/outbox/requeue").header("host", "localhost").header(CONTENT_TYPE, "application/json");
        let answered = send(router, request.body(Body::from(body)).unwrap()).await;
        assert_eq!(
            (answered.status, &answered.body["interrupted"], &answered.body["next"]),
            (StatusCode::OK, &json!(true), &json!(ID)),
            "{}",
            answered.body
        );
    }
}

#[tokio::test]
async fn a_pause_and_a_resume_say_whether_they_changed_anything() {
    for (path, body, changed) in [
        ("pause", r#"{"everything":true,"by":"zoe"}"#, true),
        ("pause", r#"{"aggregateType":"order"}"#, false),
        ("resume", r#"{"aggregateType":"order","everything":false}"#, true),
        ("resume", r#"{"everything":true}"#, false),
    ] {
        let answered = ask(MockOutboxOperationsPort::new(), "POST", &format!("/ops/outbox/{path}"), body).await;
        assert_eq!((answered.status, answered.body), (StatusCode::OK, json!({ "changed": changed })), "{path} {body}");
    }
}

#[tokio::test]
async fn an_address_that_asks_too_often_is_told_to_wait_before_its_token_is_looked_at() {
    let router = router_for(OpsAccess::new(Some(&SecretString::from(TOKEN))), MockOutboxOperationsPort::new());
    let ask = async || {
        let request = Request::get("/ops/settings").header("authorization", "Bearer a-wrong-guess-of-it");
        router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
    };
    let mut refused = 0;
    loop {
        let response = ask().await;
        match response.status() {
            StatusCode::UNAUTHORIZED if refused < 10_000 => refused += 1,
            StatusCode::TOO_MANY_REQUESTS => {
                assert_eq!(response.headers()[RETRY_AFTER], "1");
                assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
                break;
            }
            other => panic!("{other} after {refused} guesses"),
        }
    }
    assert!(refused >= 100, "{refused}");
}

#[tokio::test]
async fn no_answer_is_kept_by_a_browser() {
    let request = Request::get("/ops/settings").header("host", "localhost").body(Body::empty()).unwrap();
    let response = router_for(OpsAccess::Loopback, MockOutboxOperationsPort::new()).oneshot(request).await.unwrap();
    assert_eq!(response.headers()[CACHE_CONTROL], "no-store");
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
    for (name, value) in [
        ("host", "evil.example:9091"),
        ("origin", "http://evil.example"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
    ] {
        let mut request = Request::post(format!("/ops/outbox/events/{ID}/discard"));
        if name != "host" {
            request = request.header("host", "localhost:9091");
        }
        let request = request.header(name, value).body(Body::empty()).unwrap();
        let access = OpsAccess::new(None);
        assert_problem(&send(router_for(access, MockOutboxOperationsPort::new()), request).await, 403, "loopback");
    }
}
