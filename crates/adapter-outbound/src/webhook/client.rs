//! The HTTP client: connections, TLS, and the time that each step may take.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use application_core::{
    outbox::PublishFailure,
    ports::{BoxError, with_causes},
};
use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Uri,
    body::{Bytes, Incoming},
    header::RETRY_AFTER,
};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use tokio::{
    net::TcpStream,
    time::{Instant, timeout, timeout_at},
};
use tower_service::Service;

use super::{
    failure::{outcome, unavailable},
    settings::WebhookSettings,
};
use crate::setup::{OutboundSetupError, read_certificates};

/// How much of an answer's body is read, so that its connection can be used again.
const MOST_READ: usize = 16 * 1024;

/// Sends requests. Redirects are not followed, and no proxy is asked for.
pub(super) struct HttpClient {
    client: Client<Connector, Full<Bytes>>,
    confirm_timeout: Duration,
}

impl HttpClient {
    pub(super) fn new(settings: &WebhookSettings, tls: ClientConfig) -> Self {
        let mut http = HttpConnector::new();
        // TLS comes on top of it.
        http.enforce_http(false);
        http.set_nodelay(true);
        let https = HttpsConnector::from((http, tls));
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(settings.idle_timeout)
            .pool_max_idle_per_host(settings.max_idle_connections)
            .build(Connector { https, within: settings.connect_timeout });
        Self { client, confirm_timeout: settings.confirm_timeout }
    }

    /// Sends a request and waits for its answer. The head says what became of it; a short body is read as well, within the
    /// same time-out.
    ///
    /// # Cancellation
    /// A dropped call ends its connection; whether the receiver has the event is open.
    pub(super) async fn send(&self, request: Request<Full<Bytes>>) -> Result<(), PublishFailure> {
        let deadline = Instant::now() + self.confirm_timeout;
        let response = match timeout_at(deadline, self.client.request(request)).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(unavailable(words(&error))),
            Err(_late) => return Err(unavailable(format!("no answer within {:?}", self.confirm_timeout))),
        };
        let result = outcome(response.status(), response.headers().get(RETRY_AFTER));
        // What is not read costs the connection and changes nothing about the answer.
        let _ = timeout_at(deadline, read_to_the_end(response.into_body())).await;
        result
    }
}

/// Reads a body as far as it is short.
async fn read_to_the_end(mut body: Incoming) {
    let mut left = MOST_READ;
    while let Some(Ok(frame)) = body.frame().await {
        match left.checked_sub(frame.data_ref().map_or(0, Bytes::len)) {
            Some(rest) => left = rest,
            None => return,
        }
    }
}

/// What went wrong, without the client's own first words.
fn words(error: &hyper_util::client::legacy::Error) -> String {
    let what = if error.is_connect() { "no connection" } else { "no answer" };
    match std::error::Error::source(error) {
        Some(cause) => format!("{what}: {}", with_causes(cause)),
        None => format!("{what}: {error}"),
    }
}

/// Connects in time, or not at all: name, connection and TLS together.
#[derive(Clone)]
struct Connector {
    https: HttpsConnector<HttpConnector>,
    within: Duration,
}

#[derive(Debug, thiserror::Error)]
#[error("not within {0:?}")]
struct ConnectTimeout(Duration);

type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;

impl Service<Uri> for Connector {
    type Response = Stream;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Stream, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.https.poll_ready(context)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let (connecting, within) = (self.https.call(to), self.within);
        Box::pin(
            async move { timeout(within, connecting).await.unwrap_or_else(|_late| Err(ConnectTimeout(within).into())) },
        )
    }
}

/// TLS as the settings want it; `needed`: whether a receiver must prove who it is.
pub(super) fn tls(settings: &WebhookSettings, needed: bool) -> Result<ClientConfig, OutboundSetupError> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = &settings.ca_file {
        roots.add_parsable_certificates(read_certificates(path)?);
        if roots.is_empty() {
            return Err(OutboundSetupError::NoCertificate { path: path.display().to_string() });
        }
    } else if needed {
        let found = rustls_native_certs::load_native_certs();
        let errors: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
        roots.add_parsable_certificates(found.certs);
        if roots.is_empty() {
            let reason = if errors.is_empty() { "none was found".to_owned() } else { errors.join("; ") };
            return Err(OutboundSetupError::NoSystemCertificates { reason });
        }
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(OutboundSetupError::Tls)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}
