//! `/livez` and `/readyz` (rule R26).

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use application_core::ports::{Clock, ReadinessCheck};
use axum::{Json, Router, extract::State, http::StatusCode, response::IntoResponse, routing::get};
use futures_util::{FutureExt, future::join_all};
use serde::Serialize;
use tokio::sync::Mutex;

/// How readiness is found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HealthPolicy {
    /// How long one check may take before it counts as failed.
    pub check_timeout: Duration,
    /// How long an answer serves everybody who asks, so that probes do not become load.
    pub cache: Duration,
}

impl Default for HealthPolicy {
    /// Checks of 2 s at most, answers for 1 s.
    fn default() -> Self {
        Self { check_timeout: Duration::from_secs(2), cache: Duration::from_secs(1) }
    }
}

#[derive(Debug, Clone, Serialize)]
struct Report {
    status: &'static str,
    checks: Vec<CheckReport>,
}

#[derive(Debug, Clone, Serialize)]
struct CheckReport {
    name: &'static str,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

struct Readiness {
    checks: Vec<Arc<dyn ReadinessCheck>>,
    clock: Arc<dyn Clock>,
    policy: HealthPolicy,
    last: Mutex<Option<(Duration, Report)>>,
}

/// Routes `/livez` (200 while the process answers) and `/readyz` (200 or 503, with each check and its reason).
pub fn health_router(checks: Vec<Arc<dyn ReadinessCheck>>, clock: Arc<dyn Clock>, policy: HealthPolicy) -> Router {
    let readiness = Readiness { checks, clock, policy, last: Mutex::new(None) };
    Router::new()
        .route("/livez", get(async || Json(Report { status: "up", checks: Vec::new() })))
        .route("/readyz", get(ready))
        .with_state(Arc::new(readiness))
}

async fn ready(State(readiness): State<Arc<Readiness>>) -> impl IntoResponse {
    let report = readiness.report().await;
    let status = if report.status == "up" { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(report))
}

impl Readiness {
    /// The last report while it is fresh; whoever asks while checks run waits for their result.
    async fn report(&self) -> Report {
        let mut last = self.last.lock().await;
        if let Some((at, report)) = &*last
            && self.clock.monotonic().saturating_sub(*at) < self.policy.cache
        {
            return report.clone();
        }
        let checks = join_all(self.checks.iter().map(|check| self.run(&**check))).await;
        let up = checks.iter().all(|check| check.reason.is_none());
        let report = Report { status: if up { "up" } else { "down" }, checks };
        *last = Some((self.clock.monotonic(), report.clone()));
        report
    }

    async fn run(&self, check: &dyn ReadinessCheck) -> CheckReport {
        let limit = self.policy.check_timeout;
        let running = AssertUnwindSafe(check.check()).catch_unwind();
        let reason = match tokio::time::timeout(limit, running).await {
            Ok(Ok(Ok(()))) => None,
            Ok(Ok(Err(reason))) => Some(reason),
            Ok(Err(_panic)) => Some("the check panicked".to_owned()),
            Err(_) => Some(format!("no answer within {limit:?}")),
        };
        CheckReport { name: check.name(), status: if reason.is_none() { "up" } else { "down" }, reason }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use async_trait::async_trait;
    use axum::{body::Body, http::Request};
    use http_body_util::BodyExt;
    use serde_json::{Value, json};
    use test_support::clock::FakeClock;
    use tower::ServiceExt;

    use super::*;

    struct Check(&'static str, Box<dyn Fn() -> Option<Result<(), String>> + Send + Sync>);

    #[async_trait]
    impl ReadinessCheck for Check {
        fn name(&self) -> &'static str {
            self.0
        }

        async fn check(&self) -> Result<(), String> {
            match (self.1)() {
                Some(answer) => answer,
                None => std::future::pending().await,
            }
        }
    }

    fn check(
        name: &'static str,
        answer: impl Fn() -> Option<Result<(), String>> + Send + Sync + 'static,
    ) -> Arc<dyn ReadinessCheck> {
        Arc::new(Check(name, Box::new(answer)))
    }

    async fn get(router: &Router, path: &str) -> (StatusCode, Value) {
        let response = router.clone().oneshot(Request::get(path).body(Body::empty()).unwrap()).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap())
    }

    #[tokio::test]
    async fn readiness_names_each_check_and_its_reason() {
        let policy = HealthPolicy { check_timeout: Duration::from_millis(50), ..HealthPolicy::default() };
        let checks = vec![
            check("database", || Some(Ok(()))),
            check("broker", || Some(Err("not connected".to_owned()))),
            check("schema", || None),
            check("consumer", || panic!("bug")),
        ];
        let router = health_router(checks, Arc::new(FakeClock::default()), policy);
        let (status, body) = get(&router, "/readyz").await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(
            body,
            json!({"status": "down", "checks": [
                {"name": "database", "status": "up"},
                {"name": "broker", "status": "down", "reason": "not connected"},
                {"name": "schema", "status": "down", "reason": "no answer within 50ms"},
                {"name": "consumer", "status": "down", "reason": "the check panicked"},
            ]})
        );
        assert_eq!(get(&router, "/livez").await.0, StatusCode::OK);
    }

    #[tokio::test]
    async fn readiness_is_found_out_once_a_second_however_many_ask() {
        let asked = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&asked);
        let clock = Arc::new(FakeClock::default());
        let checks = vec![check("database", move || {
            counter.fetch_add(1, Ordering::SeqCst);
            Some(Ok(()))
        })];
        let router = health_router(checks, Arc::clone(&clock) as _, HealthPolicy::default());
        let all = join_all((0..10).map(|_| get(&router, "/readyz"))).await;
        assert!(all.iter().all(|(status, _)| *status == StatusCode::OK));
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        clock.advance(Duration::from_secs(1));
        get(&router, "/readyz").await;
        assert_eq!(asked.load(Ordering::SeqCst), 2);
    }
}
