//! NOTIFY after commits, debounced, on a connection of its own.
//!
//! Inside the append transaction a NOTIFY would hold a global lock through the commit's flush and make appends several
//! times slower under load (case P43).

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use application_core::ports::{StoreError, WakeupPort, with_causes};
use sqlx::{PgConnection, postgres::PgConnectOptions};
use tokio::{sync::Notify, task::AbortHandle};

use super::WakeupSettings;
use crate::{Database, connection::open, error::from_sqlx};

/// The longest that connecting or one NOTIFY may take.
const LIMIT: Duration = Duration::from_secs(2);

/// Wakes the relays of other processes: any number of calls become at most one NOTIFY per interval.
///
/// Its task ends when the last clone is dropped.
#[derive(Clone)]
pub struct NotifyWakeup {
    shared: Arc<Shared>,
}

struct Shared {
    asked: Arc<Notify>,
    sent: Arc<AtomicU64>,
    task: AbortHandle,
}

impl NotifyWakeup {
    /// Starts the task that sends; it connects when it is first asked. Must be called within a Tokio runtime.
    #[must_use]
    pub fn start(database: &Database, settings: WakeupSettings) -> Self {
        let (asked, sent) = (Arc::new(Notify::new()), Arc::new(AtomicU64::new(0)));
        let sender =
            Sender { options: database.direct("notify"), settings, asked: Arc::clone(&asked), sent: Arc::clone(&sent) };
        let task = tokio::spawn(sender.run()).abort_handle();
        Self { shared: Arc::new(Shared { asked, sent, task }) }
    }

    /// NOTIFYs sent so far.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::Relaxed)
    }
}

impl WakeupPort for NotifyWakeup {
    fn wake(&self) {
        // Holds one permit at most: what is asked for while a NOTIFY is under way or paused becomes one more.
        self.shared.asked.notify_one();
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for NotifyWakeup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NotifyWakeup").field("sent", &self.sent()).finish_non_exhaustive()
    }
}

struct Sender {
    options: PgConnectOptions,
    settings: WakeupSettings,
    asked: Arc<Notify>,
    sent: Arc<AtomicU64>,
}

impl Sender {
    async fn run(self) {
        let mut connection = None;
        let (mut pause, mut told) = (self.settings.first_pause, false);
        loop {
            self.asked.notified().await;
            match self.send(&mut connection).await {
                Ok(()) => {
                    self.sent.fetch_add(1, Ordering::Relaxed);
                    pause = self.settings.first_pause;
                    if std::mem::take(&mut told) {
                        tracing::info!("other processes are woken again");
                    }
                    tokio::time::sleep(self.settings.notify_interval).await;
                }
                Err(error) => {
                    if std::mem::replace(&mut told, true) {
                        tracing::debug!(error = with_causes(&error), "other processes still cannot be woken");
                    } else {
                        tracing::warn!(error = with_causes(&error), "other processes could not be woken");
                    }
                    // They poll meanwhile; the wake-up is still owed.
                    connection = None;
                    self.asked.notify_one();
                    tokio::time::sleep(pause).await;
                    pause = pause.saturating_mul(2).min(self.settings.longest_pause);
                }
            }
        }
    }

    async fn send(&self, connection: &mut Option<PgConnection>) -> Result<(), StoreError> {
        let mut open_connection = match connection.take() {
            Some(open_connection) => open_connection,
            None => open(&self.options, LIMIT).await?,
        };
        let notify = sqlx::query("SELECT pg_notify($1, '')").persistent(false).bind(&self.settings.channel);
        match tokio::time::timeout(LIMIT, notify.execute(&mut open_connection)).await {
            Ok(Ok(_)) => {
                *connection = Some(open_connection);
                Ok(())
            }
            Ok(Err(error)) => Err(from_sqlx(&error, LIMIT)),
            Err(_) => Err(StoreError::Timeout { limit: LIMIT }),
        }
    }
}
