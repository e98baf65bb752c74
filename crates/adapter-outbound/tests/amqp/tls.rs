//! TLS: the broker must prove who it is. Some of it is about a RabbitMQ that encrypts by itself, some about a front.

use std::sync::OnceLock;

use application_core::ports::{MessagePublishPort, ReadinessCheck};
use lapin::uri::AMQPUri;
use test_support::{
    servers::{self, Options, Servers},
    tls::{Authority, Identity},
};

use crate::stage::{Stage, event, eventually, settings, start};

/// A broker with a port for TLS and a certificate for `localhost`; one for all tests here.
fn broker() -> &'static (Servers, Identity) {
    static BROKER: OnceLock<(Servers, Identity)> = OnceLock::new();
    BROKER.get_or_init(|| {
        let identity = Authority::new().unwrap().certify("localhost").unwrap();
        (servers::private(Options::fast().with_tls(identity.clone())), identity)
    })
}

/// Waits for the reason for which there is no connection; neither it nor anything else that is told may hold the password.
async fn refused(url: &str, trusted: Option<&std::path::Path>, expected: &[&str]) {
    let mut settings = settings(url, "e", "k");
    settings.amqp.ca_file = trusted.map(std::path::Path::to_owned);
    let publisher = start(&settings);
    let mut told = String::new();
    eventually("the reason is known", async || {
        told = publisher.check().await.err().unwrap_or_default();
        told.contains("no connection to the broker")
    })
    .await;
    for words in expected {
        assert!(told.contains(words), "{words}: {told}");
    }
    let failure = publisher.publish(&event("Reserved")).await.unwrap_err();
    let password = url.parse::<AMQPUri>().unwrap().authority.userinfo.password;
    let everything = format!("{told} {failure} {failure:?} {publisher:?} {settings:?}");
    assert!(!password.is_empty() && !everything.contains(&password), "{everything}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_speaks_tls_itself_is_used_under_its_name_with_the_authority_that_signed_it() {
    let (servers, identity) = broker();
    let stage = Stage::on(servers, "tls_own").await;
    let exchange = stage.exchange("e").await;
    let queue = stage.queue("q", &exchange, "#").await;
    let file = identity.authority_file().unwrap();
    let url = servers.rabbitmq().await.unwrap().over_tls(&stage.url).unwrap();
    assert!(url.starts_with("amqps://"), "{url}");
    let mut settings = settings(&url, &exchange, "k");
    settings.amqp.ca_file = Some(file.path().to_owned());
    let publisher = stage.publisher(&settings).await;
    publisher.publish(&event("Reserved")).await.unwrap();
    assert_eq!(stage.take_all(&queue).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_of_another_authority_or_name_is_refused_with_what_to_set_and_without_the_password() {
    let (servers, identity) = broker();
    let server = servers.rabbitmq().await.unwrap();
    let (file, other_file) = (identity.authority_file().unwrap(), Authority::new().unwrap().file().unwrap());
    let url = server.over_tls(server.url()).unwrap();
    let other_name = url.replacen("@localhost:", "@127.0.0.1:", 1);
    let words = ["invalid peer certificate", "outbound.amqp.ca_file", "the URL's host"];
    refused(&url, Some(other_file.path()), &words).await;
    refused(&other_name, Some(file.path()), &words).await;
    // The system trusts neither.
    refused(&url, None, &words).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_for_tls_refuses_a_plain_client_and_a_plain_port_one_of_tls_with_a_reason_that_names_the_way_out() {
    let (servers, identity) = broker();
    let server = servers.rabbitmq().await.unwrap();
    let file = identity.authority_file().unwrap();
    let encrypted = server.over_tls(server.url()).unwrap();
    refused(&encrypted.replacen("amqps://", "amqp://", 1), None, &["the URL must begin with amqps://"]).await;
    let plain = server.url().replacen("amqp://", "amqps://", 1);
    refused(&plain, Some(file.path()), &["speaks no TLS at this port"]).await;
}

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
