//! The routes over fake driving ports: what reaches a use case, and what each outcome looks like to a client.

mod any_request;

use std::sync::Arc;

use application_core::ports::StoreError;
use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Method, Request, StatusCode, header},
};
use serde_json::{Value, json};
use tower::ServiceExt;
use uuid::Uuid;

use super::{WorkLogUseCases, router};
use crate::{
    application::{
        CommandError, CreatedWorkLog, MockCancelWorkLogUseCase, MockCompleteWorkLogUseCase, MockCreateWorkLogUseCase,
        MockGetPortfolioMinutesUseCase, MockGetWorkLogUseCase, MockListWorkLogsUseCase, MockStartWorkLogUseCase,
        PageSize, WorkLogPage, WorkLogTarget,
        testing::{NOON, PORTFOLIO, WORK_LOG, minutes, snapshot, stored, target, title},
    },
    domain::{IllegalTransition, Version, WorkLogId, WorkLogStatus, WorkLogTransition},
    ports::{IdempotencyKey, PortfolioMinutes, WorkLogReceipt},
};

const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const WORK_LOGS: &str = "/portfolios/00000000-0000-0000-0000-0000000000aa/work-logs";
const ONE: &str = "/portfolios/00000000-0000-0000-0000-0000000000aa/work-logs/00000000-0000-0000-0000-000000000001";

/// The fakes behind the routes; what a test does not expect fails it.
#[derive(Default)]
struct Fakes {
    create: MockCreateWorkLogUseCase,
    start: MockStartWorkLogUseCase,
    complete: MockCompleteWorkLogUseCase,
    cancel: MockCancelWorkLogUseCase,
    get: MockGetWorkLogUseCase,
    list: MockListWorkLogsUseCase,
    minutes: MockGetPortfolioMinutesUseCase,
}

impl Fakes {
    fn router(self) -> Router {
        router(WorkLogUseCases {
            create: Arc::new(self.create),
            start: Arc::new(self.start),
            complete: Arc::new(self.complete),
            cancel: Arc::new(self.cancel),
            get: Arc::new(self.get),
            list: Arc::new(self.list),
            minutes: Arc::new(self.minutes),
        })
    }

    async fn answer(self, request: Request<Body>) -> Answer {
        answer(self.router(), request).await
    }
}

#[derive(Debug)]
struct Answer {
    status: StatusCode,
    headers: axum::http::HeaderMap,
    body: Value,
}

impl Answer {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("text"))
    }

    /// Asserts that this is a problem document of the status and type, and gives its detail.
    #[track_caller]
    fn problem(&self, status: StatusCode, kind: &str) -> &str {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        assert_eq!((&self.body["type"], &self.body["status"]), (&json!(kind), &json!(status.as_u16())));
        assert!(self.body["title"].is_string());
        self.body["detail"].as_str().expect("a detail")
    }
}

async fn answer(router: Router, request: Request<Body>) -> Answer {
    let response = router.oneshot(request).await.expect("an answer");
    let (parts, body) = response.into_parts();
    let bytes = to_bytes(body, 1 << 20).await.expect("a body");
    let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    Answer { status: parts.status, headers: parts.headers, body }
}

fn request(method: &Method, path: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(body.into()).expect("a request")
}

fn get(path: &str) -> Request<Body> {
    request(&Method::GET, path, &[], "")
}

fn post(path: &str, headers: &[(&str, &str)], body: &str) -> Request<Body> {
    let headers = [headers, &[("content-type", "application/json")]].concat();
    request(&Method::POST, path, &headers, body.to_owned())
}

fn creation(body: &str) -> Request<Body> {
    post(WORK_LOGS, &[("idempotency-key", "first-try")], body)
}

fn receipt(status: WorkLogStatus, version: u32) -> WorkLogReceipt {
    WorkLogReceipt::from(stored(status, version).state())
}

const VALID: &str = r#"{"title":"Paint the fence","plannedMinutes":90}"#;

