//! Writes the documents of the integration events, or compares them with `--check`; run from the workspace's root.

use std::{error::Error, path::Path, process::ExitCode};

use system_tests::event_documents::{FOLDER, compare, write};

#[expect(clippy::print_stdout, clippy::print_stderr, reason = "a program that tells its reader")]
fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let only_check = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => false,
        ["--check"] => true,
        _ => return Err("events takes no argument but --check".into()),
    };
    let folder = Path::new(FOLDER);
    let findings = compare(folder, &app_bootstrap::contexts::event_contracts())?;
    for problem in &findings.broken {
        eprintln!("  problem: {problem}");
    }
    let stale: Vec<&str> = findings.stale.keys().map(String::as_str).collect();
    if only_check {
        for name in &stale {
            eprintln!("  problem: {FOLDER}/{name} is not what the types say: run `cargo xtask events`");
        }
    } else if findings.broken.is_empty() {
        write(folder, &findings)?;
        println!("events: wrote {} files: {}", stale.len(), stale.join(", "));
    } else {
        eprintln!("events: nothing is written");
    }
    let problems = findings.broken.len() + if only_check { stale.len() } else { 0 };
    println!("events: {} versions of events; {problems} problems", findings.looked_at);
    Ok(if problems == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
