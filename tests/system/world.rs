//! What every test here starts from: servers, a database and a virtual host of its own, and an environment for processes.

use std::{
    collections::HashSet,
    path::Path,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use application_core::outbox::EventId;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};
use system_tests::{
    AppEnvironment, AppProcess, eventually,
    tally::{Counts, Tally},
    tap::Tap,
    work_load::{LoadError, WorkLoad},
};
use test_support::{
    checker::{DeliveryChecker, DeliveryReport, DuplicateReason},
    servers::{Options, Postgres, RabbitMq, ServerControl, Servers, TestDatabase, private},
    tls::Identity,
};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    task::JoinSet,
};
use uuid::Uuid;

pub(crate) use crate::commands::{Outcome, PATIENCE, run};

/// The portfolio of all work logs.
pub(crate) const PORTFOLIO: Uuid = Uuid::from_u128(0x0f3c_52f6_31a9_4f0b_8a54_7c1d_2f9e_6b01);

/// Processes and servers of more tests than this at once starve each other.
pub(crate) static AT_ONCE: Semaphore = Semaphore::const_new(2);

/// Servers of the system tests alone, which no test may disturb.
pub(crate) fn shared_servers() -> &'static Servers {
    static SHARED: OnceLock<Servers> = OnceLock::new();
    SHARED.get_or_init(|| private(Options::fast()))
}

pub(crate) struct World {
    pub(crate) environment: AppEnvironment,
    tap: Tap,
    database: TestDatabase,
    broker_url: String,
    broker: Option<ServerControl<RabbitMq>>,
    _directory: tempfile::TempDir,
    // Behind what needs them, for fields are dropped in order.
    own_servers: Option<Arc<Servers>>,
    _permit: SemaphorePermit<'static>,
}

impl World {
    /// A database and a virtual host on servers that other tests use too: the test may not disturb them.
    pub(crate) async fn shared(hint: &str) -> Outcome<Self> {
        let permit = AT_ONCE.acquire().await?;
        Self::on(shared_servers(), None, hint, permit).await
    }

    /// Servers of the test's own, which it may stop, kill and pause.
    pub(crate) async fn alone(hint: &str) -> Outcome<Self> {
        let permit = AT_ONCE.acquire().await?;
        let servers = Arc::new(private(Options::new()));
        Self::on(&servers, Some(Arc::clone(&servers)), hint, permit).await
    }

    /// Servers of the test's own that speak TLS with this certificate for `localhost`.
    pub(crate) async fn encrypted(hint: &str, identity: &Identity) -> Outcome<Self> {
        let permit = AT_ONCE.acquire().await?;
        let servers = Arc::new(private(Options::fast().with_tls(identity.clone())));
        Self::on(&servers, Some(Arc::clone(&servers)), hint, permit).await
    }

    /// The environment of processes that verify both servers, by the authorities in this file.
    pub(crate) async fn verifying(&self, authorities: &Path) -> Outcome<AppEnvironment> {
        let servers = self.own_servers.as_ref().ok_or("the shared servers speak no TLS")?;
        let database = servers.postgres().await?.over_tls(self.database.url());
        let broker = servers.rabbitmq().await?.over_tls(&self.broker_url);
        let (Some(database), Some(broker)) = (database, broker) else { return Err("a server speaks no TLS".into()) };
        let authorities = authorities.to_str().ok_or("the file has an odd name")?;
        let environment = self.environment.clone();
        Ok(environment
            .with("DATABASE_URL", &database)
            .with("APP__DATABASE__TLS__MODE", "verify-full")
            .with("APP__DATABASE__TLS__CA_FILE", authorities)
            .with("AMQP_URL", &broker)
            .with("APP__OUTBOUND__AMQP__CA_FILE", authorities)
            .with("APP__CONSUMER__CA_CERTIFICATES", authorities))
    }

