//! `dev`: servers for development that stay until they are taken down.

use std::path::Path;

use crate::{Error, binaries::Binaries, command::Command, migrate, output, process, workspace};

/// The command `dev`.
pub const COMMAND: Command = Command {
    name: "dev",
    arguments: "up|down|status",
    summary: "starts and migrates servers for development, stops them, or says how they are",
    run,
};

const EXPECTED: &str = "up, down or status, then what `test-servers` takes";

/// Where `test-servers` remembers the servers that are up.
const STATE: &str = ".dev/test-servers.json";

fn run(arguments: &[String]) -> Result<u8, Error> {
    let root = workspace::root();
    let Some((verb, rest)) = arguments.split_first() else {
        return Err(Error::MissingArgument { command: "dev", expected: EXPECTED });
    };
    match verb.as_str() {
        "up" => up(&root, rest),
        "down" => {
            Err(process::become_program(Binaries::build(&root)?.command(&root, "test-servers")?.arg("down").args(rest)))
        }
        "status" => status(&root, rest),
        other => Err(Error::UnknownArgument { command: "dev", argument: other.to_owned(), expected: EXPECTED }),
    }
}

/// Only the lines to `eval` go to standard output.
fn up(root: &Path, rest: &[String]) -> Result<u8, Error> {
    let binaries = Binaries::build(root)?;
    let exports = process::output_of(binaries.command(root, "test-servers")?.arg("up").args(rest))?;
    let urls = variables(&exports);
    let mut migrate = migrate::command(root, &binaries)?;
    process::to_errors(&mut migrate);
    let code = process::status_of(migrate.envs(urls))?;
    if code != 0 {
        return Ok(code);
    }
    output::put(&exports);
    output::say_error("\nSet these in your shell:  eval \"$(cargo xtask dev status)\"");
    output::say_error("then run the service:     target/debug/app serve");
    output::say_error("and when you are done:    cargo xtask dev down");
    Ok(0)
}

fn status(root: &Path, rest: &[String]) -> Result<u8, Error> {
    let binaries = Binaries::build(root)?;
    let code = process::status_of(binaries.command(root, "test-servers")?.arg("status").args(rest))?;
    if code == 0 {
        // For servers that are up already it starts nothing and tells their URLs.
        output::put(&process::output_of(binaries.command(root, "test-servers")?.arg("up").args(rest))?);
    }
    Ok(code)
}

/// The URLs of the servers that are up; empty if none are.
///
/// # Errors
/// If they do not answer.
pub fn urls(root: &Path, binaries: &Binaries) -> Result<Vec<(String, String)>, Error> {
    if !root.join(STATE).exists() {
        return Ok(Vec::new());
    }
    let exports = process::output_of(binaries.command(root, "test-servers")?.arg("up"))?;
    Ok(variables(&exports))
}

/// The variables that lines of the form `export NAME=VALUE` set.
fn variables(exports: &str) -> Vec<(String, String)> {
    let lines = exports.lines().filter_map(|line| line.strip_prefix("export ")?.split_once('='));
    lines.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::{EXPECTED, run, variables};

    #[test]
    fn exported_variables_are_read_and_other_lines_are_not() {
        let text = "starting\nexport DATABASE_URL=postgres://x/y?a=b\nexport AMQP_URL=amqp://z\n";
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(variables(text), [pair("DATABASE_URL", "postgres://x/y?a=b"), pair("AMQP_URL", "amqp://z")]);
    }

    #[test]
    fn no_word_is_a_usage_error_that_says_which_there_are() {
        let error = run(&[]).unwrap_err();
        assert!(error.is_usage());
        assert_eq!(error.to_string(), format!("`dev` needs an argument: {EXPECTED}"));
    }

    #[test]
    fn unknown_word_is_a_usage_error() {
        let error = run(&["upp".to_owned()]).unwrap_err();
        assert!(error.is_usage());
        assert!(error.to_string().contains("`upp`"), "{error}");
    }
}
