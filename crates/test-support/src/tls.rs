//! TLS for tests: a certificate authority of the test's own, certificates for servers that encrypt by themselves, and a
//! front that ends the encryption before a server that speaks none.

use std::{io::Write, net::SocketAddr, sync::Arc};

use rcgen::{BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::NamedTempFile;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
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

/// What a client sends to PostgreSQL before it encrypts: the length of the request and its code.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// A certificate authority that nobody trusts unless told to.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// What a server needs to prove its name, as PEM. `Debug` shows nothing of it.
#[derive(Clone)]
pub struct Identity {
    pub(crate) authority: String,
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// How a connection becomes encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handshake {
    /// At once, as for `amqps`.
    AtOnce,
    /// After PostgreSQL's `SSLRequest`.
    OnRequest,
}

/// Something went wrong while certificates were made or an address was bound.
pub type TlsError = Box<dyn std::error::Error + Send + Sync>;

impl Authority {
    /// Makes an authority with a fresh key.
    ///
    /// # Errors
    /// If the key or the certificate cannot be made.
    pub fn new() -> Result<Self, TlsError> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "an authority of a test");
        Ok(Self(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?))
    }

    /// The authority's certificate as a PEM file, which is removed when the value is dropped.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn file(&self) -> Result<NamedTempFile, TlsError> {
        file_of(&self.0.pem())
    }

    /// A certificate for `name`, with its key.
    ///
    /// # Errors
    /// If the key or the certificate cannot be made.
    pub fn certify(&self, name: &str) -> Result<Identity, TlsError> {
        let (certificate, key) = self.issue(name)?;
        Ok(Identity { authority: self.0.pem(), certificate: certificate.pem(), key: key.serialize_pem() })
    }

    /// Starts a front on this machine that proves to be `name` and passes everything on to `target` (host and port).
    ///
    /// It ends with the runtime.
    ///
    /// # Errors
    /// If a certificate cannot be made or no port is free.
    pub async fn front(&self, name: &str, target: &str, handshake: Handshake) -> Result<SocketAddr, TlsError> {
        let acceptor = self.acceptor(name)?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let target = target.to_owned();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (acceptor, target) = (acceptor.clone(), target.clone());
                tokio::spawn(async move {
                    // What a client makes of a refusal is the test's business.
                    let _ended = relay(client, &target, &acceptor, handshake).await;
                });
            }
        });
        Ok(address)
    }

    /// The broker of this AMQP URL behind TLS, under a certificate for `name`; its URL, which names `localhost`.
    ///
    /// # Errors
    /// As [`Self::front`], and if the URL cannot be read.
    pub async fn broker(&self, name: &str, url: &str) -> Result<String, TlsError> {
        let mut url = Url::parse(url)?;
        let host = url.host_str().ok_or("the URL names no host")?;
        let target = format!("{host}:{}", url.port().unwrap_or(5_672));
        let front = self.front(name, &target, Handshake::AtOnce).await?;
        url.set_port(Some(front.port())).map_err(|()| "the URL takes no port")?;
        url.set_host(Some("localhost"))?;
        Ok(url.as_str().replacen("amqp://", "amqps://", 1))
    }

    fn acceptor(&self, name: &str) -> Result<TlsAcceptor, TlsError> {
        let (certificate, key) = self.issue(name)?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)?;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    fn issue(&self, name: &str) -> Result<(Certificate, KeyPair), TlsError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(vec![name.to_owned()])?;
        // A server that finds the authority's own name here would take the certificate for a root.
        params.distinguished_name.push(DnType::CommonName, name);
        Ok((params.signed_by(&key, &self.0)?, key))
    }
}

impl Identity {
    /// The certificate of the authority as a PEM file, which is removed when the value is dropped.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn authority_file(&self) -> Result<NamedTempFile, TlsError> {
        file_of(&self.authority)
    }
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").finish_non_exhaustive()
    }
}

fn file_of(pem: &str) -> Result<NamedTempFile, TlsError> {
    let mut file = NamedTempFile::new()?;
    file.write_all(pem.as_bytes())?;
    Ok(file)
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

async fn relay(
    mut client: TcpStream,
    target: &str,
    acceptor: &TlsAcceptor,
    handshake: Handshake,
) -> std::io::Result<()> {
    if handshake == Handshake::OnRequest {
        let mut request = [0; SSL_REQUEST.len()];
        client.read_exact(&mut request).await?;
        if request != SSL_REQUEST {
            return Err(std::io::ErrorKind::InvalidData.into());
        }
        client.write_all(b"S").await?;
    }
    let mut client = acceptor.accept(client).await?;
    let mut server = TcpStream::connect(target).await?;
    copy_bidirectional(&mut client, &mut server).await.map(drop)
}
