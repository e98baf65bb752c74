//! Work logs created over HTTP by clients that try again, as real ones do.

use std::{
    sync::{
        Arc, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::patience::pause;

/// A request that found no answer in time.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// No process answered before the deadline.
    #[error("no answer to {request} within {within:?}: {last}")]
    NoAnswer {
        /// The request.
        request: String,
        /// The time allowed.
        within: Duration,
        /// What came last.
        last: String,
    },
    /// An answer that a correct service does not give.
    #[error("{request} was answered with {status}: {body}")]
    Unexpected {
        /// The request.
        request: String,
        /// The status.
        status: StatusCode,
        /// The body.
        body: String,
    },
}

/// Clients of some processes, any of which may die.
#[derive(Debug, Clone)]
pub struct WorkLoad {
    client: Client,
    bases: Arc<RwLock<Vec<String>>>,
    next: Arc<AtomicUsize>,
    patience: Duration,
}

impl WorkLoad {
    /// Clients that turn to these base URLs in turn, and give a request up after `patience`.
    #[must_use]
    pub fn new(bases: Vec<String>, patience: Duration) -> Self {
        let client = Client::builder().timeout(Duration::from_secs(10)).build().unwrap_or_default();
        Self { client, bases: Arc::new(RwLock::new(bases)), next: Arc::default(), patience }
    }

    /// Replaces the base URLs, when processes are started anew.
    pub fn turn_to(&self, bases: Vec<String>) {
        *self.bases.write().unwrap_or_else(std::sync::PoisonError::into_inner) = bases;
    }

    /// Creates a work log and walks it to its end, so that its aggregate has three events; returns its id.
    ///
    /// # Errors
    /// [`LoadError`].
    pub async fn complete_one(&self, portfolio: Uuid, key: &str, minutes: u32) -> Result<Uuid, LoadError> {
        let id = self.create(portfolio, key, minutes).await?;
        self.step(portfolio, id, "start", None).await?;
        self.step(portfolio, id, "complete", Some(json!({ "spentMinutes": minutes }))).await?;
        Ok(id)
    }

    /// Creates a work log; the same key again finds the same one.
    ///
    /// # Errors
    /// [`LoadError`].
    pub async fn create(&self, portfolio: Uuid, key: &str, minutes: u32) -> Result<Uuid, LoadError> {
        let path = format!("/portfolios/{portfolio}/work-logs");
        let body = json!({ "title": format!("work {key}"), "plannedMinutes": minutes });
        let (status, answer) = self.post(&path, Some(key), Some(&body)).await?;
        let id = answer.get("id").and_then(Value::as_str).and_then(|id| Uuid::parse_str(id).ok());
        id.filter(|_| status.is_success()).ok_or_else(|| LoadError::Unexpected {
            request: path,
            status,
            body: answer.to_string(),
        })
    }

    /// Takes one step of a work log. A conflict means that an earlier try, whose answer was lost, took it.
    async fn step(&self, portfolio: Uuid, id: Uuid, step: &str, body: Option<Value>) -> Result<(), LoadError> {
        let path = format!("/portfolios/{portfolio}/work-logs/{id}/{step}");
        let (status, answer) = self.post(&path, None, body.as_ref()).await?;
        if status.is_success() || status == StatusCode::CONFLICT {
            return Ok(());
        }
        Err(LoadError::Unexpected { request: path, status, body: answer.to_string() })
    }

    /// Reads what the consumer has added up for a portfolio.
    ///
    /// # Errors
    /// [`LoadError`].
    pub async fn minutes(&self, portfolio: Uuid) -> Result<Option<Value>, LoadError> {
        let path = format!("/portfolios/{portfolio}/minutes");
        let (status, answer) = self.send(&path, |base| self.client.get(format!("{base}{path}"))).await?;
        Ok(status.is_success().then_some(answer))
    }

    async fn post(
        &self,
        path: &str,
        key: Option<&str>,
        body: Option<&Value>,
    ) -> Result<(StatusCode, Value), LoadError> {
        self.send(path, |base| {
            let mut request = self.client.post(format!("{base}{path}"));
            if let Some(key) = key {
                request = request.header("idempotency-key", key);
            }
            match body {
                Some(body) => request.json(body),
                None => request,
            }
        })
        .await
    }

    /// Sends until some process answers with anything but a server error.
    async fn send(
        &self,
        path: &str,
        request: impl Fn(&str) -> reqwest::RequestBuilder,
    ) -> Result<(StatusCode, Value), LoadError> {
        let begun = Instant::now();
        let mut last = String::new();
        while begun.elapsed() < self.patience {
            match request(&self.base()).send().await {
                Ok(answer) if !answer.status().is_server_error() => {
                    let status = answer.status();
                    return Ok((status, answer.json().await.unwrap_or(Value::Null)));
                }
                Ok(answer) => last = answer.status().to_string(),
                Err(error) => last = error.to_string(),
            }
            pause().await;
        }
        Err(LoadError::NoAnswer { request: path.to_owned(), within: self.patience, last })
    }

    fn base(&self) -> String {
        let bases = self.bases.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        let at = self.next.fetch_add(1, Ordering::Relaxed) % bases.len().max(1);
        bases.get(at).cloned().unwrap_or_default()
    }
}
