//! Files of others that are kept in the tree: each is named, with a licence that is allowed and its text.

use std::collections::BTreeSet;

use super::is_allowed;
use crate::{Report, names::rows, workspace::SourceFile};

const FOLDER: &str = "/vendor/";
const LIST: &str = "README.md";

/// Compares the files in folders `vendor` with the tables `file | version | licence | text of the licence` of their lists.
#[must_use]
pub fn check_vendored(paths: &[String], lists: &[SourceFile], licences: &[&str]) -> Report {
    let mut report = Report::default();
    let vendored: BTreeSet<&str> = paths.iter().map(String::as_str).filter(|path| path.contains(FOLDER)).collect();
    let mut named: BTreeSet<String> = BTreeSet::new();
    for list in lists.iter().filter(|list| vendored.contains(list.path.as_str()) && list.path.ends_with(LIST)) {
        let folder = list.path.trim_end_matches(LIST);
        named.insert(list.path.clone());
        for ([file, version, licence, text], row) in rows(list, ["file", "version", "licence", "text of the licence"]) {
            let path = |column: usize| format!("{folder}{}", row.cell(column).trim_matches('`'));
            let mut wrong = |what: String| report.problem(format!("{}:{}: {what}", list.path, row.line));
            for path in [path(file), path(text)] {
                if !vendored.contains(path.as_str()) {
                    wrong(format!("there is no {path}"));
                }
                named.insert(path);
            }
            if row.cell(version).is_empty() {
                wrong("names no version".to_owned());
            }
            if !is_allowed(row.cell(licence), licences) {
                wrong(format!("the licence `{}` is not allowed", row.cell(licence)));
            }
        }
    }
    for path in vendored.iter().filter(|path| !named.contains(**path)) {
        report.problem(format!("{path} is not in the list of its folder, {LIST}"));
    }
    report.note(format!("{} files of others are named with their licences, or listed above", vendored.len()));
    report
}

#[cfg(test)]
mod tests {
    use super::check_vendored;
    use crate::workspace::SourceFile;

    const HEAD: &str = "| file | version | licence | text of the licence |\n| --- | --- | --- | --- |\n";

    fn problems(paths: &[&str], rows: &str) -> Vec<String> {
        let list = SourceFile { path: "a/vendor/README.md".to_owned(), text: format!("{HEAD}{rows}") };
        let paths: Vec<_> = ["a/b.js", "a/vendor/README.md"].iter().chain(paths).map(|&path| path.to_owned()).collect();
        check_vendored(&paths, &[list], &["MIT"]).problems().to_vec()
    }

    #[test]
    fn file_with_version_and_allowed_licence_passes() {
        let files = ["a/vendor/x.js", "a/vendor/x.LICENSE"];
        assert_eq!(problems(&files, "| `x.js` | 1.0 | MIT | `x.LICENSE` |\n"), Vec::<String>::new());
    }

    #[test]
    fn file_that_is_not_listed_fails() {
        assert_eq!(problems(&["a/vendor/x.js"], ""), ["a/vendor/x.js is not in the list of its folder, README.md"]);
        assert_eq!(check_vendored(&["a/vendor/x.js".to_owned()], &[], &["MIT"]).problems().len(), 1, "without a list");
    }

    #[test]
    fn licence_that_is_not_allowed_and_what_is_missing_fail() {
        assert_eq!(
            problems(&["a/vendor/x.js"], "| `x.js` | | AGPL-3.0 | `x.LICENSE` |\n"),
            [
                "a/vendor/README.md:3: there is no a/vendor/x.LICENSE",
                "a/vendor/README.md:3: names no version",
                "a/vendor/README.md:3: the licence `AGPL-3.0` is not allowed"
            ]
        );
    }
}
