//! Whatever is sent to `/ops` is answered: by what was asked for, or by a problem that is the client's.

use std::collections::BTreeMap;

use application_core::outbox::{EventHeaders, Payload};
use axum::http::{HeaderName, HeaderValue, Method, Uri};
use proptest::prelude::*;
use test_support::corpus;

use super::*;

/// Four times the longest input: an answer repeats some of what came, and escapes it.
const LONGEST_ANSWER: usize = 256 * 1024;

const BODIES: [&str; 11] = [
    r#"{"by":"zoe","reason":"the queue is bound again"}"#,
    r#"{"events":["0198c5a0-0000-7000-8000-000000000001"],"dryRun":true,"by":"zoe"}"#,
    r#"{"filter":{"aggregateType":"order","aggregateId":"42","class":"rejected","olderThanSeconds":60}}"#,
    r#"{"all":true,"after":"0198c5a0-0000-7000-8000-000000000001","dryRun":false}"#,
    r#"{"filter":{"eventType":"OrderPlaced","publishedFrom":"2026-01-02T03:04:05Z","publishedUntil":"2026-01-02T04:00:00+00:00"}}"#,
    r#"{"olderThanSeconds":4294967295,"only":"published","dryRun":true}"#,
    r#"{"everything":true}"#,
    r#"{"aggregateType":"order","by":"zoe"}"#,
    r#"{"consumer":"minutes","events":["0198c5a0-0000-7000-8000-000000000001"],"by":"zoe"}"#,
    r#"{"aggregateType":"order","aggregateId":"42","discard":"0198c5a0-0000-7000-8000-000000000001"}"#,
    "",
];

const QUERIES: [&str; 6] = [
    "",
    "?status=DEAD&limit=10&after=0198c5a0-0000-7000-8000-000000000001",
    "?aggregateType=order&aggregateId=%34%32&eventType=a+b",
    "?limit=4294967296&limit=-1&before=9223372036854775808",
    "?consumer=minutes&limit=10",
    "?class=rejected&publishedFrom=2026-01-02T03:04:05Z",
];

/// Ports that do whatever they are asked.
fn willing() -> OpsParts {
    let mut operations = MockOutboxOperationsPort::new();
    operations.expect_find().returning(|_| Ok(Some(event(OutboxEventStatus::Dead))));
    operations.expect_content().returning(|_| {
        let headers = EventHeaders::from_stored(BTreeMap::new());
        Ok(Some(OutboxEventContent { payload: Payload::from_stored("1"), headers }))
    });
    operations.expect_list().returning(|_| Ok(page(1, None)));
    operations.expect_published_gone_until().returning(|| Ok(None));
    operations.expect_blocked().returning(|_| Ok(Vec::new()));
    operations.expect_act().returning(|_, events, _| Ok(events.to_vec()));
    operations.expect_requeue_unresolved().returning(|events, _| Ok(events.to_vec()));
    let mut audit = MockOutboxAuditPort::new();
    audit.expect_audit().returning(|_, _| Ok(vec![audit_entry()]));
    audit.expect_audit_of().returning(|_, _| Ok(vec![audit_entry()]));
    let mut maintenance = MockOutboxMaintenancePort::new();
    maintenance.expect_purge().returning(|_, _, _, _| Ok(0));
    maintenance.expect_count_purgeable().returning(|_, _| Ok(1));
    let purge = Arc::new(PurgeOutboxUseCase::new(Arc::new(maintenance)));
    let (mut of_inbox, mut requests) = (MockInboxOperationsPort::new(), MockUnparkRequestPort::new());
    of_inbox.expect_forget().returning(|_, _, _| Ok(0));
    of_inbox.expect_list_parked().returning(|_, _| Ok(Vec::new()));
    of_inbox.expect_consumers().returning(|| Ok(vec!["minutes".to_owned()]));
    of_inbox.expect_record_unpark().returning(|_, _, _, _, _| Ok(1));
    requests.expect_request().returning(|_, _, _| Ok(()));
    OpsParts { purge, inbox: inbox(of_inbox, requests), payloads: true, ..parts_with(operations, audit) }
}

fn any_method() -> impl Strategy<Value = Method> {
    let others = vec![Method::PUT, Method::DELETE, Method::PATCH, Method::OPTIONS];
    prop_oneof![4 => Just(Method::POST), 4 => Just(Method::GET), 1 => prop::sample::select(others)]
}

fn any_edits() -> impl Strategy<Value = Vec<corpus::Edit>> {
    prop_oneof![1 => Just(Vec::new()), 2 => prop::collection::vec(any::<corpus::Edit>(), 0..4)]
}

/// Every path that there is, with any query, and what comes of small edits, as far as a request line can hold it.
fn any_uri() -> impl Strategy<Value = Uri> {
    let paths = ROUTES.iter().map(|(path, _)| path.replace("{id}", ID));
    let known: Vec<Vec<u8>> =
        paths.flat_map(|path| QUERIES.map(|query| format!("{path}{query}").into_bytes())).collect();
    (any::<usize>(), any_edits()).prop_filter_map("no request line", move |(begin, edits)| {
        Uri::try_from(corpus::edited(&known, begin, &edits)).ok()
    })
}

fn any_headers() -> impl Strategy<Value = Vec<(HeaderName, HeaderValue)>> {
    let names = vec!["content-type", "origin", "sec-fetch-site", "authorization", "traceparent", "accept"];
    let known =
        vec!["application/json", "application/json; charset=\"utf-16", "http://127.0.0.1:9091", "none", "Bearer "];
    let value = prop_oneof![
        prop::sample::select(known).prop_map(|text| text.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..40),
    ];
    let value = value.prop_filter_map("no header", |bytes| HeaderValue::from_bytes(&bytes).ok());
    prop::collection::vec((prop::sample::select(names).prop_map(HeaderName::from_static), value), 0..3)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn any_request_of_an_operator_is_answered_or_refused_by_a_problem_of_the_clients(
        method in any_method(), uri in any_uri(), headers in any_headers(), is_json in prop::bool::weighted(0.9),
        begin in any::<usize>(), edits in any_edits(),
    ) {
        let known = BODIES.map(|body| body.as_bytes().to_vec());
        let mut request = Request::builder().method(method).uri(&uri).header("host", "127.0.0.1:9091");
        if is_json {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let request = request.body(Body::from(corpus::edited(&known, begin, &edits))).expect("a request");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        let answered = runtime.block_on(send(ops_router(willing(), OpsAccess::Loopback), request));
        let status = answered.status;
        if status.is_success() {
            return Ok(());
        }
        prop_assert!(status.is_client_error() || status.is_redirection(), "{status} {}", answered.body);
        // The page's own paths are answered by the server's guard.
        if ["/ops/outbox/", "/ops/inbox/"].iter().any(|under| uri.path().starts_with(under)) {
            prop_assert_eq!(&answered.content_type, "application/problem+json");
            prop_assert_eq!(&answered.body["status"], &json!(status.as_u16()));
            prop_assert!(answered.body.to_string().len() < LONGEST_ANSWER, "{}", answered.body);
        }
    }
}
