//! `app serve`: HTTP, relay, reaper and consumer in one process.

use std::process::ExitCode;

use tokio_util::sync::CancellationToken;

use crate::{error::BootstrapError, settings::Settings, shutdown::cancel_at_signal, wiring::Process};

pub(super) async fn serve(settings: Settings) -> Result<ExitCode, BootstrapError> {
    let cancel = CancellationToken::new();
    cancel_at_signal(cancel.clone())?;
    let Some(mut process) = Process::connect(settings, cancel.clone()).await? else {
        return Ok(ExitCode::SUCCESS);
    };
    process.run_relay()?;
    if let Some(started) = cancel.run_until_cancelled(process.run_service()).await {
        started?;
    }
    Ok(process.until_stopped().await)
}
