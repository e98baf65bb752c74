//! What every request is held to, whatever the router does with it: that it can be read, the bound of its body, an answer in
//! time, an answer after a panic, and each error as a problem document (RFC 9457).

use std::{
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    Error, Router,
    body::{Body, Bytes, to_bytes},
    extract::{DefaultBodyLimit, Request, State},
    http::{
        HeaderMap, HeaderValue, Method, StatusCode, Uri,
        header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE},
    },
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
};
use futures_util::FutureExt;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

use super::{problem_details::ProblemDetails, readable, server::ServerLimits};

/// The longest text of an answer that is taken over into a problem document, in bytes.
const MAX_WORDS: usize = 1_024;

#[derive(Debug, Clone, Copy)]
struct Guard {
    server: &'static str,
    request_timeout: Duration,
    max_body_bytes: usize,
}

/// The router behind the limits.
pub(super) fn guarded(server: &'static str, router: Router, limits: ServerLimits) -> Router {
    let ServerLimits { request_timeout, max_body_bytes, .. } = limits;
    router
        // The bound of the server holds for every body; a route may have a smaller one, and none but these two.
        .layer(DefaultBodyLimit::disable())
        .layer(from_fn_with_state(Guard { server, request_timeout, max_body_bytes }, guard))
}

async fn guard(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    if let Some(refusal) = readable::refusal(&request) {
        return refusal;
    }
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let reading = Arc::new(Reading::default());
    let (watch, left) = (Arc::clone(&reading), guard.max_body_bytes);
    let request = request.map(|body| Body::new(Watched { body, left, is_over: false, reading: watch }));
    let answer = AssertUnwindSafe(next.run(request)).catch_unwind();
    match tokio::time::timeout(guard.request_timeout, answer).await {
        Ok(Ok(response)) => guard.as_problem(response, reading.was_refused.load(Ordering::Relaxed)).await,
        Ok(Err(_panic)) => guard.panicked(&method, &uri),
        Err(_) if reading.waits.load(Ordering::Relaxed) => guard.body_too_slow(),
        Err(_) => guard.no_answer_in_time(),
    }
}

impl Guard {
    /// The panic's own words were written to standard error when it happened; they may hold anything.
    fn panicked(&self, method: &Method, uri: &Uri) -> Response {
        tracing::error!(server = self.server, %method, path = uri.path(), "a handler panicked");
        let detail = "the request could not be carried out";
        ProblemDetails::new(StatusCode::INTERNAL_SERVER_ERROR, detail).into_response()
    }

    fn body_too_slow(&self) -> Response {
        let detail = format!("the body of the request did not arrive within {:?}", self.request_timeout);
        let mut response = ProblemDetails::new(StatusCode::REQUEST_TIMEOUT, detail).into_response();
        // What is still to come of the body is not read.
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        response
    }

    fn no_answer_in_time(&self) -> Response {
        let detail = format!("the request was not answered within {:?}", self.request_timeout);
        ProblemDetails::new(StatusCode::SERVICE_UNAVAILABLE, detail).into_response()
    }

    /// Errors of the framework are plain text or nothing at all; what is JSON already is left as it is, unless it is about
    /// a body that was refused here: the route knows its own bound alone.
    async fn as_problem(&self, response: Response, body_was_refused: bool) -> Response {
        let status = response.status();
        let is_error = status.is_client_error() || status.is_server_error();
        if !is_error || (is_json(response.headers()) && !body_was_refused) {
            return response;
        }
        let (mut parts, body) = response.into_parts();
        let problem = if body_was_refused {
            let detail = format!("the body may have {} bytes at most", self.max_body_bytes);
            ProblemDetails::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
        } else {
            ProblemDetails::new(status, words(body).await.unwrap_or_else(|| without_words(status)))
        };
        parts.status = problem.status();
        let (problem, body) = problem.into_response().into_parts();
        parts.headers.remove(CONTENT_LENGTH);
        parts.headers.extend(problem.headers);
        Response::from_parts(parts, body)
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let media_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = media_type.split(';').next().unwrap_or_default().trim();
    media_type == "application/json" || media_type.ends_with("+json")
}

async fn words(body: Body) -> Option<String> {
    let bytes = to_bytes(body, MAX_WORDS).await.ok()?;
    String::from_utf8(bytes.into()).ok().filter(|text| !text.trim().is_empty())
}

fn without_words(status: StatusCode) -> String {
    match status {
        StatusCode::NOT_FOUND => "there is nothing at this path".to_owned(),
        StatusCode::METHOD_NOT_ALLOWED => "the methods that this path knows are in the header Allow".to_owned(),
        _ => format!("the request was answered with {status}"),
    }
}

/// How the reading of a body stands.
#[derive(Debug, Default)]
struct Reading {
    /// Its reader waits for the client: then it is the client who is slow.
    waits: AtomicBool,
    /// Its reader was told that it is larger than the server takes.
    was_refused: AtomicBool,
}

/// A request body that ends in an error after the bytes that the server takes. These are given all the same: a route
/// with a smaller bound finds it exceeded and says so itself.
struct Watched {
    body: Body,
    /// The bytes that may still come.
    left: usize,
    /// More came than that.
    is_over: bool,
    reading: Arc<Reading>,
}

impl Watched {
    fn bounded(&mut self, frame: Frame<Bytes>) -> Frame<Bytes> {
        let mut data = match frame.into_data() {
            Ok(data) => data,
            Err(trailers) => return trailers,
        };
        self.is_over = data.len() > self.left;
        data.truncate(self.left);
        self.left = self.left.saturating_sub(data.len());
        Frame::data(data)
    }
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        if self.is_over {
            self.reading.was_refused.store(true, Ordering::Relaxed);
            return Poll::Ready(Some(Err(Error::new("the body is larger than the server takes"))));
        }
        let polled = Pin::new(&mut self.body).poll_frame(context);
        self.reading.waits.store(polled.is_pending(), Ordering::Relaxed);
        polled.map_ok(|frame| self.bounded(frame))
    }

