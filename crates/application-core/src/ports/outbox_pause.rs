//! Port: hold events back, and let them go again.

use std::time::Duration;

use async_trait::async_trait;

use super::error::StoreError;
use crate::outbox::{AggregateType, Attribution};

/// What is paused.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum PauseScope {
    /// Every event.
    Everything,
    /// The events of one aggregate type.
    Type(AggregateType),
}

impl PauseScope {
    /// The aggregate type, if it is one.
    #[must_use]
    pub const fn aggregate_type(&self) -> Option<&AggregateType> {
        match self {
            Self::Everything => None,
            Self::Type(aggregate_type) => Some(aggregate_type),
        }
    }
}

/// A pause that stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    /// What is paused.
    pub scope: PauseScope,
    /// How long it has been.
    pub age: Duration,
    /// Who paused it, and why.
    pub by: Attribution,
}

/// Pauses and resumes. Appending goes on; what is in flight finishes.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait OutboxPausePort: Send + Sync {
    /// From now on no claim takes what is paused. `false`: it is paused already, and stays so by whoever did it.
    ///
    /// It MUST be recorded in the same transaction, as a resume must.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn pause(&self, scope: &PauseScope, by: &Attribution) -> Result<bool, StoreError>;

    /// Lifts this pause; others stand. `false`: it is not paused.
    ///
    /// What it held back is woken in bounded steps. One that is interrupted has lifted the pause and woken a part; the pause
    /// stays listed until another resume has woken the rest.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn resume(&self, scope: &PauseScope, by: &Attribution) -> Result<bool, StoreError>;

    /// The pauses that stand, that of everything first, then by type.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn pauses(&self) -> Result<Vec<Pause>, StoreError>;
}
