//! Doubles for unit tests.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use application_core::ports::Clock;
use async_trait::async_trait;
use time::OffsetDateTime;

/// A clock that moves only when told; sleeping moves it and yields.
#[derive(Debug, Default)]
pub(crate) struct ManualClock(Mutex<Duration>);

impl ManualClock {
    pub(crate) fn advance(&self, duration: Duration) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) += duration;
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn now(&self) -> OffsetDateTime {
        OffsetDateTime::UNIX_EPOCH + self.monotonic()
    }

    fn monotonic(&self) -> Duration {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn sleep(&self, duration: Duration) {
        self.advance(duration);
        tokio::task::yield_now().await;
    }
}