    fn is_end_stream(&self) -> bool {
        !self.is_over && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use axum::{
        extract::rejection::StringRejection,
        http::header::{ACCEPT_ENCODING, ALLOW, CONTENT_ENCODING, RETRY_AFTER},
        routing::{get, post},
    };
    use http_body_util::BodyExt;
    use serde_json::{Value, json};
    use tower::ServiceExt;

    use super::*;
    use crate::http::metrics_router;

    const LIMITS: ServerLimits = ServerLimits {
        header_timeout: Duration::from_secs(1),
        request_timeout: Duration::from_millis(100),
        max_body_bytes: 100,
        max_connections: 1,
    };

    fn router() -> Router {
        Router::new()
            .route("/echo", post(async |body: String| body))
            .route("/small", post(own_bound).layer(DefaultBodyLimit::max(10)))
            .route("/large", post(own_bound).layer(DefaultBodyLimit::max(1_000)))
            .route("/plain", post(async |body: String| body).layer(DefaultBodyLimit::max(10)))
            .route("/never", post(async || std::future::pending::<()>().await))
            .route("/panics", get(async || -> StatusCode { panic!("a bug, with a secret") }))
            .route("/teapot", get(async || (StatusCode::IM_A_TEAPOT, [(RETRY_AFTER, "7")], "short and stout")))
            .route("/report", get(async || (StatusCode::SERVICE_UNAVAILABLE, axum::Json(json!({"status": "down"})))))
            .merge(metrics_router(Arc::new(|| -> String { panic!("a renderer that fails") })))
    }

    /// A route that says itself what it takes.
    async fn own_bound(body: Result<String, StringRejection>) -> Result<String, ProblemDetails> {
        body.map_err(|refused| ProblemDetails::new(refused.status(), "the route's own bound"))
    }

    async fn send(method: Method, path: &str, body: Body) -> (StatusCode, HeaderMap, Value) {
        let request = Request::builder().method(method).uri(path).body(body).unwrap();
        let (parts, body) = guarded("test", router(), LIMITS).oneshot(request).await.unwrap().into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        (parts.status, parts.headers, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }

    /// Asserts that the answer is a problem document and returns its headers and detail.
    async fn problem(method: Method, path: &str, body: Body, status: u16) -> (HeaderMap, String) {
        let (met, headers, body) = send(method, path, body).await;
        assert_eq!(met.as_u16(), status, "{path}: {body}");
        assert_eq!(headers[CONTENT_TYPE], "application/problem+json", "{path}");
        assert_eq!((&body["status"], &body["type"]), (&json!(status), &json!("about:blank")), "{path}");
        (headers, body["detail"].as_str().expect("a detail").to_owned())
    }

    /// A body whose rest never comes.
    fn unfinished() -> Body {
        let start = futures_util::stream::iter([Ok::<_, Error>(Bytes::from_static(b"{"))]);
        Body::from_stream(futures_util::StreamExt::chain(start, futures_util::stream::pending()))
    }

    #[tokio::test]
    async fn unknown_paths_and_methods_are_problems_anywhere() {
        problem(Method::GET, "/nowhere", Body::empty(), 404).await;
        problem(Method::GET, "/", Body::empty(), 404).await;
        let (headers, _) = problem(Method::DELETE, "/echo", Body::empty(), 405).await;
        assert_eq!(headers[ALLOW], "POST");
    }

    #[tokio::test]
    async fn a_body_that_is_too_large_is_a_problem_with_the_bound() {
        let (_, detail) = problem(Method::POST, "/echo", Body::from("x".repeat(101)), 413).await;
        assert!(detail.contains("100 bytes"), "{detail}");
        let chunks = (0..101).map(|_| Ok::<_, Error>(Bytes::from_static(b"x")));
        let streamed = Body::from_stream(futures_util::stream::iter(chunks));
        let (_, detail) = problem(Method::POST, "/echo", streamed, 413).await;
        assert!(detail.contains("100 bytes"), "{detail}");
        assert_eq!(send(Method::POST, "/echo", Body::from("x".repeat(100))).await.0, StatusCode::OK);
    }

    #[tokio::test]
    async fn a_body_that_is_too_large_is_told_the_bound_that_it_met_first() {
        for bytes in [11, 100, 101, 5_000] {
            let (_, detail) = problem(Method::POST, "/small", Body::from("x".repeat(bytes)), 413).await;
            assert_eq!(detail, "the route's own bound", "{bytes}");
            let (_, detail) = problem(Method::POST, "/plain", Body::from("x".repeat(bytes)), 413).await;
            assert!(!detail.contains("100"), "{bytes}: {detail}");
        }
        let (_, detail) = problem(Method::POST, "/large", Body::from("x".repeat(101)), 413).await;
        assert!(detail.contains("100 bytes"), "{detail}");
    }

    #[tokio::test]
    async fn a_body_in_a_content_coding_is_refused_with_the_one_that_is_read() {
        let send = async |path: &str, codings: &[&'static str], body: &'static str| {
            let mut request = Request::post(path).body(Body::from(body)).unwrap();
            for coding in codings {
                request.headers_mut().append(CONTENT_ENCODING, HeaderValue::from_static(coding));
            }
            guarded("test", router(), LIMITS).oneshot(request).await.unwrap()
        };
        for codings in [&["gzip"][..], &["identity, br"], &["identity", "deflate"], &["GZIP"], &["identity;q=1"]] {
            for path in ["/echo", "/nowhere"] {
                let response = send(path, codings, "x").await;
                assert_eq!(response.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE, "{codings:?}");
                assert_eq!(response.headers()[ACCEPT_ENCODING], "identity");
                assert_eq!(response.headers()[CONTENT_TYPE], "application/problem+json");
                let body: Value =
                    serde_json::from_slice(&to_bytes(response.into_body(), 1_000).await.unwrap()).unwrap();
                assert!(body["detail"].as_str().unwrap().contains("identity is accepted"), "{body}");
            }
        }
        for codings in [&["identity"][..], &["Identity, identity"], &[""], &[]] {
            assert_eq!(send("/echo", codings, "x").await.status(), StatusCode::OK, "{codings:?}");
        }
        assert_eq!(send("/echo", &["gzip"], "").await.status(), StatusCode::OK, "nothing is encoded");
    }

    #[tokio::test]
    async fn a_path_or_query_that_is_badly_escaped_is_a_problem_with_the_place() {
        for (path, expected) in [
            ("/echo%", "the path has a % at byte 5"),
            ("/echo%2", "the path has a % at byte 5"),
            ("/%zz", "the path has a % at byte 1"),
            ("/%+1", "the path has a % at byte 1"),
            ("/%FF", "the path is not UTF-8"),
            ("/echo?a=%4", "the query has a % at byte 2"),
            ("/echo?a=b&c=%C3%28", "the query is not UTF-8"),
        ] {
            let (_, detail) = problem(Method::POST, path, Body::empty(), 400).await;
            assert!(detail.starts_with(expected), "{path}: {detail}");
        }
        assert_eq!(send(Method::POST, "/echo?%C3%A4=%25+", Body::empty()).await.0, StatusCode::OK);
    }

    #[tokio::test]
    async fn a_head_request_and_one_for_options_are_answered_as_the_path_allows() {
        let (status, ..) = send(Method::HEAD, "/report", Body::empty()).await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        for method in [Method::OPTIONS, Method::TRACE, Method::PATCH] {
            let (headers, _) = problem(method, "/report", Body::empty(), 405).await;
            assert_eq!(headers[ALLOW], "GET,HEAD");
        }
    }

    #[tokio::test]
    async fn a_plain_error_keeps_its_words_and_headers_and_json_is_left_alone() {
        let (headers, detail) = problem(Method::GET, "/teapot", Body::empty(), 418).await;
        assert_eq!((detail.as_str(), &headers[RETRY_AFTER]), ("short and stout", &HeaderValue::from_static("7")));
        let (status, headers, body) = send(Method::GET, "/report", Body::empty()).await;
        assert_eq!((status, body), (StatusCode::SERVICE_UNAVAILABLE, json!({"status": "down"})));
        assert_eq!(headers[CONTENT_TYPE], "application/json");
    }

    #[tokio::test]
    async fn a_client_that_is_slow_is_told_so_and_a_handler_that_is_slow_is_ours() {
        let (headers, detail) = problem(Method::POST, "/echo", unfinished(), 408).await;
        assert!(detail.contains("body") && detail.contains("100ms"), "{detail}");
        assert_eq!(headers[CONNECTION], "close");
        let (_, detail) = problem(Method::POST, "/never", unfinished(), 503).await;
        assert!(detail.contains("not answered"), "{detail}");
        problem(Method::POST, "/never", Body::from("whole"), 503).await;
    }

    #[tokio::test]
    async fn a_panic_is_a_problem_that_tells_nothing() {
        for path in ["/panics", "/metrics"] {
            let (_, detail) = problem(Method::GET, path, Body::empty(), 500).await;
            assert_eq!(detail, "the request could not be carried out");
        }
    }
}
