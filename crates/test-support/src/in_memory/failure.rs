//! Failures on demand, so that users can test how their code takes them.

use std::{collections::VecDeque, time::Duration};

use application_core::ports::StoreError;

/// How a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// [`StoreError::Unavailable`]; nothing was changed.
    Unavailable,
    /// [`StoreError::Timeout`]; nothing was changed.
    Timeout,
    /// [`StoreError::Timeout`], but the call took effect: the answer got lost on its way.
    AnswerLost,
    /// [`StoreError::Conflict`]; nothing was changed.
    Conflict,
    /// [`StoreError::Refused`]; nothing was changed. Not transient.
    Refused,
}

/// Which calls are made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// `UnitOfWork::begin`.
    Begin,
    /// `UnitOfWork::commit`.
    Commit,
    /// `OutboxAppendPort::append`.
    Append,
    /// `OutboxStorePort::claim`.
    Claim,
    /// `OutboxStorePort::acknowledge`.
    Acknowledge,
    /// `OutboxStorePort::fail`.
    Fail,
    /// `OutboxStorePort::release`.
    Release,
    /// `OutboxStorePort::renew`.
    Renew,
    /// Every method of `OutboxMaintenancePort`.
    Maintain,
    /// Every method of `OutboxOperationsPort`, `OutboxPausePort` and `OutboxAuditPort`.
    Operate,
    /// Every method of `OutboxStatisticsPort` and `OutboxHoldersPort`.
    Statistics,
    /// `InboxPort::record` and every method of `ParkingPort`.
    Inbox,
    /// Every method of `RelayRegistryPort`.
    Registry,
    /// Every method of `LeadershipPort`.
    Lead,
}

/// The failures that were ordered and are still to come.
#[derive(Debug, Default)]
pub(super) struct Failures(VecDeque<(Option<Operation>, StoreErrorKind)>);

/// What becomes of a call that was let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Answer {
    Given,
    Lost,
}

const LIMIT: Duration = Duration::from_secs(5);

impl Failures {
    pub(super) fn order(&mut self, of: Option<Operation>, times: usize, kind: StoreErrorKind) {
        self.0.extend(std::iter::repeat_n((of, kind), times));
    }

    /// Fails the call if a failure was ordered for it.
    pub(super) fn meet(&mut self, operation: Operation) -> Result<Answer, StoreError> {
        let ordered = self.0.iter().position(|(of, _)| of.is_none_or(|of| of == operation));
        let Some((_, kind)) = ordered.and_then(|at| self.0.remove(at)) else {
            return Ok(Answer::Given);
        };
        Err(match kind {
            StoreErrorKind::AnswerLost => return Ok(Answer::Lost),
            StoreErrorKind::Unavailable => StoreError::Unavailable { source: "ordered by the test".into() },
            StoreErrorKind::Timeout => StoreError::Timeout { limit: LIMIT },
            StoreErrorKind::Conflict => StoreError::Conflict { source: "ordered by the test".into() },
            StoreErrorKind::Refused => refused("ordered by the test"),
        })
    }
}

impl Answer {
    /// Passes the result on, unless it gets lost.
    pub(super) fn pass<T>(self, result: T) -> Result<T, StoreError> {
        match self {
            Self::Given => Ok(result),
            Self::Lost => Err(StoreError::Timeout { limit: LIMIT }),
        }
    }
}

pub(super) fn refused(why: impl Into<application_core::ports::BoxError>) -> StoreError {
    StoreError::Refused { source: why.into() }
}
