//! TLS: the broker must prove who it is. Some of it is about a RabbitMQ that encrypts by itself, some about a front.

use test_support::{
    servers::{self, Options},
    tls::Authority,
};

use crate::{
    broker::{Broker, QueueType, eventually},
    world::{Step, World},
};

#[tokio::test]
async fn a_consumer_uses_a_broker_that_speaks_tls_itself_and_refuses_what_it_cannot_verify() {
    let identity = Authority::new().unwrap().certify("localhost").unwrap();
    let (file, other_file) = (identity.authority_file().unwrap(), Authority::new().unwrap().file().unwrap());
    let servers = servers::private(Options::fast().with_tls(identity));
    let vhost = servers.vhost("tls_own").await.unwrap();
    let broker = Broker::at(vhost.url(), &vhost.name("work"), QueueType::Classic).await;
    let encrypted = servers.rabbitmq().await.unwrap().over_tls(vhost.url()).unwrap();
    let mut world = World::on(broker, |_, _, _| Step::Apply);
    for (url, trusted, reason) in [
        (encrypted.clone(), Some(&other_file), "consumer.ca_certificates"),
        (encrypted.replacen("@localhost:", "@127.0.0.1:", 1), Some(&file), "the URL's host must be a name"),
        // The system trusts neither.
        (encrypted.clone(), None, "invalid peer certificate"),
        (encrypted.replacen("amqps://", "amqp://", 1), None, "the URL must begin with amqps://"),
        (vhost.url().replacen("amqp://", "amqps://", 1), Some(&file), "speaks no TLS at this port"),
    ] {
        world.settings.url = url.into();
        world.settings.ca_certificates = trusted.map(|file| file.path().to_owned());
        let running = world.start();
        running.not_ready(reason).await;
        running.stopped().await;
    }
    world.settings.url = encrypted.into();
    world.settings.ca_certificates = Some(file.path().to_owned());
    let running = world.start();
    world.publish("a", [1]).await;
    eventually("it consumes", async || world.journal.of("a") == [1]).await;
    running.stopped().await;
}

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
