//! Running steps one after another and telling the reader how each ended.

use std::{process::Command, time::Instant};

use crate::{Error, output, process};

/// How a step ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// Well; with a remark, which may be empty.
    Passed(String),
    /// It could not be run, for this reason. That fails the check.
    NotRun(String),
    /// The same, where it need not be run: another machine does it. That fails nothing.
    NotRunHere(String),
    /// Badly.
    Failed {
        /// What the step wrote.
        output: String,
        /// What belongs in the summary at the end.
        findings: Vec<String>,
        /// Parts of the step that could not be run, and why.
        not_run: Vec<String>,
    },
}

impl End {
    fn word(&self) -> &'static str {
        match self {
            Self::Passed(_) => "ok",
            Self::NotRun(_) | Self::NotRunHere(_) => "NOT RUN",
            Self::Failed { .. } => "FAILED",
        }
    }

    fn remark(&self) -> &str {
        match self {
            Self::Passed(remark) | Self::NotRun(remark) | Self::NotRunHere(remark) => remark,
            Self::Failed { .. } => "",
        }
    }
}

/// Runs steps and remembers how they ended.
#[derive(Debug)]
pub(super) struct Runner {
    verbose: bool,
    started: Instant,
    ended: Vec<(&'static str, End)>,
    left_out: Vec<String>,
}

impl Runner {
    /// A runner without steps; `verbose` shows the output of each.
    pub(super) fn new(verbose: bool) -> Self {
        Self { verbose, started: Instant::now(), ended: Vec::new(), left_out: Vec::new() }
    }

    /// Runs a step and prints a line on it, and its output if it failed.
    pub(super) fn step(&mut self, name: &'static str, work: impl FnOnce(&mut Live) -> Result<End, Error>) {
        output::put(&format!("{name:10} "));
        let started = Instant::now();
        let mut live = Live { verbose: self.verbose, line_is_open: true };
        let end = work(&mut live).unwrap_or_else(|error| End::Failed {
            output: error.chain(),
            findings: Vec::new(),
            not_run: Vec::new(),
        });
        if !live.line_is_open {
            output::put(&format!("{name:10} "));
        }
        let ending = format!("{:8} {:7.1} s  {}", end.word(), started.elapsed().as_secs_f64(), end.remark());
        output::say(ending.trim_end());
        if let End::Failed { output: text, .. } = &end
            && (!self.verbose || live.line_is_open)
        {
            output::say(text.trim_end());
        }
        self.ended.push((name, end));
    }

    /// Notes what this run leaves out on purpose.
    pub(super) fn leave_out(&mut self, what: &str) {
        self.left_out.push(what.to_owned());
    }

    /// Prints the summary and gives the exit code.
    pub(super) fn finish(self) -> u8 {
        let seconds = self.started.elapsed().as_secs_f64();
        output::say(&self.summary(seconds));
        u8::from(!self.is_good())
    }

    fn is_good(&self) -> bool {
        let good = |end: &End| matches!(end, End::Passed(_) | End::NotRunHere(_));
        !self.ended.is_empty() && self.ended.iter().all(|(_, end)| good(end))
    }

    fn summary(&self, seconds: f64) -> String {
        let mut lines = vec![String::new()];
        for (name, end) in &self.ended {
            match end {
                End::Passed(_) => {}
                End::NotRun(why) => lines.push(format!("NOT RUN {name}: {why}")),
                End::NotRunHere(why) => lines.push(format!("NOT RUN {name}: {why}; this fails nothing")),
                End::Failed { findings, not_run, .. } => {
                    if findings.is_empty() {
                        lines.push(format!("FAILED  {name}"));
                    }
                    lines.extend(findings.iter().map(|finding| format!("FAILED  {name}: {finding}")));
                    lines.extend(not_run.iter().map(|what| format!("NOT RUN {name}: {what}")));
                }
            }
        }
        lines.extend(self.left_out.iter().map(|what| format!("left out by --fast: {what}")));
        let count = |word| self.ended.iter().filter(|(_, end)| end.word() == word).count();
        lines.push(format!(
            "check: {} steps in {seconds:.0} s: {} ok, {} failed, {} not run",
            self.ended.len(),
            count("ok"),
            count("FAILED"),
            count("NOT RUN"),
        ));
        lines.join("\n")
    }
}

/// The output of a step while it runs.
#[derive(Debug)]
pub(super) struct Live {
    verbose: bool,
    line_is_open: bool,
}

impl Live {
    /// Runs a command to its end; its output counts if it fails.
    ///
    /// # Errors
    /// [`Error::Run`] if it cannot be run.
    pub(super) fn run(&mut self, command: Command) -> Result<End, Error> {
        self.follow(command, |_| false)
    }

