//! What can go wrong between asking for a server and using it.

use std::{fmt, io, sync::Arc, time::Duration};

use super::{ready::NotReady, way::Way};

/// Why a server could not be had, controlled or used.
#[derive(Debug, thiserror::Error)]
pub enum ServersError {
    /// Every way to obtain the server failed.
    #[error("no {server} server can be had\n{attempts}\n{remedy}")]
    NoWay {
        /// The server's name.
        server: &'static str,
        /// The ways, in the order in which they were tried.
        attempts: Attempts,
        /// What the reader can do about it.
        remedy: String,
    },
    /// The run that provisioned the servers has none of this kind.
    #[error("this run has no {server} server: {reason}")]
    Missing {
        /// The server's name.
        server: &'static str,
        /// Why the run goes without it.
        reason: String,
    },
    /// The server's process or container ended instead of becoming ready.
    #[error("{server} ended while it was starting; the end of its log:\n{log}")]
    EndedAtStart {
        /// The server's name.
        server: &'static str,
        /// The last lines it wrote.
        log: String,
    },
    /// The server did not accept a connection in time.
    #[error("{server} accepted no connection within {within:?}")]
    NotReady {
        /// The server's name.
        server: &'static str,
        /// How long it was given.
        within: Duration,
        /// The last refusal.
        source: NotReady,
    },
    /// A condition did not come about in time.
    #[error("{what} did not happen within {within:?}")]
    TimedOut {
        /// The awaited condition.
        what: String,
        /// How long it was given.
        within: Duration,
    },
    /// The server was given by its URL, so that nothing here may stop or pause it.
    #[error("{server} was given by its URL and cannot be controlled; use servers::private for faults")]
    NotControllable {
        /// The server's name.
        server: &'static str,
    },
    /// The operation needs a running server.
    #[error("{server} is not running")]
    NotRunning {
        /// The server's name.
        server: &'static str,
    },
    /// The process does not belong to the server.
    #[error("process {pid} is none of {server}'s")]
    ForeignProcess {
        /// The server's name.
        server: &'static str,
        /// The process asked for.
        pid: i32,
    },
    /// A command could not be run, or failed.
    #[error("`{command}` failed: {output}")]
    Command {
        /// The command line.
        command: String,
        /// Its output, or why it did not start.
        output: String,
    },
    /// A file or process operation failed.
    #[error("could not {action}")]
    Io {
        /// What was attempted.
        action: String,
        /// The cause.
        source: io::Error,
    },
    /// The control file cannot be understood.
    #[error("{path} is no control file of servers")]
    ControlFile {
        /// Its path.
        path: String,
        /// The cause.
        source: serde_json::Error,
    },
    /// A setting has a value that means nothing.
    #[error("{name} is `{value}`; expected {expected}")]
    Setting {
        /// The environment variable or option.
        name: &'static str,
        /// Its value.
        value: String,
        /// What would be understood.
        expected: &'static str,
    },
    /// A statement about a test's database failed.
    #[error("could not {action}")]
    Database {
        /// What was attempted.
        action: String,
        /// The cause.
        source: sqlx::Error,
    },
    /// The user of the server may not create databases.
    #[error(
        "the user of DATABASE_URL may not create a database; a superuser can allow it with `ALTER ROLE {role} CREATEDB`, or \
         give the URL of a user who may, or unset DATABASE_URL: then a throwaway server is started"
    )]
    MayNotCreate {
        /// The user, quoted as SQL wants it.
        role: String,
        /// The refusal.
        source: sqlx::Error,
    },
    /// The broker refused or did not answer.
    #[error("could not {action}")]
    Broker {
        /// What was attempted.
        action: String,
        /// The cause.
        source: lapin::Error,
    },
    /// The caller's migrations failed on the template.
    #[error("could not prepare the template `{template}`")]
    Template {
        /// The template's name.
        template: String,
        /// The caller's error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The same server failed before in this process; it is not tried twice.
    #[error(transparent)]
    Earlier(Arc<ServersError>),
}

impl ServersError {
    /// True if no server of the kind can be had at all, as opposed to one that misbehaved.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        match self {
            Self::NoWay { .. } | Self::Missing { .. } => true,
            Self::Earlier(earlier) => earlier.is_unavailable(),
            _ => false,
        }
    }

    pub(crate) fn io(action: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let action = action.into();
        move |source| Self::Io { action, source }
    }

    pub(crate) fn database(action: impl Into<String>) -> impl FnOnce(sqlx::Error) -> Self {
        let action = action.into();
        move |source| Self::Database { action, source }
    }

    /// The message followed by its causes, on one line.
    pub(crate) fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        text
    }
}

/// The ways that were tried, each with the reason for which it did not work.
#[derive(Debug, Default)]
pub struct Attempts(Vec<(Way, String)>);

impl Attempts {
    pub(crate) fn add(&mut self, way: Way, reason: String) {
        self.0.push((way, reason));
    }

    /// The ways in order, with reasons.
    pub fn iter(&self) -> impl Iterator<Item = (Way, &str)> {
        self.0.iter().map(|(way, reason)| (*way, reason.as_str()))
    }
}

impl fmt::Display for Attempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (way, reason)) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}  - {}: {}", way.describe(), reason.trim_end())?;
        }
        Ok(())
    }
}
