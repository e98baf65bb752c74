//! Use case: begin reserved work.

use std::{fmt, sync::Arc};

use async_trait::async_trait;

use super::{
    error::CommandError,
    work_log_writer::{WorkLogTarget, WorkLogWriter},
};
use crate::{domain::WorkLog, ports::WorkLogReceipt};

/// Driving port: begin reserved work.
#[cfg_attr(test, mockall::automock)]
#[async_trait]
pub trait StartWorkLogUseCase: Send + Sync {
    /// Begins the work.
    ///
    /// # Errors
    /// [`CommandError`]; a repeated call is refused as an illegal transition.
    async fn execute(&self, target: WorkLogTarget) -> Result<WorkLogReceipt, CommandError>;
}

/// Begins work that is reserved.
pub struct StartWorkLog<Tx: Send + Sync + 'static> {
    writer: Arc<WorkLogWriter<Tx>>,
}

impl<Tx: Send + Sync + 'static> StartWorkLog<Tx> {
    /// Puts the parts together.
    #[must_use]
    pub fn new(writer: Arc<WorkLogWriter<Tx>>) -> Self {
        Self { writer }
    }
}

#[async_trait]
impl<Tx: Send + Sync + 'static> StartWorkLogUseCase for StartWorkLog<Tx> {
    async fn execute(&self, target: WorkLogTarget) -> Result<WorkLogReceipt, CommandError> {
        self.writer.change(&target, WorkLog::start).await
    }
}

impl<Tx: Send + Sync + 'static> fmt::Debug for StartWorkLog<Tx> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartWorkLog").finish_non_exhaustive()
    }
}
