//! The register of cases: which test holds which case, and where it is.

use super::{Index, rows};
use crate::{Report, markdown::codes, workspace::SourceFile};

/// What the column of tests says of a case that no test holds yet.
const OPEN: &str = "open";

/// Checks the tables `case | test | where`.
#[must_use]
pub fn check_cases(document: &SourceFile, index: &Index) -> Report {
    let mut report = Report::default();
    let rows = rows(document, ["case", "test", "where"]);
    let mut open = 0;
    for ([case, test, place], row) in &rows {
        let name = row.cell(*case);
        let mut wrong = |what: String| report.problem(format!("{}:{}: {name}: {what}", document.path, row.line));
        if row.cell(*test) == OPEN {
            open += 1;
            continue;
        }
        let (tests, places) = (codes(row.cell(*test)), codes(row.cell(*place)));
        if tests.is_empty() {
            wrong(format!("names no test, nor is it `{OPEN}`"));
        }
        if places.is_empty() {
            wrong("does not say where".to_owned());
        }
        for place in places.iter().filter(|place| !index.has_path(place)) {
            wrong(format!("no file `{place}`"));
        }
        for test in tests {
            if !index.has_test(test) {
                wrong(format!("no test `{test}`"));
            } else if !places.iter().any(|place| index.has_test_in(test, place)) {
                wrong(format!("`{test}` is elsewhere"));
            }
        }
    }
    if open > 0 {
        report.note(format!("{}: {open} of {} cases are open", document.path, rows.len()));
    }
    report.looked_at("cases", rows.len());
    report
}

#[cfg(test)]
mod tests {
    use super::check_cases;
    use crate::{
        Report,
        names::fixture::{document, index},
    };

    fn check(rows: &str) -> Report {
        let text = format!("| Case | Test | Where |\n| --- | --- | --- |\n{rows}");
        check_cases(&document(&text), &index())
    }

    #[test]
    fn real_cases_pass_and_open_ones_are_counted() {
        let report = check("| O1 | `claims_once` | `tests/contract/store.rs` |\n| O2 | open | |\n");
        assert!(report.is_clean(), "{report:?}");
        assert_eq!(report.details(), "  note: docs/page.md: 1 of 2 cases are open\n");
    }

    #[test]
    fn wrong_test_and_wrong_place_fail() {
        assert_eq!(
            check("| O1 | `claims_twice` | `tests/gone.rs` |\n").problems(),
            ["docs/page.md:3: O1: no file `tests/gone.rs`", "docs/page.md:3: O1: no test `claims_twice`"]
        );
        assert_eq!(
            check("| O1 | `claims_once` | `crates/core` |\n").problems(),
            ["docs/page.md:3: O1: `claims_once` is elsewhere"]
        );
    }

    #[test]
    fn case_without_a_test_fails() {
        assert_eq!(
            check("| O1 | later | |\n").problems(),
            ["docs/page.md:3: O1: names no test, nor is it `open`", "docs/page.md:3: O1: does not say where"]
        );
    }

    #[test]
    fn empty_register_fails() {
        assert_eq!(check("").problems(), ["looked at no cases: the rule cannot hold"]);
    }
}
