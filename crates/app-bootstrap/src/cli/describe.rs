//! `app completions` and `app man`: the program describes itself.

use std::{io, path::PathBuf, process::ExitCode};

use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;

use super::output;
use crate::error::BootstrapError;

pub(super) const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  source <(app completions bash)
  source <(app completions zsh)
  app completions fish | source";

pub(super) const MAN_EXAMPLES: &str = "\
Examples:
  app man | man -l -
  app man --into /usr/local/share/man/man1";

#[derive(Debug, Clone, Args)]
pub(super) struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

impl CompletionsArgs {
    pub(super) fn run(&self, mut program: Command) -> ExitCode {
        let (name, mut script) = (program.get_name().to_owned(), Vec::new());
        clap_complete::generate(self.shell, &mut program, name, &mut script);
        output::line(String::from_utf8_lossy(&script).trim_end());
        ExitCode::SUCCESS
    }
}

#[derive(Debug, Clone, Args)]
pub(super) struct ManArgs {
    /// Write a page for every command into this folder, which must exist, instead of printing the first one.
    #[arg(long, value_name = "FOLDER")]
    into: Option<PathBuf>,
}

impl ManArgs {
    pub(super) fn run(&self, program: &Command) -> Result<ExitCode, BootstrapError> {
        match &self.into {
            Some(folder) => clap_mangen::generate_to(program.clone(), folder)
                .map_err(|source| BootstrapError::Describe { what: folder.display().to_string(), source })?,
            None => output::line(
                page(program)
                    .map_err(|source| BootstrapError::Describe { what: "standard output".to_owned(), source })?,
            ),
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn page(program: &Command) -> io::Result<String> {
    let mut page = Vec::new();
    Man::new(program.clone()).render(&mut page)?;
    Ok(String::from_utf8_lossy(&page).trim_end().to_owned())
}