    /// Runs a command to its end and hands each line to `take`, which says whether it is for nobody else.
    ///
    /// The result lines of tests are shown as they come.
    ///
    /// # Errors
    /// [`Error::Run`] if it cannot be run.
    pub(super) fn follow(&mut self, command: Command, mut take: impl FnMut(&str) -> bool) -> Result<End, Error> {
        let program = process::line(&command);
        let mut kept = String::new();
        let status = process::follow(command, |line| {
            if take(line) {
                return;
            }
            if self.verbose || line.starts_with("test result: ") {
                self.show(line);
            }
            let is_second_blank = line.is_empty() && kept.ends_with("\n\n");
            if !is_progress(line) && !is_second_blank {
                kept.push_str(line);
                kept.push('\n');
            }
        })?;
        if status.success() {
            return Ok(End::Passed(String::new()));
        }
        Ok(End::Failed {
            output: format!("{kept}`{program}` failed ({status})\n"),
            findings: Vec::new(),
            not_run: Vec::new(),
        })
    }

    fn show(&mut self, line: &str) {
        if self.line_is_open {
            output::say("");
            self.line_is_open = false;
        }
        output::say(line);
    }
}

/// Whether a line only tells that things go on, or was shown already.
fn is_progress(line: &str) -> bool {
    const VERBS: &[&str] =
        &["Compiling", "Checking", "Documenting", "Downloading", "Downloaded", "Updating", "Running", "Doc-tests"];
    const STARTS: &[&str] = &["running ", "test result: "];
    let verb = line.split_whitespace().next().unwrap_or_default();
    line.starts_with("  ") && VERBS.contains(&verb)
        || line.starts_with("test ") && line.ends_with(" ... ok")
        || STARTS.iter().any(|start| line.starts_with(start))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{End, Live, Runner, is_progress};

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn live() -> Live {
        Live { verbose: false, line_is_open: true }
    }

    #[test]
    fn step_that_fails_does_not_stop_the_next_and_fails_the_run() {
        let mut runner = Runner::new(false);
        let mut ran = Vec::new();
        runner.step("first", |live| {
            ran.push(1);
            live.run(shell("echo why; exit 1"))
        });
        runner.step("second", |live| {
            ran.push(2);
            live.run(shell("exit 0"))
        });
        assert_eq!(ran, [1, 2]);
        assert!(!runner.is_good());
        assert_eq!(runner.summary(1.2), "\nFAILED  first\ncheck: 2 steps in 1 s: 1 ok, 1 failed, 0 not run");
        assert_eq!(runner.finish(), 1);
    }

    #[test]
    fn what_was_not_run_fails_the_run_and_is_listed() {
        let mut runner = Runner::new(false);
        runner.step("tests", |_| Ok(End::NotRun("the build failed".to_owned())));
        assert!(!runner.is_good());
        assert!(runner.summary(0.0).contains("NOT RUN tests: the build failed"));
    }

    #[test]
    fn what_need_not_be_run_here_is_not_run_as_well_and_fails_nothing() {
        let mut runner = Runner::new(false);
        assert!(!runner.is_good(), "no step at all");
        runner.step("deny", |_| Ok(End::NotRunHere("not installed".to_owned())));
        assert_eq!(runner.ended.iter().map(|(_, end)| end.word()).collect::<Vec<_>>(), ["NOT RUN"]);
        runner.step("format", |_| Ok(End::Passed(String::new())));
        runner.leave_out("test targets system");
        assert!(runner.is_good());
        assert_eq!(
            runner.summary(0.0),
            "\nNOT RUN deny: not installed; this fails nothing\nleft out by --fast: test targets system\n\
             check: 2 steps in 0 s: 1 ok, 0 failed, 1 not run"
        );
    }

    #[test]
    fn output_of_a_failed_step_is_kept_without_progress() {
        let end =
            live().run(shell("echo '   Compiling x'; echo 'test a ... ok'; echo 'error: no' >&2; exit 2")).unwrap();
        let End::Failed { output, .. } = end else { panic!("{end:?}") };
        assert!(output.starts_with("error: no\n`sh -c"), "{output}");
        assert!(output.ends_with("failed (exit status: 2)\n"), "{output}");
    }

    #[test]
    fn result_lines_are_shown_while_the_step_runs() {
        let mut live = live();
        live.run(shell("echo 'test result: ok. 3 passed; 0 failed'")).unwrap();
        assert!(!live.line_is_open);
    }

    #[test]
    fn failed_tests_are_no_progress() {
        assert!(!is_progress("test a ... FAILED"));
        assert!(is_progress("test a ... ok"));
    }
}
