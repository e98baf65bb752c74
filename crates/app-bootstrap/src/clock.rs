//! The process's clocks and randomness, behind the core's ports.

use std::time::{Duration, Instant};

use application_core::ports::{Clock, Random};
use async_trait::async_trait;
use time::OffsetDateTime;

/// The operating system's clocks.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// A clock whose monotonic time begins now.
    #[must_use]
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the time of day")]
    fn now(&self) -> OffsetDateTime {
        OffsetDateTime::now_utc()
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// The operating system's random numbers.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemRandom;

impl Random for SystemRandom {
    fn next_u64(&self) -> u64 {
        // A system without entropy after boot does not exist among those this runs on; a token of zeros would be
        // refused by the database as a duplicate, not accepted twice.
        getrandom::u64().unwrap_or_default()
    }
}
