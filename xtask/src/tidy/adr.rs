//! Decision records: each has a status, and a test that fails when the decision is broken.

use crate::{
    Report, markdown,
    names::{Index, looks_like_a_test},
    workspace::SourceFile,
};

const FOLDER: &str = "docs/adr/";

/// Every record has a status in its front matter and names a real test under *Confirmation*.
pub(super) fn check(files: &[SourceFile], index: &Index) -> Report {
    let mut report = Report::default();
    let records: Vec<&SourceFile> = files.iter().filter(|file| is_record(&file.path)).collect();
    for record in &records {
        if status(&record.text).is_none() {
            report.problem(format!("{}: has no `status:` in its front matter", record.path));
        }
        match markdown::section(&record.text, "Confirmation") {
            None => report.problem(format!("{}: has no section Confirmation", record.path)),
            Some(section) => {
                let codes = markdown::codes(section);
                let tests: Vec<&&str> = codes.iter().filter(|code| looks_like_a_test(code)).collect();
                if tests.is_empty() {
                    report.problem(format!("{}: its Confirmation names no test", record.path));
                }
                for test in tests.iter().filter(|test| !index.has_test(test)) {
                    report.problem(format!("{}: its Confirmation names `{test}`, which is no test", record.path));
                }
            }
        }
    }
    report.looked_at("decision records", records.len());
    report
}

/// `docs/adr/0001-title.md`, but not the list of records.
fn is_record(path: &str) -> bool {
    path.strip_prefix(FOLDER).is_some_and(|name| name.starts_with(|c: char| c.is_ascii_digit()))
}

fn status(text: &str) -> Option<&str> {
    let (front, _) = text.strip_prefix("---\n")?.split_once("\n---\n")?;
    let value = front.lines().find_map(|line| line.strip_prefix("status:"))?.trim();
    (!value.is_empty()).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::{names::Index, tidy::file};

    const GOOD: &str = "---\nstatus: accepted\n---\n# A\n\n### Confirmation\n\nThe test `real_test` fails.\n";

    fn problems(text: &str) -> Vec<String> {
        let index = Index::new(vec![file("tests/a.rs", "#[test] fn real_test() {}")]);
        check(&[file("docs/adr/0001-a.md", text), file("docs/adr/README.md", "# List")], &index).problems().to_vec()
    }

    #[test]
    fn record_with_a_status_and_a_real_test_passes() {
        assert!(problems(GOOD).is_empty());
        assert!(problems("---\nstatus: accepted\n---\n**Confirmation**: `real_test`.\n").is_empty());
    }

    #[test]
    fn record_without_a_status_fails() {
        assert_eq!(
            problems(&GOOD.replace("status: accepted", "date: today")),
            ["docs/adr/0001-a.md: has no `status:` in its front matter"]
        );
    }

    #[test]
    fn record_without_a_confirmation_or_with_an_unreal_test_fails() {
        assert_eq!(
            problems(&GOOD.replace("### Confirmation", "### Notes")),
            ["docs/adr/0001-a.md: has no section Confirmation"]
        );
        assert_eq!(
            problems(&GOOD.replace("real_test", "wished_for_test")),
            ["docs/adr/0001-a.md: its Confirmation names `wished_for_test`, which is no test"]
        );
    }

    #[test]
    fn confirmation_by_a_command_alone_fails() {
        assert_eq!(
            problems(&GOOD.replace("real_test", "cargo xtask arch")),
            ["docs/adr/0001-a.md: its Confirmation names no test"]
        );
    }

    #[test]
    fn no_record_at_all_fails() {
        assert!(!check(&[], &Index::new(Vec::new())).is_clean());
    }
}
