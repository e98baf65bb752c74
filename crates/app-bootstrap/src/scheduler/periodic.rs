//! A task that runs at intervals.

use std::{future::Future, sync::Arc, time::Duration};

use application_core::ports::{Random, StoreError, with_causes};
use tokio_util::sync::CancellationToken;

/// Runs a task at intervals with jitter until the process stops; a failure is logged and the next interval tries again.
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
        loop {
            let wait = self.interval.mul_f64(0.9 + 0.2 * self.random.next_unit());
            tokio::select! {
                () = cancel.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
            if let Err(error) = task().await {
                tracing::error!(task = self.name, error = with_causes(&error), "a periodic task failed");
            }
        }
    }
}

impl std::fmt::Debug for Periodic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Periodic").field("name", &self.name).field("interval", &self.interval).finish_non_exhaustive()
    }
}
