//! Driven ports: what the use cases ask of a store. The adapters answer.
//!
//! Ports with a `Tx` work in the caller's transaction; readers have a connection of their own and see what is committed.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use time::OffsetDateTime;

use application_core::ports::StoreError;

use crate::domain::{PortfolioId, Version, WorkLog, WorkLogId, WorkLogSnapshot, WorkLogStatus};

/// What a command answers: where the work log stands now. Nothing in it is personal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkLogReceipt {
    /// The work log.
    pub id: WorkLogId,
    /// Its portfolio.
    pub portfolio: PortfolioId,
    /// Where it stands.
    pub status: WorkLogStatus,
    /// How often it has changed.
    pub version: Version,
    /// When it changed last.
    pub changed_at: OffsetDateTime,
}

impl From<&WorkLogSnapshot> for WorkLogReceipt {
    fn from(state: &WorkLogSnapshot) -> Self {
        let WorkLogSnapshot { id, portfolio, status, version, changed_at, .. } = *state;
        Self { id, portfolio, status, version, changed_at }
    }
}

/// A client's name for one attempt to create a work log, repeated when it tries again.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey(String);

/// A key that breaks a bound.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidIdempotencyKey {
    /// Empty or too long.
    #[error("idempotency key has {actual} bytes, 1 to {bound} are allowed", bound = IdempotencyKey::MAX_BYTES)]
    Length {
        /// The bytes met.
        actual: usize,
    },
    /// Something else than visible ASCII.
    #[error("idempotency key holds something else than visible ASCII at byte {offset}")]
    NotVisibleAscii {
        /// Where it stands.
        offset: usize,
    },
}

impl IdempotencyKey {
    /// The most bytes allowed.
    pub const MAX_BYTES: usize = 128;

    /// Checks the bounds: 1 to 128 bytes of visible ASCII.
    ///
    /// # Errors
    /// [`InvalidIdempotencyKey`] names the bound and the value met.
    pub fn try_new(text: impl AsRef<[u8]>) -> Result<Self, InvalidIdempotencyKey> {
        let bytes = text.as_ref();
        if bytes.is_empty() || bytes.len() > Self::MAX_BYTES {
            return Err(InvalidIdempotencyKey::Length { actual: bytes.len() });
        }
        match bytes.iter().position(|byte| !byte.is_ascii_graphic()) {
            Some(offset) => Err(InvalidIdempotencyKey::NotVisibleAscii { offset }),
            None => Ok(Self(bytes.iter().copied().map(char::from).collect())),
        }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A request as the key store knows it. A key counts within its portfolio.
///
/// `Debug` leaves the content out: it may be personal.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyedRequest {
    /// The client's key.
    pub key: IdempotencyKey,
    /// The portfolio.
    pub portfolio: PortfolioId,
    /// All that makes two requests the same, as text; the store keeps a digest of it and nothing else.
    pub content: String,
}

impl fmt::Debug for KeyedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, portfolio, content: _ } = self;
        f.debug_struct("KeyedRequest").field("key", key).field("portfolio", portfolio).finish_non_exhaustive()
    }
}

/// What a key was used for before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyUse {
    /// Nothing: it is taken now, together with the result, once the transaction commits.
    First,
    /// The same request, with this result.
    SameRequest(WorkLogReceipt),
    /// Another request.
    OtherRequest,
}

/// Remembers which keys were used, for which request and with which result.
#[cfg_attr(test, mockall::automock)]
#[async_trait]
pub trait IdempotencyKeys<Tx: Send + Sync + 'static>: Send + Sync {
    /// Takes the key for a request and its result, unless it was used before.
    ///
    /// If another transaction takes the same key meanwhile, the call MUST wait for its outcome: its result, once
    /// committed, is the answer; if it is rolled back, the key is free.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn take(&self, tx: &mut Tx, request: &KeyedRequest, result: &WorkLogReceipt) -> Result<KeyUse, StoreError>;
}

