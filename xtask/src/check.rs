//! `check`: everything that must hold before a change is merged, as one command.
//!
//! Programs, tests and doc tests are built with one set of features, so that no dependency is compiled twice for them;
//! clippy and the documentation share another set of artefacts in the same way.

mod pooler;
mod runner;
pub(crate) mod test_output;

use std::{collections::BTreeSet, path::Path, process::Command as Process};

use runner::{End, Live, Runner};
use test_output::TestOutput;

use crate::{
    Error, Report, arch,
    binaries::{self, Binaries},
    command::Command,
    events, names, process, test, tidy, workspace,
};

/// The command `check`.
pub const COMMAND: Command = Command {
    name: "check",
    arguments: "[--fast] [--verbose]",
    summary: "everything that must hold before a merge; --fast leaves out what takes minutes",
    run: |arguments| run(&workspace::root(), Options::parse(arguments)?),
};

/// Test targets that take minutes: servers are stopped, paused and killed in them.
const SLOW_TESTS: &[&str] = &["system", "chaos", "browser"];

/// The alert rules, and their tests beside them.
const ALERTS: [&[&str]; 2] =
    [&["check", "rules", "docs/monitoring/alerts.yml"], &["test", "rules", "docs/monitoring/alerts.test.yml"]];
/// What the provisioning says when there is no promtool.
const NO_PROMTOOL: &str = "no Prometheus server can be had";

/// What the test of the operator's page says when there is no browser.
const NO_BROWSER: &str = "no Chromium can be had";

/// How much to check.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Leave out what takes minutes.
    pub fast: bool,
    /// Show the output of every step.
    pub verbose: bool,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self, Error> {
        let mut options = Self::default();
        for argument in arguments {
            match argument.as_str() {
                "--fast" => options.fast = true,
                "--verbose" | "-v" => options.verbose = true,
                other => {
                    let expected = "--fast, --verbose";
                    return Err(Error::UnknownArgument { command: "check", argument: other.to_owned(), expected });
                }
            }
        }
        Ok(options)
    }
}

