//! The demo: two service processes, one is killed in mid-flight, and a table of what arrived.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    system_tests::demo::main().await
}
