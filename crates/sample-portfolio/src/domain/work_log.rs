//! The aggregate: a piece of work on a portfolio, from reservation to its end.

use std::fmt;

use time::OffsetDateTime;

use super::{
    events::WorkLogEvent,
    values::{Minutes, PortfolioId, Title, Version, WorkLogId},
};

/// Where a work log stands.
///
/// ```text
/// RESERVED ──start──▶ STARTED ──complete──▶ COMPLETED
///     └────cancel────────┴──────cancel────▶ CANCELLED
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WorkLogStatus {
    /// Planned.
    Reserved,
    /// Being worked on.
    Started,
    /// Done. Nothing follows.
    Completed {
        /// How long the work took.
        spent: Minutes,
    },
    /// Given up. Nothing follows.
    Cancelled,
}

impl WorkLogStatus {
    /// The name, as stored and as clients see it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reserved => "RESERVED",
            Self::Started => "STARTED",
            Self::Completed { .. } => "COMPLETED",
            Self::Cancelled => "CANCELLED",
        }
    }

    /// How long the work took, once it is done.
    #[must_use]
    pub const fn spent(self) -> Option<Minutes> {
        match self {
            Self::Completed { spent } => Some(spent),
            Self::Reserved | Self::Started | Self::Cancelled => None,
        }
    }
}

/// What can be asked of a work log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WorkLogTransition {
    /// Begin the work.
    Start,
    /// End it with success.
    Complete,
    /// Give it up.
    Cancel,
}

impl fmt::Display for WorkLogTransition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Start => "start",
            Self::Complete => "complete",
            Self::Cancel => "cancel",
        })
    }
}

/// A transition that the work log's status does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{transition} is not allowed for work log {id}, which is {}", .from.as_str())]
pub struct IllegalTransition {
    /// The work log.
    pub id: WorkLogId,
    /// What was asked.
    pub transition: WorkLogTransition,
    /// Where it stands.
    pub from: WorkLogStatus,
}

/// All that is stored of a work log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkLogSnapshot {
    /// The identity.
    pub id: WorkLogId,
    /// The portfolio that the work belongs to.
    pub portfolio: PortfolioId,
    /// What the work is about.
    pub title: Title,
    /// How long it should take.
    pub planned: Minutes,
    /// Where it stands.
    pub status: WorkLogStatus,
    /// How often it has changed.
    pub version: Version,
    /// When it was reserved.
    pub reserved_at: OffsetDateTime,
    /// When it changed last.
    pub changed_at: OffsetDateTime,
}

/// A piece of work on a portfolio. It collects an event with each change; a refused change leaves it as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkLog {
    state: WorkLogSnapshot,
    stored_version: Option<Version>,
    events: Vec<WorkLogEvent>,
}

impl WorkLog {
    /// Reserves work on a portfolio.
    #[must_use]
    pub fn reserve(id: WorkLogId, portfolio: PortfolioId, title: Title, planned: Minutes, at: OffsetDateTime) -> Self {
        let state = WorkLogSnapshot {
            id,
            portfolio,
            title,
            planned,
            status: WorkLogStatus::Reserved,
            version: Version::FIRST,
            reserved_at: at,
            changed_at: at,
        };
        let events = vec![WorkLogEvent::Reserved { id, portfolio, planned, at }];
        Self { state, stored_version: None, events }
    }

    /// Takes a stored work log up again.
    #[must_use]
    pub const fn restore(state: WorkLogSnapshot) -> Self {
        let stored_version = Some(state.version);
        Self { state, stored_version, events: Vec::new() }
    }

    /// Begins the work.
    ///
    /// # Errors
    /// [`IllegalTransition`] unless it is reserved.
    pub fn start(&mut self, at: OffsetDateTime) -> Result<(), IllegalTransition> {
        let WorkLogSnapshot { id, portfolio, .. } = self.state;
        match self.state.status {
            WorkLogStatus::Reserved => {
                self.change(WorkLogStatus::Started, at, WorkLogEvent::Started { id, portfolio, at });
                Ok(())
            }
            WorkLogStatus::Started | WorkLogStatus::Completed { .. } | WorkLogStatus::Cancelled => {
                Err(self.refuse(WorkLogTransition::Start))
            }
        }
    }

    /// Ends the work with success.
    ///
    /// # Errors
    /// [`IllegalTransition`] unless it is started.
    pub fn complete(&mut self, spent: Minutes, at: OffsetDateTime) -> Result<(), IllegalTransition> {
        let WorkLogSnapshot { id, portfolio, .. } = self.state;
        match self.state.status {
            WorkLogStatus::Started => {
                let event = WorkLogEvent::Completed { id, portfolio, spent, at };
                self.change(WorkLogStatus::Completed { spent }, at, event);
                Ok(())
            }
            WorkLogStatus::Reserved | WorkLogStatus::Completed { .. } | WorkLogStatus::Cancelled => {
                Err(self.refuse(WorkLogTransition::Complete))
            }
        }
    }

    /// Gives the work up.
    ///
    /// # Errors
    /// [`IllegalTransition`] once it is completed or cancelled.
    pub fn cancel(&mut self, at: OffsetDateTime) -> Result<(), IllegalTransition> {
        let WorkLogSnapshot { id, portfolio, .. } = self.state;
        match self.state.status {
            WorkLogStatus::Reserved | WorkLogStatus::Started => {
                self.change(WorkLogStatus::Cancelled, at, WorkLogEvent::Cancelled { id, portfolio, at });
                Ok(())
            }
            WorkLogStatus::Completed { .. } | WorkLogStatus::Cancelled => Err(self.refuse(WorkLogTransition::Cancel)),
        }
    }

