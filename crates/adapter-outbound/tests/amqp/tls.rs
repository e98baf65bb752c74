//! TLS: the broker must prove who it is.

use application_core::ports::{MessagePublishPort, ReadinessCheck};
use test_support::tls::Authority;

use crate::stage::{Stage, event, eventually, start};

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_with_a_certificate_of_the_given_authority_is_used() {
    let stage = Stage::shared("tls").await;
    let exchange = stage.exchange("e").await;
    let queue = stage.queue("q", &exchange, "#").await;
    let authority = Authority::new().unwrap();
    let file = authority.file().unwrap();
    let mut settings = stage.settings(&exchange, "k");
    settings.amqp.url = authority.broker("localhost", &stage.url).await.unwrap().into();
    settings.amqp.ca_file = Some(file.path().to_owned());
    let publisher = stage.publisher(&settings).await;
    publisher.publish(&event("Reserved")).await.unwrap();
    assert_eq!(stage.take_all(&queue).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_cannot_prove_its_name_is_refused() {
    let stage = Stage::shared("tls_refused").await;
    let (authority, other) = (Authority::new().unwrap(), Authority::new().unwrap());
    let (file, other_file) = (authority.file().unwrap(), other.file().unwrap());
    for (name, trusted) in [
        ("localhost", Some(&other_file)),
        ("elsewhere.example", Some(&file)),
        // The system trusts neither.
        ("localhost", None),
    ] {
        let mut settings = stage.settings("e", "k");
        settings.amqp.url = authority.broker(name, &stage.url).await.unwrap().into();
        settings.amqp.ca_file = trusted.map(|file| file.path().to_owned());
        let publisher = start(&settings);
        eventually("the certificate is refused", async || {
            publisher.check().await.is_err_and(|reason| reason.contains("certificate"))
        })
        .await;
    }
}
