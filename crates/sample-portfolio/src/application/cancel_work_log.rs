//! Use case: give work up.

use std::{fmt, sync::Arc};

use async_trait::async_trait;

use super::{
    error::CommandError,
    work_log_writer::{WorkLogTarget, WorkLogWriter},
};
use crate::{domain::WorkLog, ports::WorkLogReceipt};

/// Driving port: give work up.
#[cfg_attr(test, mockall::automock)]
#[async_trait]
pub trait CancelWorkLogUseCase: Send + Sync {
    /// Gives the work up.
    ///
    /// # Errors
    /// [`CommandError`]; a repeated call is refused as an illegal transition.
    async fn execute(&self, target: WorkLogTarget) -> Result<WorkLogReceipt, CommandError>;
}

/// Gives up work that is not completed.
pub struct CancelWorkLog<Tx: Send + Sync + 'static> {
    writer: Arc<WorkLogWriter<Tx>>,
}

impl<Tx: Send + Sync + 'static> CancelWorkLog<Tx> {
    /// Puts the parts together.
    #[must_use]
    pub fn new(writer: Arc<WorkLogWriter<Tx>>) -> Self {
        Self { writer }
    }
}

#[async_trait]
impl<Tx: Send + Sync + 'static> CancelWorkLogUseCase for CancelWorkLog<Tx> {
    async fn execute(&self, target: WorkLogTarget) -> Result<WorkLogReceipt, CommandError> {
        self.writer.change(&target, WorkLog::cancel).await
    }
}

impl<Tx: Send + Sync + 'static> fmt::Debug for CancelWorkLog<Tx> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancelWorkLog").finish_non_exhaustive()
    }
}
