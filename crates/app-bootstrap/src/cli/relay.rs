//! `app relay`: relay and reaper alone.

use std::process::ExitCode;

use tokio_util::sync::CancellationToken;

use crate::{error::BootstrapError, settings::Settings, shutdown::cancel_at_signal, wiring::Process};

pub(super) async fn relay(settings: Settings, until_drained: bool) -> Result<ExitCode, BootstrapError> {
    let cancel = CancellationToken::new();
    cancel_at_signal(cancel.clone())?;
    let mut process = Process::connect(settings, cancel).await?;
    if until_drained {
        return process.drain().await;
    }
    process.run_relay()?;
    process.run_operations().await?;
    Ok(process.until_stopped().await)
}
