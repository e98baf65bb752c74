//! What happened to a work log, in the words of the domain. Others learn of it through integration events.

use time::OffsetDateTime;

use super::values::{Minutes, PortfolioId, WorkLogId};

/// A change of a work log. One aggregate emits several, in the order in which they happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkLogEvent {
    /// Work was reserved on a portfolio.
    Reserved {
        /// The work log.
        id: WorkLogId,
        /// Its portfolio.
        portfolio: PortfolioId,
        /// How long the work should take.
        planned: Minutes,
        /// When.
        at: OffsetDateTime,
    },
    /// The work began.
    Started {
        /// The work log.
        id: WorkLogId,
        /// Its portfolio.
        portfolio: PortfolioId,
        /// When.
        at: OffsetDateTime,
    },
    /// The work is done.
    Completed {
        /// The work log.
        id: WorkLogId,
        /// Its portfolio.
        portfolio: PortfolioId,
        /// How long the work took.
        spent: Minutes,
        /// When.
        at: OffsetDateTime,
    },
    /// The work will not be done.
    Cancelled {
        /// The work log.
        id: WorkLogId,
        /// Its portfolio.
        portfolio: PortfolioId,
        /// When.
        at: OffsetDateTime,
    },
}