    async fn on(
        servers: &Servers,
        own_servers: Option<Arc<Servers>>,
        hint: &str,
        permit: SemaphorePermit<'static>,
    ) -> Outcome<Self> {
        servers.start().await?;
        let directory = tempfile::tempdir()?;
        let path = directory.path().to_owned();
        let migrate = async |url: String| match AppEnvironment::new(&path, &url, None).run(&["migrate"]).await {
            Ok((status, _)) if status.success() => Ok(()),
            Ok((_, output)) => Err(output),
            Err(error) => Err(error.to_string()),
        };
        let database = servers.database(hint, "app-migrate", migrate).await?;
        let vhost = servers.vhost(hint).await?;
        let tap = Tap::open(vhost.url(), "system.tap").await?;
        let environment = AppEnvironment::new(directory.path(), database.url(), Some(vhost.url()))
            .with_topology()
            .with("APP__OUTBOX__RELAY__LEASE", "5s")
            .with("APP__OUTBOX__REAPER__EVERY", "1s")
            .with("APP__OUTBOX__STATISTICS__EVERY", "1s")
            .with("APP__OUTBOUND__AMQP__CONFIRM_TIMEOUT", "1500ms")
            .with("APP__OUTBOUND__AMQP__RECONNECT_LONGEST_PAUSE", "1s");
        let (broker_url, broker) = (vhost.url().to_owned(), servers.rabbitmq().await?.control().ok());
        Ok(Self { environment, tap, database, broker_url, broker, _directory: directory, own_servers, _permit: permit })
    }

    /// The same with events that wait: nothing is published, nothing is consumed.
    pub(crate) fn environment_without_publisher(&self) -> AppEnvironment {
        let environment = self.environment.clone();
        environment.with("APP__OUTBOUND__PUBLISHER", "disabled").with("APP__CONSUMER__ENABLED", "false")
    }

    /// The database, as its owner.
    pub(crate) fn database_url(&self) -> &str {
        self.database.url()
    }

    /// The virtual host, as a user who may do everything in it.
    pub(crate) fn broker_url(&self) -> &str {
        &self.broker_url
    }

    /// The virtual host, as a new user who may configure, write and read what these patterns match.
    pub(crate) async fn broker_user(&self, name: &str, [configure, write, read]: [&str; 3]) -> Outcome<String> {
        let broker = self.broker.as_ref().ok_or("the broker takes no new user from here")?;
        let mut url = url::Url::parse(&self.broker_url)?;
        let vhost = url.path().trim_start_matches('/').to_owned();
        let user = format!("{name}-{vhost}");
        // One call where three commands would each start an Erlang machine of their own.
        let expression = format!(
            "rabbit_auth_backend_internal:add_user(<<\"{user}\">>, <<\"secret\">>, <<\"test\">>), \
             rabbit_auth_backend_internal:set_permissions(<<\"{user}\">>, <<\"{vhost}\">>, \
             <<\"{configure}\">>, <<\"{write}\">>, <<\"{read}\">>, <<\"test\">>)."
        );
        broker.ctl(&["eval", &expression]).await?;
        if url.set_username(&user).and_then(|()| url.set_password(Some("secret"))).is_err() {
            return Err("the broker's URL takes no user".into());
        }
        Ok(url.into())
    }

    pub(crate) async fn postgres(&self) -> Outcome<ServerControl<Postgres>> {
        let servers = self.own_servers.as_ref().ok_or("shared servers are not disturbed")?;
        Ok(servers.postgres().await?.control()?)
    }

    pub(crate) async fn rabbitmq(&self) -> Outcome<ServerControl<RabbitMq>> {
        let servers = self.own_servers.as_ref().ok_or("shared servers are not disturbed")?;
        Ok(servers.rabbitmq().await?.control()?)
    }

    pub(crate) async fn serve(&self, name: &str) -> Outcome<AppProcess> {
        Ok(self.environment.serve(name).await?)
    }

