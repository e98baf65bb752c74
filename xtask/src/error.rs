//! What ends a command before it has an answer.

use std::{io, path::PathBuf};

use crate::{
    new::NewError, remove_sample::RemoveSampleError, rename::RenameError, template_diff::TemplateDiffError,
    tree::TreeError,
};

/// Why a command could not do its work. Findings of a check are no error: they are in its report.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No command has this name.
    #[error("unknown command `{0}`")]
    UnknownCommand(String),
    /// The command knows no such argument.
    #[error("`{command}` does not know the argument `{argument}`; it takes: {expected}")]
    UnknownArgument {
        /// The command's name.
        command: &'static str,
        /// The argument as it was given.
        argument: String,
        /// What the command takes, in words.
        expected: &'static str,
    },
    /// The command needs an argument.
    #[error("`{command}` needs an argument: {expected}")]
    MissingArgument {
        /// The command's name.
        command: &'static str,
        /// What the command takes, in words.
        expected: &'static str,
    },
    /// A file or folder could not be read.
    #[error("cannot read {}", .path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// A file could not be written.
    #[error("cannot write {}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// Something that was read is not what it should be.
    #[error("the {what} cannot be used: expected {expected}")]
    Unreadable {
        /// What was read.
        what: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// A program could not be started or waited for.
    #[error("cannot run `{program}`")]
    Run {
        /// The command line.
        program: String,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// A program ended without success.
    #[error("`{program}` failed ({status})")]
    Failed {
        /// The command line.
        program: String,
        /// How it ended.
        status: std::process::ExitStatus,
    },
    /// `cargo metadata` gave no answer.
    #[error("cannot read the workspace")]
    Metadata(#[source] cargo_metadata::Error),
    /// A build succeeded without the program that was asked for.
    #[error("the build made no program `{0}`")]
    NoProgram(&'static str),
    /// The files could not be changed.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The workspace was not renamed.
    #[error(transparent)]
    Rename(#[from] RenameError),
    /// Nothing was made.
    #[error(transparent)]
    New(#[from] NewError),
    /// The sample was not removed.
    #[error(transparent)]
    RemoveSample(#[from] RemoveSampleError),
    /// Nothing could be compared with the template.
    #[error(transparent)]
    TemplateDiff(#[from] TemplateDiffError),
}

impl Error {
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

    /// Whether the caller got the command line wrong.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::UnknownCommand(_)) || self.command().is_some()
    }

    /// The command whose arguments the caller got wrong.
    #[must_use]
    pub const fn command(&self) -> Option<&'static str> {
        match self {
            Self::UnknownArgument { command, .. } | Self::MissingArgument { command, .. } => Some(*command),
            _ => None,
        }
    }
}
