//! Use case: end started work.

use std::{fmt, sync::Arc};

use async_trait::async_trait;

use super::{
    error::CommandError,
    work_log_writer::{WorkLogTarget, WorkLogWriter},
};
use crate::{domain::Minutes, ports::WorkLogReceipt};

/// Driving port: end started work.
#[cfg_attr(test, mockall::automock)]
#[async_trait]
pub trait CompleteWorkLogUseCase: Send + Sync {
    /// Ends the work; `spent` is how long it took.
    ///
    /// # Errors
    /// [`CommandError`]; a repeated call is refused as an illegal transition.
    async fn execute(&self, target: WorkLogTarget, spent: Minutes) -> Result<WorkLogReceipt, CommandError>;
}

/// Ends work that is started.
pub struct CompleteWorkLog<Tx: Send + Sync + 'static> {
    writer: Arc<WorkLogWriter<Tx>>,
}

impl<Tx: Send + Sync + 'static> CompleteWorkLog<Tx> {
    /// Puts the parts together.
    #[must_use]
    pub fn new(writer: Arc<WorkLogWriter<Tx>>) -> Self {
        Self { writer }
    }
}

#[async_trait]
impl<Tx: Send + Sync + 'static> CompleteWorkLogUseCase for CompleteWorkLog<Tx> {
    async fn execute(&self, target: WorkLogTarget, spent: Minutes) -> Result<WorkLogReceipt, CommandError> {
        self.writer.change(&target, |work_log, now| work_log.complete(spent, now)).await
    }
}

impl<Tx: Send + Sync + 'static> fmt::Debug for CompleteWorkLog<Tx> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompleteWorkLog").finish_non_exhaustive()
    }
}
