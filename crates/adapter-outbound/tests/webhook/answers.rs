//! What the receiver answers, and what becomes of it.

use application_core::{
    outbox::{EventHeaders, FailureClass, Payload},
    ports::{Availability, MessagePublishPort},
};
use serde_json::Value;
use test_support::webhook::{Answer, WebhookReceiver};

use crate::stage::{class, event, eventually, fate, only, publisher, settings};

#[tokio::test]
async fn a_confirmed_event_is_at_the_receiver_with_its_headers() {
    let receiver = WebhookReceiver::start(|_| Answer::Status(204)).await.unwrap();
    let publisher = publisher(&settings(&receiver.url("/in?key=1")));
    let mut sent = event("Reserved");
    let headers = [("traceparent", "00-1-2-01"), ("tenant", "acme & co")];
    sent.headers = EventHeaders::from_stored(
        headers.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter().collect(),
    );
    assert_eq!(publisher.availability(), Availability::Available);
    assert_eq!(publisher.destination(&sent).unwrap().as_str(), receiver.url(""));
    fate(publisher.publish(&sent)).await.unwrap();

    let request = only(&receiver);
    assert_eq!(request.path, "/in?key=1");
    for (name, value) in [
        ("content-type", "application/json"),
        ("webhook-id", sent.id.to_string().as_str()),
        ("webhook-timestamp", "1893499200"),
        ("x-event-type", "Reserved"),
        ("x-aggregate-id", "a1"),
        ("x-attempt", "1"),
        ("traceparent", "00-1-2-01"),
        ("x-header-tenant", "acme%20&%20co"),
    ] {
        assert_eq!(request.header(name), value, "{name}");
    }
    let body: Value = serde_json::from_slice(&request.body).unwrap();
    assert_eq!(body.pointer("/eventId"), Some(&Value::from(sent.id.to_string())));
    assert_eq!(body.pointer("/payload/n"), Some(&Value::from(sent.sequence.0)));
}

/// The table of the module and of the guide, over the wire.
#[tokio::test]
async fn every_answer_is_of_the_class_that_the_table_names() {
    let answer = |path: &str| path.trim_start_matches('/').parse::<u16>().map_or(Answer::Never, Answer::Status);
    let receiver = WebhookReceiver::start(move |request| answer(&request.path)).await.unwrap();
    for (statuses, expected) in [
        (&[200, 201, 202, 204, 299][..], None),
        (&[401, 408, 429, 502, 503, 504][..], Some(FailureClass::Unavailable)),
        (&[300, 301, 302, 303, 304, 307, 308, 404, 410][..], Some(FailureClass::Unroutable)),
        (&[413, 431][..], Some(FailureClass::Poison)),
        (&[400, 402, 403, 405, 406, 409, 415, 421, 422, 451, 500, 501, 505, 507][..], Some(FailureClass::Rejected)),
    ] {
        for status in statuses {
            let publisher = publisher(&settings(&receiver.url(&format!("/{status}"))));
            let result = fate(publisher.publish(&event("Reserved"))).await;
            assert_eq!(class(&result), expected, "{status}: {result:?}");
        }
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_leads_to_nobody() {
    let elsewhere = WebhookReceiver::start(|_| Answer::Status(204)).await.unwrap();
    let location = elsewhere.url("/in");
    let receiver = WebhookReceiver::start(move |_| Answer::With(307, "location", location.clone())).await.unwrap();
    let failure = fate(publisher(&settings(&receiver.url("/in"))).publish(&event("Reserved"))).await.unwrap_err();
    assert_eq!(failure.class(), FailureClass::Unroutable);
    assert!(failure.reason().ends_with("redirects are not followed"), "{failure}");
    assert_eq!((receiver.received().len(), elsewhere.received().len()), (1, 0));
}

#[tokio::test]
async fn the_pause_that_a_receiver_asks_for_is_told_in_the_reason() {
    let receiver = WebhookReceiver::start(|_| Answer::With(429, "retry-after", "120".to_owned())).await.unwrap();
    let failure = fate(publisher(&settings(&receiver.url("/in"))).publish(&event("Reserved"))).await.unwrap_err();
    assert_eq!(failure.class(), FailureClass::Unavailable);
    assert!(failure.reason().ends_with("it asks for a pause of 120 s"), "{failure}");
}

#[tokio::test]
async fn an_answer_without_an_end_counts_by_its_status_and_is_not_read() {
    for (status, expected) in [(200, None), (500, Some(FailureClass::Rejected))] {
        let receiver = WebhookReceiver::start(move |_| Answer::Endless(status)).await.unwrap();
        let publisher = publisher(&settings(&receiver.url("/in")));
        assert_eq!(class(&fate(publisher.publish(&event("Reserved"))).await), expected);
        eventually("the answer is given up", || receiver.abandoned() == 1).await;
    }
}

#[tokio::test]
async fn a_body_over_the_limit_is_poison_and_the_receiver_sees_nothing_of_it() {
    let receiver = WebhookReceiver::start(|_| Answer::Status(204)).await.unwrap();
    let mut settings = settings(&receiver.url("/in"));
    settings.webhook.max_message_bytes = 1_000;
    let publisher = publisher(&settings);
    let mut large = event("Reserved");
    large.payload = Payload::from_stored(format!("\"{}\"", "x".repeat(1_000)));
    let failure = fate(publisher.publish(&large)).await.unwrap_err();
    assert_eq!(failure.class(), FailureClass::Poison);
    assert!(failure.reason().ends_with("the limit is 1000"), "{failure}");
    fate(publisher.publish(&event("Reserved"))).await.unwrap();
    assert_eq!(receiver.received().len(), 1);
}
