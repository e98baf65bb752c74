//! The AsyncAPI document against what a real broker hands out.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use adapter_outbound::{amqp::EVENT_HEADER_PREFIX, envelope::EnvelopeFormat};
use app_bootstrap::contexts::event_contracts;
use application_core::{
    outbox::{
        AggregateId, AggregateType, EventHeaders, EventType, OutboxEvent, Payload, Sequence, headers::TRACEPARENT,
    },
    ports::MessagePublishPort,
};
use serde_json::Value;
use system_tests::event_documents::describe;
use test_support::fixtures;
use time::OffsetDateTime;

use super::outbox_message_publish_adapter::Rabbit;

fn names(value: &Value) -> BTreeSet<String> {
    let keys = value.as_object().into_iter().flat_map(|object| object.keys().cloned());
    keys.chain(value.as_array().into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned))).collect()
}

#[tokio::test]
async fn the_described_headers_are_those_that_arrive() {
    let document = describe(&event_contracts()).expect("described");
    let described = &document["components"]["schemas"]["headers"];
    let (required, known) = (names(&described["required"]), names(&described["properties"]));
    let own = BTreeMap::from([
        (TRACEPARENT.to_owned(), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
        ("tenant".to_owned(), "t1".to_owned()),
    ]);
    let event = OutboxEvent {
        id: fixtures::event_id(1),
        sequence: Sequence(1),
        aggregate_type: AggregateType::from_stored("order"),
        aggregate_id: AggregateId::from_stored("o-1"),
        event_type: EventType::from_stored("OrderPlaced"),
        payload: Payload::from_stored("{}"),
        headers: EventHeaders::from_stored(own),
        attempts: 0,
        replays: 0,
        created_at: OffsetDateTime::UNIX_EPOCH,
        age_at_claim: Duration::ZERO,
    };
    let rabbit = Rabbit::start(EnvelopeFormat::Json).await;
    rabbit.publisher.publish(&event).await.expect("published");
    let messages = rabbit.messages().await;
    let arrived = messages[0].properties.headers().as_ref().expect("headers").inner();
    let arrived: BTreeSet<String> = arrived.keys().map(|name| name.as_str().to_owned()).collect();
    rabbit.publisher.close(Duration::from_secs(10)).await;

    let (prefixed, named): (BTreeSet<String>, BTreeSet<String>) =
        arrived.into_iter().partition(|name| name.starts_with(EVENT_HEADER_PREFIX));
    assert_eq!(named, known, "a traced event has every header that is described, and no other");
    assert_eq!(&required | &BTreeSet::from([TRACEPARENT.to_owned()]), known);
    assert_eq!(prefixed, BTreeSet::from([format!("{EVENT_HEADER_PREFIX}tenant")]));
    let pattern = format!("^{EVENT_HEADER_PREFIX}");
    assert_eq!(names(&described["patternProperties"]), BTreeSet::from([pattern]));
}
