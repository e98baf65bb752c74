//! Use case: take the outbox's figures once per interval.

use std::{fmt, sync::Arc};

use crate::ports::{OutboxObserver, OutboxSignal, OutboxStatistics, OutboxStatisticsPort, StoreError};

/// Reads the statistics and hands them to the observer.
pub struct ObserveOutboxUseCase {
    statistics: Arc<dyn OutboxStatisticsPort>,
    observer: Arc<dyn OutboxObserver>,
}

impl ObserveOutboxUseCase {
    /// Puts the ports together.
    #[must_use]
    pub fn new(statistics: Arc<dyn OutboxStatisticsPort>, observer: Arc<dyn OutboxObserver>) -> Self {
        Self { statistics, observer }
    }

    /// Takes one snapshot.
    ///
    /// # Errors
    /// [`StoreError`]; the observer keeps its last figures.
    pub async fn run_once(&self) -> Result<OutboxStatistics, StoreError> {
        let statistics = self.statistics.statistics().await?;
        self.observer.observe(&OutboxSignal::Statistics(statistics));
        Ok(statistics)
    }
}

impl fmt::Debug for ObserveOutboxUseCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObserveOutboxUseCase").finish_non_exhaustive()
    }
}
