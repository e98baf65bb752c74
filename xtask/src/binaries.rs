//! Building the workspace's programs, always as one set, so that no command compiles for another what is built already.

use std::{collections::BTreeMap, path::Path, path::PathBuf, process::Command};

use serde_json::Value;

use crate::{Error, process};

/// What `--examples` does here: with it cargo joins in the features that tests need, as `cargo test` does. Without it
/// each dependency would be built once for programs and once more for tests.
pub const PROGRAMS: &[&str] = &["--workspace", "--bins", "--examples"];

/// Makes cargo tell where it put what it built.
pub const MESSAGES: &str = "--message-format=json-render-diagnostics";

/// The programs of the workspace and where they are.
#[derive(Debug, Default, Clone)]
pub struct Binaries(BTreeMap<String, PathBuf>);

impl Binaries {
    /// Builds all programs, with cargo's progress visible.
    ///
    /// # Errors
    /// If the build fails.
    pub fn build(root: &Path) -> Result<Self, Error> {
        Self::built_by(process::cargo(root).arg("build").args(PROGRAMS))
    }

    /// Builds the programs of these packages with optimisations.
    ///
    /// # Errors
    /// If the build fails.
    pub fn build_in_release(root: &Path, packages: &[&str]) -> Result<Self, Error> {
        let packages = packages.iter().flat_map(|package| ["--package", package]);
        Self::built_by(process::cargo(root).args(["build", "--release", "--bins"]).args(packages))
    }

    fn built_by(build: &mut Command) -> Result<Self, Error> {
        let output = process::output_of(build.arg(MESSAGES))?;
        let mut binaries = Self::default();
        output.lines().for_each(|line| {
            binaries.read(line);
        });
        Ok(binaries)
    }

    /// Reads a line of cargo's output and says whether it was a message for us.
    pub fn read(&mut self, line: &str) -> bool {
        if !line.starts_with("{\"reason\":") {
            return false;
        }
        let message: Value = serde_json::from_str(line).unwrap_or_default();
        let is_program = message.pointer("/target/kind/0").and_then(Value::as_str) == Some("bin")
            && message.pointer("/profile/test").and_then(Value::as_bool) == Some(false);
        let name = message.pointer("/target/name").and_then(Value::as_str);
        let path = message.get("executable").and_then(Value::as_str);
        if let (true, Some(name), Some(path)) = (is_program, name, path) {
            self.0.insert(name.to_owned(), path.into());
        }
        true
    }

    /// A command that runs the program in the folder `root`.
    ///
    /// # Errors
    /// [`Error::NoProgram`] if the workspace has none of this name.
    pub fn command(&self, root: &Path, name: &'static str) -> Result<Command, Error> {
        let mut command = Command::new(self.0.get(name).ok_or(Error::NoProgram(name))?);
        command.current_dir(root);
        process::forget_our_package(&mut command);
        Ok(command)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::Binaries;
    use crate::Error;

    fn message(name: &str, kind: &str, test: bool) -> String {
        format!(
            r#"{{"reason":"compiler-artifact","target":{{"kind":["{kind}"],"name":"{name}"}},"profile":{{"test":{test}}},"executable":"/x/{name}"}}"#
        )
    }

    #[test]
    fn only_programs_are_remembered() {
        let mut binaries = Binaries::default();
        assert!(binaries.read(&message("server", "bin", false)));
        assert!(binaries.read(&message("demo", "bin", true)));
        assert!(binaries.read(&message("contract", "test", true)));
        assert!(!binaries.read("   Compiling server v0.1.0"));
        assert_eq!(binaries.command(Path::new("/"), "server").unwrap().get_program(), "/x/server");
        assert!(matches!(binaries.command(Path::new("/"), "demo"), Err(Error::NoProgram("demo"))));
    }
}