/// Runs all steps, the later ones also after an earlier one failed, and gives the exit code.
///
/// # Errors
/// If cargo does not understand the workspace. What goes wrong in a step is its failure.
pub fn run(root: &Path, options: Options) -> Result<u8, Error> {
    let targets = Targets::read(root, options.fast)?;
    let mut runner = Runner::new(options.verbose);
    runner.step("format", |live| live.run(with(root, &["fmt", "--all", "--check"])));
    runner.step("arch", |_| arch::check(root).map(|report| End::of(&report)));
    runner.step("tidy", |_| tidy::check(root).map(|report| End::of(&report)));
    runner.step("names", |_| names::check(root).map(|report| End::of(&report)));
    runner.step("deny", |live| deny(root, live));
    runner.step("clippy", |live| {
        live.run(with(root, &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
    });
    let mut built = None;
    runner.step("build", |live| build(root, &targets, live, &mut built));
    runner.step("events", |live| event_documents(root, built.as_ref(), live));
    runner.step("alerts", |live| alerts(root, built.as_ref(), live));
    runner.step("tests", |live| tests(root, &targets, built.as_ref(), live));
    if !options.fast {
        runner.step("pgbouncer", |live| pooler::pgbouncer(root, built.as_ref(), live));
        runner.step("browser", |live| browser(root, built.as_ref(), live));
    }
    runner.step("doc tests", |live| {
        if built.is_none() {
            return Ok(End::NotRun("the build failed".to_owned()));
        }
        live.run(with(root, &["test", "--workspace", "--doc", "--no-fail-fast"]))
    });
    runner.step("docs", |live| live.run(docs(root, &targets)));
    if options.fast {
        let targets = SLOW_TESTS.join(", ");
        runner.leave_out(&format!("test targets {targets}, the tests through PgBouncer and the build of `app` alone"));
    } else {
        // The features that tests join in can hide one that the service lacks; without `otlp` it is built nowhere else.
        runner.step("app alone", |live| live.run(with(root, &["check", "--package", "app-bootstrap"])));
    }
    Ok(runner.finish())
}

fn with(root: &Path, arguments: &[&str]) -> Process {
    let mut command = process::cargo(root);
    command.args(arguments);
    command
}

/// What cargo is to build and test.
#[derive(Debug, Default)]
struct Targets {
    /// The arguments that select it.
    tests: Vec<String>,
    /// Programs that are documented; one that is called like a library is not, it would overwrite the library's page.
    documented_programs: BTreeSet<String>,
}

impl Targets {
    fn read(root: &Path, fast: bool) -> Result<Self, Error> {
        let metadata = arch::metadata(root, arch::Depth::Members)?;
        let targets = || metadata.workspace_packages().into_iter().flat_map(|package| &package.targets);
        let libraries: BTreeSet<String> = targets().filter(|t| t.is_lib()).map(|t| t.name.replace('-', "_")).collect();
        let programs = targets().filter(|target| target.is_bin()).map(|target| target.name.clone());
        let integration = targets().filter(|target| target.is_test()).map(|target| target.name.clone());
        Ok(Self {
            tests: selection(fast, &integration.collect()),
            documented_programs: programs.filter(|name| !libraries.contains(&name.replace('-', "_"))).collect(),
        })
    }
}

fn selection(fast: bool, integration: &BTreeSet<String>) -> Vec<String> {
    if !fast {
        return vec!["--all-targets".to_owned()];
    }
    let quick = integration.iter().filter(|name| !SLOW_TESTS.contains(&name.as_str()));
    let all = ["--lib", "--bins"].map(str::to_owned).into_iter();
    all.chain(quick.flat_map(|name| ["--test".to_owned(), name.clone()])).collect()
}

fn deny(root: &Path, live: &mut Live) -> Result<End, Error> {
    let installed =
        process::cargo(root).args(["deny", "--version"]).output().is_ok_and(|output| output.status.success());
    if !installed {
        return Ok(End::NotRunHere("cargo-deny is not installed; the GitHub workflow runs it".to_owned()));
    }
    // The advisories need a download; they are the workflow's.
    live.run(with(root, &["deny", "--all-features", "check", "bans", "licenses", "sources"]))
}

fn build(root: &Path, targets: &Targets, live: &mut Live, built: &mut Option<Binaries>) -> Result<End, Error> {
    // All programs are among what is tested; `--examples` as in `PROGRAMS`, for a run that tests no example.
    let mut command = with(root, &["build", "--workspace", "--examples", binaries::MESSAGES]);
    command.args(&targets.tests);
    let mut binaries = Binaries::default();
    let end = live.follow(command, |line| binaries.read(line))?;
    if matches!(end, End::Passed(_)) {
        *built = Some(binaries);
    }
    Ok(end)
}

fn event_documents(root: &Path, built: Option<&Binaries>, live: &mut Live) -> Result<End, Error> {
    let listed = events::check_listed(&workspace::files(root, &["rs"])?);
    let Some(binaries) = built.filter(|_| listed.is_clean()) else {
        let not_built = || End::NotRun("the build failed".to_owned());
        return Ok(if listed.is_clean() { not_built() } else { End::of(&listed) });
    };
    let mut command = events::program(root, binaries)?;
    command.arg("--check");
    live.run(command)
}

fn tests(root: &Path, targets: &Targets, built: Option<&Binaries>, live: &mut Live) -> Result<End, Error> {
    let Some(binaries) = built else {
        return Ok(End::NotRun("the build failed".to_owned()));
    };
    let mut command = test::with_servers(root, binaries)?;
    command.args(["test", "--workspace", "--no-fail-fast"]).args(&targets.tests);
    let mut output = TestOutput::default();
    let end = live.follow(command, |line| {
        output.read(line);
        false
    })?;
    Ok(output.judge(end))
}

/// The alert rules, by Prometheus's own tool. Whether the names in them exist is a test of `contract`.
fn alerts(root: &Path, built: Option<&Binaries>, live: &mut Live) -> Result<End, Error> {
    let Some(binaries) = built else {
        return Ok(End::NotRun("the build failed".to_owned()));
    };
    for arguments in ALERTS {
        let mut command = binaries.command(root, "test-servers")?;
        command.arg("promtool").args(arguments);
        match live.run(command)? {
            End::Passed(_) => {}
            End::Failed { output, .. } if output.contains(NO_PROMTOOL) => {
                let why = "promtool is not installed and cannot be installed here (package prometheus)";
                return Ok(End::NotRun(why.to_owned()));
            }
            end => return Ok(end),
        }
    }
    Ok(End::Passed(String::new()))
}

/// The operator's page in a real browser. No other step runs its test, so that none counts it as passed without a browser.
fn browser(root: &Path, built: Option<&Binaries>, live: &mut Live) -> Result<End, Error> {
    let Some(binaries) = built else {
        return Ok(End::NotRun("the build failed".to_owned()));
    };
    let mut command = test::with_servers(root, binaries)?;
    command.args(["test", "--workspace", "--test", "browser"]);
    let mut output = TestOutput::default();
    let end = live.follow(command, |line| {
        output.read(line);
        false
    })?;
    Ok(judge_browser(end, output))
}

fn judge_browser(end: End, tests: TestOutput) -> End {
    match end {
        End::Failed { output, .. } if output.contains(NO_BROWSER) => {
            End::NotRun("no Chromium is installed, nor can be here (packages chromium, chromium-driver)".to_owned())
        }
        end => tests.judge(end),
    }
}

fn docs(root: &Path, targets: &Targets) -> Process {
    // As for programs: with `--examples` the dependencies are the ones that clippy has checked.
    let mut command = with(root, &["doc", "--workspace", "--no-deps", "--lib", "--examples"]);
    command.args(targets.documented_programs.iter().flat_map(|name| ["--bin", name]));
    let mut flags = std::env::var_os("RUSTDOCFLAGS").unwrap_or_default();
    flags.push(" -D warnings");
    command.env("RUSTDOCFLAGS", flags);
    command
}

impl End {
    fn of(report: &Report) -> Self {
        if report.is_clean() {
            Self::Passed(report.summary())
        } else {
            Self::Failed { output: report.details(), findings: vec![report.summary()], not_run: Vec::new() }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{End, NO_BROWSER, Options, TestOutput, judge_browser, selection};

    #[test]
    fn fast_leaves_out_the_slow_test_targets_and_nothing_else() {
        let targets: BTreeSet<String> = ["chaos", "contract", "servers", "system"].map(str::to_owned).into();
        assert_eq!(selection(true, &targets).join(" "), "--lib --bins --test contract --test servers");
        assert_eq!(selection(false, &targets), ["--all-targets"]);
    }

    #[test]
    fn without_a_browser_the_step_is_not_run() {
        let failed =
            |output: &str| End::Failed { output: output.to_owned(), findings: Vec::new(), not_run: Vec::new() };
        let end = judge_browser(failed(&format!("Error: {NO_BROWSER} (chromedriver)")), TestOutput::default());
        assert!(matches!(&end, End::NotRun(why) if why.contains("chromium-driver")), "{end:?}");
        let end = judge_browser(failed("the page has changed"), TestOutput::default());
        assert!(matches!(end, End::Failed { .. }), "{end:?}");
    }

    #[test]
    fn unknown_argument_is_a_usage_error() {
        let parse = |argument: &str| Options::parse(&[argument.to_owned()]);
        assert_eq!(parse("--fast").unwrap(), Options { fast: true, verbose: false });
        assert!(parse("--quick").unwrap_err().is_usage());
    }
}
