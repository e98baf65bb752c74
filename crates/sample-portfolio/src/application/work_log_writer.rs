//! What the commands share: one work log, one transaction, its events recorded in it.

use std::{fmt, sync::Arc};

use application_core::{
    outbox::{EventId, InvalidEvent},
    ports::{Clock, Random},
    usecases::{Transaction, Transactional},
};
use time::OffsetDateTime;

use super::error::CommandError;
use crate::{
    domain::{IllegalTransition, PortfolioId, Version, WorkLog, WorkLogId},
    integration_events::to_outbox_event,
    ports::{WorkLogReceipt, WorkLogRepository},
};

/// The work log that a command is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkLogTarget {
    /// Its portfolio.
    pub portfolio: PortfolioId,
    /// The work log.
    pub id: WorkLogId,
    /// The version that the client saw, if it insists on it.
    pub expected_version: Option<Version>,
    /// The trace context of the request, which the events continue.
    pub traceparent: Option<String>,
}

/// Changes work logs, each change with its events in one transaction.
pub struct WorkLogWriter<Tx: Send + Sync + 'static> {
    pub(super) transactional: Arc<Transactional<Tx>>,
    pub(super) work_logs: Arc<dyn WorkLogRepository<Tx>>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
}

impl<Tx: Send + Sync + 'static> WorkLogWriter<Tx> {
    /// Puts the ports together.
    #[must_use]
    pub fn new(
        transactional: Arc<Transactional<Tx>>,
        work_logs: Arc<dyn WorkLogRepository<Tx>>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
    ) -> Self {
        Self { transactional, work_logs, clock, random }
    }

    /// Applies a transition to a stored work log.
    pub(super) async fn change(
        &self,
        target: &WorkLogTarget,
        transition: impl FnOnce(&mut WorkLog, OffsetDateTime) -> Result<(), IllegalTransition> + Send,
    ) -> Result<WorkLogReceipt, CommandError> {
        let WorkLogTarget { portfolio, id, .. } = *target;
        self.transactional
            .run(async |transaction: &mut Transaction<Tx>| {
                let found = self.work_logs.find_for_update(transaction.tx(), portfolio, id).await?;
                let mut work_log = found.ok_or(CommandError::NotFound { portfolio, id })?;
                let actual = work_log.state().version;
                if let Some(expected) = target.expected_version.filter(|expected| *expected != actual) {
                    return Err(CommandError::VersionMismatch { id, expected, actual });
                }
                transition(&mut work_log, self.now())?;
                self.work_logs.save(transaction.tx(), &work_log).await?;
                self.record_events(transaction, &mut work_log, target.traceparent.as_deref())?;
                Ok(work_log.state().into())
            })
            .await
    }

    /// Records what the work log did; the transaction appends it when it commits.
    pub(super) fn record_events(
        &self,
        transaction: &mut Transaction<Tx>,
        work_log: &mut WorkLog,
        traceparent: Option<&str>,
    ) -> Result<(), InvalidEvent> {
        for event in work_log.take_events() {
            transaction.record(to_outbox_event(&event, self.new_event_id(), traceparent)?);
        }
        Ok(())
    }

    /// The time in whole microseconds: what a store keeps, so that a receipt and a later read agree.
    pub(super) fn now(&self) -> OffsetDateTime {
        let now = self.clock.now();
        now.replace_microsecond(now.microsecond()).unwrap_or(now)
    }

    pub(super) fn new_work_log_id(&self) -> WorkLogId {
        WorkLogId::new(self.new_event_id().as_uuid())
    }

    fn new_event_id(&self) -> EventId {
        EventId::generate(&*self.clock, &*self.random)
    }
}

