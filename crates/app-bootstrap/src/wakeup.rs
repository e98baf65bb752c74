//! Wake-up inside the process, and on to other processes.

use std::{fmt, sync::Arc};

use application_core::ports::WakeupPort;
use tokio::sync::Notify;

/// Wakes this process's relay, and tells the processes that have a relay of their own.
#[derive(Clone)]
pub struct RelayWakeup {
    local: Arc<Notify>,
    others: Option<Arc<dyn WakeupPort>>,
}

impl RelayWakeup {
    /// Wakes this process alone.
    #[must_use]
    pub fn local() -> Self {
        Self { local: Arc::new(Notify::new()), others: None }
    }

    /// Also wakes other processes.
    #[must_use]
    pub fn with_others(self, others: Arc<dyn WakeupPort>) -> Self {
        Self { others: Some(others), ..self }
    }

    /// Wakes this process's relay because another process says so; it is not told on.
    pub fn wake_local(&self) {
        self.local.notify_one();
    }

    /// Waits for a wake-up; one that came meanwhile counts.
    pub async fn woken(&self) {
        self.local.notified().await;
    }
}

impl WakeupPort for RelayWakeup {
    fn wake(&self) {
        self.wake_local();
        if let Some(others) = &self.others {
            others.wake();
        }
    }
}

impl fmt::Debug for RelayWakeup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayWakeup").field("others", &self.others.is_some()).finish_non_exhaustive()
    }
}
