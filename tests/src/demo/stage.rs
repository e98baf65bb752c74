//! What the demo works with: a database and names on the broker of its own, wherever the servers come from.

use std::path::PathBuf;

use application_core::outbox::EventId;
use test_support::{
    checker::{DeliveryChecker, DeliveryReport, DuplicateReason},
    servers::{BrokerNames, Servers, ServersError, TestDatabase, Way},
};

use super::{
    DemoError, LEASE,
    deliveries::{Deliveries, Lines},
    say,
};
use crate::{AppEnvironment, AppProcess, ProcessError, tally::Tally, tap::Tap};

/// Servers, a place of the demo's own on each, and the environment of the processes.
pub(super) struct Stage {
    environment: AppEnvironment,
    lines: PathBuf,
    broker: Option<Broker>,
    database: TestDatabase,
    // Behind what needs them, for fields are dropped in order.
    _directory: tempfile::TempDir,
    servers: Servers,
}

/// The demo's own names on the broker.
struct Broker {
    names: BrokerNames,
    exchange: String,
    tap: String,
}

/// Obtains the servers; whether there is a broker among them.
pub(super) async fn obtain(servers: &Servers) -> Result<bool, ServersError> {
    let (postgres, rabbitmq) = tokio::join!(servers.postgres(), servers.rabbitmq());
    postgres?;
    match rabbitmq {
        Ok(_) => Ok(true),
        Err(error) if error.is_unavailable() => {
            say("no RabbitMQ can be had: events go to standard output instead, and nothing is consumed");
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

impl Stage {
    /// Makes a place of the demo's own on servers that were obtained.
    ///
    /// # Cancellation
    /// Await the end: a database that is being created might stay behind.
    pub(super) async fn set(servers: Servers, with_broker: bool) -> Result<Self, DemoError> {
        let directory = tempfile::tempdir()?;
        let lines = directory.path().join("events.jsonl");
        let names = if with_broker { Some(servers.broker_names("demo").await?) } else { None };
        let database = servers.empty_database("demo").await?;
        let environment = AppEnvironment::new(directory.path(), database.url(), names.as_ref().map(BrokerNames::url))
            .with("APP__OUTBOX__RELAY__LEASE", LEASE)
            .with("APP__OUTBOUND__AMQP__CONFIRM_TIMEOUT", "2s")
            .with("APP__OUTBOX__REAPER__EVERY", "1s");
        let (environment, broker) = match names {
            Some(mut names) => {
                let (exchange, queue) = (names.exchange("events"), names.queue("work"));
                let environment = environment.with_topology_named(&exchange, &queue, &names.queue("parking"));
                (environment, Some(Broker { tap: names.queue("tap"), exchange, names }))
            }
            None => (environment.with_stdout_to(&lines), None),
        };
        let stage = Self { environment, lines, broker, database, _directory: directory, servers };
        stage.say_what_is_used().await?;
        Ok(stage)
    }

    async fn say_what_is_used(&self) -> Result<(), ServersError> {
        if self.servers.postgres().await?.way() == Way::Url {
            say(&format!("on your PostgreSQL it works in a database of its own, {}", self.database.name()));
        }
        if let Some(Broker { names, .. }) = &self.broker
            && self.servers.rabbitmq().await?.way() == Way::Url
        {
            say(&format!("on your RabbitMQ it uses an exchange and queues of its own, {}.*", names.prefix()));
        }
        Ok(())
    }

    /// Removes what was made on the servers, and servers that were started; whoever used them must be gone.
    ///
    /// # Errors
    /// When something may be left on a server that stays.
    pub(super) fn clear(self) -> Result<(), ServersError> {
        let Self { broker, database, .. } = self;
        let names = broker.map_or(Ok(()), |broker| broker.names.remove());
        database.remove().and(names)
    }

    pub(super) async fn migrate(&self) -> Result<(), DemoError> {
        let (status, output) = self.environment.run(&["migrate"]).await?;
        if !status.success() {
            return Err(DemoError::Command { command: "migrate", output });
        }
        let applied = output.lines().filter(|line| line.starts_with("applied ")).count();
        say(&format!("applied {applied} migrations"));
        Ok(())
    }

    /// Begins to see what is published.
    pub(super) async fn deliveries(&self) -> Result<Deliveries, DemoError> {
        let Some(Broker { names, exchange, tap }) = &self.broker else {
            return Ok(Deliveries::Lines(Lines::of(self.lines.clone())));
        };
        let opened = Tap::open_on(names.url(), exchange, tap).await;
        let refused = |source| DemoError::Broker { prefix: names.prefix().to_owned(), source };
        opened.map(Deliveries::Tap).map_err(refused)
    }

    /// Starts a process, under whose name its events arrive.
    pub(super) async fn serve(&self, name: &str) -> Result<AppProcess, ProcessError> {
        self.environment.clone().with("APP__OUTBOUND__AMQP__APP_ID", name).serve(name).await
    }

    pub(super) async fn tally(&self) -> Result<Tally, sqlx::Error> {
        Tally::connect(self.database.url()).await
    }

    /// What became of every event.
    pub(super) async fn report(&self, deliveries: &Deliveries) -> Result<DeliveryReport, DemoError> {
        let checker = DeliveryChecker::new();
        checker.allow_duplicates(DuplicateReason::RelayKilled);
        if deliveries.are_consumed() {
            checker.watch_effects();
        }
        for arrival in deliveries.after(0) {
            checker.delivered(EventId::new(arrival.event));
        }
        self.tally().await?.tell(&checker).await?;
        Ok(checker.report())
    }
}
