//! What every request is held to, whatever the router does with it: an answer in time, an answer after a panic, and each
//! error as a problem document (RFC 9457).

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
    extract::{Request, State},
    http::{
        HeaderMap, HeaderValue, Method, StatusCode, Uri,
        header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE},
    },
    middleware::{Next, from_fn_with_state},
    response::{IntoResponse, Response},
};
use futures_util::FutureExt;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tower_http::limit::RequestBodyLimitLayer;

use super::{problem_details::ProblemDetails, server::ServerLimits};

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
        .layer(RequestBodyLimitLayer::new(max_body_bytes))
        .layer(from_fn_with_state(Guard { server, request_timeout, max_body_bytes }, guard))
}

async fn guard(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let waits = Arc::new(AtomicBool::new(false));
    let watch = Arc::clone(&waits);
    let request = request.map(|body| Body::new(Watched { body, waits: watch }));
    let answer = AssertUnwindSafe(next.run(request)).catch_unwind();
    match tokio::time::timeout(guard.request_timeout, answer).await {
        Ok(Ok(response)) => guard.as_problem(response).await,
        Ok(Err(_panic)) => guard.panicked(&method, &uri),
        Err(_) if waits.load(Ordering::Relaxed) => guard.body_too_slow(),
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

    /// Errors of the framework are plain text or nothing at all; what is JSON already is left as it is.
    async fn as_problem(&self, response: Response) -> Response {
        let status = response.status();
        if !(status.is_client_error() || status.is_server_error()) || is_json(response.headers()) {
            return response;
        }
        let (mut parts, body) = response.into_parts();
        let detail = match status {
            StatusCode::PAYLOAD_TOO_LARGE => format!("the body may have {} bytes at most", self.max_body_bytes),
            _ => words(body).await.unwrap_or_else(|| without_words(status)),
        };
        let (problem, body) = ProblemDetails::new(status, detail).into_response().into_parts();
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

/// A request body that tells whether its reader waits for the client: then it is the client who is slow.
struct Watched {
    body: Body,
    waits: Arc<AtomicBool>,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        self.waits.store(polled.is_pending(), Ordering::Relaxed);
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use axum::{
        http::header::{ALLOW, RETRY_AFTER},
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
            .route("/never", post(async || std::future::pending::<()>().await))
            .route("/panics", get(async || -> StatusCode { panic!("a bug, with a secret") }))
            .route("/teapot", get(async || (StatusCode::IM_A_TEAPOT, [(RETRY_AFTER, "7")], "short and stout")))
            .route("/report", get(async || (StatusCode::SERVICE_UNAVAILABLE, axum::Json(json!({"status": "down"})))))
            .merge(metrics_router(Arc::new(|| -> String { panic!("a renderer that fails") })))
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
