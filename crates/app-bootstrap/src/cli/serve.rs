//! `app serve`: HTTP, relay, reaper and consumer in one process.

use std::process::ExitCode;

use tokio_util::sync::CancellationToken;

use crate::{error::BootstrapError, settings::Settings, shutdown::cancel_at_signal, wiring::Process};

pub(super) async fn serve(settings: Settings) -> Result<ExitCode, BootstrapError> {
    let cancel = CancellationToken::new();
    cancel_at_signal(cancel.clone())?;
    let mut process = Process::connect(settings, cancel).await?;
    process.run_relay()?;
    process.run_service().await?;
    Ok(process.until_stopped().await)
}
