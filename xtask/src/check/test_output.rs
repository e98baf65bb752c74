//! What the test harness said: how many tests ran, which failed, and which had no server to run against.

use super::runner::End;

/// What a test writes that needs a server which this run goes without, and the server.
///
/// A test that shares the run's servers says `Missing`, one with servers of its own `NoWay`; each as `Display` and as
/// `Debug` have it. The first that a line has counts: TLS is the narrower reason.
const MISSING: &[(&str, &str)] = &[
    ("speaks TLS here", "a server that speaks TLS"),
    ("this run has no RabbitMQ server", "RabbitMQ"),
    ("Missing { server: \"RabbitMQ\"", "RabbitMQ"),
    ("no RabbitMQ server can be had", "RabbitMQ"),
    ("NoWay { server: \"RabbitMQ\"", "RabbitMQ"),
];

/// The output of `cargo test`, read line by line.
#[derive(Debug, Default)]
pub(crate) struct TestOutput {
    passed: usize,
    failed: Vec<String>,
    not_run: Vec<String>,
    /// The failed test whose output is being read, and the server that it missed.
    current: Option<(String, Option<&'static str>)>,
}

impl TestOutput {
    /// Takes in a line.
    pub(crate) fn read(&mut self, line: &str) {
        let heading = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"));
        if let Some(name) = heading {
            self.finish_current();
            self.current = Some((name.to_owned(), None));
        } else if line == "failures:" || line.starts_with("test result: ") {
            self.finish_current();
        }
        if let Some((_, missing)) = &mut self.current {
            let found = MISSING.iter().find(|(words, _)| line.contains(words));
            *missing = missing.or(found.map(|(_, server)| *server));
        }
        if let Some(rest) = line.strip_prefix("test result: ") {
            self.passed += passed(rest);
        }
    }

    /// How many tests have passed, over all programs.
    pub(crate) const fn passed(&self) -> usize {
        self.passed
    }

    fn finish_current(&mut self) {
        match self.current.take() {
            Some((name, Some(server))) => self.not_run.push(format!("{name}, for want of {server}")),
            Some((name, None)) => self.failed.push(name),
            None => {}
        }
    }

    /// How the step ended, where `end` is how cargo ended.
    pub(super) fn judge(mut self, end: End) -> End {
        self.finish_current();
        match end {
            End::Passed(_) if self.passed == 0 => End::Failed {
                output: "not one test was run".to_owned(),
                findings: vec!["not one test was run".to_owned()],
                not_run: Vec::new(),
            },
            End::Passed(_) => End::Passed(format!("{} tests", self.passed)),
            End::Failed { output, .. } => End::Failed { output, findings: self.findings(), not_run: self.not_run },
            other => other,
        }
    }

    fn findings(&self) -> Vec<String> {
        let counts = [(self.passed, "passed"), (self.failed.len(), "failed"), (self.not_run.len(), "not run")];
        let counts: Vec<String> = counts.iter().map(|(count, what)| format!("{count} {what}")).collect();
        self.failed.iter().map(|name| format!("test {name}")).chain([counts.join(", ")]).collect()
    }
}

/// The number before `passed;`.
fn passed(result: &str) -> usize {
    let words: Vec<&str> = result.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "passed;").and_then(|at| at.checked_sub(1));
    at.and_then(|at| words.get(at)).and_then(|number| number.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{End, TestOutput};

    const FAILED: &str = r#"
running 6 tests
test a ... ok
test m::b ... FAILED
test c ... FAILED
test d ... FAILED
test e ... FAILED
test f ... FAILED

failures:

---- m::b stdout ----
thread 'm::b' panicked at x.rs:1:1:
called `Result::unwrap()` on an `Err` value: Earlier(Missing { server: "RabbitMQ", reason: "none" })

---- c stdout ----
thread 'c' panicked at x.rs:2:2:
no

---- d stdout ----
thread 'd' panicked at x.rs:3:3:
called `Result::unwrap()` on an `Err` value: NoWay { server: "PostgreSQL", attempts: Attempts([(Docker, "no container of PostgreSQL speaks TLS here")]) }

---- e stdout ----
Error: Earlier(NoWay { server: "RabbitMQ", attempts: Attempts([(Docker, "there is no `docker` command")]) }

---- f stdout ----
Error: NoWay { server: "RabbitMQ", attempts: Attempts([(Docker, "no container of RabbitMQ speaks TLS here")]) }

failures:
    c
    d
    e
    f
    m::b

test result: FAILED. 2 passed; 5 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
test result: ok. 5 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
"#;

    fn judge(text: &str, end: End) -> End {
        let mut output = TestOutput::default();
        text.lines().for_each(|line| output.read(line));
        output.judge(end)
    }

    #[test]
    fn tests_without_their_server_are_told_from_those_that_failed() {
        let end = judge(FAILED, End::Failed { output: "x".to_owned(), findings: Vec::new(), not_run: Vec::new() });
        let End::Failed { findings, not_run, .. } = end else { panic!("{end:?}") };
        assert_eq!(findings, ["test c", "7 passed, 1 failed, 4 not run"]);
        let expected = [
            "m::b, for want of RabbitMQ",
            "d, for want of a server that speaks TLS",
            "e, for want of RabbitMQ",
            "f, for want of a server that speaks TLS",
        ];
        assert_eq!(not_run, expected);
    }

    #[test]
    fn passed_tests_are_counted_over_all_programs() {
        let text = "test result: ok. 2 passed; 0 failed;\ntest result: ok. 5 passed; 0 failed;";
        assert_eq!(judge(text, End::Passed(String::new())), End::Passed("7 tests".to_owned()));
    }

    #[test]
    fn run_without_a_single_test_fails() {
        assert!(matches!(judge("", End::Passed(String::new())), End::Failed { .. }));
    }
}
