//! Servers are provisioned, controlled and removed; run with `TEST_SERVERS=docker` or `installed` for one way only.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::{
    convert::Infallible,
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Output, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use lapin::{
    BasicProperties, Connection, ConnectionProperties,
    options::{BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions},
    types::FieldTable,
};
use sqlx::{Connection as _, PgConnection};
use test_support::servers::{self, Options, ServersError, Stop, Way};
use tokio::time::{Instant, interval, timeout};

const SOON: Duration = Duration::from_secs(30);
/// Long enough for any answer of a server that runs.
const SILENCE: Duration = Duration::from_secs(2);

async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + SOON;
    let mut ticks = interval(Duration::from_millis(50));
    while !holds().await {
        assert!(Instant::now() < deadline, "not within {SOON:?}: {what}");
        ticks.tick().await;
    }
}

async fn scalar<T>(url: &str, query: &'static str) -> T
where
    T: for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres> + Send + Unpin,
{
    let mut connection = PgConnection::connect(url).await.unwrap();
    sqlx::query_scalar(query).fetch_one(&mut connection).await.unwrap()
}

async fn execute(url: &str, statement: &'static str) {
    let mut connection = PgConnection::connect(url).await.unwrap();
    sqlx::raw_sql(statement).execute(&mut connection).await.unwrap();
}

// Databases

#[tokio::test]
async fn databases_of_one_fingerprint_are_copies_of_a_template_that_is_migrated_once() {
    let migrations = AtomicUsize::new(0);
    let create = async || {
        let migrate = async |url: String| {
            migrations.fetch_add(1, Ordering::SeqCst);
            execute(&url, "CREATE TABLE migrated (id int)").await;
            Ok::<_, Infallible>(())
        };
        servers::shared().database("copies", "one table", migrate).await.unwrap()
    };
    let (a, b, c) = tokio::join!(create(), create(), create());
    assert_eq!(migrations.load(Ordering::SeqCst), 1);
    execute(a.url(), "INSERT INTO migrated VALUES (1)").await;
    for untouched in [&b, &c] {
        assert_eq!(scalar::<i64>(untouched.url(), "SELECT count(*) FROM migrated").await, 0);
    }

    let admin = servers::shared().postgres().await.unwrap().url();
    let count = "SELECT count(*) FROM pg_database WHERE datname LIKE 't\\_copies\\_%'";
    assert_eq!(scalar::<i64>(admin, count).await, 3);
    let _in_use = a.connect().await.unwrap();
    drop((a, b, c));
    assert_eq!(scalar::<i64>(admin, count).await, 0);
}

#[tokio::test]
async fn template_whose_migration_failed_is_not_used() {
    let servers = servers::shared();
    let failing = async |url: String| {
        execute(&url, "CREATE TABLE half (id int)").await;
        Err("the second half is missing")
    };
    let error = servers.database("half", "half", failing).await.unwrap_err();
    assert!(matches!(error, ServersError::Template { .. }), "{error:?}");

    let whole = async |url: String| {
        execute(&url, "CREATE TABLE half (id int); CREATE TABLE whole (id int)").await;
        Ok::<_, Infallible>(())
    };
    let database = servers.database("half", "half", whole).await.unwrap();
    assert_eq!(scalar::<i64>(database.url(), "SELECT count(*) FROM whole").await, 0);
}

// Places on a server that may be somebody's

async fn has_queue(url: &str, queue: &str) -> bool {
    let connection = Connection::connect(url, ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    let passive = QueueDeclareOptions { passive: true, ..Default::default() };
    channel.queue_declare(queue.into(), passive, FieldTable::default()).await.is_ok()
}

#[tokio::test]
async fn own_database_and_own_names_are_removed_and_nothing_else_is() {
    let servers = servers::shared();
    let admin = servers.postgres().await.unwrap().url();
    let count = "SELECT count(*) FROM pg_database WHERE datname LIKE 't\\_own\\_%'";
    let (removed, dropped) =
        (servers.empty_database("own").await.unwrap(), servers.empty_database("own").await.unwrap());
    execute(removed.url(), "CREATE TABLE filled (id int)").await;
    assert_eq!(scalar::<i64>(admin, count).await, 2);
    removed.remove().unwrap();
    assert_eq!(scalar::<i64>(admin, count).await, 1);
    drop(dropped);
    assert_eq!(scalar::<i64>(admin, count).await, 0);

    let (mut one, mut other) = (servers.broker_names("own").await.unwrap(), servers.broker_names("own").await.unwrap());
    let (gone, never_declared, kept) = (one.queue("jobs"), one.exchange("events"), other.queue("jobs"));
    let url = other.url().to_owned();
    assert!(gone != kept && never_declared.starts_with(one.prefix()));
    publish(&url, &gone).await;
    publish(&url, &kept).await;
    one.remove().unwrap();
    assert!(!has_queue(&url, &gone).await);
    assert!(has_queue(&url, &kept).await);
    drop(other);
    assert!(!has_queue(&url, &kept).await);
}

// Faults of PostgreSQL

#[tokio::test]
async fn postgres_keeps_its_port_and_what_was_committed_through_every_restart() {
    let servers = servers::private(Options::new());
    let server = servers.postgres().await.unwrap();
    let (url, control) = (server.url(), server.control().unwrap());
    assert_eq!(scalar::<String>(url, "SELECT current_setting('fsync')").await, "on");
    execute(url, "CREATE TABLE kept (id int)").await;

    for stop in [Stop::Graceful, Stop::Immediate] {
        execute(url, "INSERT INTO kept VALUES (1)").await;
        // A client that stays connected must not hold up the stop.
        let _idle = PgConnection::connect(url).await.unwrap();
        control.restart(stop).await.unwrap();
    }
    assert_eq!(scalar::<i64>(url, "SELECT count(*) FROM kept").await, 2);
    let log = control.log().await.unwrap();
    assert!(log.contains("was not properly shut down"), "the immediate stop wrote a checkpoint:\n{log}");

    control.stop_immediate().await.unwrap();
    assert!(!control.is_running().await.unwrap());
    assert!(PgConnection::connect(url).await.is_err());
    control.start().await.unwrap();
    assert_eq!(scalar::<i64>(url, "SELECT count(*) FROM kept").await, 2);
}

#[tokio::test]
async fn paused_postgres_says_nothing_and_goes_on_where_it_was() {
    let servers = servers::private(Options::fast());
    let server = servers.postgres().await.unwrap();
    let control = server.control().unwrap();
    let mut connection = PgConnection::connect(server.url()).await.unwrap();

    control.pause().await.unwrap();
    let mut answer = Box::pin(sqlx::query_scalar::<_, i32>("SELECT 1").fetch_one(&mut connection));
    timeout(SILENCE, &mut answer).await.expect_err("a paused backend has answered");
    timeout(SILENCE, PgConnection::connect(server.url())).await.expect_err("a paused server has answered");

    control.resume().await.unwrap();
    assert_eq!(timeout(SOON, answer).await.unwrap().unwrap(), 1);
}

#[tokio::test]
async fn stopped_backend_keeps_its_lock_until_it_is_resumed() {
    let servers = servers::private(Options::fast());
    let server = servers.postgres().await.unwrap();
    let control = server.control().unwrap();
    let mut owner = PgConnection::connect(server.url()).await.unwrap();
    let pid: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut owner).await.unwrap();
    sqlx::raw_sql("SELECT pg_advisory_lock(1)").execute(&mut owner).await.unwrap();

    control.stop_backend(pid).await.unwrap();
    // Its end is not noticed: the backend that would notice it stands still.
    drop(owner);
    let is_free = async || scalar::<bool>(server.url(), "SELECT pg_try_advisory_lock(1)").await;
    assert!(!is_free().await);
    control.resume_backend(pid).await.unwrap();
    eventually("the lock is free", is_free).await;

    let own = i32::try_from(std::process::id()).unwrap();
    control.stop_backend(own).await.expect_err("a process that is not the server's was stopped");
}

// Faults of RabbitMQ

async fn publish(url: &str, queue: &str) {
    let connection = Connection::connect(url, ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    let durable = QueueDeclareOptions { durable: true, ..Default::default() };
    channel.queue_declare(queue.into(), durable, FieldTable::default()).await.unwrap();
    channel.confirm_select(ConfirmSelectOptions::default()).await.unwrap();
    let persistent = BasicProperties::default().with_delivery_mode(2);
    let confirm = channel
        .basic_publish("".into(), queue.into(), BasicPublishOptions::default(), b"kept", persistent)
        .await
        .unwrap();
    assert!(confirm.await.unwrap().is_ack());
    connection.close(200, "done".into()).await.unwrap();
}

async fn messages(url: &str, queue: &str) -> u32 {
    let connection = Connection::connect(url, ConnectionProperties::default()).await.unwrap();
    let channel = connection.create_channel().await.unwrap();
    let message = channel.basic_get(queue.into(), BasicGetOptions::default()).await.unwrap();
    // Closing the connection puts the message back.
    message.map_or(0, |message| message.message_count + 1)
}

#[tokio::test]
async fn rabbitmq_keeps_its_port_and_confirmed_messages_through_restart_kill_and_pause() {
    let servers = servers::private(Options::fast());
    let control = servers.rabbitmq().await.unwrap().control().unwrap();
    let place = servers.vhost("restarts").await.unwrap();
    assert!(place.is_isolated());
    let queue = place.name("kept");
    publish(place.url(), &queue).await;

    control.restart().await.unwrap();
    publish(place.url(), &queue).await;
    control.kill().await.unwrap();
    assert!(!control.is_running().await.unwrap());
    assert!(Connection::connect(place.url(), ConnectionProperties::default()).await.is_err());
    control.start().await.unwrap();
    assert_eq!(messages(place.url(), &queue).await, 2);

    control.pause().await.unwrap();
    let connecting = Connection::connect(place.url(), ConnectionProperties::default());
    timeout(SILENCE, connecting).await.expect_err("a paused broker has answered");
    control.resume().await.unwrap();
    let listed = control.ctl(&["--quiet", "list_vhosts", "name"]).await.unwrap();
    assert!(listed.lines().any(|name| place.url().ends_with(name)), "{listed}");
    let error = control.ctl(&["no_such_command"]).await.unwrap_err();
    assert!(error.to_string().contains("no_such_command"), "{error}");
}

// The command, and what is left behind

fn test_servers(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_test-servers"));
    command.args(arguments);
    // These tests are about servers of their own, not those of a run that may surround them.
    command.env_remove("DATABASE_URL").env_remove("AMQP_URL").env_remove("TEST_SERVERS_CONTROL");
    command
}

fn text(output: &Output) -> String {
    [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat()
}

/// What a set of servers consists of, according to its control file.
struct Traces {
    directories: Vec<String>,
    containers: Vec<String>,
    ports: Vec<u16>,
}

impl Traces {
    fn of(control: &str) -> Self {
        let control: serde_json::Value = serde_json::from_str(control).unwrap();
        let servers: Vec<_> = control["servers"].as_object().unwrap().values().collect();
        let texts =
            |pointer| servers.iter().filter_map(|server| Some(server.pointer(pointer)?.as_str()?.to_owned())).collect();
        let ports =
            servers.iter().map(|server| url::Url::parse(server["url"].as_str().unwrap()).unwrap().port().unwrap());
        Self {
            directories: texts("/host/process/directory"),
            containers: texts("/host/container/name"),
            ports: ports.collect(),
        }
    }

    /// What is still there.
    fn left(&self) -> Vec<String> {
        let directories = self.directories.iter().filter(|path| Path::new(path).exists()).cloned();
        let ports = self.ports.iter().filter(|port| std::net::TcpStream::connect(("127.0.0.1", **port)).is_ok());
        let containers = self
            .containers
            .iter()
            .filter(|name| Command::new("docker").args(["inspect", name]).output().unwrap().status.success());
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten().filter(|entry| {
            fs::read_link(entry.path().join("cwd"))
                .is_ok_and(|cwd| self.directories.iter().any(|directory| cwd.starts_with(directory)))
        });
        directories
            .chain(ports.map(|port| format!("port {port}")))
            .chain(containers.cloned())
            .chain(processes.map(|entry| format!("process {}", entry.path().display())))
            .collect()
    }

    async fn vanish(&self) {
        assert_eq!(self.ports.len(), 2);
        assert_eq!(self.directories.len() + self.containers.len(), 2);
        eventually("nothing is left", async || self.left().is_empty()).await;
    }
}

/// Starts a run whose command shows the control file and then waits for the end of its input.
fn start_run() -> (Child, Traces, String) {
    let script = "echo \"$TEST_SERVERS_CONTROL\"; cat \"$TEST_SERVERS_CONTROL\"; echo; echo end; exec cat";
    let mut child =
        test_servers(&["run", "--", "sh", "-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let file = lines.next().unwrap();
    let control: String = lines.take_while(|line| line != "end").collect();
    (child, Traces::of(&control), file)
}

#[tokio::test]
async fn kill_of_the_owner_removes_servers_and_directories() {
    let (mut child, traces, control_file) = start_run();
    assert!(!traces.left().is_empty());
    child.kill().unwrap();
    child.wait().unwrap();
    traces.vanish().await;
    eventually("the control file is gone", async || !Path::new(&control_file).exists()).await;
}

#[tokio::test]
async fn paused_servers_are_removed_like_running_ones() {
    let servers = servers::private(Options::fast());
    servers.start().await.unwrap();
    let postgres = servers.postgres().await.unwrap();
    let rabbitmq = servers.rabbitmq().await.unwrap();
    postgres.control().unwrap().pause().await.unwrap();
    rabbitmq.control().unwrap().pause().await.unwrap();
    let ports = [postgres.url(), rabbitmq.url()].map(|url| url::Url::parse(url).unwrap().port().unwrap());
    drop(servers);
    // Dropping waits, so that there is nothing to wait for.
    for port in ports {
        assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err(), "port {port} is in use");
    }
}

#[tokio::test]
async fn terminated_run_ends_its_command_and_its_servers() {
    let (mut child, traces, _file) = start_run();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    eventually("the run has ended", async || child.try_wait().unwrap().is_some()).await;
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
    assert_eq!(traces.left(), Vec::<String>::new());
}

#[tokio::test]
async fn run_hands_on_urls_that_were_given_and_the_exit_status() {
    let servers = servers::shared();
    let (postgres, rabbitmq) = tokio::join!(servers.postgres(), servers.rabbitmq());
    let (postgres, rabbitmq) = (postgres.unwrap(), rabbitmq.unwrap());
    let script = "echo $DATABASE_URL $AMQP_URL; cat \"$TEST_SERVERS_CONTROL\"; exit 7";
    let output = test_servers(&["run", "--", "sh", "-c", script])
        .env("TEST_SERVERS", "url")
        .env("DATABASE_URL", postgres.url())
        .env("AMQP_URL", rabbitmq.url())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(7));
    let said = text(&output);
    assert!(said.starts_with(&format!("{} {}\n", postgres.url(), rabbitmq.url())), "{said}");
    assert_eq!(said.matches("\"host\": null").count(), 2, "a server of the caller's may be controlled:\n{said}");
}

#[tokio::test]
async fn servers_that_are_up_stay_until_they_are_taken_down() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state/servers.json");
    let call = |verb| {
        let state = state.to_str().unwrap();
        test_servers(&[verb, "--state", state]).output().unwrap()
    };
    assert_eq!(call("status").status.code(), Some(1));
    let up = call("up");
    assert!(up.status.success(), "{}", text(&up));
    let traces = Traces::of(&fs::read_to_string(&state).unwrap());
    let again = call("up");
    assert_eq!(up.stdout, again.stdout, "a second `up` started other servers");
    assert_eq!(call("status").status.code(), Some(0));
    let down = call("down");
    assert!(down.status.success(), "{}", text(&down));
    assert_eq!(traces.left(), Vec::<String>::new());
    assert!(!state.exists());
}

#[tokio::test]
async fn private_server_that_cannot_be_had_is_explained_without_advice_to_give_one() {
    let servers = servers::private(Options::new().with_way(Way::Url));
    let said = servers.postgres().await.unwrap_err().to_string();
    assert!(said.contains("apt-get install") && said.contains("Docker engine"), "{said}");
    assert!(!said.contains("DATABASE_URL") && !said.contains("AMQP_URL"), "{said}");
}

#[test]
fn servers_that_cannot_be_had_are_explained() {
    let nothing = test_servers(&["run", "--", "true"])
        .env("TEST_SERVERS", "docker")
        .env("PATH", "/nonexistent")
        .output()
        .unwrap();
    assert_eq!(nothing.status.code(), Some(69));
    let said = text(&nothing);
    for part in ["no `docker` command", "DATABASE_URL", "Docker engine", "apt-get install"] {
        assert!(said.contains(part), "`{part}` is missing:\n{said}");
    }

    let misspelt = test_servers(&["run", "--", "true"]).env("TEST_SERVERS", "dokcer").output().unwrap();
    assert!(!misspelt.status.success());
    assert!(text(&misspelt).contains("`dokcer`"), "{}", text(&misspelt));
    assert_eq!(test_servers(&["fly"]).output().unwrap().status.code(), Some(64));
}
