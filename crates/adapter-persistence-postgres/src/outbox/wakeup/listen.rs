//! LISTEN on a connection of its own that comes back by itself.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use application_core::ports::{StoreError, with_causes};
use sqlx::{
    Executor,
    postgres::{PgConnectOptions, PgListener, PgPoolOptions},
};
use tokio::task::AbortHandle;

use super::WakeupSettings;
use crate::{Database, error::from_sqlx};

/// The longest that connecting or a sign of life may take, unless the keepalive is shorter.
const LIMIT: Duration = Duration::from_secs(2);

/// Listens for the wake-ups of other processes and calls back for each.
///
/// The connection is asked for a sign of life whenever it was silent for the keepalive, because one that was dropped
/// without a word looks like a quiet one (case P45). Whenever it comes back the callback is called once, for what was
/// missed. Dropping the value ends the task.
pub struct ListenWakeup {
    shared: Arc<Shared>,
    task: AbortHandle,
}

#[derive(Debug, Default)]
struct Shared {
    connections: AtomicU64,
    connected: AtomicBool,
}

impl ListenWakeup {
    /// Starts the task that listens. The callback must be quick and must not block: it is called on the task.
    /// Must be called within a Tokio runtime.
    #[must_use]
    pub fn start(database: &Database, settings: WakeupSettings, on_wake: impl Fn() + Send + Sync + 'static) -> Self {
        let shared = Arc::new(Shared::default());
        let listener = Listener { options: database.direct("listen"), settings, on_wake, shared: Arc::clone(&shared) };
        let task = tokio::spawn(listener.run()).abort_handle();
        Self { shared, task }
    }

    /// How often the connection was lost and made again.
    #[must_use]
    pub fn reconnects(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed).saturating_sub(1)
    }

    /// Whether it is listening now, as far as is known.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.shared.connected.load(Ordering::Relaxed)
    }
}

impl Drop for ListenWakeup {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for ListenWakeup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListenWakeup").field("state", &self.shared).finish_non_exhaustive()
    }
}

struct Listener<F> {
    options: PgConnectOptions,
    settings: WakeupSettings,
    on_wake: F,
    shared: Arc<Shared>,
}

impl<F: Fn() + Send + Sync + 'static> Listener<F> {
    async fn run(self) {
        let (mut pause, mut told) = (self.settings.first_pause, false);
        loop {
            let lost = match self.connect().await {
                Ok(mut listener) => {
                    pause = self.settings.first_pause;
                    self.shared.connections.fetch_add(1, Ordering::Relaxed);
                    self.shared.connected.store(true, Ordering::Relaxed);
                    (self.on_wake)();
                    if std::mem::take(&mut told) {
                        tracing::info!("the listener is connected again");
                    }
                    let lost = self.listen(&mut listener).await;
                    self.shared.connected.store(false, Ordering::Relaxed);
                    lost
                }
                Err(error) => error,
            };
            if std::mem::replace(&mut told, true) {
                tracing::debug!(error = with_causes(&lost), "the listener is still not connected");
            } else {
                tracing::warn!(error = with_causes(&lost), "the listener connects again");
            }
            tokio::time::sleep(pause).await;
            pause = pause.saturating_mul(2).min(self.settings.longest_pause);
        }
    }

    fn limit(&self) -> Duration {
        LIMIT.min(self.settings.keepalive)
    }

    async fn connect(&self) -> Result<PgListener, StoreError> {
        let limit = self.limit().max(Duration::from_secs(1));
        let connected = async {
            // A pool of one: the driver's listener wants it, and a lost connection is given up together with it.
            let pool = PgPoolOptions::new().max_connections(1).connect_with(self.options.clone()).await?;
            let mut listener = PgListener::connect_with(&pool).await?;
            listener.eager_reconnect(false);
            listener.listen(&self.settings.channel).await?;
            Ok(listener)
        };
        match tokio::time::timeout(limit, connected).await {
            Ok(Ok(listener)) => Ok(listener),
            Ok(Err(error)) => Err(from_sqlx(&error, limit)),
            Err(_) => Err(StoreError::Timeout { limit }),
        }
    }

    /// Calls back for each notification until the connection is lost, and says how.
    async fn listen(&self, listener: &mut PgListener) -> StoreError {
        loop {
            match tokio::time::timeout(self.settings.keepalive, listener.try_recv()).await {
                Ok(Ok(Some(_))) => {
                    // One call for all that came together.
                    while listener.next_buffered().is_some() {}
                    (self.on_wake)();
                }
                Ok(Ok(None)) => {
                    return from_sqlx(&sqlx::Error::Io(std::io::ErrorKind::ConnectionAborted.into()), LIMIT);
                }
                Ok(Err(error)) => return from_sqlx(&error, LIMIT),
                Err(_) => {
                    if let Err(error) = self.sign_of_life(listener).await {
                        return error;
                    }
                }
            }
        }
    }

    async fn sign_of_life(&self, listener: &mut PgListener) -> Result<(), StoreError> {
        let limit = self.limit();
        match tokio::time::timeout(limit, listener.execute(sqlx::raw_sql("SELECT 1"))).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(from_sqlx(&error, limit)),
            Err(_) => Err(StoreError::Timeout { limit }),
        }
    }
}
