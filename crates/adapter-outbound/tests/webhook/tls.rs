//! TLS: the receiver must prove who it is.

use application_core::{outbox::FailureClass, ports::MessagePublishPort};
use test_support::{
    tls::{Authority, Handshake},
    webhook::{Answer, WebhookReceiver},
};

use crate::stage::{SECRET, event, fate, only, publisher, settings};

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_with_a_certificate_of_the_given_authority_is_used() {
    let receiver = WebhookReceiver::start(|_| Answer::Status(204)).await.unwrap();
    let authority = Authority::new().unwrap();
    let file = authority.file().unwrap();
    let front = authority.front("localhost", &receiver.target(), Handshake::AtOnce).await.unwrap();
    let mut settings = settings(&format!("https://localhost:{}/in", front.port()));
    settings.webhook.ca_file = Some(file.path().to_owned());
    fate(publisher(&settings).publish(&event("Reserved"))).await.unwrap();
    assert!(only(&receiver).is_signed_by(SECRET));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_cannot_prove_its_name_is_sent_nothing() {
    let receiver = WebhookReceiver::start(|_| Answer::Status(204)).await.unwrap();
    let (authority, other) = (Authority::new().unwrap(), Authority::new().unwrap());
    let (file, other_file) = (authority.file().unwrap(), other.file().unwrap());
    for (name, trusted) in [("localhost", &other_file), ("elsewhere.example", &file)] {
        let front = authority.front(name, &receiver.target(), Handshake::AtOnce).await.unwrap();
        let mut settings = settings(&format!("https://localhost:{}/in", front.port()));
        settings.webhook.ca_file = Some(trusted.path().to_owned());
        let failure = fate(publisher(&settings).publish(&event("Reserved"))).await.unwrap_err();
        assert_eq!(failure.class(), FailureClass::Unavailable);
        assert!(failure.reason().contains("certificate"), "{failure}");
    }
    assert_eq!(receiver.received(), []);
}