#[tokio::test]
async fn a_creation_answers_201_with_location_tag_and_receipt() {
    let mut fakes = Fakes::default();
    fakes
        .create
        .expect_execute()
        .withf(|command| {
            command.portfolio == PORTFOLIO
                && command.title == title()
                && command.planned == minutes(90)
                && command.key == IdempotencyKey::try_new("first-try").expect("valid")
                && command.traceparent.as_deref() == Some(TRACEPARENT)
        })
        .times(1)
        .return_once(|_| Ok(CreatedWorkLog { receipt: receipt(WorkLogStatus::Reserved, 1), replayed: false }));
    let headers = [("idempotency-key", "first-try"), ("traceparent", TRACEPARENT)];
    let answer = fakes.answer(post(WORK_LOGS, &headers, VALID)).await;
    assert_eq!(answer.status, StatusCode::CREATED);
    assert_eq!(answer.header("location"), Some(ONE));
    assert_eq!(answer.header("etag"), Some("\"1\""));
    assert_eq!(answer.header("idempotency-replayed"), None);
    assert_eq!(
        answer.body,
        json!({
            "id": WORK_LOG.as_uuid(), "portfolioId": PORTFOLIO.as_uuid(), "status": "RESERVED", "version": 1,
            "changedAt": "2026-03-01T12:00:00Z",
        })
    );
}

#[tokio::test]
async fn a_repeated_creation_answers_the_same_and_says_so() {
    let mut fakes = Fakes::default();
    let created = CreatedWorkLog { receipt: receipt(WorkLogStatus::Reserved, 1), replayed: true };
    fakes.create.expect_execute().times(1).return_once(move |_| Ok(created));
    let answer = fakes.answer(creation(VALID)).await;
    assert_eq!((answer.status, answer.header("location")), (StatusCode::CREATED, Some(ONE)));
    assert_eq!(answer.header("idempotency-replayed"), Some("true"));
}

#[tokio::test]
async fn a_creation_without_a_valid_key_is_refused() {
    let answer = Fakes::default().answer(post(WORK_LOGS, &[], VALID)).await;
    answer.problem(StatusCode::BAD_REQUEST, "urn:problem:idempotency-key:missing");
    for key in ["", "two words", &"k".repeat(129)] {
        let answer = Fakes::default().answer(post(WORK_LOGS, &[("idempotency-key", key)], VALID)).await;
        answer.problem(StatusCode::BAD_REQUEST, "urn:problem:idempotency-key:invalid");
    }
    for keys in [["first", "second"], ["same", "same"]] {
        let headers = keys.map(|key| ("idempotency-key", key));
        let answer = Fakes::default().answer(post(WORK_LOGS, &headers, VALID)).await;
        let detail = answer.problem(StatusCode::BAD_REQUEST, "urn:problem:idempotency-key:invalid");
        assert!(detail.contains("2 times"), "{detail}");
    }
}

