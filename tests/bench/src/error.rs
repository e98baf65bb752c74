//! What can keep a benchmark from its figures.

use adapter_persistence_postgres::MigrateError;
use application_core::{
    outbox::{InvalidEvent, PublishFailure},
    ports::{OutboxAppendError, StoreError},
};
use system_tests::{ProcessError, TimedOut};
use test_support::{checker::DeliveryReport, servers::ServersError};

/// Why a benchmark has no figures, or none that count.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// An argument means nothing.
    #[error("{0}")]
    Usage(String),
    /// The servers cannot be had.
    #[error("the servers cannot be had")]
    Servers(#[from] ServersError),
    /// The schema cannot be made.
    #[error("the schema cannot be made")]
    Migrate(#[from] MigrateError),
    /// A process of the binary failed.
    #[error("a process failed")]
    Process(#[from] ProcessError),
    /// A statement of the benchmark's own failed.
    #[error("the database refused a statement of the benchmark")]
    Database(#[from] sqlx::Error),
    /// The outbox failed.
    #[error("the outbox failed")]
    Store(#[from] StoreError),
    /// An append failed.
    #[error("an event could not be appended")]
    Append(#[from] OutboxAppendError),
    /// An event is none.
    #[error("the benchmark made an event that is none")]
    Event(#[from] InvalidEvent),
    /// The broker failed.
    #[error("the broker failed")]
    Broker(#[from] lapin::Error),
    /// The publisher could not be set up or did not get through.
    #[error("the publisher failed: {0}")]
    Publisher(String),
    /// A metrics page could not be read.
    #[error("the metrics cannot be read")]
    Metrics(#[from] reqwest::Error),
    /// Something took too long.
    #[error(transparent)]
    TimedOut(#[from] TimedOut),
    /// A file cannot be used.
    #[error("a file cannot be used")]
    File(#[from] std::io::Error),
    /// A report cannot be read or written.
    #[error("the report cannot be read or written")]
    Report(#[from] serde_json::Error),
    /// A run was wrong: how fast it was does not matter.
    #[error("{what} was wrong: events were lost, repeated or out of order\n{report}")]
    Wrong {
        /// The run.
        what: String,
        /// What the checker found.
        report: Box<DeliveryReport>,
    },
    /// A run did something else than it should have.
    #[error("{0}")]
    Unsound(String),
}

impl From<PublishFailure> for BenchError {
    fn from(failure: PublishFailure) -> Self {
        Self::Publisher(failure.to_string())
    }
}

impl BenchError {
    /// The error and its causes on one line.
    #[must_use]
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }
}
