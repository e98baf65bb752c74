//! `names`: every path, item and test that the tables of the documents name is real.
//!
//! The documents that have such tables: the mapping from the template that this one mirrors, the evidence register, the
//! register of cases, the rules, the promises of the front page and of the page on security. All mismatches are listed at once.

mod cases;
mod commands;
mod evidence;
mod index;
mod long;
mod mapping;
mod rules;

use std::path::Path;

pub use cases::check_cases;
pub use commands::check_commands;
pub use evidence::{check_evidence, check_shown_by};
pub use index::Index;
pub use long::check_long;
pub use mapping::{MIRRORED, check_mapping};
pub use rules::check_rules;

use crate::{
    Error, Report,
    command::Command,
    markdown::{Row, Table, tables},
    process, workspace,
    workspace::SourceFile,
};

/// The command `names`.
pub const COMMAND: Command = Command {
    name: "names",
    arguments: "",
    summary: "holds the paths, items and tests that the documents name to be real",
    run: |arguments| {
        process::no_arguments("names", arguments)?;
        Ok(check(&workspace::root())?.finish("names"))
    },
};

type Rule = fn(&SourceFile, &Index) -> Report;

const MAPPING: &str = "docs/mapping-from-ca-tmpl.md";
const EVIDENCE: &str = "docs/evidence.md";
const CASES: &str = "docs/cases.md";
const RULES: &str = "docs/rules.md";
const FRONT_PAGE: &str = "README.md";
const SECURITY: &str = "SECURITY.md";

/// Checks the documents of the workspace at `root`.
///
/// # Errors
/// If a source file cannot be read.
pub fn check(root: &Path) -> Result<Report, Error> {
    let index = Index::read(root)?;
    let mut report = Report::default();
    report.looked_at("test functions", index.test_count());
    let rules: [(&str, Rule); 8] = [
        (MAPPING, |document, index| check_mapping(document, index, MIRRORED)),
        (EVIDENCE, check_evidence),
        (CASES, check_cases),
        (CASES, check_long),
        (RULES, check_shown_by),
        (RULES, check_rules),
        (FRONT_PAGE, check_shown_by),
        (SECURITY, check_shown_by),
    ];
    for (path, rule) in rules {
        match workspace::read_text(&root.join(path)) {
            Ok(text) => report.merge(rule(&SourceFile { path: path.to_owned(), text }, &index)),
            Err(error) => report.problem(format!("{path}: {}", error.chain())),
        }
    }
    report.merge(check_commands(&workspace::files(root, &["md"])?, &index));
    Ok(report)
}

/// Whether a code span reads like the name of a test: lower-case words joined by `_` or `::`, or a module's `::*`.
#[must_use]
pub fn looks_like_a_test(code: &str) -> bool {
    code.contains(['_', ':'])
        && code.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | ':' | '*'))
}

/// The rows of all tables of the document that have these columns, with the columns' positions.
pub(crate) fn rows<const N: usize>(document: &SourceFile, columns: [&str; N]) -> Vec<([usize; N], Row)> {
    let positions = |table: &Table| -> Option<[usize; N]> {
        let found: Vec<usize> = columns.iter().map_while(|title| table.column(title)).collect();
        found.try_into().ok()
    };
    let tables = tables(&document.text).into_iter();
    tables
        .filter_map(|table| Some((positions(&table)?, table.rows)))
        .flat_map(|(positions, rows)| rows.into_iter().map(move |row| (positions, row)))
        .collect()
}

#[cfg(test)]
mod fixture {
    use super::Index;
    use crate::workspace::SourceFile;

    pub(super) fn document(text: &str) -> SourceFile {
        SourceFile { path: "docs/page.md".to_owned(), text: text.to_owned() }
    }

    pub(super) fn index() -> Index {
        let file = |path: &str, text: &str| SourceFile { path: path.to_owned(), text: text.to_owned() };
        Index::new(vec![
            file(
                "crates/core/src/outbox/backoff.rs",
                "struct Backoff; mod tests { #[test] fn it_grows() {} fn helper() {} }",
            ),
            file("tests/contract/store.rs", "#[tokio::test] async fn claims_once() {}"),
            file("migrations/V3__event.sql", "CREATE TABLE outbox_event (id uuid);"),
        ])
    }
}
