//! The five statuses of an event and the transitions between them.
//!
//! They exist once, here. The table's constraint, the view `outbox_event_state`, the docs and the metrics labels are
//! compared with [`OutboxEventStatus::ALL`] and [`TRANSITIONS`] by `outbox_status_registry_contract` (rules R1, R2).

use std::{fmt, str::FromStr};

/// Where an event stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OutboxEventStatus {
    /// Waits for its first delivery.
    Pending,
    /// Its lane is leased, and the lease covers it. Not stored: the view derives it.
    InFlight,
    /// The broker confirmed it.
    Published,
    /// A delivery failed through the message itself; it is tried again when it is due.
    Failed,
    /// Given up: waits for an operator, and blocks its aggregate unless it is resolved.
    Dead,
}

impl OutboxEventStatus {
    /// Every status.
    pub const ALL: [Self; 5] = [Self::Pending, Self::InFlight, Self::Published, Self::Failed, Self::Dead];

    /// The statuses that a row may hold; [`Self::InFlight`] is a lease on the lane instead.
    pub const STORED: [Self; 4] = [Self::Pending, Self::Published, Self::Failed, Self::Dead];

    /// The name in the database, the docs and, in lower case, the metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::InFlight => "IN_FLIGHT",
            Self::Published => "PUBLISHED",
            Self::Failed => "FAILED",
            Self::Dead => "DEAD",
        }
    }

    /// The status after a transition.
    ///
    /// # Errors
    /// [`IllegalTransition`] when [`TRANSITIONS`] lacks it.
    pub fn after(self, transition: OutboxTransition) -> Result<Self, IllegalTransition> {
        TRANSITIONS
            .iter()
            .find(|(from, step, _)| *from == self && *step == transition)
            .map(|(_, _, to)| *to)
            .ok_or(IllegalTransition { from: self, transition })
    }
}

impl fmt::Display for OutboxEventStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that names no status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no status of an outbox event: {known} are", known = OutboxEventStatus::ALL.map(OutboxEventStatus::as_str).join(", "))]
pub struct UnknownStatus(String);

impl FromStr for OutboxEventStatus {
    type Err = UnknownStatus;

    /// Upper and lower case are the same, because operators type it.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = Self::ALL.into_iter().find(|status| status.as_str().eq_ignore_ascii_case(text));
        named.ok_or_else(|| UnknownStatus(text.to_owned()))
    }
}

/// What happens to an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OutboxTransition {
    /// A relay takes the lease of its lane.
    Claim,
    /// The broker confirmed it.
    Confirm,
    /// A delivery failed, and another will be tried.
    Retry,
    /// The last delivery failed, the event cannot be delivered at all, or it outlived too many leases.
    Die,
    /// The lease ends without a delivery of an event that never failed: released or expired.
    ReturnFresh,
    /// The lease ends without a delivery of an event that failed before: released or expired.
    ReturnFailed,
    /// An operator tries a dead event anew, attempts from zero.
    Requeue,
    /// An operator resolves a dead event, or `skip` does: it stays DEAD and no longer blocks.
    Resolve,
    /// An operator sends a published event again.
    Replay,
}

impl OutboxTransition {
    /// Every transition.
    pub const ALL: [Self; 9] = [
        Self::Claim,
        Self::Confirm,
        Self::Retry,
        Self::Die,
        Self::ReturnFresh,
        Self::ReturnFailed,
        Self::Requeue,
        Self::Resolve,
        Self::Replay,
    ];
}

/// The whole state machine: from, by, to.
pub const TRANSITIONS: &[(OutboxEventStatus, OutboxTransition, OutboxEventStatus)] = {
    use OutboxEventStatus::{Dead, Failed, InFlight, Pending, Published};
    use OutboxTransition::{Claim, Confirm, Die, Replay, Requeue, Resolve, Retry, ReturnFailed, ReturnFresh};
    &[
        (Pending, Claim, InFlight),
        (Failed, Claim, InFlight),
        (InFlight, Confirm, Published),
        (InFlight, Retry, Failed),
        (InFlight, Die, Dead),
        (InFlight, ReturnFresh, Pending),
        (InFlight, ReturnFailed, Failed),
        (Dead, Requeue, Pending),
        (Dead, Resolve, Dead),
        (Published, Replay, Pending),
    ]
};

/// A transition that the state machine lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event that is {from} cannot take the step {transition:?}")]
pub struct IllegalTransition {
    /// The status before.
    pub from: OutboxEventStatus,
    /// The step that was asked for.
    pub transition: OutboxTransition,
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, sample::select};

    use super::*;

    #[test]
    fn every_status_reads_back_from_its_name() {
        for status in OutboxEventStatus::ALL {
            assert_eq!(status.as_str().parse(), Ok(status));
            assert_eq!(status.as_str().to_lowercase().parse(), Ok(status));
        }
    }

    #[test]
    fn a_text_that_names_no_status_is_told_which_there_are() {
        let error = "gone".parse::<OutboxEventStatus>().expect_err("no status");
        assert_eq!(
            error.to_string(),
            "\"gone\" is no status of an outbox event: PENDING, IN_FLIGHT, PUBLISHED, FAILED, DEAD are"
        );
    }

    #[test]
    fn every_transition_is_used_and_is_unambiguous() {
        for step in OutboxTransition::ALL {
            assert!(TRANSITIONS.iter().any(|(_, t, _)| *t == step), "{step:?}");
        }
        for (i, (from, step, _)) in TRANSITIONS.iter().enumerate() {
            let again = TRANSITIONS.iter().skip(i + 1).any(|(f, s, _)| f == from && s == step);
            assert!(!again, "{from} {step:?}");
        }
    }

    proptest! {
        #[test]
        fn any_walk_keeps_attempted_events_inside_the_table(
            steps in prop::collection::vec(select(OutboxTransition::ALL.to_vec()), 0..40)
        ) {
            let mut status = OutboxEventStatus::Pending;
            for step in steps {
                match status.after(step) {
                    Ok(next) => {
                        prop_assert!(TRANSITIONS.contains(&(status, step, next)));
                        status = next;
                    }
                    Err(error) => {
                        prop_assert_eq!(error.from, status);
                        prop_assert!(!TRANSITIONS.iter().any(|(f, s, _)| *f == status && *s == step));
                    }
                }
            }
        }

        #[test]
        fn only_a_lease_leads_to_published_and_only_a_replay_leaves_it(
            from in select(OutboxEventStatus::ALL.to_vec()),
            step in select(OutboxTransition::ALL.to_vec()),
        ) {
            if let Ok(to) = from.after(step) {
                prop_assert_eq!(to == OutboxEventStatus::Published, step == OutboxTransition::Confirm);
                if from == OutboxEventStatus::Published {
                    prop_assert_eq!(step, OutboxTransition::Replay);
                }
            }
        }
    }
}
