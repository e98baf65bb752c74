//! Use case: return the events of expired leases.

use std::{fmt, sync::Arc};

use crate::{
    outbox::FailureClass,
    ports::{OutboxMaintenancePort, OutboxObserver, OutboxSignal, ReapReport, ReapRequest, StoreError},
};

/// Reaps until no claim is left whose lease has ended, some claims at a time.
pub struct ReapOutboxUseCase {
    maintenance: Arc<dyn OutboxMaintenancePort>,
    observer: Arc<dyn OutboxObserver>,
    request: ReapRequest,
}

impl ReapOutboxUseCase {
    /// Puts the parts together.
    #[must_use]
    pub fn new(
        maintenance: Arc<dyn OutboxMaintenancePort>,
        observer: Arc<dyn OutboxObserver>,
        request: ReapRequest,
    ) -> Self {
        Self { maintenance, observer, request }
    }

    /// Runs one round.
    ///
    /// # Errors
    /// [`StoreError`]; what was returned before stays returned.
    pub async fn run_once(&self) -> Result<ReapReport, StoreError> {
        let mut total = ReapReport::default();
        loop {
            let report = self.maintenance.reap(&self.request).await?;
            total.claims += report.claims;
            total.lanes += report.lanes;
            // A lane that stays held is met again by each call: it is not another one.
            total.postponed = report.postponed;
            total.dead += report.dead;
            // A round that only met lanes held by appenders would spin.
            if report.claims < self.request.max_claims || report.lanes == 0 {
                break;
            }
        }
        if total != ReapReport::default() {
            tracing::warn!(
                claims = total.claims,
                lanes = total.lanes,
                postponed = total.postponed,
                dead = total.dead,
                "returned the events of expired leases"
            );
            self.observer.observe(&OutboxSignal::Reaped(total));
            if let Ok(events) = usize::try_from(total.dead)
                && events > 0
            {
                self.observer.observe(&OutboxSignal::Died { class: FailureClass::Poison, events });
            }
        }
        Ok(total)
    }
}

impl fmt::Debug for ReapOutboxUseCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReapOutboxUseCase").field("request", &self.request).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use mockall::Sequence;

    use super::*;
    use crate::ports::{MockOutboxMaintenancePort, MockOutboxObserver};

    fn request() -> ReapRequest {
        ReapRequest { max_claims: 2, dead_after_expiries: 10, skip_types: Vec::new() }
    }

    fn report(claims: u32, lanes: u32) -> ReapReport {
        ReapReport { claims, lanes, ..ReapReport::default() }
    }

    #[tokio::test]
    async fn full_rounds_are_repeated_until_one_is_not_full() {
        let mut maintenance = MockOutboxMaintenancePort::new();
        let mut order = Sequence::new();
        for answer in [report(2, 5), report(2, 3), report(1, 1)] {
            maintenance
                .expect_reap()
                .withf(|asked| *asked == request())
                .times(1)
                .in_sequence(&mut order)
                .return_once(move |_| Ok(answer));
        }
        let mut observer = MockOutboxObserver::new();
        observer
            .expect_observe()
            .withf(|signal| *signal == OutboxSignal::Reaped(report(5, 9)))
            .times(1)
            .return_const(());
        let reaper = ReapOutboxUseCase::new(Arc::new(maintenance), Arc::new(observer), request());
        assert_eq!(reaper.run_once().await.expect("reaped"), report(5, 9));
    }

    #[tokio::test]
    async fn a_round_that_frees_nothing_is_not_repeated() {
        let mut maintenance = MockOutboxMaintenancePort::new();
        let held = ReapReport { claims: 2, postponed: 7, ..ReapReport::default() };
        maintenance.expect_reap().times(1).return_once(move |_| Ok(held));
        let mut observer = MockOutboxObserver::new();
        observer.expect_observe().times(1).return_const(());
        let reaper = ReapOutboxUseCase::new(Arc::new(maintenance), Arc::new(observer), request());
        assert_eq!(reaper.run_once().await.expect("reaped"), held);
    }

    #[tokio::test]
    async fn a_quiet_round_reports_nothing() {
        let mut maintenance = MockOutboxMaintenancePort::new();
        maintenance.expect_reap().times(1).return_once(|_| Ok(ReapReport::default()));
        let mut observer = MockOutboxObserver::new();
        observer.expect_observe().never();
        let reaper = ReapOutboxUseCase::new(Arc::new(maintenance), Arc::new(observer), request());
        assert_eq!(reaper.run_once().await.expect("reaped"), ReapReport::default());
    }
}
