//! Whatever a client sends is answered: by a use case, or by a problem that is the client's.

use axum::http::{HeaderName, HeaderValue, Uri};
use proptest::prelude::*;
use test_support::corpus;

use super::*;

const LONGEST_ANSWER: usize = 16 * 1024;

/// Use cases that do whatever they are asked.
fn willing() -> Fakes {
    let mut fakes = Fakes::default();
    let created = |_| Ok(CreatedWorkLog { receipt: receipt(WorkLogStatus::Reserved, 1), replayed: false });
    fakes.create.expect_execute().returning(created);
    fakes.start.expect_execute().returning(|_| Ok(receipt(WorkLogStatus::Started, 2)));
    fakes.complete.expect_execute().returning(|_, spent| Ok(receipt(WorkLogStatus::Completed { spent }, 3)));
    fakes.cancel.expect_execute().returning(|_| Ok(receipt(WorkLogStatus::Cancelled, 3)));
    fakes.get.expect_execute().returning(|_, _| Ok(Some(snapshot(WORK_LOG))));
    let page = || WorkLogPage { items: vec![snapshot(WORK_LOG)], next_after: Some(WORK_LOG) };
    fakes.list.expect_execute().returning(move |_, _, _| Ok(page()));
    fakes.minutes.expect_execute().returning(|_| Ok(PortfolioMinutes::default()));
    fakes
}

fn any_method() -> impl Strategy<Value = Method> {
    let others = vec![Method::PUT, Method::DELETE, Method::PATCH, Method::OPTIONS];
    prop_oneof![4 => Just(Method::POST), 4 => Just(Method::GET), 1 => prop::sample::select(others)]
}

/// Paths and queries as bytes: `http` refuses what no request line can hold, as the server does.
fn any_uri() -> impl Strategy<Value = Uri> {
    let known: Vec<Vec<u8>> = [
        WORK_LOGS.to_owned(),
        ONE.to_owned(),
        format!("{ONE}/start"),
        format!("{ONE}/complete"),
        format!("{ONE}/cancel"),
        "/portfolios/00000000-0000-0000-0000-0000000000aa/minutes".to_owned(),
        format!("{WORK_LOGS}?limit=10&after={WORK_LOG}"),
        format!("{WORK_LOGS}?limit=%31&limit=-9223372036854775808&%61fter="),
    ]
    .map(String::into_bytes)
    .to_vec();
    let edits = prop_oneof![2 => Just(Vec::new()), 3 => prop::collection::vec(any::<corpus::Edit>(), 0..4)];
    (any::<usize>(), edits).prop_filter_map("no request line", move |(begin, edits)| {
        Uri::try_from(corpus::edited(&known, begin, &edits)).ok()
    })
}

fn any_headers() -> impl Strategy<Value = Vec<(HeaderName, HeaderValue)>> {
    let name = prop::sample::select(vec!["content-type", "content-length", "if-match", "traceparent", "accept"]);
    let known = vec!["application/json", "application/json; charset=utf-16", "\"3\"", "W/\"3\"", "*", "0", "identity"];
    let value = prop_oneof![
        prop::sample::select(known).prop_map(|text| text.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..40),
    ];
    let value = value.prop_filter_map("no header", |bytes| HeaderValue::from_bytes(&bytes).ok());
    prop::collection::vec((name.prop_map(HeaderName::from_static), value), 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn any_request_is_answered_by_a_use_case_or_by_a_problem_of_the_clients(
        method in any_method(), uri in any_uri(), key in prop::option::weighted(0.8, "[ -~]{1,20}"), headers in any_headers(),
        is_json in prop::bool::weighted(0.8), begin in any::<usize>(), edits in prop::collection::vec(any::<corpus::Edit>(), 0..4),
    ) {
        let known = corpus::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/bodies"));
        let mut request = Request::builder().method(method).uri(&uri);
        if is_json {
            request = request.header("content-type", "application/json");
        }
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let request = request.body(Body::from(corpus::edited(&known, begin, &edits))).expect("a request");
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let answer = runtime.block_on(willing().answer(request));
        if answer.status.is_success() {
            return Ok(());
        }
        prop_assert!(answer.status.is_client_error(), "{answer:?}");
        // Elsewhere the process answers, not the sample.
        if uri.path().starts_with("/portfolios/") {
            prop_assert_eq!(answer.header("content-type"), Some("application/problem+json"));
            prop_assert_eq!(&answer.body["status"], &json!(answer.status.as_u16()));
            prop_assert!(answer.body.to_string().len() < LONGEST_ANSWER, "{}", answer.body);
        }
    }
}

#[tokio::test]
async fn an_identifier_that_is_none_is_repeated_in_part_only() {
    let path = format!("/portfolios/{}/work-logs/{}", uuid::Uuid::nil(), "0".repeat(20_000));
    let request = Request::builder().uri(path).body(Body::empty()).expect("a request");
    let answer = willing().answer(request).await;
    assert_eq!(answer.status.as_u16(), 400);
    let detail = answer.body["detail"].as_str().expect("a detail");
    assert!(detail.contains("work_log_id") && detail.ends_with('…') && detail.len() < 400, "{detail}");
}
