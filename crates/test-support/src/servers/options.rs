//! What a set of servers should be like.

use std::{fmt, io::Write, sync::Arc};

use super::way::Way;
use crate::tls::Identity;

/// Whether PostgreSQL forces its writes to the disk.
///
/// Committed data survives a restart or an immediate stop of the server either way, because the operating system goes
/// on; the difference shows in time and in what a fault test may claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// PostgreSQL's defaults.
    Durable,
    /// `fsync` and `full_page_writes` off: for tests that stop no server.
    Fast,
}

/// What a set of servers should be like.
#[derive(Clone)]
pub struct Options {
    pub(crate) durability: Durability,
    pub(crate) postgres_settings: Vec<(String, String)>,
    pub(crate) identity: Option<Identity>,
    pub(crate) way: Option<Way>,
    pub(crate) url_allowed: bool,
    /// The server behind a pooler.
    pub(crate) upstream: Option<String>,
    pub(crate) progress: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Options {
    /// Durable servers, obtained by the first way that works, with progress on standard error.
    #[must_use]
    pub fn new() -> Self {
        Self {
            durability: Durability::Durable,
            postgres_settings: Vec::new(),
            identity: None,
            way: None,
            url_allowed: true,
            upstream: None,
            progress: Arc::new(|step| {
                // Not eprintln!, which a test harness would swallow until the test fails.
                let _unheard = writeln!(std::io::stderr(), "[servers] {step}");
            }),
        }
    }

    /// As [`Options::new`], but without forced writes.
    #[must_use]
    pub fn fast() -> Self {
        Self::new().with_durability(Durability::Fast)
    }

    /// Chooses between speed and forced writes. A server given by its URL is left as it is.
    #[must_use]
    pub fn with_durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Adds a line to PostgreSQL's configuration. A server given by its URL is left as it is.
    #[must_use]
    pub fn with_postgres_setting(mut self, name: &str, value: &str) -> Self {
        self.postgres_settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Lets both servers speak TLS with this certificate: PostgreSQL refuses every connection without, RabbitMQ has a
    /// second port for it. [`Server::over_tls`](super::Server::over_tls) makes the URL for either.
    ///
    /// Only a process has it: a server given by its URL is never one of them, and there is no container of them.
    #[must_use]
    pub fn with_tls(mut self, identity: Identity) -> Self {
        self.identity = Some(identity);
        self.url_allowed = false;
        self
    }

    /// Allows one way only; `TEST_SERVERS` counts less than this.
    #[must_use]
    pub fn with_way(mut self, way: Way) -> Self {
        self.way = Some(way);
        self
    }

    /// Tells somebody else about each step that takes time.
    #[must_use]
    pub fn with_progress(mut self, progress: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.progress = Arc::new(progress);
        self
    }

    pub(crate) fn step(&self, step: &str) {
        tracing::info!(step, "servers");
        (self.progress)(step);
    }

    /// PostgreSQL's settings, the caller's last so that they win.
    pub(crate) fn all_postgres_settings(&self) -> Vec<(&str, &str)> {
        let fast: &[_] = match self.durability {
            Durability::Durable => &[],
            Durability::Fast => &[("fsync", "off"), ("full_page_writes", "off")],
        };
        let own = self.postgres_settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        [("max_connections", "200"), ("timezone", "UTC")].into_iter().chain(fast.iter().copied()).chain(own).collect()
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("durability", &self.durability)
            .field("postgres_settings", &self.postgres_settings)
            .field("identity", &self.identity)
            .field("way", &self.way)
            .finish_non_exhaustive()
    }
}
