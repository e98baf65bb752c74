//! Use case: an operator removes history before its retention is over, or resolved events, which have none.

use std::{fmt, sync::Arc, time::Duration};

use super::{ManyFailed, ManyReport, StopSignal};
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
    /// A repetition goes on where an interrupted call ended. How many events went is a warning of the log, however it ends.
    ///
    /// # Errors
    /// [`ManyFailed`]; the batches before stay removed.
    pub async fn purge(
        &self,
        histories: &[SettledHistory],
        age: Duration,
        batch: u32,
        by: &Attribution,
        stop: &StopSignal,
    ) -> Result<ManyReport, ManyFailed> {
        let mut report = ManyReport::default();
        let ended = self.purge_all(histories, age, batch.max(1), by, stop, &mut report).await;
        let (events, operator) = (report.events, by.operator.as_str());
        if events > 0 {
            let whole = ended.is_ok() && !report.interrupted;
            tracing::warn!(events, operator, whole, "an operator purged history");
        }
        match ended {
            Ok(()) => Ok(report),
            Err(source) => Err(ManyFailed { events, next: None, source: source.into() }),
        }
    }

    async fn purge_all(
        &self,
        histories: &[SettledHistory],
        age: Duration,
        batch: u32,
        by: &Attribution,
        stop: &StopSignal,
        report: &mut ManyReport,
    ) -> Result<(), StoreError> {
        for history in histories {
            loop {
                if stop.is_set() {
                    report.interrupted = true;
                    return Ok(());
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
        Ok(())
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
    use std::sync::{Mutex, PoisonError};

    use tracing::{
        Dispatch, Event, Level, Metadata, Subscriber,
        field::{Field, Visit},
        span,
        subscriber::NoSubscriber,
    };

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

    /// Keeps the fields of warnings, as `name=value`.
    #[derive(Clone, Default)]
    struct Warnings(Arc<Mutex<Vec<String>>>);

    impl Warnings {
        fn told(&self) -> Vec<String> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
        }
    }

    impl Subscriber for Warnings {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            *metadata.level() == Level::WARN
        }

        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }

        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

        fn event(&self, event: &Event<'_>) {
            event.record(&mut Fields(self));
        }

        fn enter(&self, _: &span::Id) {}

        fn exit(&self, _: &span::Id) {}
    }

    struct Fields<'a>(&'a Warnings);

    impl Visit for Fields<'_> {
        fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
            self.0.0.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{}={value:?}", field.name()));
        }
    }

    #[tokio::test]
    async fn a_purge_that_is_interrupted_or_fails_warns_of_how_many_events_are_gone_as_a_whole_one_does() {
        use SettledHistory::{Published, Resolved};
        let (warnings, stop) = (Warnings::default(), StopSignal::new());
        let told = {
            // While one dispatcher alone is alive, a callsite asks only the thread that meets it first whether it is heard:
            // a test beside this one, which listens to nothing, would turn the warning off for all.
            let _second = Dispatch::new(NoSubscriber::new());
            let _guard = tracing::subscriber::set_default(warnings.clone());
            let interrupted = purge(vec![(Published, 10)], &stop);
            interrupted.purge(&[Published], DAY, 10, &somebody(), &stop).await.unwrap();
            let (stop, mut maintenance, mut batches) = (StopSignal::new(), MockOutboxMaintenancePort::new(), 0);
            maintenance.expect_purge().times(2).returning(move |_, _, _, _| {
                batches += 1;
                if batches == 1 { Ok(10) } else { Err(StoreError::Timeout { limit: DAY }) }
            });
            let failing = PurgeOutboxUseCase::new(Arc::new(maintenance));
            let failed = failing.purge(&[Published], DAY, 10, &somebody(), &stop).await.unwrap_err();
            assert_eq!((failed.events, failed.next), (10, None));
            assert_eq!(failed.to_string(), "10 events were changed before it failed");
            let whole = purge(vec![(Resolved, 3)], &StopSignal::new());
            whole.purge(&[Resolved], DAY, 10, &somebody(), &stop).await.unwrap();
            warnings.told()
        };
        let of = |name: &str| told.iter().filter(|field| field.starts_with(name)).cloned().collect::<Vec<_>>();
        assert_eq!(of("events="), ["events=10", "events=10", "events=3"], "{told:?}");
        assert_eq!(of("whole="), ["whole=false", "whole=false", "whole=true"], "{told:?}");
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
