//! The whole module: from a request to the row and the event, and back.

use std::collections::BTreeSet;

use axum::http::{Method, StatusCode};
use serde_json::json;
use tokio::task::JoinSet;

use crate::world::{Answer, World, call};

const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const WORK_LOGS: &str = "/portfolios/00000000-0000-0000-0000-0000000000aa/work-logs";

async fn created(routes: &axum::Router, key: &str) -> (String, Answer) {
    let body = r#"{"title":"Paint the fence","plannedMinutes":90}"#;
    let headers = [("idempotency-key", key), ("traceparent", TRACEPARENT)];
    let answer = call(routes, Method::POST, WORK_LOGS, &headers, body).await;
    assert_eq!(answer.status, StatusCode::CREATED, "{answer:?}");
    (answer.headers["location"].to_str().expect("text").to_owned(), answer)
}

#[tokio::test]
async fn a_work_log_goes_from_reservation_to_completion_with_an_event_each_in_order() {
    let world = World::new("life").await;
    let routes = world.module().routes;
    let (path, receipt) = created(&routes, "k").await;
    let started = call(&routes, Method::POST, &format!("{path}/start"), &[("if-match", "\"1\"")], "").await;
    assert_eq!((started.status, &started.body["version"]), (StatusCode::OK, &json!(2)), "{started:?}");
    let body = r#"{"spentMinutes":75}"#;
    let completed = call(&routes, Method::POST, &format!("{path}/complete"), &[], body).await;
    assert_eq!((completed.status, &completed.body["version"]), (StatusCode::OK, &json!(3)), "{completed:?}");

    let shown = call(&routes, Method::GET, &path, &[], "").await;
    assert_eq!(shown.headers["etag"], "\"3\"");
    assert_eq!(shown.body["reservedAt"], receipt.body["changedAt"], "a receipt and a later read agree");
    assert_eq!(shown.body["changedAt"], completed.body["changedAt"]);
    assert_eq!((&shown.body["status"], &shown.body["spentMinutes"]), (&json!("COMPLETED"), &json!(75)));
    let listed = call(&routes, Method::GET, WORK_LOGS, &[], "").await;
    assert_eq!(listed.body, json!({"items": [shown.body], "nextAfter": null}));

    let events = world.events().await;
    let types: Vec<&str> = events.iter().map(|event| event.event_type.as_str()).collect();
    assert_eq!(types, ["WorkLogReserved", "WorkLogStarted", "WorkLogCompleted"]);
    for event in &events {
        assert_eq!((&*event.aggregate_type, json!(event.aggregate_id)), ("work-log", shown.body["id"].clone()));
        assert_eq!(event.headers["schemaVersion"], "1");
    }
    assert_eq!(events[0].headers["traceparent"], TRACEPARENT);
    assert_eq!(events[2].headers["occurredAt"], completed.body["changedAt"]);
    assert_eq!(world.wakeup.count(), 3);
}

#[tokio::test]
async fn a_refused_transition_leaves_no_event_and_no_change() {
    let world = World::new("refused").await;
    let routes = world.module().routes;
    let (path, _) = created(&routes, "k").await;
    let early = call(&routes, Method::POST, &format!("{path}/complete"), &[], r#"{"spentMinutes":1}"#).await;
    assert_eq!(early.status, StatusCode::CONFLICT, "{early:?}");
    let stale = call(&routes, Method::POST, &format!("{path}/start"), &[("if-match", "\"2\"")], "").await;
    assert_eq!(stale.status, StatusCode::PRECONDITION_FAILED, "{stale:?}");
    let unknown =
        call(&routes, Method::POST, &format!("{WORK_LOGS}/00000000-0000-0000-0000-000000000001/start"), &[], "").await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND, "{unknown:?}");
    assert_eq!((world.events().await.len(), world.count("work_log WHERE version = 1").await), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_transitions_at_once_one_happens_and_the_others_are_conflicts() {
    let world = World::new("race").await;
    let routes = world.module().routes;
    let (path, _) = created(&routes, "k").await;
    let mut requests = JoinSet::new();
    for _ in 0..8 {
        let (routes, path) = (routes.clone(), format!("{path}/start"));
        requests.spawn(async move { call(&routes, Method::POST, &path, &[], "").await.status });
    }
    let statuses = requests.join_all().await;
    assert_eq!(statuses.iter().filter(|status| **status == StatusCode::OK).count(), 1, "{statuses:?}");
    assert!(statuses.iter().all(|status| [StatusCode::OK, StatusCode::CONFLICT].contains(status)), "{statuses:?}");
    assert_eq!(world.events().await.len(), 2);
}

#[tokio::test]
async fn pages_of_the_list_lead_from_one_to_the_next() {
    let world = World::new("list").await;
    let routes = world.module().routes;
    let (mut made, mut met) = (BTreeSet::new(), Vec::new());
    for n in 0..5 {
        let (_, receipt) = created(&routes, &format!("k{n}")).await;
        made.insert(receipt.body["id"].as_str().expect("an id").to_owned());
    }
    let mut next_after = String::new();
    for more in [true, true, false] {
        let page = call(&routes, Method::GET, &format!("{WORK_LOGS}?limit=2{next_after}"), &[], "").await;
        for item in page.body["items"].as_array().expect("items") {
            met.push(item["id"].as_str().expect("an id").to_owned());
        }
        assert_eq!(page.body["nextAfter"].is_string(), more, "{page:?}");
        next_after = format!("&after={}", page.body["nextAfter"].as_str().unwrap_or_default());
    }
    assert_eq!(met, made.into_iter().collect::<Vec<_>>());
}

#[tokio::test]
async fn a_missing_table_is_a_failure_of_ours_and_a_lost_database_one_that_passes() {
    let world = World::new("lost").await;
    let routes = world.module().routes;
    world.execute("ALTER TABLE portfolio_minutes RENAME TO elsewhere").await;
    let minutes = "/portfolios/00000000-0000-0000-0000-0000000000aa/minutes";
    let answer = call(&routes, Method::GET, minutes, &[], "").await;
    assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR, "{answer:?}");
    world.database.close().await;
    let answer = call(&routes, Method::GET, minutes, &[], "").await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{answer:?}");
}
