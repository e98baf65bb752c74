//! What the broker answers, and what becomes of it.

use std::collections::{BTreeMap, BTreeSet};

use application_core::{
    outbox::{EventHeaders, FailureClass, Payload},
    ports::{Availability, MessagePublishPort, ReadinessCheck},
};
use lapin::{
    BasicProperties, Confirmation,
    options::BasicPublishOptions,
    types::{AMQPValue, FieldTable},
};
use uuid::Uuid;

use crate::stage::{Stage, argument, class, event, events, message_id, publish_all, start, with_override};

#[tokio::test(flavor = "multi_thread")]
async fn a_confirmed_event_is_in_the_queue_with_all_that_rule_r18_lists() {
    let stage = Stage::shared("confirmed").await;
    let exchange = stage.exchange("e").await;
    let queue = stage.queue("q", &exchange, "work-log.Reserved").await;
    let publisher = stage.publisher(&stage.settings(&exchange, "{aggregate_type}.{event_type}")).await;
    let mut sent = event("Reserved");
    let headers = [("traceparent", "00-1-2-01"), ("CC", "elsewhere")];
    sent.headers = EventHeaders::from_stored(
        headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter().collect(),
    );
    publisher.publish(&sent).await.unwrap();

    let taken = stage.take_all(&queue).await;
    assert_eq!(taken.len(), 1);
    let delivery = &taken[0];
    assert_eq!(message_id(delivery), sent.id.as_uuid());
    assert_eq!(delivery.routing_key.as_str(), "work-log.Reserved");
    assert_eq!(delivery.properties.delivery_mode(), &Some(2));
    assert_eq!(delivery.properties.kind().as_ref().unwrap().as_str(), "Reserved");
    let headers = delivery.properties.headers().as_ref().unwrap().inner();
    for (name, value) in [
        ("x-aggregate-id", AMQPValue::LongString(sent.aggregate_id.as_str().into())),
        ("x-attempt", AMQPValue::LongLongInt(1)),
        ("x-sequence", AMQPValue::LongLongInt(sent.sequence.0)),
        ("traceparent", AMQPValue::LongString("00-1-2-01".into())),
        ("x-header-CC", AMQPValue::LongString("elsewhere".into())),
    ] {
        assert_eq!(headers.get(name), Some(&value), "{name}");
    }
    let body: serde_json::Value = serde_json::from_slice(&delivery.data).unwrap();
    assert_eq!(body["eventId"], sent.id.to_string());
    assert_eq!(body["payload"]["n"], sent.sequence.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_default_exchange_with_a_queues_name_is_a_route() {
    let stage = Stage::shared("default").await;
    let queue = stage.queue("q", "", "").await;
    let publisher = stage.publisher(&stage.settings("", &queue)).await;
    let sent = event("Reserved");
    publisher.publish(&sent).await.unwrap();
    assert_eq!(publisher.destination(&sent).unwrap().as_str(), format!("queue {queue}"));
    assert_eq!(stage.count_all(&queue).await, BTreeMap::from([(sent.id.as_uuid(), 1)]));
}

/// Case B29; and the client hands returned messages to the confirms of other messages.
#[tokio::test(flavor = "multi_thread")]
async fn unroutable_events_among_many_are_told_apart_from_confirmed_ones() {
    let stage = Stage::shared("unroutable").await;
    let exchange = stage.exchange("e").await;
    let mut arguments = FieldTable::default();
    argument(&mut arguments, "x-queue-type", AMQPValue::LongString("quorum".into()));
    let queue = stage.queue_with("q", &exchange, "work-log.Bound", arguments).await;
    let publisher = stage.publisher(&stage.settings(&exchange, "{aggregate_type}.{event_type}")).await;
    for round in 0..10 {
        let batch: Vec<_> =
            (0..400).map(|n| event(if (n * 7 + round) % 3 == 0 { "Unbound" } else { "Bound" })).collect();
        let fates: BTreeMap<Uuid, _> = publish_all(&publisher, &batch).await.into_iter().collect();
        for event in &batch {
            let expected = (event.event_type.as_str() == "Unbound").then_some(FailureClass::Unroutable);
            let fate = &fates[&event.id.as_uuid()];
            assert_eq!(class(fate), expected, "round {round}: {fate:?}");
        }
        let confirmed: BTreeMap<_, _> = fates.iter().filter(|(_, fate)| fate.is_ok()).map(|(id, _)| (*id, 1)).collect();
        assert_eq!(stage.count_all(&queue).await, confirmed);
    }
    let failure = publisher.publish(&event("Unbound")).await.unwrap_err();
    assert!(failure.reason().starts_with("NO_ROUTE"), "{failure}");
}

/// Rule R5, case B60.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_rejects_and_other_destinations_flow() {
    let stage = Stage::shared("full").await;
    let (full, open) = (stage.exchange("full").await, stage.exchange("open").await);
    let mut arguments = FieldTable::default();
    argument(&mut arguments, "x-max-length", AMQPValue::LongInt(5));
    argument(&mut arguments, "x-overflow", AMQPValue::LongString("reject-publish".into()));
    stage.queue_with("full-queue", &full, "#", arguments).await;
    let open_queue = stage.queue("open-queue", &open, "#").await;
    let mut settings = stage.settings(&full, "k");
    with_override(&mut settings, "Open", &open);
    let publisher = stage.publisher(&settings).await;
    let (to_full, to_open) = (events(50, "Full"), events(50, "Open"));
    let (rejected, flowing) = tokio::join!(publish_all(&publisher, &to_full), publish_all(&publisher, &to_open));
    let classes: BTreeSet<_> = rejected.iter().map(|(_, fate)| class(fate)).collect();
    assert_eq!(classes, BTreeSet::from([None, Some(FailureClass::Rejected)]));
    assert!(rejected.iter().filter(|(_, fate)| fate.is_err()).count() >= 40);
    assert!(flowing.iter().all(|(_, fate)| fate.is_ok()));
    assert_eq!(stage.count_all(&open_queue).await.len(), 50);
}

/// Case B60: a missing exchange is that destination's failure alone, and costs neither connection nor other channels.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_exchange_fails_as_unavailable_and_other_destinations_flow() {
    let stage = Stage::shared("missing").await;
    let there = stage.exchange("there").await;
    let queue = stage.queue("q", &there, "#").await;
    let mut settings = stage.settings(&stage.name("missing"), "k");
    with_override(&mut settings, "Open", &there);
    let publisher = stage.publisher(&settings).await;
    for _ in 0..20 {
        let (to_missing, to_open) = (events(50, "Missing"), events(50, "Open"));
        let (failed, flowing) = tokio::join!(publish_all(&publisher, &to_missing), publish_all(&publisher, &to_open));
        for (_, fate) in failed {
            let failure = fate.unwrap_err();
            assert_eq!(failure.class(), FailureClass::Unavailable);
            assert!(failure.reason().contains("NOT_FOUND"), "{failure}");
        }
        for (_, fate) in flowing {
            fate.unwrap();
        }
    }
    assert_eq!(stage.count_all(&queue).await.len(), 1_000);

    stage.exchange("missing").await;
    let queue = stage.queue("late", &stage.name("missing"), "#").await;
    publisher.publish(&event("Missing")).await.unwrap();
    assert_eq!(stage.take_all(&queue).await.len(), 1);
}

