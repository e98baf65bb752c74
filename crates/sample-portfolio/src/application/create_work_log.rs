//! Use case: reserve work on a portfolio, once per idempotency key.

use std::{fmt, sync::Arc};

use application_core::usecases::Transaction;
use async_trait::async_trait;

use super::{error::CommandError, work_log_writer::WorkLogWriter};
use crate::{
    domain::{Minutes, PortfolioId, Title, WorkLog},
    ports::{IdempotencyKey, IdempotencyKeys, KeyUse, KeyedRequest, WorkLogReceipt},
};

#[cfg(test)]
mod create_work_log_outbox;

/// What is to be reserved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateWorkLogCommand {
    /// The portfolio.
    pub portfolio: PortfolioId,
    /// What the work is about.
    pub title: Title,
    /// How long it should take.
    pub planned: Minutes,
    /// The client's name for this attempt, repeated when it tries again.
    pub key: IdempotencyKey,
    /// The trace context of the request, which the events continue.
    pub traceparent: Option<String>,
}

/// A work log that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreatedWorkLog {
    /// The work log as it was created, also when it has changed since.
    pub receipt: WorkLogReceipt,
    /// Whether an earlier request with the same key created it.
    pub replayed: bool,
}

/// Driving port: reserve work.
#[cfg_attr(test, mockall::automock)]
#[async_trait]
pub trait CreateWorkLogUseCase: Send + Sync {
    /// Reserves the work, or answers with the first result if the key was used for the same request before.
    ///
    /// # Errors
    /// [`CommandError`]; [`CommandError::KeyReused`] when the key was used for another request.
    async fn execute(&self, command: CreateWorkLogCommand) -> Result<CreatedWorkLog, CommandError>;
}

/// Reserves work: the key, the work log and its event are committed together or not at all.
pub struct CreateWorkLog<Tx: Send + Sync + 'static> {
    writer: Arc<WorkLogWriter<Tx>>,
    keys: Arc<dyn IdempotencyKeys<Tx>>,
}

impl<Tx: Send + Sync + 'static> CreateWorkLog<Tx> {
    /// Puts the parts together.
    #[must_use]
    pub fn new(writer: Arc<WorkLogWriter<Tx>>, keys: Arc<dyn IdempotencyKeys<Tx>>) -> Self {
        Self { writer, keys }
    }
}

#[async_trait]
impl<Tx: Send + Sync + 'static> CreateWorkLogUseCase for CreateWorkLog<Tx> {
    async fn execute(&self, command: CreateWorkLogCommand) -> Result<CreatedWorkLog, CommandError> {
        let CreateWorkLogCommand { portfolio, title, planned, key, traceparent } = command;
        let request = KeyedRequest { key, portfolio, content: content(&title, planned) };
        let writer = &*self.writer;
        let mut work_log = WorkLog::reserve(writer.new_work_log_id(), portfolio, title, planned, writer.now());
        let receipt = WorkLogReceipt::from(work_log.state());
        writer
            .transactional
            .run(async |transaction: &mut Transaction<Tx>| {
                // The key comes first: whoever waits for it must find nothing else done yet.
                match self.keys.take(transaction.tx(), &request, &receipt).await? {
                    KeyUse::First => {}
                    KeyUse::SameRequest(receipt) => return Ok(CreatedWorkLog { receipt, replayed: true }),
                    KeyUse::OtherRequest => return Err(CommandError::KeyReused { key: request.key.clone() }),
                }
                writer.work_logs.insert(transaction.tx(), &work_log).await?;
                writer.record_events(transaction, &mut work_log, traceparent.as_deref())?;
                Ok(CreatedWorkLog { receipt, replayed: false })
            })
            .await
    }
}

/// All that makes two requests the same. Stored as a digest: a change of this form makes stored keys look reused.
fn content(title: &Title, planned: Minutes) -> String {
    // A title holds no line break, so that no two requests share a text.
    format!("create-work-log\n{}\n{}", planned.get(), title.as_str())
}

impl<Tx: Send + Sync + 'static> fmt::Debug for CreateWorkLog<Tx> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreateWorkLog").finish_non_exhaustive()
    }
}
