//! A server for any router: bound with a typed error, limited in time and size, stopped gracefully.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::{GracefulShutdown, Watcher},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;
use tower_http::add_extension::AddExtension;

use super::guard::guarded;

/// Where reading a request's line and headers stops, in bytes; one more read may overshoot it. 431 beyond.
const MAX_HEAD_BYTES: usize = 32 * 1024;
/// The most headers of a request; 431 beyond.
const MAX_HEADERS: usize = 64;
/// The pause after the system could not accept, mostly for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Whom a request comes from: an extension of every request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub(super) IpAddr);

/// Why a server could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpServerError {
    /// The address is taken, not this machine's, or not allowed.
    #[error("{server} cannot listen on {address}")]
    Bind {
        /// Which server.
        server: &'static str,
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// What a server allows its clients. Heads of requests are limited to about 32 KiB and 64 headers besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerLimits {
    /// How long a client may take to send the head of a request.
    pub header_timeout: Duration,
    /// How long a request may take until its answer begins; beyond, 408 while its body is waited for, otherwise 503.
    pub request_timeout: Duration,
    /// The largest request body, in bytes; 413 beyond.
    pub max_body_bytes: usize,
    /// The most connections at once; further ones wait to be accepted.
    pub max_connections: usize,
}

/// A server that listens and does not answer yet.
#[derive(Debug)]
pub struct BoundServer {
    server: &'static str,
    listener: TcpListener,
    address: SocketAddr,
}

