//! Ports: what must not be, looked for and mended.

use async_trait::async_trait;

use super::error::StoreError;
use crate::outbox::Attribution;

/// Something that is wrong, and what an operator can do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What is wrong, in words.
    pub problem: String,
    /// What it is about, for example `lane 42, from sequence 7`.
    pub subject: String,
    /// What to do.
    pub cure: String,
}

/// One thing that the doctor looks at. A further one is a further implementation, named where the doctor is put together.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait OutboxCheckPort: Send + Sync {
    /// Its name, for example `lanes`.
    fn name(&self) -> &'static str;

    /// Looks; empty: all is well. It MUST change nothing, and say so when it does not list everything that it found.
    ///
    /// # Errors
    /// [`StoreError::Forbidden`] when this process's user may not look; other [`StoreError`]s.
    async fn look(&self) -> Result<Vec<Finding>, StoreError>;
}

/// Builds the lanes anew from the open events, if they are not as these say (rule R30).
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait LaneRepairPort: Send + Sync {
    /// Returns the number of lanes that were built or taken away, and records who had it done, unless none was touched: all
    /// are right. It MUST refuse while a lease is alive, or an event could be sent by two relays.
    ///
    /// # Errors
    /// [`StoreError::Refused`] while a relay holds a lease; other [`StoreError`]s.
    async fn repair_lanes(&self, by: &Attribution) -> Result<u64, StoreError>;
}
