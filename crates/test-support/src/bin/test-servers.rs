//! Servers for a command, or until they are taken down again. `test-servers help` says more.

use std::process::ExitCode;

use test_support::servers::cli;

#[tokio::main]
async fn main() -> ExitCode {
    cli::run(std::env::args().skip(1).collect()).await
}
