//! Port: which relays there are, told by themselves.

use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use super::{error::StoreError, leadership::LeaderTerm, message_publish::Destination};
use crate::outbox::HolderName;

/// What a relay sends nothing to for now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PausedDestination {
    /// Whose circuit breaker is open; none: the publisher can send nothing at all.
    pub destination: Option<Destination>,
    /// Why, without control characters and at most 1,000 bytes.
    pub reason: String,
    /// For how long.
    pub paused_for: Duration,
}

impl PausedDestination {
    /// The most that a relay tells of: those that have been paused for longest.
    pub const MOST: usize = 20;
}

/// What a relay says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayReport {
    /// Its name, under which it holds leases.
    pub holder: HolderName,
    /// This life of the process: a former one of the same name withdraws nothing of its successor's.
    pub run: Uuid,
    /// The program's version; 1 to 100 bytes.
    pub version: String,
    /// Time since it started.
    pub running: Duration,
    /// How often it reports. One that was not heard of for [`RegisteredRelay::MISSED`] times as long is gone.
    pub every: Duration,
    /// What it sends nothing to; at most [`PausedDestination::MOST`].
    pub paused: Vec<PausedDestination>,
}

/// A relay as others see it, by the database's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisteredRelay {
    /// Its name.
    pub holder: HolderName,
    /// The program's version.
    pub version: String,
    /// Time since it started.
    pub running: Duration,
    /// Time since its last report.
    pub silent: Duration,
    /// It has missed its reports: it was killed, stands still, or does not reach the database.
    pub gone: bool,
    /// What it sent nothing to when it reported last.
    pub paused: Vec<PausedDestination>,
}

impl RegisteredRelay {
    /// How many reports a relay misses before it counts as gone.
    pub const MISSED: u32 = 3;
    /// How long one that is gone is still listed.
    pub const REMEMBERED: Duration = Duration::from_hours(1);
}

/// The list of relays. Nothing depends on it but who looks: leases and order do without.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait RelayRegistryPort: Send + Sync {
    /// Enters the relay, or renews its entry, in one statement.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn report(&self, report: &RelayReport) -> Result<(), StoreError>;

    /// Removes the relay's entry before it ends; `false`: there is none of this run.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn withdraw(&self, holder: &HolderName, run: Uuid) -> Result<bool, StoreError>;

    /// The relays that reported and did not withdraw, by name; at most 1,000.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn registered(&self) -> Result<Vec<RegisteredRelay>, StoreError>;

    /// Removes up to `batch` entries of relays that are gone and were last heard of longer than `age` ago; `None`: the
    /// term is over, nothing was changed.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn forget_gone(&self, term: &LeaderTerm, age: Duration, batch: u32) -> Result<Option<u32>, StoreError>;
}
