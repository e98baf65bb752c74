//! How a file begins, how long it is, and its blanks.

use crate::{Report, rust_source::TestFiles, workspace::SourceFile};

const LONGEST: usize = 800;
const LONGEST_TEST: usize = 1_000;

/// Every Rust file begins with a sentence on what it is, and is short enough to be read.
pub(super) fn check_rust(files: &[SourceFile]) -> Report {
    let mut report = Report::default();
    let tests = TestFiles::of(files);
    for file in files {
        if !file.text.starts_with("//!") {
            report.problem(format!("{}:1: does not begin with `//!` and a sentence on what it is", file.path));
        }
        let (lines, bound) = (file.text.lines().count(), if tests.contain(file) { LONGEST_TEST } else { LONGEST });
        if lines > bound {
            report.problem(format!("{}: has {lines} lines, more than {bound}", file.path));
        }
    }
    report.looked_at("Rust files", files.len());
    report
}

/// The documentation of a crate says what holds in it, and how its next part is added.
pub(super) fn check_crates(files: &[SourceFile]) -> Report {
    let mut report = Report::default();
    let crates: Vec<&SourceFile> = files.iter().filter(|file| is_crate(&file.path)).collect();
    for file in &crates {
        for heading in ["//! # Invariants", "//! # Adding a"] {
            if !file.text.lines().any(|line| line.starts_with(heading)) {
                report.problem(format!("{}: has no part `{heading}` in its documentation", file.path));
            }
        }
    }
    report.looked_at("crates", crates.len());
    report
}

/// `crates/<name>/src/lib.rs`.
fn is_crate(path: &str) -> bool {
    let name = path.strip_prefix("crates/").and_then(|rest| rest.strip_suffix("/src/lib.rs"));
    name.is_some_and(|name| !name.contains('/'))
}

/// No line ends in a blank, and none holds a tab.
pub(super) fn check_blanks(files: &[SourceFile]) -> Report {
    let mut report = Report::default();
    for file in files {
        for (index, line) in file.text.lines().enumerate() {
            if line.ends_with([' ', '\t']) {
                report.problem(format!("{}:{}: ends in a blank", file.path, index + 1));
            } else if line.contains('\t') {
                report.problem(format!("{}:{}: holds a tab", file.path, index + 1));
            }
        }
    }
    report.looked_at("text files", files.len());
    report
}

#[cfg(test)]
mod tests {
    use super::{check_blanks, check_crates, check_rust};
    use crate::tidy::file;

    #[test]
    fn file_without_a_first_sentence_fails() {
        assert!(check_rust(&[file("a.rs", "//! It is.\n")]).is_clean());
        assert_eq!(
            check_rust(&[file("a.rs", "use x;\n//! It is.\n")]).problems(),
            ["a.rs:1: does not begin with `//!` and a sentence on what it is"]
        );
    }

    #[test]
    fn long_file_fails_and_a_test_may_be_longer() {
        let text = |lines: usize| format!("//! It is.\n{}", "x\n".repeat(lines - 1));
        assert!(check_rust(&[file("a.rs", &text(800)), file("tests/a.rs", &text(1_000))]).is_clean());
        assert_eq!(
            check_rust(&[file("a.rs", &text(801)), file("tests/a.rs", &text(1_001))]).problems(),
            ["a.rs: has 801 lines, more than 800", "tests/a.rs: has 1001 lines, more than 1000"]
        );
    }

    #[test]
    fn blank_at_the_end_and_tab_fail() {
        assert_eq!(
            check_blanks(&[file("a.md", "ok\nx \n\ty\n")]).problems(),
            ["a.md:2: ends in a blank", "a.md:3: holds a tab"]
        );
    }

    #[test]
    fn crate_that_does_not_say_what_holds_or_how_to_add_to_it_fails() {
        let whole = "//! It is.\n//!\n//! # Invariants\n//! - Holds.\n//!\n//! # Adding an adapter\n//! 1. Write it.\n";
        let part = file("crates/b/src/part/lib.rs", "//! It is.\n");
        assert!(check_crates(&[file("crates/a/src/lib.rs", whole), part]).is_clean());
        assert_eq!(
            check_crates(&[file("crates/a/src/lib.rs", "//! It is.\n//! # Adding it\n")]).problems(),
            [
                "crates/a/src/lib.rs: has no part `//! # Invariants` in its documentation",
                "crates/a/src/lib.rs: has no part `//! # Adding a` in its documentation"
            ]
        );
    }

    #[test]
    fn no_files_at_all_fail() {
        assert!(!check_rust(&[]).is_clean() && !check_blanks(&[]).is_clean() && !check_crates(&[]).is_clean());
    }
}
