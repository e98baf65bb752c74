//! Port: which processes hold what.

use std::time::Duration;

use async_trait::async_trait;

use super::error::StoreError;
use crate::outbox::HolderName;

/// The leases of one relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayLeases {
    /// The relay.
    pub holder: HolderName,
    /// Its claims that hold a lane.
    pub claims: u32,
    /// The lanes that they hold.
    pub lanes: u32,
    /// Of its claims, those whose lease has ended: the reaper will return them.
    pub expired: u32,
    /// Time since the oldest of its claims was made.
    pub oldest_claim_age: Duration,
}

/// Who leads in a role, or led last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderState {
    /// What is led, for example `outbox-maintenance`.
    pub role: String,
    /// Who leads.
    pub holder: HolderName,
    /// The number of the term.
    pub term: i64,
    /// How long the term still runs; none: it is over, and nobody leads.
    pub expires_in: Option<Duration>,
}

/// Reads the lease tables, which are small.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait OutboxHoldersPort: Send + Sync {
    /// Relays that hold leases, by name; at most 1,000.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn relays(&self) -> Result<Vec<RelayLeases>, StoreError>;

    /// The leaders of all roles, by role; at most 1,000.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn leaders(&self) -> Result<Vec<LeaderState>, StoreError>;
}
