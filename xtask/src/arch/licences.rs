//! Licence expressions, and the agreement of `deny.toml` with the table.

use crate::Report;

/// Whether the expression can be met with the allowed licences alone.
///
/// The form is SPDX's, with `/` for `OR` as older manifests write it. What cannot be read is not allowed.
#[must_use]
pub fn is_allowed(expression: &str, allowed: &[&str]) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut reader = Reader { words: &words, allowed };
    reader.any_of() == Some(true) && reader.words.is_empty()
}

struct Reader<'a> {
    words: &'a [&'a str],
    allowed: &'a [&'a str],
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let (first, rest) = self.words.split_first()?;
        self.words = rest;
        Some(first)
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.words.first() == Some(&word);
        if found {
            self.next();
        }
        found
    }

    fn any_of(&mut self) -> Option<bool> {
        let mut met = self.all_of()?;
        while self.take("OR") {
            met |= self.all_of()?;
        }
        Some(met)
    }

    fn all_of(&mut self) -> Option<bool> {
        let mut met = self.one()?;
        while self.take("AND") {
            met &= self.one()?;
        }
        Some(met)
    }

    fn one(&mut self) -> Option<bool> {
        let name = self.next()?;
        if name == "(" {
            let met = self.any_of()?;
            return self.take(")").then_some(met);
        }
        if matches!(name, "OR" | "AND" | "WITH" | ")") {
            return None;
        }
        if self.take("WITH") {
            let full = format!("{name} WITH {}", self.next()?);
            return Some(self.allowed.contains(&full.as_str()));
        }
        Some(self.allowed.contains(&name))
    }
}

/// Compares the licences that `deny.toml` allows with the table.
#[must_use]
pub fn check_deny_list(deny: &str, licences: &[&str]) -> Report {
    let mut report = Report::default();
    let listed = allow_list(deny);
    for licence in licences.iter().filter(|licence| !listed.contains(licence)) {
        report.problem(format!("deny.toml does not allow {licence}, which the table allows"));
    }
    for licence in listed.iter().filter(|licence| !licences.contains(licence)) {
        report.problem(format!("deny.toml allows {licence}, which the table does not allow"));
    }
    report.looked_at("licences in deny.toml", listed.len());
    report
}

/// The strings of `allow = [..]` in the section `[licenses]`.
fn allow_list(deny: &str) -> Vec<&str> {
    let section = deny.split_once("[licenses]").map_or("", |(_, rest)| rest);
    let list = section.split_once("allow = [").and_then(|(_, rest)| rest.split_once(']'));
    list.map_or("", |(list, _)| list).split('"').skip(1).step_by(2).collect()
}

#[cfg(test)]
mod tests {
    use super::{check_deny_list, is_allowed};

    const ALLOWED: &[&str] = &["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "ISC"];

    #[test]
    fn one_allowed_alternative_is_enough() {
        for expression in ["MIT", "GPL-3.0 OR MIT", "MIT/GPL-3.0", "(GPL-3.0 OR MIT) AND ISC", "GPL-3.0 / ISC"] {
            assert!(is_allowed(expression, ALLOWED), "{expression}");
        }
        assert!(is_allowed("Apache-2.0 WITH LLVM-exception OR GPL-3.0", ALLOWED));
    }

    #[test]
    fn every_part_of_an_and_must_be_allowed() {
        for expression in ["GPL-3.0", "MIT AND GPL-3.0", "(MIT OR ISC) AND AGPL-3.0", "MIT WITH LLVM-exception"] {
            assert!(!is_allowed(expression, ALLOWED), "{expression}");
        }
        assert!(!is_allowed("GPL-3.0 OR MIT AND AGPL-3.0", ALLOWED), "AND binds more tightly than OR");
    }

    #[test]
    fn what_cannot_be_read_is_not_allowed() {
        for expression in ["", "MIT MIT", "(MIT", "MIT)", "MIT OR", "OR MIT", "MIT AND", "Apache-2.0 WITH"] {
            assert!(!is_allowed(expression, ALLOWED), "{expression}");
        }
    }

    #[test]
    fn lists_that_differ_fail_in_both_directions() {
        let report = check_deny_list("[licenses]\nallow = [\n  \"MIT\",\n  \"AGPL-3.0\",\n]\n", &["MIT", "ISC"]);
        assert_eq!(
            report.problems(),
            [
                "deny.toml does not allow ISC, which the table allows",
                "deny.toml allows AGPL-3.0, which the table does not allow"
            ]
        );
        assert!(!check_deny_list("", &[]).is_clean());
    }
}