    /// The database's URL for a user of its own that is a member of these roles, whose rights are those of
    /// `migrations/roles`; it may change the sample's tables if it is a service's.
    pub(crate) async fn url_of_a_member(&self, user: &str, roles: &[&str]) -> Outcome<String> {
        const SCRIPTS: [&str; 2] =
            [include_str!("../../migrations/roles/roles.sql"), include_str!("../../migrations/roles/grants.sql")];
        const PASSWORD: &str = "of-a-test";
        let name = self.database.name();
        let user = format!("{name}_as_{user}");
        let groups: Vec<String> = roles.iter().map(|role| format!("{name}_{role}")).collect();
        let create = format!("CREATE ROLE {user} LOGIN PASSWORD '{PASSWORD}' IN ROLE {}", groups.join(", "));
        let mut statements = vec![format!("SET outbox.role_prefix = '{name}_'")];
        statements.extend(SCRIPTS.map(ToOwned::to_owned));
        statements.push(create);
        if roles.contains(&"appender") {
            let tables = "work_log, work_log_idempotency, portfolio_minutes";
            statements.push(format!("GRANT SELECT, INSERT, UPDATE, DELETE ON {tables} TO {user}"));
        }
        let mut admin = self.database.connect().await?;
        for statement in statements {
            sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut admin).await?;
        }
        let mut url = url::Url::parse(self.database.url())?;
        let named = url.set_username(&user).and_then(|()| url.set_password(Some(PASSWORD)));
        named.map_err(|()| format!("{name} has a URL without a host"))?;
        Ok(url.into())
    }

    pub(crate) async fn tally(&self) -> Outcome<Tally> {
        Ok(Tally::connect(self.database.url()).await?)
    }

    pub(crate) async fn counts(&self) -> Outcome<Counts> {
        Ok(self.tally().await?.counts().await?)
    }

    /// The number that a query of this test answers.
    pub(crate) async fn number(&self, query: &'static str) -> Outcome<i64> {
        let mut connection = PgConnection::connect(self.database.url()).await?;
        Ok(sqlx::query(AssertSqlSafe(query)).fetch_one(&mut connection).await?.try_get(0)?)
    }

    /// The text that a query of this test answers.
    pub(crate) async fn text(&self, query: &'static str) -> Outcome<String> {
        let mut connection = PgConnection::connect(self.database.url()).await?;
        Ok(sqlx::query(AssertSqlSafe(query)).fetch_one(&mut connection).await?.try_get(0)?)
    }

    /// Runs a statement of this test.
    pub(crate) async fn execute(&self, statement: &'static str) -> Outcome {
        self.execute_text(statement).await
    }

    /// Runs a statement that this test has put together.
    pub(crate) async fn execute_text(&self, statement: &str) -> Outcome {
        let statement = statement.to_owned();
        let mut connection = PgConnection::connect(self.database.url()).await?;
        sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut connection).await?;
        Ok(())
    }

    /// Waits until this many events were delivered, each counted once.
    pub(crate) async fn until_delivered(&self, count: usize) -> Outcome {
        let delivered = || async {
            let events: HashSet<Uuid> = self.tap.seen().iter().map(|seen| seen.event).collect();
            (events.len() >= count).then_some(())
        };
        Ok(eventually("every event delivered", PATIENCE, delivered).await?)
    }

    /// Waits until the counts are as wanted; a database that does not answer meanwhile is waited for.
    pub(crate) async fn until(&self, what: &str, wanted: impl Fn(&Counts) -> bool) -> Outcome<Counts> {
        let look = || async { self.counts().await.ok().filter(&wanted) };
        match eventually(what, PATIENCE, look).await {
            Ok(counts) => Ok(counts),
            Err(late) => Err(format!("{late}; the last counts were {:?}", self.counts().await).into()),
        }
    }

    /// Waits until this many more events are published than now: the relays work.
    pub(crate) async fn until_published_more(&self, more: i64) -> Outcome {
        let before = eventually("an answer of the database", PATIENCE, || async { self.counts().await.ok() }).await?;
        self.until("progress of the relays", |counts| counts.published >= before.published + more).await.map(drop)
    }

    /// Waits until every event was published, delivered and applied, and no lane or claim is left.
    pub(crate) async fn until_settled(&self) -> Outcome<Counts> {
        let everything = "every event published and applied";
        let settled = |counts: &Counts| counts.published == counts.events && counts.applied == counts.events;
        let counts = self.until(everything, settled).await?;
        let delivered = || async { (i64::try_from(self.tap.count()).ok()? >= counts.events).then_some(()) };
        eventually("every event delivered", PATIENCE, delivered).await?;
        let leftovers = || async { self.tally().await.ok()?.leftovers().await.ok().filter(|left| *left == (0, 0)) };
        eventually("no lane and no claim", PATIENCE, leftovers).await?;
        Ok(counts)
    }

    /// What the checker finds, with duplicates allowed for this reason alone.
    pub(crate) async fn report(&self, duplicates: Option<DuplicateReason>) -> Outcome<DeliveryReport> {
        let checker = DeliveryChecker::new();
        checker.watch_effects();
        if let Some(reason) = duplicates {
            checker.allow_duplicates(reason);
        }
        self.examine(checker).await
    }

    /// What a checker finds in everything that was delivered so far.
    pub(crate) async fn examine(&self, checker: DeliveryChecker) -> Outcome<DeliveryReport> {
        for seen in self.tap.seen() {
            checker.delivered(EventId::new(seen.event));
        }
        self.tally().await?.tell(&checker).await?;
        Ok(checker.report())
    }
}

