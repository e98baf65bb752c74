//! The projection behind the inbox: a redelivery adds nothing, and a refused message leaves no trace.

use std::{collections::BTreeMap, sync::Arc};

use application_core::{
    inbox::InboundMessage,
    outbox::{AggregateId, AggregateType, EventHeaders, EventId, EventType, Payload, Sequence},
    usecases::{Handled, HandlerError},
};
use axum::http::{Method, StatusCode};
use serde_json::{Value, json};
use tokio::{sync::Barrier, task::JoinSet};

use crate::world::{StoredEvent, World, call};

const PORTFOLIO: &str = "/portfolios/00000000-0000-0000-0000-0000000000aa";

fn delivery(event: &StoredEvent) -> InboundMessage {
    let headers: BTreeMap<String, String> = serde_json::from_value(event.headers.clone()).expect("headers");
    let headers = EventHeaders::from_stored(headers);
    InboundMessage {
        id: EventId::new(event.id),
        event_type: EventType::from_stored(&event.event_type),
        aggregate_type: AggregateType::from_stored(&event.aggregate_type),
        aggregate_id: AggregateId::from_stored(&event.aggregate_id),
        sequence: Sequence(event.sequence),
        schema_version: headers.schema_version(),
        idempotency_key: event.id.to_string(),
        occurred_at: headers.occurred_at().expect("a time"),
        replay: false,
        payload: Payload::from_stored(&event.payload),
        headers,
    }
}

/// Three work logs: one completed, one cancelled, one reserved.
async fn deliveries(world: &World) -> Vec<InboundMessage> {
    let routes = world.module().routes;
    let mut paths = Vec::new();
    for n in 0..3 {
        let key = format!("k{n}");
        let body = r#"{"title":"Paint","plannedMinutes":90}"#;
        let path = format!("{PORTFOLIO}/work-logs");
        let created = call(&routes, Method::POST, &path, &[("idempotency-key", &key)], body).await;
        paths.push(created.headers["location"].to_str().expect("text").to_owned());
    }
    for (path, body) in [
        (format!("{}/start", paths[0]), ""),
        (format!("{}/complete", paths[0]), r#"{"spentMinutes":75}"#),
        (format!("{}/cancel", paths[1]), ""),
    ] {
        assert_eq!(call(&routes, Method::POST, &path, &[], body).await.status, StatusCode::OK, "{path}");
    }
    world.events().await.iter().map(delivery).collect()
}

async fn sums(world: &World) -> Value {
    let answer = call(&world.module().routes, Method::GET, &format!("{PORTFOLIO}/minutes"), &[], "").await;
    json!([answer.body["completedMinutes"], answer.body["events"]])
}

#[tokio::test]
async fn each_event_is_added_once_however_often_it_is_delivered() {
    let world = World::new("redelivery").await;
    let (deliveries, consumer) = (deliveries(&world).await, world.consumer());
    assert_eq!(deliveries.len(), 6);
    let expected = json!([75, {"reserved": 3, "started": 1, "completed": 1, "cancelled": 1}]);
    for round in 0..3 {
        for message in &deliveries {
            let handled = consumer.handle(message).await.expect("handled");
            assert_eq!(handled, if round == 0 { Handled::Applied } else { Handled::Duplicate });
        }
        assert_eq!(sums(&world).await, expected, "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn deliveries_of_all_events_at_once_four_times_each_add_each_once() {
    let world = World::new("at_once").await;
    let (deliveries, consumer) = (deliveries(&world).await, world.consumer());
    let (barrier, mut tasks) = (Arc::new(Barrier::new(deliveries.len() * 4)), JoinSet::new());
    for message in deliveries.iter().cycle().take(deliveries.len() * 4) {
        let (message, consumer, barrier) = (message.clone(), Arc::clone(&consumer), Arc::clone(&barrier));
        tasks.spawn(async move {
            barrier.wait().await;
            consumer.handle(&message).await.expect("handled")
        });
    }
    let applied = tasks.join_all().await.into_iter().filter(|handled| *handled == Handled::Applied).count();
    assert_eq!(applied, deliveries.len());
    assert_eq!(sums(&world).await, json!([75, {"reserved": 3, "started": 1, "completed": 1, "cancelled": 1}]));
}

#[tokio::test]
async fn a_rejected_message_leaves_neither_sums_nor_a_record() {
    let world = World::new("rejected").await;
    let (deliveries, consumer) = (deliveries(&world).await, world.consumer());
    let newer = InboundMessage { schema_version: 2, ..deliveries[0].clone() };
    let garbled = InboundMessage { payload: Payload::from_stored("{}"), ..deliveries[0].clone() };
    for message in [newer, garbled] {
        let outcome = consumer.handle(&message).await;
        assert!(matches!(outcome, Err(HandlerError::Reject { .. })), "{outcome:?}");
    }
    assert_eq!(sums(&world).await, json!([0, {"reserved": 0, "started": 0, "completed": 0, "cancelled": 0}]));
    assert_eq!(consumer.handle(&deliveries[0]).await.expect("handled"), Handled::Applied, "no record was left");
}

#[tokio::test]
async fn an_unknown_event_is_recorded_as_handled() {
    let world = World::new("unknown").await;
    let (deliveries, consumer) = (deliveries(&world).await, world.consumer());
    let unknown = InboundMessage { event_type: EventType::from_stored("WorkLogReopened"), ..deliveries[0].clone() };
    assert_eq!(consumer.handle(&unknown).await.expect("handled"), Handled::Applied);
    assert_eq!(consumer.handle(&unknown).await.expect("handled"), Handled::Duplicate);
    assert_eq!(world.count("portfolio_minutes").await, 0);
}
