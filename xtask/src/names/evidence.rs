//! The evidence register: what is claimed, how far it was shown, and by what.

use super::{
    Index,
    commands::{COMMAND_LINE, missing_command},
    looks_like_a_test, rows,
};
use crate::{Report, markdown::codes, workspace::SourceFile};

const VERIFIED: &str = "verified here";
const LEVELS: &[&str] = &["implemented", VERIFIED, "verified in production", "designed only"];

/// Checks the tables `claim | level | shown by`.
#[must_use]
pub fn check_evidence(document: &SourceFile, index: &Index) -> Report {
    let mut report = Report::default();
    let rows = rows(document, ["claim", "level", "shown by"]);
    for ([claim, level, shown_by], row) in &rows {
        let mut wrong = |what: String| report.problem(format!("{}:{}: {what}", document.path, row.line));
        if row.cell(*claim).is_empty() {
            wrong("names no claim".to_owned());
        }
        let level = row.cell(*level).trim_matches('*');
        if !LEVELS.contains(&level) {
            wrong(format!("`{level}` is no level; the levels are {}", LEVELS.join(", ")));
        }
        let shown_by = codes(row.cell(*shown_by));
        shown_by.iter().filter_map(|code| missing(code, index)).for_each(&mut wrong);
        if level == VERIFIED && !shown_by.iter().any(|code| index.has_test(code)) {
            wrong(format!("is {VERIFIED} without a test"));
        }
    }
    report.looked_at("claims", rows.len());
    report
}

/// Checks what a page names in a column `shown by`, beside the register.
#[must_use]
pub fn check_shown_by(document: &SourceFile, index: &Index) -> Report {
    let mut report = Report::default();
    let rows = rows(document, ["shown by"]);
    for ([shown_by], row) in &rows {
        for what in codes(row.cell(*shown_by)).iter().filter_map(|code| missing(code, index)) {
            report.problem(format!("{}:{}: {what}", document.path, row.line));
        }
    }
    report.looked_at("promises", rows.len());
    report
}

/// What is wrong with something that shows a claim; `None` if it is there, or if it is nothing that could be looked up.
fn missing(code: &str, index: &Index) -> Option<String> {
    if code.starts_with(COMMAND_LINE) {
        return missing_command(code, index);
    }
    if code.contains('/') {
        return (!index.has_path(code)).then(|| format!("no file `{code}`"));
    }
    (looks_like_a_test(code) && !index.has_test(code)).then(|| format!("no test `{code}`"))
}

#[cfg(test)]
mod tests {
    use super::{check_evidence, check_shown_by};
    use crate::names::fixture::{document, index};

    fn problems(rows: &str) -> Vec<String> {
        let text = format!("| Claim | Level | Shown by |\n| --- | --- | --- |\n{rows}");
        check_evidence(&document(&text), &index()).problems().to_vec()
    }

    #[test]
    fn real_evidence_passes() {
        let rows = "| Backoff grows. | *verified here* | `it_grows`, `cargo xtask arch`, `tests/contract/store.rs` |\n\
                    | It runs on 18. | *designed only* | |\n\
                    | It is used. | *implemented* | `Backoff`, see text |\n";
        assert_eq!(problems(rows), Vec::<String>::new());
    }

    #[test]
    fn test_that_does_not_exist_fails() {
        assert_eq!(
            problems("| X. | *verified here* | `it_shrinks` |\n"),
            ["docs/page.md:3: no test `it_shrinks`", "docs/page.md:3: is verified here without a test"]
        );
        assert_eq!(problems("| X. | implemented | `it_shrinks` |\n"), ["docs/page.md:3: no test `it_shrinks`"]);
    }

    #[test]
    fn file_or_command_that_does_not_exist_fails() {
        assert_eq!(
            problems("| X. | implemented | `tests/gone.rs` and `cargo xtask bnech` |\n"),
            ["docs/page.md:3: no file `tests/gone.rs`", "docs/page.md:3: no command `cargo xtask bnech`"]
        );
    }

    #[test]
    fn verified_here_needs_a_test() {
        assert_eq!(
            problems("| X. | *verified here* | `tests/contract/store.rs` |\n"),
            ["docs/page.md:3: is verified here without a test"]
        );
    }

    #[test]
    fn unknown_level_fails() {
        assert_eq!(
            problems("| X. | *proven* | `it_grows` |\n"),
            [
                "docs/page.md:3: `proven` is no level; the levels are implemented, verified here, verified in production, \
             designed only"
            ]
        );
    }

    #[test]
    fn promise_beside_the_register_must_name_what_exists() {
        let check = |rows: &str| {
            let text = format!("| What | How | Shown by |\n| --- | --- | --- |\n{rows}");
            check_shown_by(&document(&text), &index()).problems().to_vec()
        };
        assert_eq!(check("| Backoff | `it_shrinks` | `it_grows`, `claims_once` |\n"), Vec::<String>::new());
        assert_eq!(check("| Backoff | grows | `it_grows`, `it_shrinks` |\n"), ["docs/page.md:3: no test `it_shrinks`"]);
        assert_eq!(check(""), ["looked at no promises: the rule cannot hold"]);
    }

    #[test]
    fn empty_register_fails() {
        assert_eq!(problems(""), ["looked at no claims: the rule cannot hold"]);
    }
}
