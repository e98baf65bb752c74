//! The result of a check: what it looked at, and what it found.

use crate::output;

/// What a check looked at and what is wrong.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Report {
    looked_at: Vec<(String, usize)>,
    notes: Vec<String>,
    problems: Vec<String>,
}

impl Report {
    /// Counts what a rule looked at. Zero is a problem: a rule that sees nothing holds nothing.
    pub fn looked_at(&mut self, what: &str, count: usize) {
        if count == 0 {
            self.problem(format!("looked at no {what}: the rule cannot hold"));
        }
        self.looked_at.push((what.to_owned(), count));
    }

    /// Adds a finding that fails the check.
    pub fn problem(&mut self, problem: impl Into<String>) {
        self.problems.push(problem.into());
    }

    /// Adds a remark that fails nothing.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Takes over what another report says.
    pub fn merge(&mut self, other: Self) {
        self.looked_at.extend(other.looked_at);
        self.notes.extend(other.notes);
        self.problems.extend(other.problems);
    }

    /// The findings, in the order in which they were made.
    #[must_use]
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }

    /// One line: the counts and the number of problems.
    #[must_use]
    pub fn summary(&self) -> String {
        let counts: Vec<String> = self.looked_at.iter().map(|(what, count)| format!("{count} {what}")).collect();
        let problems = match self.problems.len() {
            1 => "1 problem".to_owned(),
            count => format!("{count} problems"),
        };
        format!("{}; {problems}", counts.join(", "))
    }

    /// All findings and remarks, a line each.
    #[must_use]
    pub fn details(&self) -> String {
        let mut text = String::new();
        for (kind, lines) in [("problem", &self.problems), ("note", &self.notes)] {
            for line in lines {
                text.extend(["  ", kind, ": ", line, "\n"]);
            }
        }
        text
    }

    /// Prints everything and gives the exit code.
    #[must_use]
    pub fn finish(&self, name: &str) -> u8 {
        output::put(&self.details());
        output::say(&format!("{name}: {}", self.summary()));
        u8::from(!self.is_clean())
    }
}

#[cfg(test)]
mod tests {
    use super::Report;

    #[test]
    fn a_rule_that_looked_at_nothing_fails() {
        let mut report = Report::default();
        report.looked_at("packages", 0);
        assert_eq!(report.problems(), ["looked at no packages: the rule cannot hold"]);
        assert_eq!(report.finish("arch"), 1);
    }

    #[test]
    fn a_rule_that_looked_at_something_passes() {
        let mut report = Report::default();
        report.looked_at("packages", 3);
        assert_eq!(report.summary(), "3 packages; 0 problems");
        assert_eq!(report.finish("arch"), 0);
    }
}
