//! The rules that comments cite by their number: each has a row on the page of rules.

use super::{Index, rows};
use crate::{Report, workspace::SourceFile};

/// Checks that the page has a row for each rule that a comment cites, alone or in a list after the word for several.
#[must_use]
pub fn check_rules(document: &SourceFile, index: &Index) -> Report {
    let mut report = Report::default();
    let rows = rows(document, ["rule"]);
    let known: Vec<&str> = rows.iter().map(|([rule], row)| row.cell(*rule)).collect();
    let mut citations = 0;
    for (path, text) in index.sources() {
        for (number, line) in text.lines().enumerate() {
            for rule in cited(line) {
                citations += 1;
                if !known.contains(&rule) {
                    report.problem(format!("{path}:{}: {} has no rule {rule}", number + 1, document.path));
                }
            }
        }
    }
    report.looked_at("citations of rules", citations);
    report
}

/// The rules that the comment of a line cites.
fn cited(line: &str) -> Vec<&str> {
    let comment = line.split_once("//").map_or("", |(_, comment)| comment);
    if !comment.contains("rule R") && !comment.contains("rules R") {
        return Vec::new();
    }
    comment.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| is_rule(word)).collect()
}

fn is_rule(word: &str) -> bool {
    word.strip_prefix('R').is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::check_rules;
    use crate::{
        names::{Index, fixture::document},
        workspace::SourceFile,
    };

    fn problems(comment: &str) -> Vec<String> {
        // Put together here: this file is looked at as well.
        let text = format!("{} {comment}", "//");
        let index = Index::new(vec![SourceFile { path: "crates/core/src/lib.rs".to_owned(), text }]);
        let page =
            document("| rule | what holds |\n| --- | --- |\n| R1 | Statuses exist once. |\n| R2 | Rows count. |\n");
        check_rules(&page, &index).problems().to_vec()
    }

    #[test]
    fn cited_rule_that_the_page_has_passes() {
        assert_eq!(problems("Once (rules R1, R2), as rule R2 says."), Vec::<String>::new());
    }

    #[test]
    fn cited_rule_that_the_page_lacks_fails() {
        assert_eq!(problems("Once (rules R1, R3)."), ["crates/core/src/lib.rs:1: docs/page.md has no rule R3"]);
    }

    #[test]
    fn no_citation_at_all_fails() {
        assert_eq!(problems("R1 and Rust."), ["looked at no citations of rules: the rule cannot hold"]);
    }
}