impl<Tx: Send + Sync + 'static> fmt::Debug for WorkLogWriter<Tx> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkLogWriter").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use application_core::ports::StoreError;
    use mockall::Sequence;

    use super::*;
    use crate::{
        application::{
            CancelWorkLog, CancelWorkLogUseCase as _, CompleteWorkLog, CompleteWorkLogUseCase as _, StartWorkLog,
            StartWorkLogUseCase as _,
            testing::{Mocks, NOON, minutes, stored, target},
        },
        domain::WorkLogStatus,
    };

    /// A transaction over a stored work log that ends in a commit with one event of the given type.
    fn committed(status: WorkLogStatus, version: u32, event_type: &'static str) -> Mocks {
        let (mut mocks, mut order) = (Mocks::default(), Sequence::new());
        mocks.unit_of_work.expect_begin().times(1).in_sequence(&mut order).return_once(|| Ok(()));
        mocks
            .work_logs
            .expect_find_for_update()
            .times(1)
            .in_sequence(&mut order)
            .return_once(move |(), _, _| Ok(Some(stored(status, version))));
        mocks
            .work_logs
            .expect_save()
            .withf(move |(), work_log| work_log.stored_version() == Some(Version::new(version)))
            .times(1)
            .in_sequence(&mut order)
            .return_once(|(), _| Ok(()));
        mocks
            .outbox
            .expect_append()
            .withf(move |(), events| events.len() == 1 && events[0].event_type().as_str() == event_type)
            .times(1)
            .in_sequence(&mut order)
            .return_once(|(), _| Ok(()));
        mocks.unit_of_work.expect_commit().times(1).in_sequence(&mut order).return_once(|()| Ok(()));
        mocks.wakeup.expect_wake().times(1).in_sequence(&mut order).return_const(());
        mocks
    }

    /// A transaction over what the store finds that is rolled back.
    fn rolled_back(found: Option<WorkLog>) -> Mocks {
        let mut mocks = Mocks::default();
        mocks.unit_of_work.expect_begin().times(1).return_once(|| Ok(()));
        mocks.work_logs.expect_find_for_update().times(1).return_once(|(), _, _| Ok(found));
        mocks.unit_of_work.expect_commit().never();
        mocks.wakeup.expect_wake().never();
        mocks
    }

    #[tokio::test]
    async fn each_transition_saves_and_appends_its_event_in_one_transaction() {
        let started = StartWorkLog::new(committed(WorkLogStatus::Reserved, 1, "WorkLogStarted").writer())
            .execute(target())
            .await
            .expect("started");
        assert_eq!((started.status, started.version), (WorkLogStatus::Started, Version::new(2)));
        assert_eq!(started.changed_at, NOON);

        let spent = minutes(75);
        let completed = CompleteWorkLog::new(committed(WorkLogStatus::Started, 2, "WorkLogCompleted").writer())
            .execute(target(), spent)
            .await
            .expect("completed");
        assert_eq!((completed.status, completed.version), (WorkLogStatus::Completed { spent }, Version::new(3)));

        let cancelled = CancelWorkLog::new(committed(WorkLogStatus::Started, 2, "WorkLogCancelled").writer())
            .execute(target())
            .await
            .expect("cancelled");
        assert_eq!((cancelled.status, cancelled.version), (WorkLogStatus::Cancelled, Version::new(3)));
    }

    #[tokio::test]
    async fn an_illegal_transition_saves_nothing_and_rolls_back() {
        let mocks = rolled_back(Some(stored(WorkLogStatus::Reserved, 1)));
        let outcome = CompleteWorkLog::new(mocks.writer()).execute(target(), minutes(5)).await;
        assert!(matches!(outcome, Err(CommandError::Illegal(_))));
    }

    #[tokio::test]
    async fn an_unknown_work_log_is_named_with_its_portfolio() {
        let error = StartWorkLog::new(rolled_back(None).writer()).execute(target()).await.expect_err("unknown");
        let WorkLogTarget { portfolio, id, .. } = target();
        assert_eq!(error.to_string(), format!("portfolio {portfolio} has no work log {id}"));
    }

    #[tokio::test]
    async fn a_client_that_saw_another_version_is_refused_before_the_transition() {
        let mocks = rolled_back(Some(stored(WorkLogStatus::Reserved, 3)));
        let target = WorkLogTarget { expected_version: Some(Version::new(2)), ..target() };
        let outcome = StartWorkLog::new(mocks.writer()).execute(target).await;
        let Err(CommandError::VersionMismatch { expected, actual, .. }) = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!((expected, actual), (Version::new(2), Version::new(3)));
    }

    #[tokio::test]
    async fn only_a_store_that_may_recover_makes_a_command_worth_repeating() {
        let mut mocks = Mocks::default();
        let unavailable = StoreError::Unavailable { source: "connection refused".into() };
        mocks.unit_of_work.expect_begin().times(1).return_once(|| Err(unavailable));
        let error = StartWorkLog::new(mocks.writer()).execute(target()).await.expect_err("unavailable");
        assert!(error.is_transient());
        let illegal = stored(WorkLogStatus::Cancelled, 1).start(NOON).expect_err("over");
        assert!(!CommandError::from(illegal).is_transient());
    }
}
