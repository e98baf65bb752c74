//! Use case: forget idempotency keys when no client tries again any more.

use std::{fmt, sync::Arc, time::Duration};

use application_core::{ports::StoreError, usecases::StopSignal};
use async_trait::async_trait;

use crate::ports::IdempotencyKeyMaintenance;

/// How long keys are remembered, and how gently they are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdempotencyKeyPolicy {
    /// How long a key is remembered; longer than any client tries again.
    pub retention: Duration,
    /// The most keys of one transaction; 1 or more.
    pub batch: u32,
}

/// Driving port: forget old keys.
#[cfg_attr(test, mockall::automock)]
#[async_trait]
pub trait CleanUpIdempotencyKeysUseCase: Send + Sync {
    /// Removes batch after batch until no key is left whose retention is over, or until `stop`; the number removed.
    ///
    /// # Errors
    /// [`StoreError`]; batches before it stay removed.
    async fn execute(&self, stop: &StopSignal) -> Result<u64, StoreError>;
}

/// Removes old keys in bounded batches. Safe in any number of processes at once: what one removes, another passes by.
pub struct CleanUpIdempotencyKeys {
    keys: Arc<dyn IdempotencyKeyMaintenance>,
    policy: IdempotencyKeyPolicy,
}

impl CleanUpIdempotencyKeys {
    /// Puts the parts together.
    #[must_use]
    pub fn new(keys: Arc<dyn IdempotencyKeyMaintenance>, policy: IdempotencyKeyPolicy) -> Self {
        Self { keys, policy }
    }
}

#[async_trait]
impl CleanUpIdempotencyKeysUseCase for CleanUpIdempotencyKeys {
    async fn execute(&self, stop: &StopSignal) -> Result<u64, StoreError> {
        let IdempotencyKeyPolicy { retention, batch } = self.policy;
        let mut removed = 0_u64;
        while !stop.is_set() {
            let keys = self.keys.remove_older_than(retention, batch).await?;
            removed += u64::from(keys);
            if keys < batch {
                break;
            }
        }
        Ok(removed)
    }
}

impl fmt::Debug for CleanUpIdempotencyKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CleanUpIdempotencyKeys").field("policy", &self.policy).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::MockIdempotencyKeyMaintenance;

    const POLICY: IdempotencyKeyPolicy = IdempotencyKeyPolicy { retention: Duration::from_secs(60), batch: 10 };

    fn use_case(batches: Vec<Result<u32, StoreError>>) -> CleanUpIdempotencyKeys {
        let mut keys = MockIdempotencyKeyMaintenance::new();
        let (times, mut batches) = (batches.len(), batches.into_iter());
        keys.expect_remove_older_than()
            .withf(|retention, batch| *retention == POLICY.retention && *batch == POLICY.batch)
            .times(times)
            .returning(move |_, _| batches.next().expect("no further batch"));
        CleanUpIdempotencyKeys::new(Arc::new(keys), POLICY)
    }

    #[tokio::test]
    async fn batches_of_keys_follow_each_other_until_one_is_not_full() {
        let removed = use_case(vec![Ok(10), Ok(10), Ok(3)]).execute(&StopSignal::new()).await;
        assert_eq!(removed.expect("removed"), 23);
        assert_eq!(use_case(vec![Ok(10), Ok(0)]).execute(&StopSignal::new()).await.expect("removed"), 10);
    }

    #[tokio::test]
    async fn a_stop_or_a_failing_store_ends_the_removal_of_keys() {
        let stop = StopSignal::new();
        stop.set();
        assert_eq!(use_case(Vec::new()).execute(&stop).await.expect("stopped"), 0);
        let away = StoreError::Unavailable { source: "gone".into() };
        let outcome = use_case(vec![Ok(10), Err(away)]).execute(&StopSignal::new()).await;
        assert!(matches!(outcome, Err(StoreError::Unavailable { .. })), "{outcome:?}");
    }
}
