//! Use case: an operator removes history before its retention is over, or resolved events, which have none.

use std::{fmt, sync::Arc, time::Duration};

use super::{ManyReport, StopSignal};
use crate::{
    outbox::{Attribution, SettledHistory},
    ports::{OutboxMaintenancePort, OutboxStatistics, StoreError},
};

/// Removes history in bounded batches, each recorded.
pub struct PurgeOutboxUseCase {
    maintenance: Arc<dyn OutboxMaintenancePort>,
}

impl PurgeOutboxUseCase {
    /// Removes through this port.
    #[must_use]
    pub fn new(maintenance: Arc<dyn OutboxMaintenancePort>) -> Self {
        Self { maintenance }
    }

    /// Removes what is older than `age`, `batch` events in a transaction, and begins no further batch once told to stop.
    /// A repetition goes on where an interrupted call ended.
    ///
    /// # Errors
    /// [`StoreError`]; the batches before stay removed.
    pub async fn purge(
        &self,
        histories: &[SettledHistory],
        age: Duration,
        batch: u32,
        by: &Attribution,
        stop: &StopSignal,
    ) -> Result<ManyReport, StoreError> {
        let batch = batch.max(1);
        let mut report = ManyReport::default();
        for history in histories {
            loop {
                if stop.is_set() {
                    return Ok(ManyReport { interrupted: true, ..report });
                }
                let removed = self.maintenance.purge(*history, age, batch, by).await?;
                report.events += u64::from(removed);
                if removed > 0 {
                    tracing::info!(%history, events = report.events, "history is being purged");
                }
                if removed < batch {
                    break;
                }
            }
        }
        if report.events > 0 {
            let operator = by.operator.as_str();
            tracing::warn!(events = report.events, operator, "an operator purged history");
        }
        Ok(report)
    }

    /// Counts what [`Self::purge`] would remove now, and removes nothing; of each history counting stops at
    /// [`OutboxStatistics::COUNT_LIMIT`].
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn count(&self, histories: &[SettledHistory], age: Duration) -> Result<PurgeCount, StoreError> {
        let mut count = PurgeCount::default();
        for history in histories {
            let events = self.maintenance.count_purgeable(*history, age).await?;
            count.events += events;
            count.at_least |= events >= OutboxStatistics::COUNT_LIMIT;
        }
        Ok(count)
    }
}

/// What a purge would remove.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PurgeCount {
    /// Events.
    pub events: u64,
    /// Whether counting stopped before the end.
    pub at_least: bool,
}

impl fmt::Debug for PurgeOutboxUseCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PurgeOutboxUseCase").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{outbox::OperatorName, ports::MockOutboxMaintenancePort};

    const DAY: Duration = Duration::from_secs(86_400);

    fn somebody() -> Attribution {
        Attribution { operator: OperatorName::try_new("somebody").unwrap(), reason: None }
    }

    /// A store whose batches of ten hold these many events; after the last one `stop` is set.
    fn purge(batches: Vec<(SettledHistory, u32)>, stop: &StopSignal) -> PurgeOutboxUseCase {
        let mut maintenance = MockOutboxMaintenancePort::new();
        let (mut left, stop) = (batches.into_iter(), stop.clone());
        maintenance.expect_purge().times(left.len()).returning(move |history, age, batch, by| {
            let (expected, removed) = left.next().unwrap();
            assert_eq!((history, age, batch, by), (expected, DAY, 10, &somebody()));
            if left.len() == 0 {
                stop.set();
            }
            Ok(removed)
        });
        PurgeOutboxUseCase::new(Arc::new(maintenance))
    }

    #[tokio::test]
    async fn each_history_goes_batch_by_batch_until_one_is_not_full() {
        use SettledHistory::{Published, Resolved};
        let stop = StopSignal::new();
        let purge = purge(vec![(Published, 10), (Published, 3), (Resolved, 10), (Resolved, 0)], &stop);
        let report = purge.purge(&SettledHistory::ALL, DAY, 10, &somebody(), &stop).await.unwrap();
        assert_eq!(report, ManyReport { events: 23, ..ManyReport::default() });
    }

    #[tokio::test]
    async fn a_purge_that_is_told_to_stop_begins_no_further_batch_and_says_so() {
        let stop = StopSignal::new();
        let purge = purge(vec![(SettledHistory::Published, 10), (SettledHistory::Published, 10)], &stop);
        let report = purge.purge(&SettledHistory::ALL, DAY, 10, &somebody(), &stop).await.unwrap();
        assert_eq!(report, ManyReport { events: 20, interrupted: true, ..ManyReport::default() });
    }

    #[tokio::test]
    async fn a_count_that_met_its_limit_says_that_there_may_be_more() {
        for (resolved, at_least) in [(7, false), (OutboxStatistics::COUNT_LIMIT, true)] {
            let mut maintenance = MockOutboxMaintenancePort::new();
            maintenance
                .expect_count_purgeable()
                .times(2)
                .returning(move |history, _| Ok(if history == SettledHistory::Resolved { resolved } else { 5 }));
            let count = PurgeOutboxUseCase::new(Arc::new(maintenance)).count(&SettledHistory::ALL, DAY).await.unwrap();
            assert_eq!(count, PurgeCount { events: resolved + 5, at_least });
        }
    }
}
