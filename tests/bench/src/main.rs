//! Benchmarks of the outbox; `cargo xtask bench` builds and runs it.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    benchmarks::cli::main(std::env::args().skip(1).collect()).await
}
