//! Stopping: the first signal drains, the second ends the process at once.

use std::time::Duration;

use application_core::usecases::StopSignal;
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
    at_signal(move || {
        // First the line: a process that has nothing in flight may be gone before a later one.
        tell();
        cancel.cancel();
    })
}

/// What is set at SIGTERM or SIGINT, for work in steps. A second signal exits at once.
///
/// # Errors
/// [`SignalError`].
pub fn stop_at_signal() -> Result<StopSignal, SignalError> {
    let stop = StopSignal::new();
    let told = stop.clone();
    at_signal(move || {
        // First the signal: whoever reads the line relies on it that no further step begins.
        told.set();
        tell();
    })?;
    Ok(stop)
}

fn tell() {
    tracing::info!("stopping: what is in flight is finished, a second signal exits at once");
}

fn at_signal(act: impl FnOnce() + Send + 'static) -> Result<(), SignalError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(SignalError)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(SignalError)?;
    tokio::spawn(async move {
        either(&mut terminate, &mut interrupt).await;
        act();
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
