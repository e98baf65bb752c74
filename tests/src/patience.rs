//! Waiting for a condition with a deadline.

use std::{
    future::Future,
    time::{Duration, Instant},
};

/// A condition that did not come true in time.
#[derive(Debug, thiserror::Error)]
#[error("{what} did not come true within {within:?}")]
pub struct TimedOut {
    what: String,
    within: Duration,
}

impl TimedOut {
    /// Says what did not come true.
    #[must_use]
    pub fn new(what: &str, within: Duration) -> Self {
        Self { what: what.to_owned(), within }
    }
}

/// Looks again and again until `look` returns something.
///
/// # Errors
/// [`TimedOut`].
pub async fn eventually<T, F, Fut>(what: &str, within: Duration, mut look: F) -> Result<T, TimedOut>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Option<T>>,
{
    let begun = Instant::now();
    loop {
        if let Some(found) = look().await {
            return Ok(found);
        }
        if begun.elapsed() > within {
            return Err(TimedOut::new(what, within));
        }
        pause().await;
    }
}

/// The pause between two looks at a condition that has a deadline of its own.
pub async fn pause() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}
