//! Port: time.

use std::time::Duration;

use async_trait::async_trait;
use time::OffsetDateTime;

/// The process's clocks. Due times and leases are the database's (rule R6); this one stamps identifiers and logs, and
/// tells a sender when to stop.
#[async_trait]
pub trait Clock: Send + Sync {
    /// The time of day; may jump.
    fn now(&self) -> OffsetDateTime;

    /// Time since an arbitrary moment; never goes back.
    fn monotonic(&self) -> Duration;

    /// Waits on the monotonic clock.
    async fn sleep(&self, duration: Duration);
}
