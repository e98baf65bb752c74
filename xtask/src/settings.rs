//! `settings`: the page of settings, `docs/settings.md`.
//!
//! Keys, types and defaults come from the types, so that a program which knows them writes and compares:
//! `tests/src/settings_page.rs`.

use crate::{Error, binaries::Binaries, command::Command, process, workspace};

/// The command `settings`.
pub const COMMAND: Command = Command {
    name: "settings",
    arguments: "[--check]",
    summary: "writes docs/settings.md from the types of the settings; --check compares and tries the bounds",
    run: |arguments| {
        match arguments {
            [] => {}
            [flag] if flag == "--check" => {}
            [argument, ..] => {
                return Err(Error::UnknownArgument {
                    command: "settings",
                    argument: argument.clone(),
                    expected: "--check",
                });
            }
        }
        let root = workspace::root();
        let binaries = Binaries::build(&root)?;
        process::status_of(binaries.command(&root, "settings")?.args(arguments))
    },
};

#[cfg(test)]
mod tests {
    use super::COMMAND;

    #[test]
    fn unknown_argument_is_a_usage_error() {
        assert!((COMMAND.run)(&["--chek".to_owned()]).unwrap_err().is_usage());
    }
}
