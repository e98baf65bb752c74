//! `migrate`: brings the database up to date with `app migrate`.

use std::path::Path;

use crate::{Error, binaries::Binaries, command::Command, dev, process, workspace};

/// The command `migrate`.
pub const COMMAND: Command = Command {
    name: "migrate",
    arguments: "[ARGUMENT]...",
    summary: "migrates the database of DATABASE_URL, or else the one of `dev up`",
    run: |arguments| {
        let root = workspace::root();
        let binaries = Binaries::build(&root)?;
        let mut migrate = command(&root, &binaries)?;
        if std::env::var_os("DATABASE_URL").is_none() {
            migrate.envs(dev::urls(&root, &binaries)?);
        }
        Err(process::become_program(migrate.args(arguments)))
    },
};

/// The command that migrates the database of its `DATABASE_URL`.
///
/// # Errors
/// [`Error::NoProgram`] if the workspace has no program `app`.
pub fn command(root: &Path, binaries: &Binaries) -> Result<std::process::Command, Error> {
    let mut command = binaries.command(root, "app")?;
    command.arg("migrate");
    Ok(command)
}
