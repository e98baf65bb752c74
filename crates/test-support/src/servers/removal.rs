//! Removing at the end what was made on a server, also where nothing can be awaited.

use std::{future::Future, io, thread, time::Duration};

use tokio::time::timeout;

use super::error::ServersError;

const REMOVAL: Duration = Duration::from_secs(10);

/// Waits for the removal, on a thread of its own: the caller's runtime may be the very thread that drops the value, and
/// the process could end before the first word is sent.
pub(crate) fn finish<F, R>(what: &str, removal: F) -> Result<(), ServersError>
where
    F: FnOnce() -> R + Send + 'static,
    R: Future<Output = Result<(), ServersError>>,
{
    let (action, late) = (what.to_owned(), format!("the end of: {what}"));
    let removing = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(ServersError::io("start a runtime"))?;
        // The timer needs the runtime around it, hence the block.
        let removed = runtime.block_on(async { timeout(REMOVAL, removal()).await });
        removed.map_err(|_elapsed| ServersError::TimedOut { what: late, within: REMOVAL })?
    });
    let panicked = |_panic| Err(ServersError::io(action)(io::Error::other("its thread panicked")));
    removing.join().unwrap_or_else(panicked)
}
