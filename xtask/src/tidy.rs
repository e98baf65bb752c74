//! `tidy`: house rules that no compiler knows.

mod adr;
mod blocks;
mod claims;
mod layout;
mod links;
mod test_code;
mod upgrading;
mod workflows;

use std::path::Path;

use crate::{
    Error, Report, command::Command, names::Index, process, rename::VERSION_FILE, workspace, workspace::files,
};

/// The command `tidy`.
pub const COMMAND: Command = Command {
    name: "tidy",
    arguments: "",
    summary: "holds the house rules: file headers and lengths, test code, links, the book, ADRs, claims, workflows",
    run: |arguments| {
        process::no_arguments("tidy", arguments)?;
        Ok(check(&workspace::root())?.finish("tidy"))
    },
};

/// A violation that is allowed, and why.
#[derive(Debug, Clone, Copy)]
pub struct Allowed {
    /// The file.
    pub path: &'static str,
    /// The words of the rule that it breaks.
    pub what: &'static str,
    /// Why it may.
    pub reason: &'static str,
}

/// The violations that are allowed. A line that nothing needs any more is a problem.
pub const ALLOWED: &[Allowed] = &[
    Allowed {
        path: "tests/src/patience.rs",
        what: "sleep",
        reason: "it is the one place that waits for a condition with a deadline",
    },
    Allowed {
        path: "crates/adapter-persistence-postgres/tests/postgres/support.rs",
        what: "sleep",
        reason: "it is the one place of its tests that waits for a condition with a deadline",
    },
    // sample-only: begin
    Allowed {
        path: "tests/src/chaos/timer.rs",
        what: "sleep",
        reason: "faults begin late and last a while, clients are paced: no effect is waited for",
    },
    Allowed {
        path: "tests/system/faults.rs",
        what: "sleep",
        reason: "a fault lasts for a while: no effect is waited for",
    },
    Allowed { path: "tests/system/world.rs", what: "sleep", reason: "it paces the load" },
    // sample-only: end
    Allowed {
        path: "crates/application-core/src/usecases/publish_pending_outbox_events/tests.rs",
        what: "sleep",
        reason: "its clock and its broker take time on the runtime's paused clock: nobody waits",
    },
];

/// Checks all rules on the workspace at `root`.
///
/// # Errors
/// If a file cannot be read.
pub fn check(root: &Path) -> Result<Report, Error> {
    let rust = files(root, &["rs"])?;
    let markdown = files(root, &["md"])?;
    let mut text = files(root, &["rs", "md", "toml", "sql", "yml", "yaml", "sh", "js", "css", "html"])?;
    // What comes from others stays as it came.
    text.retain(|file| !file.path.contains("/vendor/"));
    let index = Index::read(root)?;
    let mut report = layout::check_rust(&rust);
    report.merge(layout::check_crates(&rust));
    report.merge(layout::check_blanks(&text));
    report.merge(test_code::check(&rust, ALLOWED));
    report.merge(links::check(&markdown, root));
    report.merge(links::check_book(&markdown, &rust));
    report.merge(links::check_inside(&markdown, root));
    report.merge(links::check_translations(&markdown));
    report.merge(blocks::check(&markdown));
    report.merge(adr::check(&markdown, &index));
    report.merge(claims::check(&markdown, &index));
    report.merge(workflows::check(&text));
    let manifest = workspace::read_text(&root.join("Cargo.toml"))?;
    let made_from = root.join(VERSION_FILE);
    let made_from = made_from.exists().then(|| workspace::read_text(&made_from)).transpose()?;
    report.merge(upgrading::check(&markdown, &manifest, made_from.as_deref()));
    Ok(report)
}

/// A file for the tests of the rules.
#[cfg(test)]
fn file(path: &str, text: &str) -> workspace::SourceFile {
    workspace::SourceFile { path: path.to_owned(), text: text.to_owned() }
}
