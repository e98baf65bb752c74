//! PostgreSQL and RabbitMQ for tests, for the demo and for development: the one place that provisions them.
//!
//! Each server is obtained by the first [`Way`] that works:
//!
//! 1. `DATABASE_URL` or `AMQP_URL` names one;
//! 2. a Docker engine runs: a container on a fixed port;
//! 3. server binaries are installed: a throwaway process in a private directory, under an unprivileged user if we are
//!    root;
//! 4. on Debian and Ubuntu they are installed by apt-get, as root or after a yes at the terminal, then as 3.
//!
//! A server that merely happens to run is never used. On one that was given, each caller works in a
//! [database](Servers::empty_database) and under [names](Servers::broker_names) of its own, and removes them.
//!
//! Environment variables, besides the URLs: `TEST_SERVERS` (`url`, `docker`, `installed` or `install`) allows one way
//! only; `TEST_POSTGRES_IMAGE` and `TEST_RABBITMQ_IMAGE` name other images; `KEEP_DB=1` keeps the databases of tests;
//! `TEST_SERVERS_CONTROL` is set by `test-servers run` for its command.
//!
//! [`PgBouncer`] can be put before PostgreSQL: `test-servers run --pgbouncer` sets `PGBOUNCER_URL` for its command.
//!
//! Nothing stays behind: a supervisor, which is a small shell script, stops each server and removes its files when this
//! process ends, be it by SIGKILL. `kill_of_the_owner_removes_servers_and_directories` in `tests/servers.rs` shows it.
//!
//! # Which servers a test takes
//!
//! * [`shared`]: one set per process, or per run of `test-servers run -- cargo test`, made as far as it is asked for. A
//!   test gets a [database](Servers::database) and a [virtual host](Servers::vhost) of its own in it.
//! * [`private`]: a set of its own, for a test that stops or pauses a server through [`ServerControl`], or whose servers
//!   speak TLS ([`Options::with_tls`]).
//!
//! # Adding a server of another kind
//!
//! 1. Implement `Program` and `Kind` for it in a file of its own, after the example of `postgres.rs`.
//! 2. Add a cell and a method to [`Servers`], and its package to `install.rs`.
//! 3. Add it to `test-servers` and to the tests in `tests/servers.rs`.

mod account;
mod broker_names;
pub mod cli;
mod control;
mod control_file;
mod database;
mod docker;
pub mod env;
mod error;
mod host;
mod install;
mod options;
mod pgbouncer;
mod postgres;
mod process;
mod provision;
mod rabbitmq;
mod random;
mod ready;
mod removal;
mod server;
mod service;
mod supervisor;
mod vhost;
mod way;

use std::{
    error::Error,
    sync::{Arc, OnceLock},
};

use tokio::sync::OnceCell;

pub use self::{
    broker_names::BrokerNames,
    control::{ServerControl, Stop},
    database::TestDatabase,
    error::{Attempts, ServersError},
    install::require_program,
    options::{Durability, Options},
    pgbouncer::PgBouncer,
    postgres::Postgres,
    rabbitmq::RabbitMq,
    random::free_ports,
    ready::NotReady,
    server::Server,
    service::Service,
    vhost::TestVhost,
    way::Way,
};

type Cell<S> = OnceCell<Result<Server<S>, Arc<ServersError>>>;

/// A set of servers, each of which is obtained when it is first asked for.
///
/// Dropping it stops and removes those that were started for it, and waits until they are gone.
#[derive(Debug)]
pub struct Servers {
    options: Options,
    postgres: Cell<Postgres>,
    rabbitmq: Cell<RabbitMq>,
}

/// The servers that all tests of this process share, without forced writes.
///
/// Under `test-servers run` they are that run's. They end with this process, not before.
pub fn shared() -> &'static Servers {
    static SHARED: OnceLock<Servers> = OnceLock::new();
    SHARED.get_or_init(|| Servers::new(Options::fast()))
}