#[tokio::test]
async fn all_invalid_fields_are_named_at_once_with_bound_and_value() {
    let answer = Fakes::default().answer(creation(r#"{"title":" ","plannedMinutes":-3}"#)).await;
    answer.problem(StatusCode::UNPROCESSABLE_ENTITY, "urn:problem:work-log:invalid");
    assert_eq!(
        answer.body["errors"],
        json!([
            {"field": "title", "detail": "title is blank"},
            {"field": "plannedMinutes", "detail": "minutes is -3, 1 to 1440 is allowed"},
        ])
    );
    let complete = post(&format!("{ONE}/complete"), &[], r#"{"spentMinutes":1441}"#);
    let answer = Fakes::default().answer(complete).await;
    answer.problem(StatusCode::UNPROCESSABLE_ENTITY, "urn:problem:work-log:invalid");
    assert_eq!(answer.body["errors"][0]["field"], "spentMinutes");
}

#[tokio::test]
async fn a_body_that_cannot_be_read_is_a_problem_with_the_place() {
    let unreadable = [
        ("{", "line 1"),
        ("", "EOF"),
        ("\u{0}", "line 1"),
        (r#"{"title":"a","plannedMinutes":1e400}"#, "plannedMinutes"),
    ];
    for (body, word) in unreadable {
        let answer = Fakes::default().answer(creation(body)).await;
        let detail = answer.problem(StatusCode::BAD_REQUEST, "about:blank");
        assert!(detail.contains(word), "{body}: {detail}");
    }
    let of_another_form = [
        (r#"{"title":"a"}"#, "plannedMinutes"),
        (r#"{"title":"a","plannedMinutes":1.5}"#, "plannedMinutes"),
        (r#"{"title":"a","plannedMinutes":1,"owner":"b"}"#, "owner"),
        (r#"{"title":"a","plannedMinutes":1,"title":"b"}"#, "title"),
        ("null", "a JSON object"),
        ("30", "a JSON object"),
        ("[]", "a JSON object"),
    ];
    for (body, word) in of_another_form {
        let answer = Fakes::default().answer(creation(body)).await;
        let detail = answer.problem(StatusCode::UNPROCESSABLE_ENTITY, "urn:problem:body:invalid");
        assert!(detail.contains(word), "{body}: {detail}");
    }
}

#[tokio::test]
async fn an_array_is_not_taken_for_the_fields_of_an_object() {
    let complete = post(&format!("{ONE}/complete"), &[], "[75]");
    for request in [creation(r#"["Paint the fence",90]"#), complete] {
        let answer = Fakes::default().answer(request).await;
        let detail = answer.problem(StatusCode::UNPROCESSABLE_ENTITY, "urn:problem:body:invalid");
        assert!(detail.contains("expected a JSON object"), "{detail}");
    }
}

#[tokio::test]
async fn an_oversized_body_and_a_foreign_content_type_are_refused() {
    let title = "x".repeat(super::MAX_BODY_BYTES);
    let answer = Fakes::default().answer(creation(&format!(r#"{{"title":"{title}","plannedMinutes":1}}"#))).await;
    let detail = answer.problem(StatusCode::PAYLOAD_TOO_LARGE, "about:blank");
    assert!(detail.contains("16384 bytes"), "{detail}");
    for (content_type, accepted) in [
        ("text/plain", "application/json"),
        ("application/json; charset=utf-16", "only utf-8"),
        ("application/json;a=b; CharSet=\"latin1\"", "only utf-8"),
    ] {
        let headers = [("idempotency-key", "k"), ("content-type", content_type)];
        let answer = Fakes::default().answer(request(&Method::POST, WORK_LOGS, &headers, VALID)).await;
        let detail = answer.problem(StatusCode::UNSUPPORTED_MEDIA_TYPE, "about:blank");
        assert!(detail.contains(accepted), "{content_type}: {detail}");
        assert_eq!(answer.header("accept"), Some("application/json"));
    }
    let headers = [("idempotency-key", "k"), ("content-type", "application/json; charset=UTF-8")];
    let answer = Fakes::default().answer(request(&Method::POST, WORK_LOGS, &headers, "{}")).await;
    answer.problem(StatusCode::UNPROCESSABLE_ENTITY, "urn:problem:body:invalid");
}

#[tokio::test]
async fn a_parameter_that_no_path_takes_is_refused_by_name() {
    let minutes = "/portfolios/00000000-0000-0000-0000-0000000000aa/minutes";
    let [start, complete, cancel] = ["start", "complete", "cancel"].map(|verb| format!("{ONE}/{verb}"));
    for (method, path) in [
        (Method::GET, minutes),
        (Method::GET, ONE),
        (Method::POST, WORK_LOGS),
        (Method::POST, &start),
        (Method::POST, &complete),
        (Method::POST, &cancel),
    ] {
        let headers = [("idempotency-key", "k"), ("content-type", "application/json")];
        let answer = Fakes::default().answer(request(&method, &format!("{path}?sine=2026"), &headers, VALID)).await;
        let detail = answer.problem(StatusCode::BAD_REQUEST, "about:blank");
        assert!(detail.contains("sine") && detail.contains("takes none"), "{path}: {detail}");
    }
    let answer = Fakes::default().answer(get(&format!("{WORK_LOGS}?offset=3"))).await;
    let detail = answer.problem(StatusCode::BAD_REQUEST, "about:blank");
    assert!(["offset", "after", "limit"].iter().all(|name| detail.contains(name)), "{detail}");
    let answer = Fakes::default().answer(get(&format!("{minutes}?{}=1", "x".repeat(10_000)))).await;
    assert!(answer.problem(StatusCode::BAD_REQUEST, "about:blank").len() < 400);
}

#[tokio::test]
async fn a_text_that_postgresql_cannot_store_is_refused_before_it_gets_there() {
    for title in [r"a\u0000", r"\u0000", r"a\u0001b"] {
        let body = format!(r#"{{"title":"{title}","plannedMinutes":1}}"#);
        let answer = Fakes::default().answer(creation(&body)).await;
        answer.problem(StatusCode::UNPROCESSABLE_ENTITY, "urn:problem:work-log:invalid");
        assert_eq!(answer.body["errors"][0]["field"], "title", "{title}");
    }
    let answer = Fakes::default().answer(creation(r#"{"title":"\ud800","plannedMinutes":1}"#)).await;
    answer.problem(StatusCode::BAD_REQUEST, "about:blank");
    for number in ["9223372036854775808", "-9223372036854775809", "18446744073709551616"] {
        let answer = Fakes::default().answer(creation(&format!(r#"{{"title":"a","plannedMinutes":{number}}}"#))).await;
        let detail = answer.problem(StatusCode::UNPROCESSABLE_ENTITY, "urn:problem:body:invalid");
        assert!(detail.contains("plannedMinutes"), "{number}: {detail}");
    }
}

#[tokio::test]
async fn a_key_that_is_no_ascii_is_refused_with_the_place() {
    let mut request = creation(VALID);
    let key = header::HeaderValue::from_bytes("schlüssel".as_bytes()).expect("a header value");
    request.headers_mut().insert("idempotency-key", key);
    let answer = Fakes::default().answer(request).await;
    let detail = answer.problem(StatusCode::BAD_REQUEST, "urn:problem:idempotency-key:invalid");
    assert!(detail.contains("byte 4"), "{detail}");
}

#[tokio::test]
async fn a_head_request_is_answered_without_a_body_and_options_with_the_methods() {
    let mut fakes = Fakes::default();
    fakes.get.expect_execute().times(1).return_once(|_, id| Ok(Some(snapshot(id))));
    let answer = fakes.answer(request(&Method::HEAD, ONE, &[], "")).await;
    assert_eq!((answer.status, answer.header("etag"), &answer.body), (StatusCode::OK, Some("\"1\""), &Value::Null));
    let answer = Fakes::default().answer(request(&Method::OPTIONS, &format!("{ONE}/start"), &[], "")).await;
    answer.problem(StatusCode::METHOD_NOT_ALLOWED, "about:blank");
    assert_eq!(answer.header("allow"), Some("POST"));
}

#[tokio::test]
async fn the_largest_valid_title_fits_even_when_every_character_is_escaped() {
    let mut fakes = Fakes::default();
    let created = CreatedWorkLog { receipt: receipt(WorkLogStatus::Reserved, 1), replayed: false };
    fakes.create.expect_execute().times(1).return_once(move |_| Ok(created));
    let title = "\\ud83d\\ude00".repeat(200);
    let answer = fakes.answer(creation(&format!(r#"{{"title":"{title}","plannedMinutes":1}}"#))).await;
    assert_eq!(answer.status, StatusCode::CREATED, "{answer:?}");
}

#[tokio::test]
async fn a_path_with_something_else_than_ids_is_a_problem_with_the_value() {
    let id = "00000000-0000-0000-0000-0000000000aa";
    let paths = [
        "/portfolios/my-own/work-logs".to_owned(),
        format!("/portfolios/{id}/work-logs/7"),
        "/portfolios/my-own/minutes".to_owned(),
        "/portfolios/%FF/minutes".to_owned(),
    ];
    for path in paths {
        let answer = Fakes::default().answer(get(&path)).await;
        answer.problem(StatusCode::BAD_REQUEST, "about:blank");
    }
    for verb in ["start", "cancel"] {
        let answer = Fakes::default().answer(post(&format!("/portfolios/{id}/work-logs/x/{verb}"), &[], "")).await;
        assert!(answer.problem(StatusCode::BAD_REQUEST, "about:blank").contains('x'));
    }
}

#[tokio::test]
async fn unknown_routes_and_methods_are_problems_too() {
    for path in ["/portfolios", "/portfolios/", "/portfolios/x/y", &format!("{ONE}/reopen"), &format!("{WORK_LOGS}/")] {
        let answer = Fakes::default().answer(get(path)).await;
        answer.problem(StatusCode::NOT_FOUND, "about:blank");
    }
    let answer = Fakes::default().answer(request(&Method::DELETE, ONE, &[], "")).await;
    answer.problem(StatusCode::METHOD_NOT_ALLOWED, "about:blank");
    assert_eq!(answer.header("allow"), Some("GET,HEAD"));
    let answer = Fakes::default().answer(request(&Method::PUT, WORK_LOGS, &[], "")).await;
    answer.problem(StatusCode::METHOD_NOT_ALLOWED, "about:blank");
    let mut allowed: Vec<&str> = answer.header("allow").expect("methods").split(',').collect();
    allowed.sort_unstable();
    assert_eq!(allowed, ["GET", "HEAD", "POST"]);
}

#[tokio::test]
async fn the_routes_can_be_merged_into_a_router_with_a_fallback_of_its_own() {
    let host = Router::new().fallback(async || (StatusCode::NOT_FOUND, "the host's"));
    let merged = || host.clone().merge(Fakes::default().router());
    let elsewhere = answer(merged(), get("/invoices")).await;
    assert_eq!(
        (elsewhere.status, elsewhere.header("content-type")),
        (StatusCode::NOT_FOUND, Some("text/plain; charset=utf-8"))
    );
    answer(merged(), get("/portfolios/x/y")).await.problem(StatusCode::NOT_FOUND, "about:blank");
}

#[tokio::test]
async fn transitions_reach_their_use_case_with_the_version_of_if_match() {
    let expected =
        || WorkLogTarget { expected_version: Some(Version::new(2)), traceparent: Some(TRACEPARENT.into()), ..target() };
    let headers = [("if-match", "\"2\""), ("traceparent", TRACEPARENT)];
    let started = receipt(WorkLogStatus::Started, 3);

    let mut fakes = Fakes::default();
    fakes.start.expect_execute().withf(move |target| *target == expected()).times(1).return_once(move |_| Ok(started));
    let answer = fakes.answer(post(&format!("{ONE}/start"), &headers, "")).await;
    assert_eq!((answer.status, answer.header("etag")), (StatusCode::OK, Some("\"3\"")));
    assert_eq!((&answer.body["status"], &answer.body["version"]), (&json!("STARTED"), &json!(3)));

    let (mut fakes, spent) = (Fakes::default(), minutes(75));
    let completed = receipt(WorkLogStatus::Completed { spent }, 3);
    fakes
        .complete
        .expect_execute()
        .withf(move |target, minutes| *target == expected() && *minutes == spent)
        .times(1)
        .return_once(move |_, _| Ok(completed));
    let answer = fakes.answer(post(&format!("{ONE}/complete"), &headers, r#"{"spentMinutes":75}"#)).await;
    assert_eq!((answer.status, &answer.body["status"]), (StatusCode::OK, &json!("COMPLETED")));

    let mut fakes = Fakes::default();
    let cancelled = receipt(WorkLogStatus::Cancelled, 3);
    fakes.cancel.expect_execute().withf(|asked| *asked == target()).times(1).return_once(move |_| Ok(cancelled));
    let answer = fakes.answer(request(&Method::POST, &format!("{ONE}/cancel"), &[], "")).await;
    assert_eq!((answer.status, &answer.body["status"]), (StatusCode::OK, &json!("CANCELLED")));
}

#[tokio::test]
async fn an_entity_tag_that_is_none_of_ours_is_a_failed_precondition() {
    let answer = Fakes::default().answer(post(&format!("{ONE}/start"), &[("if-match", "W/\"2\"")], "")).await;
    answer.problem(StatusCode::PRECONDITION_FAILED, "urn:problem:work-log:version-mismatch");
}

async fn failed_start(error: CommandError) -> Answer {
    let mut fakes = Fakes::default();
    fakes.start.expect_execute().times(1).return_once(|_| Err(error));
    fakes.answer(post(&format!("{ONE}/start"), &[], "")).await
}

#[tokio::test]
async fn each_refusal_of_a_command_has_a_status_and_a_type_of_its_own() {
    let not_found = CommandError::NotFound { portfolio: PORTFOLIO, id: WORK_LOG };
    failed_start(not_found).await.problem(StatusCode::NOT_FOUND, "urn:problem:work-log:not-found");

    let from = WorkLogStatus::Cancelled;
    let illegal = IllegalTransition { id: WORK_LOG, transition: WorkLogTransition::Start, from };
    let answer = failed_start(illegal.into()).await;
    let detail = answer.problem(StatusCode::CONFLICT, "urn:problem:work-log:illegal-transition");
    assert!(detail.ends_with("which is CANCELLED"), "{detail}");

    let mismatch = CommandError::VersionMismatch { id: WORK_LOG, expected: Version::new(2), actual: Version::new(3) };
    let answer = failed_start(mismatch).await;
    answer.problem(StatusCode::PRECONDITION_FAILED, "urn:problem:work-log:version-mismatch");

    let mut fakes = Fakes::default();
    let key = IdempotencyKey::try_new("first-try").expect("valid");
    fakes.create.expect_execute().times(1).return_once(|_| Err(CommandError::KeyReused { key }));
    let answer = fakes.answer(creation(VALID)).await;
    answer.problem(StatusCode::UNPROCESSABLE_ENTITY, "urn:problem:idempotency-key:reused");
}

#[tokio::test]
async fn a_store_that_is_away_is_503_with_retry_after_and_its_cause_is_told_to_nobody() {
    let unavailable = StoreError::Unavailable { source: "db.internal:5432 refused".into() };
    let answer = failed_start(unavailable.into()).await;
    answer.problem(StatusCode::SERVICE_UNAVAILABLE, "about:blank");
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert!(!answer.body.to_string().contains("db.internal"));
}

#[tokio::test]
async fn a_failure_of_ours_is_500_and_its_cause_is_told_to_nobody() {
    let mut fakes = Fakes::default();
    let refused = StoreError::Refused { source: "relation work_log does not exist".into() };
    fakes.get.expect_execute().times(1).return_once(|_, _| Err(refused));
    let answer = fakes.answer(get(ONE)).await;
    answer.problem(StatusCode::INTERNAL_SERVER_ERROR, "about:blank");
    assert_eq!(answer.header("retry-after"), None);
    assert!(!answer.body.to_string().contains("relation"));
}

#[tokio::test]
async fn a_work_log_is_shown_with_its_tag_and_one_that_is_not_there_is_404() {
    let mut fakes = Fakes::default();
    fakes.get.expect_execute().times(1).return_once(|_, id| Ok(Some(snapshot(id))));
    let answer = fakes.answer(get(ONE)).await;
    assert_eq!((answer.status, answer.header("etag")), (StatusCode::OK, Some("\"1\"")));
    assert_eq!(
        answer.body,
        json!({
            "id": WORK_LOG.as_uuid(), "portfolioId": PORTFOLIO.as_uuid(), "title": "Paint the fence",
            "status": "RESERVED", "plannedMinutes": 90, "spentMinutes": null, "version": 1,
            "reservedAt": "2026-03-01T12:00:00Z", "changedAt": "2026-03-01T12:00:00Z",
        })
    );

    let mut fakes = Fakes::default();
    fakes.get.expect_execute().times(1).return_once(|_, _| Ok(None));
    fakes.answer(get(ONE)).await.problem(StatusCode::NOT_FOUND, "urn:problem:work-log:not-found");
}

#[tokio::test]
async fn a_page_is_asked_for_by_key_and_size_and_names_the_next() {
    let last = WorkLogId::new(Uuid::from_u128(2));
    let mut fakes = Fakes::default();
    fakes
        .list
        .expect_execute()
        .withf(|portfolio, after, size| *portfolio == PORTFOLIO && *after == Some(WORK_LOG) && size.get() == 1)
        .times(1)
        .return_once(move |_, _, _| Ok(WorkLogPage { items: vec![snapshot(last)], next_after: Some(last) }));
    let answer = fakes.answer(get(&format!("{WORK_LOGS}?after={WORK_LOG}&limit=1"))).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.body["items"][0]["id"], json!(last.as_uuid()));
    assert_eq!(answer.body["nextAfter"], json!(last.as_uuid()));

    let mut fakes = Fakes::default();
    fakes
        .list
        .expect_execute()
        .withf(|_, after, size| after.is_none() && *size == PageSize::default())
        .times(1)
        .return_once(|_, _, _| Ok(WorkLogPage { items: Vec::new(), next_after: None }));
    let answer = fakes.answer(get(WORK_LOGS)).await;
    assert_eq!(answer.body, json!({"items": [], "nextAfter": null}));
}

#[tokio::test]
async fn a_query_that_makes_no_sense_is_a_problem() {
    for query in [
        "limit=0",
        "limit=201",
        "limit=many",
        "after=7",
        "offset=3",
        "limit=1&limit=2",
        &format!("after={WORK_LOG}&after={WORK_LOG}"),
    ] {
        let answer = Fakes::default().answer(get(&format!("{WORK_LOGS}?{query}"))).await;
        answer.problem(StatusCode::BAD_REQUEST, "about:blank");
    }
}

#[tokio::test]
async fn the_sums_of_a_portfolio_are_shown_by_kind() {
    let mut fakes = Fakes::default();
    let sums = PortfolioMinutes { completed_minutes: 75, reserved: 3, started: 2, completed: 1, cancelled: 1 };
    fakes.minutes.expect_execute().times(1).return_once(move |_| Ok(sums));
    let answer = fakes.answer(get("/portfolios/00000000-0000-0000-0000-0000000000aa/minutes")).await;
    assert_eq!(
        answer.body,
        json!({
            "portfolioId": PORTFOLIO.as_uuid(), "completedMinutes": 75,
            "events": {"reserved": 3, "started": 2, "completed": 1, "cancelled": 1},
        })
    );
    assert_eq!(answer.header(header::CONTENT_TYPE.as_str()), Some("application/json"));
    assert_eq!(snapshot(WORK_LOG).reserved_at, NOON);
}