/// Binds an address; `server` names it in errors and logs.
///
/// # Errors
/// [`HttpServerError::Bind`].
pub async fn bind(server: &'static str, address: SocketAddr) -> Result<BoundServer, HttpServerError> {
    let failed = |source| HttpServerError::Bind { server, address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok(BoundServer { server, listener, address })
}

impl BoundServer {
    /// The address, with the port that was taken where 0 was asked for.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `stop`, then lets running requests end for at most `grace`.
    ///
    /// # Cancellation
    /// Dropping the call closes every connection.
    pub async fn serve(self, router: Router, limits: ServerLimits, stop: CancellationToken, grace: Duration) {
        let Self { server, listener, address } = self;
        tracing::info!(server, %address, "listening");
        let router = guarded(server, router, limits);
        let slots = Arc::new(Semaphore::new(limits.max_connections));
        let graceful = GracefulShutdown::new();
        let mut connections = JoinSet::new();
        while let Some((stream, slot)) = next_connection(server, &listener, &slots, &mut connections, &stop).await {
            connections.spawn(serve_connection(stream, router.clone(), limits, graceful.watcher(), slot));
        }
        drop(listener);
        if tokio::time::timeout(grace, graceful.shutdown()).await.is_err() {
            tracing::warn!(server, open = connections.len(), "requests outlasted the grace and are dropped");
        }
        connections.shutdown().await;
        tracing::info!(server, "stopped listening");
    }
}

/// The next client, once there is room for it; `None`: stop.
async fn next_connection(
    server: &'static str,
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
    connections: &mut JoinSet<()>,
    stop: &CancellationToken,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    // The semaphore is never closed.
    let slot = stop.run_until_cancelled(Arc::clone(slots).acquire_owned()).await?.ok()?;
    loop {
        while connections.try_join_next().is_some() {}
        match stop.run_until_cancelled(listener.accept()).await? {
            Ok((stream, _)) => return Some((stream, slot)),
            Err(error) => {
                tracing::warn!(server, %error, "a connection could not be accepted");
                stop.run_until_cancelled(tokio::time::sleep(ACCEPT_PAUSE)).await?;
            }
        }
    }
}

async fn serve_connection(
    stream: TcpStream,
    router: Router,
    limits: ServerLimits,
    watcher: Watcher,
    _slot: OwnedSemaphorePermit,
) {
    let Ok(peer) = stream.peer_addr().map(|address| Peer(address.ip().to_canonical())) else { return };
    let service = TowerToHyperService::new(AddExtension::new(router, peer));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(MAX_HEAD_BYTES)
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(%error, "a connection ended early");
    }
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        task::JoinHandle,
    };

    use super::*;

    const LIMITS: ServerLimits = ServerLimits {
        header_timeout: Duration::from_millis(200),
        request_timeout: Duration::from_millis(200),
        max_body_bytes: 100,
        max_connections: 2,
    };

    struct Running {
        address: SocketAddr,
        stop: CancellationToken,
        task: JoinHandle<()>,
    }

    async fn run(router: Router, limits: ServerLimits, grace: Duration) -> Running {
        let server = bind("test", "127.0.0.1:0".parse().unwrap()).await.unwrap();
        let (address, stop) = (server.address(), CancellationToken::new());
        let task = tokio::spawn(server.serve(router, limits, stop.clone(), grace));
        Running { address, stop, task }
    }

    impl Running {
        async fn send(&self, request: &str) -> TcpStream {
            let mut stream = TcpStream::connect(self.address).await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            stream
        }

        async fn ask(&self, request: &str) -> String {
            read(self.send(request).await).await
        }
    }

    async fn read(mut stream: TcpStream) -> String {
        let mut text = String::new();
        // A reset after the answer is as good as an end.
        let _ = stream.read_to_string(&mut text).await;
        text
    }

    fn router() -> Router {
        Router::new()
            .route("/", get(async || "hello").post(async |body: String| body))
            .route("/slow", get(async || std::future::pending::<String>().await))
            .route("/panics", get(async || -> String { panic!("a bug") }))
    }

    #[tokio::test]
    async fn an_address_that_is_taken_is_a_typed_error() {
        let first = bind("health", "127.0.0.1:0".parse().unwrap()).await.unwrap();
        let error = bind("ops", first.address()).await.unwrap_err();
        assert_eq!(error.to_string(), format!("ops cannot listen on {}", first.address()));
    }

    #[tokio::test]
    async fn a_client_is_limited_in_time_and_size() {
        let server = run(router(), LIMITS, Duration::ZERO).await;
        let head = "Host: x\r\nConnection: close\r\n";
        assert!(server.ask(&format!("GET / HTTP/1.1\r\n{head}\r\n")).await.ends_with("hello"));
        let slow = server.ask(&format!("GET /slow HTTP/1.1\r\n{head}\r\n")).await;
        assert!(slow.starts_with("HTTP/1.1 503") && slow.contains("application/problem+json"), "{slow}");
        let large = format!("POST / HTTP/1.1\r\n{head}Content-Length: 101\r\n\r\n{}", "x".repeat(101));
        let refused = server.ask(&large).await;
        assert!(refused.starts_with("HTTP/1.1 413") && refused.contains("application/problem+json"), "{refused}");
        let unfinished = server.ask("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc").await;
        assert!(unfinished.starts_with("HTTP/1.1 408") && unfinished.contains("problem+json"), "{unfinished}");
        let long = format!("GET / HTTP/1.1\r\n{head}X: {}\r\n\r\n", "x".repeat(200_000));
        // What the server left unread resets the connection, and the answer may be lost with it.
        let refused = server.ask(&long).await;
        assert!(refused.is_empty() || refused.starts_with("HTTP/1.1 431"), "{refused}");
        let many = format!("GET / HTTP/1.1\r\n{head}{}\r\n", "X: y\r\n".repeat(70));
        assert!(server.ask(&many).await.starts_with("HTTP/1.1 431"));
        // Ends only because the server gives up on it.
        server.ask("GET / HTTP/1.1\r\nHost:").await;
    }

    #[tokio::test]
    async fn a_handler_that_panics_is_answered_and_the_connection_goes_on() {
        let server = run(router(), LIMITS, Duration::ZERO).await;
        let both = "GET /panics HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        let answers = server.ask(both).await;
        assert!(answers.starts_with("HTTP/1.1 500") && answers.contains("application/problem+json"), "{answers}");
        assert!(answers.ends_with("hello"), "{answers}");
    }

    #[tokio::test]
    async fn idle_connections_do_not_keep_others_out() {
        let server = run(router(), LIMITS, Duration::ZERO).await;
        let idle = [server.send("").await, server.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n").await];
        let answer = server.ask("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
        assert!(answer.ends_with("hello"), "{answer}");
        drop(idle);
    }

    #[tokio::test]
    async fn a_stop_lets_a_running_request_end_and_takes_no_other() {
        let (started, finish) = (Arc::new(tokio::sync::Notify::new()), Arc::new(tokio::sync::Notify::new()));
        let handler = {
            let (started, finish) = (Arc::clone(&started), Arc::clone(&finish));
            async move || {
                started.notify_one();
                finish.notified().await;
                "done"
            }
        };
        let limits = ServerLimits { request_timeout: Duration::from_mins(1), ..LIMITS };
        let server = run(Router::new().route("/", get(handler)), limits, Duration::from_mins(1)).await;
        let running = server.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
        started.notified().await;
        server.stop.cancel();
        while TcpStream::connect(server.address).await.is_ok() {
            tokio::task::yield_now().await;
        }
        finish.notify_one();
        assert!(read(running).await.ends_with("done"));
        server.task.await.unwrap();
    }

    #[tokio::test]
    async fn a_stop_does_not_wait_longer_than_the_grace() {
        let limits = ServerLimits { request_timeout: Duration::from_mins(5), ..LIMITS };
        let server = run(router(), limits, Duration::from_millis(50)).await;
        let running = server.send("GET /slow HTTP/1.1\r\nHost: x\r\n\r\n").await;
        server.stop.cancel();
        server.task.await.unwrap();
        assert_eq!(read(running).await, "");
    }
}