    /// What is to be stored.
    #[must_use]
    pub const fn state(&self) -> &WorkLogSnapshot {
        &self.state
    }

    /// The version that the store holds; a store that holds another one MUST refuse to save. `None`: not stored yet.
    #[must_use]
    pub const fn stored_version(&self) -> Option<Version> {
        self.stored_version
    }

    /// Hands over the events collected so far, in order.
    #[must_use]
    pub fn take_events(&mut self) -> Vec<WorkLogEvent> {
        std::mem::take(&mut self.events)
    }

    fn change(&mut self, status: WorkLogStatus, at: OffsetDateTime, event: WorkLogEvent) {
        self.state.status = status;
        self.state.version = self.state.version.next();
        self.state.changed_at = at;
        self.events.push(event);
    }

    const fn refuse(&self, transition: WorkLogTransition) -> IllegalTransition {
        IllegalTransition { id: self.state.id, transition, from: self.state.status }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use time::{Duration, macros::datetime};
    use uuid::Uuid;

    use super::*;

    const NOON: OffsetDateTime = datetime!(2026-03-01 12:00 UTC);

    fn minutes(n: i64) -> Minutes {
        Minutes::try_new(n).expect("valid")
    }

    fn reserved() -> WorkLog {
        WorkLog::reserve(
            WorkLogId::new(Uuid::from_u128(1)),
            PortfolioId::new(Uuid::from_u128(2)),
            Title::try_new("Paint the fence").expect("valid"),
            minutes(90),
            NOON,
        )
    }

    fn ask(log: &mut WorkLog, transition: WorkLogTransition, at: OffsetDateTime) -> Result<(), IllegalTransition> {
        match transition {
            WorkLogTransition::Start => log.start(at),
            WorkLogTransition::Complete => log.complete(minutes(75), at),
            WorkLogTransition::Cancel => log.cancel(at),
        }
    }

    /// The diagram above as a table: everything it lacks must be refused.
    fn allowed(from: WorkLogStatus, transition: WorkLogTransition) -> Option<WorkLogStatus> {
        match (from.as_str(), transition) {
            ("RESERVED", WorkLogTransition::Start) => Some(WorkLogStatus::Started),
            ("STARTED", WorkLogTransition::Complete) => Some(WorkLogStatus::Completed { spent: minutes(75) }),
            ("RESERVED" | "STARTED", WorkLogTransition::Cancel) => Some(WorkLogStatus::Cancelled),
            _ => None,
        }
    }

    fn transitions() -> impl Strategy<Value = Vec<WorkLogTransition>> {
        let one = prop_oneof![
            Just(WorkLogTransition::Start),
            Just(WorkLogTransition::Complete),
            Just(WorkLogTransition::Cancel)
        ];
        prop::collection::vec(one, 0..8)
    }

    #[test]
    fn one_work_log_emits_reserved_started_completed_in_order() {
        let mut log = reserved();
        let (id, portfolio) = (log.state().id, log.state().portfolio);
        let (one, two) = (NOON + Duration::hours(1), NOON + Duration::hours(2));
        log.start(one).expect("reserved");
        log.complete(minutes(75), two).expect("started");
        assert_eq!(
            log.take_events(),
            [
                WorkLogEvent::Reserved { id, portfolio, planned: minutes(90), at: NOON },
                WorkLogEvent::Started { id, portfolio, at: one },
                WorkLogEvent::Completed { id, portfolio, spent: minutes(75), at: two },
            ]
        );
        assert!(log.take_events().is_empty(), "events are handed over once");
    }

    #[test]
    fn a_refused_transition_names_the_work_log_what_was_asked_and_the_status() {
        let mut log = reserved();
        assert_eq!(
            log.complete(minutes(5), NOON).expect_err("not started").to_string(),
            "complete is not allowed for work log 00000000-0000-0000-0000-000000000001, which is RESERVED"
        );
    }

    #[test]
    fn a_restored_work_log_has_no_events_and_knows_the_stored_version() {
        let mut log = reserved();
        assert_eq!(log.stored_version(), None);
        log.start(NOON).expect("reserved");
        let mut restored = WorkLog::restore(log.state().clone());
        assert!(restored.take_events().is_empty());
        restored.cancel(NOON).expect("started");
        assert_eq!((restored.stored_version(), restored.state().version), (Some(Version::new(2)), Version::new(3)));
    }

    proptest! {
        #[test]
        fn every_sequence_of_transitions_follows_the_diagram(asked in transitions()) {
            let mut log = reserved();
            let (mut expected, mut accepted) = (WorkLogStatus::Reserved, 0_u32);
            for (nth, transition) in asked.into_iter().enumerate() {
                let at = NOON + Duration::minutes(i64::try_from(nth).expect("short"));
                let before = log.clone();
                match (ask(&mut log, transition, at), allowed(expected, transition)) {
                    (Ok(()), Some(next)) => {
                        expected = next;
                        accepted += 1;
                        prop_assert_eq!(log.state().changed_at, at);
                    }
                    (Err(error), None) => {
                        prop_assert_eq!(error, IllegalTransition { id: log.state().id, transition, from: expected });
                        prop_assert_eq!(&log, &before, "a refused transition changes nothing");
                    }
                    (outcome, allowed) => prop_assert!(false, "{:?} but the diagram says {:?}", outcome, allowed),
                }
            }
            prop_assert_eq!(log.state().status, expected);
            prop_assert_eq!(log.state().version, Version::new(1 + accepted));
            prop_assert_eq!(log.take_events().len(), 1 + accepted as usize, "one event a change");
        }
    }
}
