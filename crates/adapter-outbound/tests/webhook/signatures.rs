//! What a receiver can verify, and what nobody can read.

use std::{sync::Arc, time::Duration};

use adapter_outbound::{OutboundSetupError, WebhookOutboxMessagePublisher};
use application_core::{outbox::Payload, ports::MessagePublishPort};
use test_support::{
    clock::FakeClock,
    webhook::{Answer, Received, WebhookReceiver},
};

use crate::stage::{CLOSED, OLDER_SECRET, SECRET, event, fate, only, publisher, publisher_at, settings};

#[tokio::test]
async fn a_receiver_verifies_id_time_and_body_by_its_secret_and_by_no_other() {
    let receiver = WebhookReceiver::start(|_| Answer::Status(204)).await.unwrap();
    fate(publisher(&settings(&receiver.url("/in"))).publish(&event("Reserved"))).await.unwrap();
    let request = only(&receiver);
    assert!(request.is_signed_by(SECRET));
    assert!(!request.is_signed_by(OLDER_SECRET));
    let with = |name: &str, value: &str| {
        let mut changed = request.clone();
        changed.headers.insert(name.to_owned(), value.to_owned());
        changed
    };
    let body = Received { body: b"{}".to_vec(), ..request.clone() };
    for changed in [with("webhook-id", "another"), with("webhook-timestamp", "1893499201"), body] {
        assert!(!changed.is_signed_by(SECRET), "{changed:?}");
    }
}

#[tokio::test]
async fn while_a_secret_is_changed_receivers_of_the_new_and_of_the_old_one_verify() {
    let receiver = WebhookReceiver::start(|_| Answer::Status(204)).await.unwrap();
    let mut settings = settings(&receiver.url("/in"));
    settings.webhook.secrets = Some(format!("{SECRET} {OLDER_SECRET}").into());
    fate(publisher(&settings).publish(&event("Reserved"))).await.unwrap();
    let request = only(&receiver);
    assert!(request.is_signed_by(SECRET) && request.is_signed_by(OLDER_SECRET), "{request:?}");
    assert_eq!(request.header("webhook-signature").split(' ').count(), 2);
}

#[tokio::test]
async fn every_attempt_of_an_event_has_its_id_and_a_time_of_its_own() {
    let receiver = WebhookReceiver::start(|_| Answer::Status(503)).await.unwrap();
    let clock = Arc::new(FakeClock::default());
    let publisher = publisher_at(&settings(&receiver.url("/in")), Arc::clone(&clock));
    let event = event("Reserved");
    for _ in 0..2 {
        assert!(fate(publisher.publish(&event)).await.is_err());
        clock.advance(Duration::from_secs(90));
    }
    let requests = receiver.received();
    let sent: Vec<_> =
        requests.iter().map(|request| (request.header("webhook-id"), request.header("webhook-timestamp"))).collect();
    let id = event.id.to_string();
    assert_eq!(sent, [(id.as_str(), "1893499200"), (id.as_str(), "1893499290")]);
    assert!(requests.iter().all(|request| request.is_signed_by(SECRET)));
}

#[tokio::test]
async fn neither_debug_nor_a_failure_tells_a_secret_a_path_or_a_payload() {
    let settings = settings(&format!("http://{CLOSED}/hush?key=hush"));
    let publisher = publisher(&settings);
    let mut event = event("Reserved");
    event.payload = Payload::from_stored("\"hush\"");
    let failure = fate(publisher.publish(&event)).await.unwrap_err();
    let mut weak = settings.clone();
    weak.webhook.secrets = Some("whsec_hush".into());
    let refused = WebhookOutboxMessagePublisher::try_new(&weak, Arc::new(FakeClock::default())).unwrap_err();
    assert!(matches!(refused, OutboundSetupError::Settings(_)), "{refused:?}");
    let destination = publisher.destination(&event).unwrap();
    let told = format!("{publisher:?} {settings:?} {failure} {failure:?} {refused} {refused:?} {destination}");
    assert!(!told.contains("hush") && !told.contains(SECRET), "{told}");
}
