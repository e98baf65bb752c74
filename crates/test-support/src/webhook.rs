//! A receiver of webhooks: an HTTP server on this machine that keeps what it is sent and answers as a test tells it.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    fmt, io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use http_body_util::{BodyExt, Empty, combinators::BoxBody};
use hyper::{
    Request, Response, StatusCode,
    body::{Body, Bytes, Frame, Incoming},
    header::{HeaderName, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use ring::hmac;
use tokio::{
    net::TcpListener,
    task::{JoinHandle, JoinSet},
};

/// A request as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// Path and query.
    pub path: String,
    /// Names in lower case, and values; of a name that came twice the last one.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: Vec<u8>,
}

impl Received {
    /// The value of a header; empty if there is none.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(String::as_str).unwrap_or_default()
    }

    /// Whether one of the signatures was made with this secret (`whsec_…`), by the scheme of Standard Webhooks. How old
    /// the request is, is not looked at.
    #[must_use]
    pub fn is_signed_by(&self, secret: &str) -> bool {
        let key = secret.strip_prefix("whsec_").and_then(|text| STANDARD.decode(text).ok());
        let Some(key) = key.map(|bytes| hmac::Key::new(hmac::HMAC_SHA256, &bytes)) else { return false };
        let mut content = format!("{}.{}.", self.header("webhook-id"), self.header("webhook-timestamp")).into_bytes();
        content.extend_from_slice(&self.body);
        let signatures = self.header("webhook-signature").split(' ');
        let mut tags = signatures.filter_map(|text| STANDARD.decode(text.strip_prefix("v1,")?).ok());
        tags.any(|tag| hmac::verify(&key, &content, &tag).is_ok())
    }
}

/// What a request is answered with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A status without a body.
    Status(u16),
    /// The same with a header more.
    With(u16, &'static str, String),
    /// A status, and a body without an end.
    Endless(u16),
    /// Nothing, while the connection stays open.
    Never,
}

/// The receiver; it ends when it is dropped.
pub struct WebhookReceiver {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

struct Shared {
    answer: Box<dyn Fn(&Received) -> Answer + Send + Sync>,
    received: Mutex<Vec<Received>>,
    abandoned: Arc<AtomicUsize>,
}

impl WebhookReceiver {
    /// Listens on a free port of this machine.
    ///
    /// # Errors
    /// If no port is free.
    pub async fn start<F>(answer: F) -> io::Result<Self>
    where
        F: Fn(&Received) -> Answer + Send + Sync + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let shared = Shared { answer: Box::new(answer), received: Mutex::default(), abandoned: Arc::default() };
        let shared = Arc::new(shared);
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { address, shared, accepting })
    }

    /// The URL of a path, without TLS.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Host and port, for a front that ends TLS ([`crate::tls::Authority::front`]).
    #[must_use]
    pub fn target(&self) -> String {
        self.address.to_string()
    }

    /// Everything that came so far, in order.
    #[must_use]
    pub fn received(&self) -> Vec<Received> {
        self.shared.received().clone()
    }

    /// How many endless answers were given up by those who asked.
    #[must_use]
    pub fn abandoned(&self) -> usize {
        self.shared.abandoned.load(Ordering::SeqCst)
    }
}

impl Shared {
    fn received(&self) -> MutexGuard<'_, Vec<Received>> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for WebhookReceiver {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl fmt::Debug for WebhookReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookReceiver").field("address", &self.address).finish_non_exhaustive()
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Dropped with this task, and all connections with it.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let service = service_fn(move |request| respond(Arc::clone(&shared), request));
            // What a client makes of its connection is the test's business.
            let _ended = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn respond(
    shared: Arc<Shared>,
    request: Request<Incoming>,
) -> Result<Response<BoxBody<Bytes, Infallible>>, hyper::Error> {
    let (head, body) = request.into_parts();
    let text = |(name, value): (&HeaderName, &HeaderValue)| {
        (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let received = Received {
        path: head.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
        headers: head.headers.iter().map(text).collect(),
        body: body.collect().await?.to_bytes().to_vec(),
    };
    let answer = (shared.answer)(&received);
    shared.received().push(received);
    let mut response = Response::new(Empty::<Bytes>::new().boxed());
    let status = match answer {
        Answer::Status(status) => status,
        Answer::With(status, name, value) => {
            let value = HeaderValue::try_from(value).unwrap_or(HeaderValue::from_static("invalid"));
            response.headers_mut().insert(name, value);
            status
        }
        Answer::Endless(status) => {
            *response.body_mut() = Endless(Arc::clone(&shared.abandoned)).boxed();
            status
        }
        Answer::Never => std::future::pending().await,
    };
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::IM_A_TEAPOT);
    Ok(response)
}

/// A body without an end, which counts when it is given up.
struct Endless(Arc<AtomicUsize>);

impl Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[b' '; 4096])))))
    }
}

impl Drop for Endless {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}
