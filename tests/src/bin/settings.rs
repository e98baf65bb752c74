//! Writes what the types say into the page of settings, or compares with `--check`; run from the workspace's root.

use std::{fs, process::ExitCode};

use application_core::ports::with_causes;
use system_tests::settings_page::{PAGE, PageError, facts, problems, rewritten};

#[expect(clippy::print_stderr, reason = "a program that tells its reader")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let only_check = match arguments.as_slice() {
        [] => false,
        [flag] if flag == "--check" => true,
        _ => {
            eprintln!("settings: takes no argument but --check");
            return ExitCode::from(64);
        }
    };
    match run(only_check) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("settings: {}", with_causes(&error));
            ExitCode::FAILURE
        }
    }
}

/// Gives the number of problems.
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that tells its reader")]
fn run(only_check: bool) -> Result<usize, PageError> {
    let facts = facts()?;
    let mut page = fs::read_to_string(PAGE).map_err(PageError::File)?;
    if !only_check {
        page = rewritten(&page, &facts);
        fs::write(PAGE, &page).map_err(PageError::File)?;
    }
    let found = problems(&page, &facts);
    for problem in &found {
        eprintln!("  problem: {problem}");
    }
    println!("settings: {} keys; {} problems", facts.len(), found.len());
    Ok(found.len())
}
