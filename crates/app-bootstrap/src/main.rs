//! The service's binary: reads the command line, runs the command, prints the chain of causes when it fails.

use std::{error::Error, process::ExitCode};

use app_bootstrap::cli::Cli;
use application_core::ports::causes;
use clap::Parser;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error),
    };
    let code = match runtime.block_on(cli.run()) {
        Ok(code) => code,
        Err(error) => fail(&error),
    };
    // A task that hangs on a stopped server must not hold the process beyond its grace period (case S62).
    runtime.shutdown_background();
    code
}

#[expect(clippy::print_stderr, reason = "the operator reads it")]
fn fail(error: &dyn Error) -> ExitCode {
    for (place, words) in causes(error).iter().enumerate() {
        eprintln!("{} {words}", if place == 0 { "error:" } else { "  because" });
    }
    ExitCode::FAILURE
}
