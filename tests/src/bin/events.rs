//! Writes the documents of the integration events, or compares them with `--check`; run from the workspace's root.

use std::{path::Path, process::ExitCode};

use application_core::ports::with_causes;
use system_tests::event_documents::{DocumentError, FOLDER, compare, write};

#[expect(clippy::print_stderr, reason = "a program that tells its reader")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let only_check = match arguments.as_slice() {
        [] => false,
        [flag] if flag == "--check" => true,
        _ => {
            eprintln!("events: takes no argument but --check");
            return ExitCode::from(64);
        }
    };
    match run(only_check) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("events: {}", with_causes(&error));
            ExitCode::FAILURE
        }
    }
}

/// Gives the number of problems.
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that tells its reader")]
fn run(only_check: bool) -> Result<usize, DocumentError> {
    let folder = Path::new(FOLDER);
    let findings = compare(folder, &app_bootstrap::contexts::event_contracts())?;
    for problem in &findings.broken {
        eprintln!("  problem: {problem}");
    }
    let stale: Vec<&str> = findings.stale.keys().map(String::as_str).collect();
    let mut problems = findings.broken.len();
    if only_check {
        problems += stale.len();
        for name in &stale {
            eprintln!("  problem: {FOLDER}/{name} is not what the types say: run `cargo xtask events`");
        }
    } else if problems > 0 {
        eprintln!("events: nothing is written");
    } else {
        write(folder, &findings)?;
        println!("events: wrote {} files: {}", stale.len(), stale.join(", "));
    }
    println!("events: {} versions of events; {problems} problems", findings.looked_at);
    Ok(problems)
}