/// The client never reuses the number of a channel that the broker closed, and there are 2,047 of them.
#[tokio::test(flavor = "multi_thread")]
async fn an_exchange_that_stays_missing_does_not_use_up_the_channels_of_the_connection() {
    let stage = Stage::shared("numbers").await;
    let there = stage.exchange("there").await;
    stage.queue("q", &there, "#").await;
    let mut settings = stage.settings(&stage.name("missing"), "k");
    with_override(&mut settings, "Open", &there);
    let publisher = stage.publisher(&settings).await;
    for _ in 0..2_300 {
        assert_eq!(class(&publisher.publish(&event("Missing")).await), Some(FailureClass::Unavailable));
    }
    publisher.wait_until_available(crate::stage::SOON).await.unwrap();
    stage.exchange("missing").await;
    stage.queue("late", &stage.name("missing"), "#").await;
    for event in [event("Missing"), event("Open")] {
        crate::stage::eventually("both destinations take events", async || publisher.publish(&event).await.is_ok())
            .await;
    }
}

/// Case B33.
#[tokio::test(flavor = "multi_thread")]
async fn an_oversize_event_among_a_hundred_alone_is_poison_and_the_rest_is_published_once() {
    let stage = Stage::shared("oversize").await;
    let exchange = stage.exchange("e").await;
    let queue = stage.queue("q", &exchange, "#").await;
    let mut settings = stage.settings(&exchange, "k");
    settings.amqp.max_message_bytes = 10_000;
    let publisher = stage.publisher(&settings).await;
    let mut batch = events(100, "Reserved");
    batch[50].payload = Payload::from_stored(format!("\"{}\"", "x".repeat(10_000)));
    let fates = publish_all(&publisher, &batch).await;
    for (at, (_, fate)) in fates.iter().enumerate() {
        assert_eq!(class(fate), (at == 50).then_some(FailureClass::Poison), "{at}: {fate:?}");
    }
    let expected: BTreeMap<_, _> =
        batch.iter().enumerate().filter(|(at, _)| *at != 50).map(|(_, event)| (event.id.as_uuid(), 1)).collect();
    assert_eq!(stage.count_all(&queue).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_that_fit_in_no_frame_are_poison_and_harm_no_neighbour() {
    let stage = Stage::shared("headers").await;
    let exchange = stage.exchange("e").await;
    let queue = stage.queue("q", &exchange, "#").await;
    let publisher = stage.publisher(&stage.settings(&exchange, "k")).await;
    let mut batch = events(20, "Reserved");
    let huge = BTreeMap::from([("huge".to_owned(), "v".repeat(140_000))]);
    batch[10].headers = EventHeaders::from_stored(huge);
    // What just fits in a frame is sent.
    let large = BTreeMap::from([("large".to_owned(), "v".repeat(130_000))]);
    batch[11].headers = EventHeaders::from_stored(large);
    for (at, (_, fate)) in publish_all(&publisher, &batch).await.iter().enumerate() {
        assert_eq!(class(fate), (at == 10).then_some(FailureClass::Poison), "{at}: {fate:?}");
    }
    assert_eq!(stage.count_all(&queue).await.len(), 19);
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_events_wait_for_their_confirms_at_once_on_any_number_of_channels() {
    let stage = Stage::shared("many").await;
    let exchange = stage.exchange("e").await;
    let queue = stage.queue("q", &exchange, "#").await;
    for channels in [1, 3] {
        let mut settings = stage.settings(&exchange, "{aggregate_id}");
        settings.amqp.channels_per_destination = channels;
        let publisher = stage.publisher(&settings).await;
        let batch = events(3_000, "Reserved");
        assert!(publish_all(&publisher, &batch).await.iter().all(|(_, fate)| fate.is_ok()));
        let expected: BTreeMap<_, _> = batch.iter().map(|event| (event.id.as_uuid(), 1)).collect();
        assert_eq!(stage.count_all(&queue).await, expected);
    }
}

/// Why confirm mode is asserted: without it the client reports no failure at all.
#[tokio::test(flavor = "multi_thread")]
async fn without_confirm_mode_the_client_knows_nothing_and_says_not_requested() {
    let stage = Stage::shared("mode").await;
    let channel = stage.admin_channel().await;
    let options = BasicPublishOptions { mandatory: true, immediate: false };
    let queue = stage.name("nobody");
    let confirm = channel.basic_publish("".into(), queue.as_str().into(), options, b"{}", BasicProperties::default());
    assert_eq!(confirm.await.unwrap().await.unwrap(), Confirmation::NotRequested);
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_waits_for_confirms_and_publishing_afterwards_is_nobodys_fault() {
    let stage = Stage::shared("closing").await;
    let exchange = stage.exchange("e").await;
    let queue = stage.queue("q", &exchange, "#").await;
    let publisher = stage.publisher(&stage.settings(&exchange, "k")).await;
    publisher.publish(&event("First")).await.unwrap();
    let batch = events(500, "Reserved");
    let mut publishing = std::pin::pin!(publish_all(&publisher, &batch));
    // All are handed over, none is answered.
    assert!(futures_util::poll!(publishing.as_mut()).is_pending());
    let (fates, ()) = tokio::join!(publishing, publisher.close(crate::stage::SOON));
    assert!(fates.iter().all(|(_, fate)| fate.is_ok()));
    assert_eq!(stage.count_all(&queue).await.len(), 501);
    assert!(matches!(publisher.availability(), Availability::Unavailable { .. }));
    assert_eq!(class(&publisher.publish(&event("Late")).await), Some(FailureClass::Unavailable));
    assert!(publisher.check().await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_not_there_is_a_reason_and_no_error_at_start() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    is_unavailable_and_tells_no_password(&nobody.to_string()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_refuses_the_login_is_a_reason_without_the_password() {
    let stage = Stage::shared("login").await;
    let (_, there) = stage.url.split_once('@').unwrap();
    is_unavailable_and_tells_no_password(there.split_once('/').unwrap().0).await;
}

async fn is_unavailable_and_tells_no_password(address: &str) {
    let url = format!("amqp://nobody:p%40ss%2Fhunter2@{address}/v");
    let publisher = start(&crate::stage::settings(&url, "e", "k"));
    crate::stage::eventually("the reason is known", async || {
        publisher.check().await.is_err_and(|reason| reason.contains("no connection to the broker"))
    })
    .await;
    let failure = publisher.publish(&event("Reserved")).await.unwrap_err();
    assert_eq!(failure.class(), FailureClass::Unavailable);
    let told = format!("{failure} {failure:?} {publisher:?} {}", publisher.check().await.unwrap_err());
    assert!(!told.contains("hunter2") && !told.contains("p@ss"), "{told}");
}
