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
        Some((name, _)) if name == "help" || asks_for_help(name) => {
            output::put(&list());
            Ok(0)
        }
        Some((name, rest)) => find(name).and_then(|command| {
            // Before anything is built; programs that are handed arguments get this one behind others.
            if rest.first().is_some_and(|first| asks_for_help(first)) {
                output::put(&usage(command));
                return Ok(0);
            }
            (command.run)(rest)
        }),
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

    use super::{COMMANDS, find, list, run, usage};
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
            for word in ["--help", "-h"] {
                assert_eq!(run(&[command.name.to_owned(), word.to_owned()]), ExitCode::SUCCESS, "{}", command.name);
            }
            let usage = usage(command);
            assert!(usage.starts_with(&format!("Usage: cargo xtask {}", command.name)), "{usage}");
            assert!(usage.contains(command.arguments) && usage.contains(command.summary), "{usage}");
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
