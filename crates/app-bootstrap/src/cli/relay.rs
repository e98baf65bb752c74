//! `app relay`: relay and reaper alone.

use std::process::ExitCode;

use tokio_util::sync::CancellationToken;

use crate::{
    error::BootstrapError,
    settings::Settings,
    shutdown::{EXIT_NOT_DRAINED, cancel_at_signal},
    wiring::Process,
};

pub(super) async fn relay(settings: Settings, until_drained: bool) -> Result<ExitCode, BootstrapError> {
    let cancel = CancellationToken::new();
    cancel_at_signal(cancel.clone())?;
    let Some(mut process) = Process::connect(settings, cancel.clone()).await? else {
        return Ok(ExitCode::from(if until_drained { EXIT_NOT_DRAINED } else { 0 }));
    };
    if until_drained {
        return process.drain().await;
    }
    process.run_relay()?;
    if let Some(started) = cancel.run_until_cancelled(process.run_operations()).await {
        started?;
    }
    Ok(process.until_stopped().await)
}
