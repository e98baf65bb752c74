//! TLS: the broker must prove who it is.

use test_support::tls::Authority;

use crate::{
    broker::eventually,
    world::{Step, World},
};

#[tokio::test]
async fn a_consumer_uses_a_broker_with_a_certificate_of_the_given_authority() {
    let mut world = World::new("tls", |_, _, _| Step::Apply).await;
    let authority = Authority::new().unwrap();
    let file = authority.file().unwrap();
    world.settings.url = authority.broker("localhost", &world.broker.url).await.unwrap().into();
    world.settings.ca_certificates = Some(file.path().to_owned());
    let running = world.start();
    world.publish("a", [1]).await;
    eventually("it consumes", async || world.journal.of("a") == [1]).await;
    running.stopped().await;
}

#[tokio::test]
async fn a_consumer_refuses_a_broker_that_cannot_prove_its_name() {
    let mut world = World::new("tls_refused", |_, _, _| Step::Apply).await;
    let (authority, other) = (Authority::new().unwrap(), Authority::new().unwrap());
    let (file, other_file) = (authority.file().unwrap(), other.file().unwrap());
    for (name, trusted) in [
        ("localhost", Some(&other_file)),
        ("elsewhere.example", Some(&file)),
        // The system trusts neither.
        ("localhost", None),
    ] {
        world.settings.url = authority.broker(name, &world.broker.url).await.unwrap().into();
        world.settings.ca_certificates = trusted.map(|file| file.path().to_owned());
        let running = world.start();
        running.not_ready("certificate").await;
        running.stopped().await;
    }
}
