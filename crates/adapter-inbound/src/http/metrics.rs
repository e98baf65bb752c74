//! `/metrics`: the text that the metrics registry renders.

use std::sync::Arc;

use axum::{Router, http::header::CONTENT_TYPE, routing::get};

/// The content type of the Prometheus text format.
pub const METRICS_CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Routes `/metrics` to whatever `render` gives at the moment.
pub fn metrics_router(render: Arc<dyn Fn() -> String + Send + Sync>) -> Router {
    let answer = move || {
        let text = render();
        async move { ([(CONTENT_TYPE, METRICS_CONTENT_TYPE)], text) }
    };
    Router::new().route("/metrics", get(answer))
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, http::Request};
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::*;

    #[tokio::test]
    async fn metrics_are_rendered_as_prometheus_text() {
        let router = metrics_router(Arc::new(|| "up 1\n".to_owned()));
        let response = router.oneshot(Request::get("/metrics").body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.headers()[CONTENT_TYPE], METRICS_CONTENT_TYPE);
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "up 1\n");
    }
}
