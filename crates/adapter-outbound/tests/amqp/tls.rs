//! TLS: the broker must prove who it is.

use std::{io::Write, sync::Arc};

use application_core::ports::{MessagePublishPort, ReadinessCheck};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::NamedTempFile;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    },
};
use url::Url;

use crate::stage::{Stage, event, eventually, start};

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn file(&self) -> NamedTempFile {
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(self.0.pem().as_bytes()).unwrap();
        file
    }

    /// A server side for `host`.
    fn acceptor(&self, host: &str) -> TlsAcceptor {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![host.to_owned()]).unwrap().signed_by(&key, &self.0).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }
}

/// The broker behind TLS; its URL.
async fn behind_tls(url: &str, acceptor: TlsAcceptor) -> String {
    let mut url = Url::parse(url).unwrap();
    let target = format!("{}:{}", url.host_str().unwrap(), url.port().unwrap_or(5_672));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (acceptor, target) = (acceptor.clone(), target.clone());
            tokio::spawn(async move {
                let (Ok(mut client), Ok(mut server)) =
                    (acceptor.accept(client).await, TcpStream::connect(target).await)
                else {
                    return;
                };
                // The tests see what it did.
                let _ = copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    url.set_port(Some(port)).unwrap();
    url.set_host(Some("localhost")).unwrap();
    url.as_str().replacen("amqp://", "amqps://", 1)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_with_a_certificate_of_the_given_authority_is_used() {
    let stage = Stage::shared("tls").await;
    let exchange = stage.exchange("e").await;
    let queue = stage.queue("q", &exchange, "#").await;
    let authority = Authority::new();
    let file = authority.file();
    let mut settings = stage.settings(&exchange, "k");
    settings.amqp.url = behind_tls(&stage.url, authority.acceptor("localhost")).await.into();
    settings.amqp.ca_file = Some(file.path().to_owned());
    let publisher = stage.publisher(&settings).await;
    publisher.publish(&event("Reserved")).await.unwrap();
    assert_eq!(stage.take_all(&queue).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_cannot_prove_its_name_is_refused() {
    let stage = Stage::shared("tls_refused").await;
    let (authority, other) = (Authority::new(), Authority::new());
    let (file, other_file) = (authority.file(), other.file());
    let trusting = async |acceptor, file: Option<&NamedTempFile>| {
        let mut settings = stage.settings("e", "k");
        settings.amqp.url = behind_tls(&stage.url, acceptor).await.into();
        settings.amqp.ca_file = file.map(|file| file.path().to_owned());
        start(&settings)
    };
    for publisher in [
        trusting(authority.acceptor("localhost"), Some(&other_file)).await,
        trusting(authority.acceptor("elsewhere.example"), Some(&file)).await,
        // The system trusts neither.
        trusting(authority.acceptor("localhost"), None).await,
    ] {
        eventually("the certificate is refused", async || {
            publisher.check().await.is_err_and(|reason| reason.contains("certificate"))
        })
        .await;
    }
}