/// Forgets keys by their age.
#[cfg_attr(test, mockall::automock)]
#[async_trait]
pub trait IdempotencyKeyMaintenance: Send + Sync {
    /// Removes up to `batch` keys that were taken longer ago than `retention`, oldest first; the number removed.
    ///
    /// A request that comes again under a removed key is carried out anew.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn remove_older_than(&self, retention: Duration, batch: u32) -> Result<u32, StoreError>;
}

/// Stores work logs.
#[cfg_attr(test, mockall::automock)]
#[async_trait]
pub trait WorkLogRepository<Tx: Send + Sync + 'static>: Send + Sync {
    /// Stores a new work log.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn insert(&self, tx: &mut Tx, work_log: &WorkLog) -> Result<(), StoreError>;

    /// Finds a work log of a portfolio and holds it until the transaction ends: a second caller MUST wait.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn find_for_update(
        &self,
        tx: &mut Tx,
        portfolio: PortfolioId,
        id: WorkLogId,
    ) -> Result<Option<WorkLog>, StoreError>;

    /// Stores a changed work log. The store MUST refuse when it holds another version than
    /// [`WorkLog::stored_version`].
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::RowsAffected`] when the versions differ.
    async fn save(&self, tx: &mut Tx, work_log: &WorkLog) -> Result<(), StoreError>;
}

/// Reads work logs as they are committed.
#[cfg_attr(test, mockall::automock)]
#[async_trait]
pub trait WorkLogReader: Send + Sync {
    /// Finds a work log of a portfolio.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn find(&self, portfolio: PortfolioId, id: WorkLogId) -> Result<Option<WorkLogSnapshot>, StoreError>;

    /// Lists a portfolio's work logs in the order of their ids, from the one after `after`, at most `max` of them.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn list(
        &self,
        portfolio: PortfolioId,
        after: Option<WorkLogId>,
        max: u32,
    ) -> Result<Vec<WorkLogSnapshot>, StoreError>;
}

/// What is known of a portfolio's work: sums over the events that were consumed so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortfolioMinutes {
    /// Minutes spent on completed work logs.
    pub completed_minutes: u64,
    /// Work logs reserved.
    pub reserved: u64,
    /// Work logs started.
    pub started: u64,
    /// Work logs completed.
    pub completed: u64,
    /// Work logs cancelled.
    pub cancelled: u64,
}

/// Keeps the sums of each portfolio.
#[cfg_attr(test, mockall::automock)]
#[async_trait]
pub trait PortfolioMinutesRepository<Tx: Send + Sync + 'static>: Send + Sync {
    /// Adds to a portfolio's sums; the first call begins them.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn add(&self, tx: &mut Tx, portfolio: PortfolioId, more: &PortfolioMinutes) -> Result<(), StoreError>;
}

/// Reads the sums of a portfolio as they are committed.
#[cfg_attr(test, mockall::automock)]
#[async_trait]
pub trait PortfolioMinutesReader: Send + Sync {
    /// Finds a portfolio's sums; `None` before its first event was consumed.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn find(&self, portfolio: PortfolioId) -> Result<Option<PortfolioMinutes>, StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_1_to_128_bytes_of_visible_ascii() {
        assert_eq!(IdempotencyKey::try_new("a").expect("valid").as_str(), "a");
        assert!(IdempotencyKey::try_new("k".repeat(128)).is_ok());
        assert_eq!(IdempotencyKey::try_new(""), Err(InvalidIdempotencyKey::Length { actual: 0 }));
        assert_eq!(
            IdempotencyKey::try_new("k".repeat(129)).expect_err("too long").to_string(),
            "idempotency key has 129 bytes, 1 to 128 are allowed"
        );
        for text in ["ab c", "ab\tc", "ab\u{e9}"] {
            assert_eq!(IdempotencyKey::try_new(text), Err(InvalidIdempotencyKey::NotVisibleAscii { offset: 2 }));
        }
    }
}
