//! Use case: look at one work log.

use std::{fmt, sync::Arc};

use application_core::ports::StoreError;
use async_trait::async_trait;

use crate::{
    domain::{PortfolioId, WorkLogId, WorkLogSnapshot},
    ports::WorkLogReader,
};

/// Driving port: look at one work log.
#[cfg_attr(test, mockall::automock)]
#[async_trait]
pub trait GetWorkLogUseCase: Send + Sync {
    /// The work log as it is committed; `None` when the portfolio has none of that id.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn execute(&self, portfolio: PortfolioId, id: WorkLogId) -> Result<Option<WorkLogSnapshot>, StoreError>;
}

/// Reads one work log.
pub struct GetWorkLog {
    work_logs: Arc<dyn WorkLogReader>,
}

impl GetWorkLog {
    /// Puts the parts together.
    #[must_use]
    pub fn new(work_logs: Arc<dyn WorkLogReader>) -> Self {
        Self { work_logs }
    }
}

#[async_trait]
impl GetWorkLogUseCase for GetWorkLog {
    async fn execute(&self, portfolio: PortfolioId, id: WorkLogId) -> Result<Option<WorkLogSnapshot>, StoreError> {
        self.work_logs.find(portfolio, id).await
    }
}

impl fmt::Debug for GetWorkLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GetWorkLog").finish_non_exhaustive()
    }
}
