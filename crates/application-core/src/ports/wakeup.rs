//! Port: tell the relay that something was committed.

/// Wakes the relay. A lost wake-up costs latency alone: polling is the safety net (rule R24).
#[cfg_attr(feature = "mocks", mockall::automock)]
pub trait WakeupPort: Send + Sync {
    /// Returns at once and cannot fail; called after a commit, never inside a transaction.
    fn wake(&self);
}
