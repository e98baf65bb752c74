//! A task that runs at intervals.

use std::{future::Future, sync::Arc, time::Duration};

use application_core::ports::{Random, StoreError, with_causes};
use tokio_util::sync::CancellationToken;

use crate::outage::Outage;

/// Runs a task at intervals with jitter until the process stops; after a failure the next interval tries again.
///
/// Of failures in a row the first is logged, and the success that ends them.
pub struct Periodic {
    name: &'static str,
    interval: Duration,
    random: Arc<dyn Random>,
}

impl Periodic {
    /// A named interval.
    #[must_use]
    pub fn new(name: &'static str, interval: Duration, random: Arc<dyn Random>) -> Self {
        Self { name, interval, random }
    }

    /// Runs `task` until `cancel`; a run that has begun is finished.
    pub async fn run<F, Fut, T>(self, cancel: CancellationToken, task: F)
    where
        F: Fn() -> Fut,
        Fut: Future<Output = Result<T, StoreError>>,
    {
        let outage = Outage::default();
        loop {
            let wait = self.interval.mul_f64(0.9 + 0.2 * self.random.next_unit());
            tokio::select! {
                () = cancel.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
            match task().await {
                Err(error) if outage.begins() => {
                    tracing::error!(task = self.name, error = with_causes(&error), "a periodic task failed");
                }
                Err(error) => tracing::debug!(task = self.name, error = with_causes(&error), "it failed again"),
                Ok(_) if outage.ends() => tracing::info!(task = self.name, "a periodic task works again"),
                Ok(_) => {}
            }
        }
    }
}

impl std::fmt::Debug for Periodic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Periodic").field("name", &self.name).field("interval", &self.interval).finish_non_exhaustive()
    }
}
