//! Port: one leader at a time for work that must not be done twice at once.

use std::time::Duration;

use async_trait::async_trait;

use super::error::StoreError;
use crate::outbox::HolderName;

/// A term of office: grows with each new leader, and is checked by every transaction that the leader makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderTerm {
    /// What is led, for example `outbox-maintenance`.
    pub role: String,
    /// Who leads.
    pub holder: HolderName,
    /// The number of the term; from 1.
    pub term: i64,
}

/// A lease row per role, by the database's clock. No session-level lock is involved (case L18).
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait LeadershipPort: Send + Sync {
    /// Takes a vacant or expired role in a new term, or renews the holder's own; `None`: somebody else leads.
    ///
    /// The caller MUST be the only live one of this holder's name: two of one name renew one term and both lead.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn acquire(&self, role: &str, holder: &HolderName, lease: Duration)
    -> Result<Option<LeaderTerm>, StoreError>;

    /// Ends the term at once; `false`: it was over already.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn resign(&self, term: &LeaderTerm) -> Result<bool, StoreError>;
}
