//! Running commands of the binary to their end.

use std::{error::Error, process::ExitStatus, time::Duration};

use system_tests::AppEnvironment;

pub(crate) type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// How long anything may take before a test gives up; nothing is asserted about time itself.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

/// Runs a command to its end, which must come.
pub(crate) async fn run(environment: &AppEnvironment, arguments: &[&str]) -> Outcome<(ExitStatus, String)> {
    Ok(tokio::time::timeout(PATIENCE, environment.run(arguments)).await??)
}
