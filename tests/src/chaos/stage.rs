//! Servers, schema, topology, tap and processes of one run.

use std::{
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use sqlx::{Connection, PgConnection, Row};
use test_support::servers::{
    Options as ServerOptions, Postgres, RabbitMq, ServerControl, Servers, TestDatabase, private,
};

use super::{error::ChaosError, fleet::Fleet, history::History, options::Options, report::say, topology::Topology};
use crate::{AppEnvironment, eventually, tally::Tally, tap::Tap};

const TAP: &str = "chaos.tap";
/// How long the relays may take to publish something while nothing disturbs them.
const PROGRESS: Duration = Duration::from_mins(2);

/// What a run plays on. Fields are dropped in order: processes before the servers that they use.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) fleet: Fleet,
    pub(crate) tap: Tap,
    pub(crate) topology: Topology,
    pub(crate) postgres: ServerControl<Postgres>,
    pub(crate) rabbitmq: ServerControl<RabbitMq>,
    database: TestDatabase,
    pub(crate) kills: Kills,
    /// Events that waited at the end of the minutes without RabbitMQ.
    pub(crate) waited: AtomicU64,
    _directory: tempfile::TempDir,
    _servers: Servers,
}

/// When a process is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    Any,
    /// While it holds a lease.
    MidFlight,
    /// While it leads and cleans.
    Cleaning,
}

/// Processes killed so far.
#[derive(Debug, Default)]
pub(crate) struct Kills {
    any: AtomicU64,
    mid_flight: AtomicU64,
    cleaning: AtomicU64,
}

/// How many processes were killed, by the moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct KillCounts {
    pub(crate) all: u64,
    pub(crate) mid_flight: u64,
    pub(crate) cleaning: u64,
}

/// Connections and channels at the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub(crate) struct BrokerUse {
    pub(crate) connections: u64,
    pub(crate) channels: u64,
}

impl Stage {
    /// Obtains servers and starts all processes, with `settings` beyond the fleet's own.
    pub(crate) async fn set(options: &Options, settings: &[(&str, &str)]) -> Result<Self, ChaosError> {
        let servers = private(ServerOptions::new().with_progress(say));
        servers.start().await?;
        let directory = tempfile::tempdir()?;
        let logs = match &options.logs {
            Some(folder) => {
                std::fs::create_dir_all(folder)?;
                folder.clone()
            }
            None => directory.path().to_owned(),
        };
        let database = servers.database("chaos", "app-migrate", async |url| migrate(&logs, &url).await).await?;
        let vhost = servers.vhost("chaos").await?;
        let tap = Tap::open(vhost.url(), TAP).await?;
        let topology = Topology::declare(vhost.url(), TAP).await?;
        let fleet = Fleet::launch(&logs, database.url(), vhost.url(), settings).await?;
        say(&format!("{} run: two services and two relays", super::fleet::NAMES.join(", ")));
        Ok(Self {
            fleet,
            tap,
            topology,
            postgres: servers.postgres().await?.control()?,
            rabbitmq: servers.rabbitmq().await?.control()?,
            database,
            kills: Kills::default(),
            waited: AtomicU64::new(0),
            _directory: directory,
            _servers: servers,
        })
    }

    /// A connection past the proxies.
    pub(crate) async fn connect(&self) -> Result<PgConnection, sqlx::Error> {
        PgConnection::connect(self.database.url()).await
    }

    pub(crate) fn database_url(&self) -> &str {
        self.database.url()
    }

    pub(crate) async fn tally(&self) -> Result<Tally, sqlx::Error> {
        Tally::connect(self.database.url()).await
    }

    pub(crate) async fn history(&self) -> Result<History, sqlx::Error> {
        Ok(History(self.connect().await?))
    }

    /// The number that a query answers.
    pub(crate) async fn number(&self, query: &'static str) -> Result<i64, sqlx::Error> {
        sqlx::query(query).fetch_one(&mut self.connect().await?).await?.try_get(0)
    }

    /// Waits until the relays have published this many more deliveries than now.
    pub(crate) async fn until_delivered_more(&self, more: usize) -> Result<(), ChaosError> {
        let before = self.tap.count();
        let grown = || async { (self.tap.count() >= before + more).then_some(()) };
        Ok(eventually("progress of the relays", PROGRESS, grown).await?)
    }

    pub(crate) async fn broker_use(&self) -> Result<BrokerUse, ChaosError> {
        let count = "{length(rabbit_networking:connections()), length(rabbit_channel:list())}.";
        let answer = self.rabbitmq.ctl(&["eval", count]).await?;
        let mut numbers = answer.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok());
        match (numbers.next(), numbers.next()) {
            (Some(connections), Some(channels)) => Ok(BrokerUse { connections, channels }),
            _ => Err(ChaosError::Ctl(answer)),
        }
    }
}

impl Kills {
    pub(crate) fn note(&self, moment: Moment) {
        let count = match moment {
            Moment::Any => &self.any,
            Moment::MidFlight => &self.mid_flight,
            Moment::Cleaning => &self.cleaning,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> KillCounts {
        let [any, mid_flight, cleaning] =
            [&self.any, &self.mid_flight, &self.cleaning].map(|count| count.load(Ordering::Relaxed));
        KillCounts { all: any + mid_flight + cleaning, mid_flight, cleaning }
    }
}

async fn migrate(logs: &Path, url: &str) -> Result<(), ChaosError> {
    let (status, output) = AppEnvironment::new(logs, url, None).run(&["migrate"]).await?;
    if status.success() { Ok(()) } else { Err(ChaosError::Command { command: "migrate", output }) }
}
