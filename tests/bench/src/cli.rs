//! The command line of the program `bench`.

use std::{path::PathBuf, process::ExitCode};

use crate::{BenchError, Plan, benchmarks::BENCHMARKS, run, servers};

const EXPECTED: &str = "--json FILE, --only NAME (may be repeated), --quick, --list";

/// Runs what the arguments ask for. The exit code says whether all benchmarks were sound; a target that is missed is
/// a finding in the table and no failure.
pub async fn main(arguments: Vec<String>) -> ExitCode {
    if arguments.iter().any(|argument| argument == "--list") {
        put(&list());
        return ExitCode::SUCCESS;
    }
    let outcome = match plan(arguments) {
        Ok(plan) => until_stopped(&plan).await,
        Err(error) => Err(error),
    };
    match outcome {
        Ok(sound) => ExitCode::from(u8::from(!sound)),
        Err(error) => {
            crate::runner::say(&format!("error: {}", error.chain()));
            ExitCode::from(if matches!(error, BenchError::Usage(_)) { 64 } else { 1 })
        }
    }
}

async fn until_stopped(plan: &Plan) -> Result<bool, BenchError> {
    // Servers go when their value is dropped, also at Ctrl-C.
    let servers = servers();
    tokio::select! {
        report = run(&servers, plan) => {
            let report = report?;
            put(&report.tables());
            Ok(report.is_sound())
        }
        _ = tokio::signal::ctrl_c() => Ok(false),
    }
}

fn plan(arguments: Vec<String>) -> Result<Plan, BenchError> {
    let mut plan = Plan::default();
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let mut value =
            || arguments.next().ok_or_else(|| BenchError::Usage(format!("`{argument}` needs a value after it")));
        match argument.as_str() {
            "--json" => plan.json = Some(PathBuf::from(value()?)),
            "--only" => plan.only.push(value()?),
            "--quick" => plan.quick = true,
            other => return Err(BenchError::Usage(format!("`{other}` is not known; there are {EXPECTED}"))),
        }
    }
    Ok(plan)
}

fn list() -> String {
    let lines: Vec<_> =
        BENCHMARKS.iter().map(|benchmark| format!("{:<9}{}", benchmark.name, benchmark.about)).collect();
    lines.join("\n")
}

#[expect(clippy::print_stdout, reason = "the tables are what was asked for")]
fn put(text: &str) {
    println!("{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Result<Plan, BenchError> {
        plan(arguments.iter().map(|argument| (*argument).to_owned()).collect())
    }

    #[test]
    fn all_options_are_read_together() {
        let plan = parsed(&["--only", "drain", "--quick", "--json", "a.json", "--only", "noop"]).unwrap();
        assert_eq!(plan.only, ["drain", "noop"]);
        assert!(plan.quick && plan.json == Some("a.json".into()));
    }

    #[test]
    fn what_means_nothing_is_named() {
        for (arguments, named) in [(&["--fast"][..], "`--fast`"), (&["--json"][..], "`--json` needs a value")] {
            let error = parsed(arguments).unwrap_err();
            assert!(matches!(&error, BenchError::Usage(text) if text.contains(named)), "{error}");
        }
    }
}
