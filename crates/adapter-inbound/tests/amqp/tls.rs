//! TLS: the broker must prove who it is.

use secrecy::SecretString;
use test_support::tls::{Authority, Handshake};
use url::Url;

use crate::{
    broker::eventually,
    world::{Step, World},
};

/// The broker behind TLS, under the name `localhost`; its URL.
async fn behind_tls(url: &str, authority: &Authority, name: &str) -> SecretString {
    let mut url = Url::parse(url).unwrap();
    let target = format!("{}:{}", url.host_str().unwrap(), url.port().unwrap_or(5_672));
    let front = authority.front(name, &target, Handshake::AtOnce).await.unwrap();
    url.set_port(Some(front.port())).unwrap();
    url.set_host(Some("localhost")).unwrap();
    url.as_str().replacen("amqp://", "amqps://", 1).into()
}

#[tokio::test]
async fn a_consumer_uses_a_broker_with_a_certificate_of_the_given_authority() {
    let mut world = World::new("tls", |_, _, _| Step::Apply).await;
    let authority = Authority::new().unwrap();
    let file = authority.file().unwrap();
    world.settings.url = behind_tls(&world.broker.url, &authority, "localhost").await;
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
        world.settings.url = behind_tls(&world.broker.url, &authority, name).await;
        world.settings.ca_certificates = trusted.map(|file| file.path().to_owned());
        let running = world.start();
        running.not_ready("certificate").await;
        running.stopped().await;
    }
}
