//! Waiting for a condition with a deadline; the only place that lets time pass.

use std::{fmt, time::Duration};

use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

const EVERY: Duration = Duration::from_millis(50);
const ONE_ATTEMPT: Duration = Duration::from_secs(5);

/// The last answer of something that did not become ready.
#[derive(Debug)]
pub struct NotReady(pub(crate) String);

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NotReady {}

/// What one look at a condition found.
pub(crate) enum Look<T, E> {
    /// It holds.
    Done(T),
    /// Not yet; the text says what was seen.
    NotYet(String),
    /// It can no longer come about.
    Never(E),
}

/// How the wait ended if not with a value.
pub(crate) enum Unmet<E> {
    /// The deadline passed; the last thing seen.
    Late(NotReady),
    /// The condition can no longer come about.
    Never(E),
}

/// Looks until the condition holds or the time is up.
///
/// One look is cut off after five seconds, so that a server that accepts and then says nothing counts as not ready.
pub(crate) async fn until<T, E, F>(within: Duration, mut look: F) -> Result<T, Unmet<E>>
where
    F: AsyncFnMut() -> Look<T, E>,
{
    let deadline = Instant::now() + within;
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = "not looked at yet".to_owned();
    loop {
        ticks.tick().await;
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Unmet::Late(NotReady(last)));
        }
        match timeout(left.min(ONE_ATTEMPT), look()).await {
            Ok(Look::Done(value)) => return Ok(value),
            Ok(Look::NotYet(seen)) => last = seen,
            Ok(Look::Never(error)) => return Err(Unmet::Never(error)),
            Err(_elapsed) => "no answer".clone_into(&mut last),
        }
    }
}