/// Servers for the caller alone, who may stop and pause them. A server given by its URL is never one of them.
#[must_use]
pub fn private(mut options: Options) -> Servers {
    options.url_allowed = false;
    Servers::new(options)
}

impl Servers {
    /// A set of servers of which none is obtained yet.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self { options, postgres: Cell::new(), rabbitmq: Cell::new() }
    }

    /// Obtains both servers, at the same time.
    ///
    /// # Errors
    /// As [`Servers::postgres`] and [`Servers::rabbitmq`], PostgreSQL's first.
    pub async fn start(&self) -> Result<(), ServersError> {
        let (postgres, rabbitmq) = tokio::join!(self.postgres(), self.rabbitmq());
        postgres?;
        rabbitmq.map(drop)
    }

    /// Lets go of the servers obtained so far: they stay until somebody removes them.
    pub(crate) fn detach(&mut self) -> Result<(), ServersError> {
        if let Some(Ok(server)) = self.postgres.get_mut() {
            server.detach()?;
        }
        if let Some(Ok(server)) = self.rabbitmq.get_mut() {
            server.detach()?;
        }
        Ok(())
    }

    /// The PostgreSQL server, ready for connections.
    ///
    /// # Errors
    /// [`ServersError::NoWay`] with the reason for each way. A failure is remembered: the next call fails at once.
    pub async fn postgres(&self) -> Result<&Server<Postgres>, ServersError> {
        obtained(&self.postgres, &self.options).await
    }

    /// The RabbitMQ server, ready for connections.
    ///
    /// # Errors
    /// As [`Servers::postgres`].
    pub async fn rabbitmq(&self) -> Result<&Server<RabbitMq>, ServersError> {
        obtained(&self.rabbitmq, &self.options).await
    }

    /// A database for one test: a copy of the template that `migrate` prepares, once per server and fingerprint.
    ///
    /// `hint` becomes part of the name. `fingerprint` must change whenever the result of `migrate` does: a hash or the
    /// list of the migrations. `migrate` gets the URL of an empty database.
    ///
    /// # Errors
    /// [`ServersError::Template`] with the error of `migrate`; [`ServersError::Database`]; as [`Servers::postgres`].
    pub async fn database<F, E>(&self, hint: &str, fingerprint: &str, migrate: F) -> Result<TestDatabase, ServersError>
    where
        F: AsyncFnOnce(String) -> Result<(), E>,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let url = self.postgres().await?.url();
        database::create(url, hint, fingerprint, migrate).await
    }

    /// An empty database of the caller's own, also on a server that is somebody's: nothing else there is touched.
    ///
    /// `hint` becomes part of the name.
    ///
    /// # Errors
    /// [`ServersError::MayNotCreate`] with the way out; [`ServersError::Database`]; as [`Servers::postgres`].
    ///
    /// # Cancellation
    /// Dropped while the server creates the database, it may leave it: obtain the server first, then await this to its end.
    pub async fn empty_database(&self, hint: &str) -> Result<TestDatabase, ServersError> {
        database::create_empty(self.postgres().await?.url(), hint).await
    }

    /// Names for exchanges and queues of the caller's own, also on a broker that is somebody's. Nothing is declared yet.
    ///
    /// # Errors
    /// As [`Servers::rabbitmq`].
    pub async fn broker_names(&self, hint: &str) -> Result<BrokerNames, ServersError> {
        BrokerNames::new(self.rabbitmq().await?.url(), hint)
    }

    /// A place on the broker for one test.
    ///
    /// # Errors
    /// [`ServersError::Command`] if it cannot be created; as [`Servers::rabbitmq`].
    pub async fn vhost(&self, hint: &str) -> Result<TestVhost, ServersError> {
        TestVhost::create(self.rabbitmq().await?, hint).await
    }
}

async fn obtained<'a, S: Service>(cell: &'a Cell<S>, options: &Options) -> Result<&'a Server<S>, ServersError> {
    cell.get_or_init(|| async { provision::provision(options).await.map_err(Arc::new) })
        .await
        .as_ref()
        .map_err(|error| ServersError::Earlier(Arc::clone(error)))
}
