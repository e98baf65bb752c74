//! Chaos: faults drawn from a seed, round after round, and a report of what they did to the events.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    system_tests::chaos::main(std::env::args().skip(1).collect()).await
}
