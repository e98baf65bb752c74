//! The list of commands, and the way from the command line to one of them.

use std::process::ExitCode;

use crate::{
    Error, arch, bench, check, check_template, dev, events, migrate, names, new, output, remove_sample, rename,
    template_diff, test, tidy,
};

/// A command of `cargo xtask`.
#[derive(Debug, Clone, Copy)]
pub struct Command {
    /// The word on the command line.
    pub name: &'static str,
    /// The arguments it takes, as a reader would write them.
    pub arguments: &'static str,
    /// One line that says what it does.
    pub summary: &'static str,
    /// Does it, and gives the exit code.
    pub run: fn(&[String]) -> Result<u8, Error>,
}

/// All commands, in the order of a reader's need.
pub const COMMANDS: &[Command] = &[
    crate::demo::COMMAND,
    check::COMMAND,
    test::COMMAND,
    crate::chaos::COMMAND,
    dev::COMMAND,
    migrate::COMMAND,
    bench::COMMAND,
    arch::COMMAND,
    tidy::COMMAND,
    names::COMMAND,
    events::COMMAND,
    rename::COMMAND,
    remove_sample::COMMAND,
    new::COMMAND,
    check_template::COMMAND,
    template_diff::COMMAND,
];

const USAGE: u8 = 64;
const FAILED: u8 = 1;

/// Runs the command that the arguments name and says what went wrong.
#[must_use]
pub fn run(arguments: &[String]) -> ExitCode {
    let outcome = match arguments.split_first() {
        None => {
            output::put(&list());
            Ok(0)
        }
        Some((name, _)) if matches!(name.as_str(), "help" | "--help" | "-h") => {
            output::put(&list());
            Ok(0)
        }
        Some((name, rest)) => find(name).and_then(|command| (command.run)(rest)),
    };
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            output::say_error(&format!("xtask: {}", error.chain()));
            if error.is_usage() {
                output::say_error(&format!("\n{}", list()));
                ExitCode::from(USAGE)
            } else {
                ExitCode::from(FAILED)
            }
        }
    }
}

fn find(name: &str) -> Result<&'static Command, Error> {
    COMMANDS.iter().find(|command| command.name == name).ok_or_else(|| Error::UnknownCommand(name.to_owned()))
}

fn list() -> String {
    let words: Vec<String> = COMMANDS
        .iter()
        .map(|command| format!("{} {}", command.name, command.arguments).trim_end().to_owned())
        .collect();
    let width = words.iter().map(String::len).max().unwrap_or_default();
    let lines =
        words.iter().zip(COMMANDS).map(|(word, command)| format!("  cargo xtask {word:width$}  {}", command.summary));
    let lines: Vec<String> = std::iter::once("Commands:".to_owned()).chain(lines).collect();
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::{COMMANDS, find, list};
    use crate::Error;

    #[test]
    fn list_has_one_line_for_each_command() {
        let lines: Vec<String> = list().lines().skip(1).map(str::to_owned).collect();
        assert_eq!(lines.len(), COMMANDS.len());
        for (line, command) in lines.iter().zip(COMMANDS) {
            assert!(line.contains(command.name) && line.ends_with(command.summary), "{line}");
        }
    }

    #[test]
    fn unknown_command_is_a_usage_error_that_names_it() {
        let error = find("chekc").unwrap_err();
        assert!(error.is_usage());
        assert!(matches!(&error, Error::UnknownCommand(name) if name == "chekc"));
        assert_eq!(error.to_string(), "unknown command `chekc`");
    }
}
