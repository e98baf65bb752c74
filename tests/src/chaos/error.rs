//! What ends a run before its verdict.

use test_support::servers::ServersError;

use crate::{ProcessError, TimedOut, work_load::LoadError};

/// A run that could not go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ChaosError {
    #[error("the command line is wrong: {0}")]
    Usage(String),
    #[error("the servers cannot be had")]
    Servers(#[from] ServersError),
    #[error("a process failed")]
    Process(#[from] ProcessError),
    #[error("{name} did not become ready again")]
    NotBack { name: &'static str, source: ProcessError },
    #[error("{name} ended with {status} at SIGTERM")]
    BadEnd { name: &'static str, status: std::process::ExitStatus },
    #[error("there is no process called {0}")]
    NoProcess(&'static str),
    #[error("the database cannot be read")]
    Database(#[from] sqlx::Error),
    #[error("the broker cannot be used")]
    Broker(#[from] lapin::Error),
    #[error("a client was not served")]
    Load(#[from] LoadError),
    #[error(transparent)]
    TimedOut(#[from] TimedOut),
    #[error("a file or socket cannot be used")]
    Io(#[from] std::io::Error),
    #[error("a URL cannot be read")]
    Url(#[from] url::ParseError),
    #[error("the report cannot be written as JSON")]
    Json(#[from] serde_json::Error),
    #[error("`app {command}` failed:\n{output}")]
    Command { command: &'static str, output: String },
    #[error("rabbitmqctl answered `{0}`")]
    Ctl(String),
}

impl ChaosError {
    /// The error and its causes in one line.
    pub(crate) fn chain(&self) -> String {
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
