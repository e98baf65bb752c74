//! `test`: provisions servers and runs `cargo test` with the given arguments.

use std::path::Path;

use crate::{Error, binaries::Binaries, command::Command, process, workspace};

/// The command `test`.
pub const COMMAND: Command = Command {
    name: "test",
    arguments: "[CARGO-TEST-ARGUMENT]...",
    summary: "provisions servers and runs `cargo test` with these arguments",
    run: |arguments| {
        let root = workspace::root();
        let binaries = Binaries::build(&root)?;
        let mut command = with_servers(&root, &binaries)?;
        command.args(cargo_arguments(arguments));
        Err(process::become_program(&mut command))
    },
};

/// A command that provisions servers and runs, with their URLs, the cargo command whose arguments the caller adds.
///
/// # Errors
/// [`Error::NoProgram`] if the workspace has no provisioning program.
pub fn with_servers(root: &Path, binaries: &Binaries) -> Result<std::process::Command, Error> {
    let mut command = binaries.command(root, "test-servers")?;
    command.args(["run", "--allow-missing-broker", "--"]).arg(process::cargo_path());
    Ok(command)
}

/// The arguments for cargo: all packages unless the caller chose.
fn cargo_arguments(arguments: &[String]) -> Vec<String> {
    let own = arguments.iter().take_while(|argument| *argument != "--");
    let chosen = |argument: &String| {
        ["-p", "--package", "--workspace", "--all", "--exclude", "--manifest-path"]
            .iter()
            .any(|flag| argument == flag || argument.strip_prefix(flag).is_some_and(|rest| rest.starts_with('=')))
            || (argument.starts_with("-p") && !argument.starts_with("--"))
    };
    let all = if own.into_iter().any(chosen) { None } else { Some("--workspace".to_owned()) };
    std::iter::once("test".to_owned()).chain(all).chain(arguments.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::cargo_arguments;

    fn line(arguments: &[&str]) -> String {
        cargo_arguments(&arguments.iter().map(|&argument| argument.to_owned()).collect::<Vec<_>>()).join(" ")
    }

    #[test]
    fn all_packages_are_tested_unless_the_caller_chose() {
        assert_eq!(line(&[]), "test --workspace");
        assert_eq!(line(&["claims", "--", "-p"]), "test --workspace claims -- -p");
        assert_eq!(line(&["-p", "xtask"]), "test -p xtask");
        assert_eq!(line(&["--package=xtask", "x"]), "test --package=xtask x");
        assert_eq!(line(&["-pxtask"]), "test -pxtask");
    }
}
