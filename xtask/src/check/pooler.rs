//! The step `pgbouncer`: the PostgreSQL adapter's tests once more, through PgBouncer in transaction mode (case P46).

use std::path::Path;

use super::{
    runner::{End, Live},
    test_output::TestOutput,
};
use crate::{Error, binaries::Binaries, process};

/// Suites that hold through a pooler.
const THROUGH: &[&str] =
    &["append", "claim", "contract", "inbox", "leadership", "maintenance", "operate", "pooler", "settle"];
/// Suites that do not, and why.
const PAST: &[(&str, &str)] = &[
    ("connection", "freezes, ends and counts the server processes of its own sessions"),
    ("doctor", "logs in as roles that the pooler does not know"),
    ("many_dead", "waits after each question for the end of its sessions, which the pooler keeps"),
    ("migrate", "migrations have a session, past every pooler"),
    ("readiness", "asks for a server that is not there"),
    ("roles", "logs in as roles that the pooler does not know"),
    ("search_path", "sets the search path of a session"),
    ("side_by_side", "freezes a server process, and has more connections at once than the pooler lends"),
    ("tls", "is about the server's own certificates"),
    ("wakeup", "LISTEN has a session, past every pooler"),
];

/// What the provisioning says when there is no pooler.
const NO_PGBOUNCER: &str = "no PgBouncer server can be had";
/// What a test says whose connections were seen to go through a pooler (`support.rs` of the suites).
const SEEN: &str = "this run goes through a pooler in transaction mode";

/// Runs the step.
///
/// # Errors
/// [`Error`] if a program cannot be run.
pub(super) fn pgbouncer(root: &Path, built: Option<&Binaries>, live: &mut Live) -> Result<End, Error> {
    let Some(binaries) = built else {
        return Ok(End::NotRun("the build failed".to_owned()));
    };
    let mut command = binaries.command(root, "test-servers")?;
    command.args(["run", "--allow-missing-broker", "--pgbouncer", "--"]).arg(process::cargo_path());
    command.args(["test", "--workspace", "--test", "postgres", "--"]);
    command.args(THROUGH.iter().map(|suite| format!("{suite}::")));
    let (mut tests, mut seen) = (TestOutput::default(), false);
    let end = live.follow(command, |line| {
        tests.read(line);
        seen |= line.contains(SEEN);
        false
    })?;
    Ok(judge(end, tests, seen))
}

/// Tests that pass show nothing unless one of them has seen the pooler: without it they pass as well.
fn judge(end: End, tests: TestOutput, seen: bool) -> End {
    match end {
        End::Failed { output, .. } if output.contains(NO_PGBOUNCER) => {
            End::NotRun("PgBouncer is not installed and cannot be installed here (package pgbouncer)".to_owned())
        }
        end => match tests.judge(end) {
            End::Passed(remark) if seen => End::Passed(format!("{remark}; {} suites go past it", PAST.len())),
            End::Passed(remark) => {
                let finding = format!("{remark} passed, and none has seen a pooler");
                End::Failed { output: finding.clone(), findings: vec![finding], not_run: Vec::new() }
            }
            end => end,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{End, NO_PGBOUNCER, PAST, THROUGH, TestOutput, judge};
    use crate::workspace;

    const SUITES: &str = "crates/adapter-persistence-postgres/tests/postgres/main.rs";

    fn two_tests() -> TestOutput {
        let mut tests = TestOutput::default();
        tests.read("test result: ok. 2 passed; 0 failed;");
        tests
    }

    fn failed(output: &str) -> End {
        End::Failed { output: output.to_owned(), findings: Vec::new(), not_run: Vec::new() }
    }

    #[test]
    fn every_suite_goes_through_the_pooler_or_past_it_for_a_reason() {
        let main = fs::read_to_string(workspace::root().join(SUITES)).unwrap();
        let there: Vec<&str> = main.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';')).collect();
        let past = PAST.iter().map(|(suite, _)| *suite);
        let mut listed: Vec<&str> = THROUGH.iter().copied().chain(past).chain(["support"]).collect();
        listed.sort_unstable();
        assert_eq!(there, listed);
        assert!(PAST.iter().all(|(_, why)| !why.is_empty()));
    }

    #[test]
    fn without_a_pooler_the_step_is_not_run() {
        let end = judge(failed(&format!("test-servers: {NO_PGBOUNCER}\n")), TestOutput::default(), false);
        assert!(matches!(&end, End::NotRun(why) if why.contains("pgbouncer")), "{end:?}");
    }

    #[test]
    fn tests_of_which_none_has_seen_the_pooler_fail_the_step() {
        let passed = || End::Passed(String::new());
        assert!(matches!(judge(passed(), two_tests(), true), End::Passed(remark) if remark.starts_with("2 tests; ")));
        let End::Failed { findings, .. } = judge(passed(), two_tests(), false) else { panic!("it passed") };
        assert_eq!(findings, ["2 tests passed, and none has seen a pooler"]);
        assert!(matches!(judge(failed("no"), two_tests(), true), End::Failed { .. }));
    }
}
