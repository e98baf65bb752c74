//! `events`: the documents of the integration events, and that every event type is listed by its context.
//!
//! The documents come from the types, so that a program which knows them writes and compares them:
//! `tests/src/event_documents.rs`.

use std::{collections::BTreeSet, path::Path};

use crate::{
    Error, Report,
    binaries::Binaries,
    command::Command,
    process,
    rust_source::{TestFiles, Token, outside_tests, tokens, word},
    workspace::{self, SourceFile, files},
};

/// The command `events`.
pub const COMMAND: Command = Command {
    name: "events",
    arguments: "[--check]",
    summary: "writes docs/events from the types of the integration events; --check compares and refuses breaks",
    run: |arguments| {
        match arguments {
            [] => {}
            [flag] if flag == "--check" => {}
            [argument, ..] => {
                return Err(Error::UnknownArgument {
                    command: "events",
                    argument: argument.clone(),
                    expected: "--check",
                });
            }
        }
        let root = workspace::root();
        let listed = check_listed(&files(&root, &["rs"])?).finish("listed events");
        let binaries = Binaries::build(&root)?;
        let code = process::status_of(program(&root, &binaries)?.args(arguments))?;
        Ok(code.max(listed))
    },
};

/// The program that writes and compares the documents.
///
/// # Errors
/// [`Error::NoProgram`] if the workspace has no program `events`.
pub fn program(root: &Path, binaries: &Binaries) -> Result<std::process::Command, Error> {
    binaries.command(root, "events")
}

/// Every type for which a crate implements `IntegrationEvent` is in a list of contracts of the same crate.
#[must_use]
pub fn check_listed(sources: &[SourceFile]) -> Report {
    let mut report = Report::default();
    let tests = TestFiles::of(sources);
    let (mut declared, mut listed) = (Vec::new(), BTreeSet::new());
    for file in sources.iter().filter(|file| file.path.starts_with("crates/") && !tests.contain(file)) {
        let home = file.path.split("/src/").next().unwrap_or_default();
        let code = outside_tests(&tokens(&file.text));
        declared.extend(behind(&code, &["IntegrationEvent", "for"]).map(|name| (home, &file.path, name)));
        let names = behind(&code, &["EventContract", "::", "of", "::", "<"]);
        listed.extend(names.map(|name| (home, name.text)));
    }
    for (home, path, name) in &declared {
        if !listed.contains(&(*home, name.text)) {
            report.problem(format!(
                "{path}:{}: {} is an integration event that no EventContract of its crate lists",
                name.line, name.text
            ));
        }
    }
    report.note(format!("{} types of integration events", declared.len()));
    report.looked_at("source files", sources.len());
    report
}

/// The tokens that stand behind these words.
fn behind<'a>(code: &[Token<'a>], words: &[&str]) -> impl Iterator<Item = Token<'a>> {
    let is_behind = |index: &usize| words.iter().enumerate().all(|(at, wanted)| word(code, index + at) == *wanted);
    let found: Vec<Token<'a>> =
        (0..code.len()).filter(is_behind).filter_map(|index| code.get(index + words.len()).copied()).collect();
    found.into_iter()
}

#[cfg(test)]
mod tests {
    use super::{COMMAND, check_listed};
    use crate::workspace::SourceFile;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.to_owned(), text: text.to_owned() }
    }

    const DECLARED: &str =
        "impl IntegrationEvent for Placed {} #[cfg(test)] mod tests { impl IntegrationEvent for X {} }";

    #[test]
    fn event_that_its_own_crate_does_not_list_fails() {
        let listed = "const C: &[EventContract] = &[EventContract::of::<Placed>(A)];";
        let here = [file("crates/a/src/lib.rs", DECLARED), file("crates/a/src/list.rs", listed)];
        assert!(check_listed(&here).is_clean(), "{:?}", check_listed(&here));
        let elsewhere = [file("crates/a/src/lib.rs", DECLARED), file("crates/b/src/list.rs", listed)];
        assert_eq!(
            check_listed(&elsewhere).problems(),
            ["crates/a/src/lib.rs:1: Placed is an integration event that no EventContract of its crate lists"]
        );
        assert!(!check_listed(&[]).is_clean());
    }

    #[test]
    fn unknown_argument_is_a_usage_error() {
        assert!((COMMAND.run)(&["--chek".to_owned()]).unwrap_err().is_usage());
    }
}
