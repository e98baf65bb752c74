//! Use case: remove published events when their retention is over.

use std::{fmt, sync::Arc, time::Duration};

use super::StopSignal;
use crate::ports::{LeaderTerm, OutboxMaintenancePort, OutboxObserver, OutboxSignal, StoreError};

/// How much history is kept, and how gently it is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CleanUpPolicy {
    /// How long a published event is kept.
    pub retention: Duration,
    /// The most events of one transaction; 1 or more.
    pub batch: u32,
}

/// What a round of cleaning did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CleanUpReport {
    /// Nothing older than the retention is left.
    Done {
        /// Events removed.
        events: u64,
    },
    /// The term ended, or the process stops; another leader goes on.
    Interrupted {
        /// Events removed before.
        events: u64,
    },
}

/// Removes history in bounded batches, each under the leader's term (rule R23).
pub struct CleanUpOutboxUseCase {
    maintenance: Arc<dyn OutboxMaintenancePort>,
    observer: Arc<dyn OutboxObserver>,
    policy: CleanUpPolicy,
}

impl CleanUpOutboxUseCase {
    /// Puts the parts together.
    #[must_use]
    pub fn new(
        maintenance: Arc<dyn OutboxMaintenancePort>,
        observer: Arc<dyn OutboxObserver>,
        policy: CleanUpPolicy,
    ) -> Self {
        Self { maintenance, observer, policy }
    }

    /// Removes batch after batch until one is not full.
    ///
    /// # Errors
    /// [`StoreError`]; batches before it stay removed.
    pub async fn run_once(&self, term: &LeaderTerm, stop: &StopSignal) -> Result<CleanUpReport, StoreError> {
        let mut events = 0_u64;
        while !stop.is_set() {
            let (retention, batch) = (self.policy.retention, self.policy.batch);
            let Some(removed) = self.maintenance.clean_up(term, retention, batch).await? else {
                return Ok(CleanUpReport::Interrupted { events });
            };
            events += u64::from(removed);
            if removed > 0 {
                self.observer.observe(&OutboxSignal::CleanedUp { events: removed });
            }
            if removed < batch {
                return Ok(CleanUpReport::Done { events });
            }
        }
        Ok(CleanUpReport::Interrupted { events })
    }
}

impl fmt::Debug for CleanUpOutboxUseCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CleanUpOutboxUseCase").field("policy", &self.policy).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        outbox::HolderName,
        ports::{MockOutboxMaintenancePort, NoObserver},
    };

    fn term() -> LeaderTerm {
        LeaderTerm { role: "outbox-maintenance".to_owned(), holder: HolderName::new("a"), term: 7 }
    }

    fn use_case(answers: Vec<Option<u32>>) -> CleanUpOutboxUseCase {
        let mut maintenance = MockOutboxMaintenancePort::new();
        let mut answers = answers.into_iter();
        maintenance
            .expect_clean_up()
            .withf(|asked, retention, batch| *asked == term() && *retention == Duration::from_secs(60) && *batch == 10)
            .times(answers.len())
            .returning(move |_, _, _| Ok(answers.next().expect("no further batch")));
        let policy = CleanUpPolicy { retention: Duration::from_secs(60), batch: 10 };
        CleanUpOutboxUseCase::new(Arc::new(maintenance), Arc::new(NoObserver), policy)
    }

    #[tokio::test]
    async fn batches_follow_each_other_until_one_is_not_full() {
        let report = use_case(vec![Some(10), Some(10), Some(3)]).run_once(&term(), &StopSignal::new()).await;
        assert_eq!(report.expect("cleaned"), CleanUpReport::Done { events: 23 });
    }

    #[tokio::test]
    async fn a_lost_term_ends_the_round() {
        let report = use_case(vec![Some(10), None]).run_once(&term(), &StopSignal::new()).await;
        assert_eq!(report.expect("cleaned"), CleanUpReport::Interrupted { events: 10 });
    }

    #[tokio::test]
    async fn a_stopping_process_begins_no_further_batch() {
        let stop = StopSignal::new();
        stop.set();
        let report = use_case(Vec::new()).run_once(&term(), &stop).await;
        assert_eq!(report.expect("stopped"), CleanUpReport::Interrupted { events: 0 });
    }
}
