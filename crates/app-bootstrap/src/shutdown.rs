//! Stopping: the first signal drains, the second ends the process at once.

use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// The exit code after a second signal, or when draining took longer than the grace period.
pub const EXIT_NOT_DRAINED: u8 = 70;

/// Signals cannot be listened to.
#[derive(Debug, thiserror::Error)]
#[error("signals cannot be listened to")]
pub struct SignalError(#[source] std::io::Error);

/// Cancels `cancel` at SIGTERM or SIGINT. A second signal exits at once (case S62).
///
/// # Errors
/// [`SignalError`].
pub fn cancel_at_signal(cancel: CancellationToken) -> Result<(), SignalError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(SignalError)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(SignalError)?;
    tokio::spawn(async move {
        either(&mut terminate, &mut interrupt).await;
        tracing::info!("stopping: what is in flight is finished, a second signal exits at once");
        cancel.cancel();
        either(&mut terminate, &mut interrupt).await;
        tracing::warn!("stopped by a second signal");
        std::process::exit(i32::from(EXIT_NOT_DRAINED));
    });
    Ok(())
}

async fn either(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// Waits for all tasks after `cancel`, at most the grace period. `false`: some did not end.
pub async fn drain(tasks: &TaskTracker, cancel: &CancellationToken, grace: Duration) -> bool {
    tasks.close();
    tokio::select! {
        () = tasks.wait() => return true,
        () = cancel.cancelled() => {}
    }
    let drained = tokio::time::timeout(grace, tasks.wait()).await.is_ok();
    if !drained {
        tracing::error!(grace_ms = grace.as_millis(), "not everything ended within the grace period");
    }
    drained
}
