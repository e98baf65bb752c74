//! The list of commands, and the way from the command line to one of them.

use std::process::ExitCode;

use crate::{
    Error, arch, bench, check, check_template, dev, events, migrate, names, new, output, remove_sample, rename,
    settings, template_diff, test, tidy,
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
    settings::COMMAND,
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
        Some((name, rest)) if name == "help" || asks_for_help(name) => match rest.first() {
            None => {
                output::put(&list());
                Ok(0)
            }
            Some(name) => find(name).map(show_usage),
        },
        // Before anything is built, wherever it stands.
        Some((name, rest)) => find(name)
            .and_then(|command| if are_for_help(rest) { Ok(show_usage(command)) } else { (command.run)(rest) }),
    };
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            output::say_error(&format!("xtask: {}", error.chain()));
            if error.is_usage() {
                let command = error.command().and_then(|name| find(name).ok());
                output::say_error(&format!("\n{}", command.map_or_else(list, usage)));
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

fn asks_for_help(argument: &str) -> bool {
    matches!(argument, "--help" | "-h")
}

/// Whether one of the arguments asks for help. What stands behind `--` is for a program that the command runs.
fn are_for_help(arguments: &[String]) -> bool {
    arguments.iter().take_while(|argument| *argument != "--").any(|argument| asks_for_help(argument))
}

fn show_usage(command: &Command) -> u8 {
    output::put(&usage(command));
    0
}

fn usage(command: &Command) -> String {
    let line = format!("Usage: cargo xtask {} {}", command.name, command.arguments);
    format!("{}\n\n{}\n", line.trim_end(), command.summary)
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
    use std::process::ExitCode;

    use super::{COMMANDS, are_for_help, find, list, run, usage};
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
    fn every_command_says_how_it_is_used_when_asked_and_does_nothing() {
        for command in COMMANDS {
            for line in ["NAME --help", "NAME -h", "NAME --fast --help", "NAME x -h", "help NAME", "--help NAME"] {
                let arguments: Vec<String> = line.replace("NAME", command.name).split(' ').map(str::to_owned).collect();
                assert_eq!(run(&arguments), ExitCode::SUCCESS, "{arguments:?}");
            }
            let usage = usage(command);
            assert!(usage.starts_with(&format!("Usage: cargo xtask {}", command.name)), "{usage}");
            assert!(usage.contains(command.arguments) && usage.contains(command.summary), "{usage}");
        }
    }

    #[test]
    fn help_that_is_asked_of_a_program_behind_two_dashes_is_for_that_program() {
        let arguments = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert!(!are_for_help(&arguments("claims -- --help")) && !are_for_help(&[]));
        assert!(are_for_help(&arguments("-h -- claims")));
    }

    #[test]
    fn unknown_command_is_a_usage_error_that_names_it() {
        let error = find("chekc").unwrap_err();
        assert!(error.is_usage());
        assert!(matches!(&error, Error::UnknownCommand(name) if name == "chekc"));
        assert_eq!(error.to_string(), "unknown command `chekc`");
    }
}
