//! Use case: remove published events, records of handled messages, and relays that are gone, when their time is over.

use std::{fmt, sync::Arc, time::Duration};

use super::StopSignal;
use crate::ports::{
    InboxMaintenancePort, LeaderTerm, OutboxMaintenancePort, OutboxObserver, OutboxSignal, RegisteredRelay,
    RelayRegistryPort, StoreError,
};

/// How much history is kept, and how gently it is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CleanUpPolicy {
    /// How long a published event is kept.
    pub published: Duration,
    /// How long a consumer remembers a handled message; at least `published`.
    pub inbox: Duration,
    /// The most rows of one transaction; 1 or more.
    pub batch: u32,
}

/// What a round of cleaning did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CleanUpReport {
    /// Nothing older than the retention is left.
    Done {
        /// Rows removed.
        removed: u64,
    },
    /// The term ended, or the process stops; another leader goes on.
    Interrupted {
        /// Rows removed before.
        removed: u64,
    },
}

/// Removes history in bounded batches, each under the leader's term (rule R23).
pub struct CleanUpOutboxUseCase {
    outbox: Arc<dyn OutboxMaintenancePort>,
    inbox: Arc<dyn InboxMaintenancePort>,
    relays: Arc<dyn RelayRegistryPort>,
    observer: Arc<dyn OutboxObserver>,
    policy: CleanUpPolicy,
}

impl CleanUpOutboxUseCase {
    /// Puts the parts together.
    #[must_use]
    pub fn new(
        outbox: Arc<dyn OutboxMaintenancePort>,
        inbox: Arc<dyn InboxMaintenancePort>,
        relays: Arc<dyn RelayRegistryPort>,
        observer: Arc<dyn OutboxObserver>,
        policy: CleanUpPolicy,
    ) -> Self {
        Self { outbox, inbox, relays, observer, policy }
    }

    /// Removes batch after batch, events first, until nothing is left whose retention is over.
    ///
    /// # Errors
    /// [`StoreError`]; batches before it stay removed.
    pub async fn run_once(&self, term: &LeaderTerm, stop: &StopSignal) -> Result<CleanUpReport, StoreError> {
        let CleanUpPolicy { published, inbox, batch } = self.policy;
        let mut removed = 0_u64;
        for part in [Part::Outbox, Part::Inbox, Part::Relays] {
            loop {
                if stop.is_set() {
                    return Ok(CleanUpReport::Interrupted { removed });
                }
                let rows = match part {
                    Part::Outbox => self.outbox.clean_up(term, published, batch).await?,
                    Part::Inbox => self.inbox.clean_up(term, inbox, batch).await?,
                    Part::Relays => self.relays.forget_gone(term, RegisteredRelay::REMEMBERED, batch).await?,
                };
                let Some(rows) = rows else { return Ok(CleanUpReport::Interrupted { removed }) };
                removed += u64::from(rows);
                if rows > 0 {
                    self.tell(part, rows);
                }
                if rows < batch {
                    break;
                }
            }
        }
        self.observer.observe(&OutboxSignal::CleanUpFinished);
        Ok(CleanUpReport::Done { removed })
    }

    fn tell(&self, part: Part, rows: u32) {
        match part {
            Part::Outbox => self.observer.observe(&OutboxSignal::CleanedUp { events: rows }),
            Part::Inbox => self.observer.observe(&OutboxSignal::InboxCleanedUp { records: rows }),
            Part::Relays => tracing::info!(relays = rows, "relays that are gone are no longer listed"),
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Part {
    Outbox,
    Inbox,
    Relays,
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
        ports::{MockInboxMaintenancePort, MockOutboxMaintenancePort, MockOutboxObserver, MockRelayRegistryPort},
    };

    fn term() -> LeaderTerm {
        LeaderTerm { role: "outbox-maintenance".to_owned(), holder: HolderName::new("a"), term: 7 }
    }

    fn is_finish(signal: &OutboxSignal<'_>) -> bool {
        matches!(signal, OutboxSignal::CleanUpFinished)
    }

    /// `finishes`: whether the round is told to have left nothing.
    fn use_case(events: Vec<Option<u32>>, records: Vec<Option<u32>>, finishes: bool) -> CleanUpOutboxUseCase {
        let (minute, hour) = (Duration::from_secs(60), Duration::from_secs(3_600));
        let mut outbox = MockOutboxMaintenancePort::new();
        let mut events = events.into_iter();
        outbox
            .expect_clean_up()
            .withf(move |asked, retention, batch| *asked == term() && *retention == minute && *batch == 10)
            .times(events.len())
            .returning(move |_, _, _| Ok(events.next().expect("no further batch")));
        let mut inbox = MockInboxMaintenancePort::new();
        let mut records = records.into_iter();
        inbox
            .expect_clean_up()
            .withf(move |asked, retention, batch| *asked == term() && *retention == hour && *batch == 10)
            .times(records.len())
            .returning(move |_, _, _| Ok(records.next().expect("no further batch")));
        let mut relays = MockRelayRegistryPort::new();
        relays
            .expect_forget_gone()
            .withf(|asked, age, batch| *asked == term() && *age == RegisteredRelay::REMEMBERED && *batch == 10)
            .times(usize::from(finishes))
            .returning(|_, _, _| Ok(Some(2)));
        let policy = CleanUpPolicy { published: minute, inbox: hour, batch: 10 };
        let mut observer = MockOutboxObserver::new();
        observer.expect_observe().withf(is_finish).times(usize::from(finishes)).return_const(());
        observer.expect_observe().withf(|signal| !is_finish(signal)).return_const(());
        CleanUpOutboxUseCase::new(Arc::new(outbox), Arc::new(inbox), Arc::new(relays), Arc::new(observer), policy)
    }

    #[tokio::test]
    async fn batches_follow_each_other_until_one_is_not_full() {
        let use_case = use_case(vec![Some(10), Some(10), Some(3)], vec![Some(10), Some(0)], true);
        let report = use_case.run_once(&term(), &StopSignal::new()).await;
        assert_eq!(report.expect("cleaned"), CleanUpReport::Done { removed: 35 });
    }

    #[tokio::test]
    async fn a_lost_term_ends_the_round() {
        let use_case = use_case(vec![Some(10), None], Vec::new(), false);
        let report = use_case.run_once(&term(), &StopSignal::new()).await;
        assert_eq!(report.expect("cleaned"), CleanUpReport::Interrupted { removed: 10 });
    }

    #[tokio::test]
    async fn a_stopping_process_begins_no_further_batch() {
        let stop = StopSignal::new();
        stop.set();
        let report = use_case(Vec::new(), Vec::new(), false).run_once(&term(), &stop).await;
        assert_eq!(report.expect("stopped"), CleanUpReport::Interrupted { removed: 0 });
    }
}