/// Clients side by side.
const CLIENTS: usize = 4;

/// Clients that create work logs one after the other, against these processes, until they are stopped.
pub(crate) fn load(processes: &[&AppProcess]) -> Load {
    let clients = WorkLoad::new(urls(processes), PATIENCE);
    let (stop, created) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = JoinSet::new();
    for _ in 0..CLIENTS {
        let (clients, stop, created) = (clients.clone(), Arc::clone(&stop), Arc::clone(&created));
        tasks.spawn(async move {
            let mut completed = 0;
            while !stop.load(Ordering::Relaxed) {
                let key = format!("load-{}", created.fetch_add(1, Ordering::Relaxed));
                clients.complete_one(PORTFOLIO, &key, 15).await?;
                completed += 1;
                // Paced, so that a test of a minute does not leave a hundred thousand events to check.
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Ok(completed)
        });
    }
    Load { clients, stop, tasks }
}

fn urls(processes: &[&AppProcess]) -> Vec<String> {
    processes.iter().map(|process| process.url("")).collect()
}

/// Clients at work; dropping it stops them where they are.
pub(crate) struct Load {
    clients: WorkLoad,
    stop: Arc<AtomicBool>,
    tasks: JoinSet<Result<usize, LoadError>>,
}

impl Load {
    /// Lets the clients turn to other processes.
    pub(crate) fn turn_to(&self, processes: &[&AppProcess]) {
        self.clients.turn_to(urls(processes));
    }

    /// Lets every client finish the work log it is at; returns how many work logs there are.
    pub(crate) async fn finish(mut self) -> Outcome<i64> {
        self.stop.store(true, Ordering::Relaxed);
        let mut completed = 0;
        while let Some(task) = self.tasks.join_next().await {
            completed += task??;
        }
        Ok(i64::try_from(completed)?)
    }
}

/// Completes one work log, which has three events.
pub(crate) async fn complete_one(process: &AppProcess, key: &str) -> Outcome<Uuid> {
    Ok(WorkLoad::new(urls(&[process]), PATIENCE).complete_one(PORTFOLIO, key, 25).await?)
}

/// Words as a shell splits them, as far as the documents go: blanks, and single quotes around them.
pub(crate) fn words(line: &str) -> Vec<&str> {
    let parts = line.split('\'').enumerate();
    parts.flat_map(|(n, part)| if n % 2 == 1 { vec![part] } else { part.split_whitespace().collect() }).collect()
}

/// Reads a page of the operations HTTP.
pub(crate) async fn read(process: &AppProcess, path: &str) -> Outcome<(u16, String)> {
    let client = reqwest::Client::builder().timeout(Duration::from_secs(10)).build()?;
    let answer = client.get(process.operations_url(path)).send().await?;
    Ok((answer.status().as_u16(), answer.text().await?))
}

/// The sum of a counter over all its labels.
pub(crate) async fn counter(process: &AppProcess, name: &str) -> Outcome<f64> {
    let (_, page) = read(process, "/metrics").await?;
    let lines = page.lines().filter(|line| line.starts_with(name));
    Ok(lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
}
