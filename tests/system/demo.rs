//! The demo on servers that are given by their URLs: what it shows, and that it leaves nothing there.

use std::{error::Error, process::Stdio, time::Duration};

use rustix::process::{Pid, Signal, kill_process};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use test_support::servers::{RabbitMq, ServerControl, TestVhost};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
    time::timeout,
};

use crate::world::{AT_ONCE, Outcome, shared_servers};

/// How long a demo may take on a slow machine.
const PATIENCE: Duration = Duration::from_mins(6);
/// How every line begins that shows what has arrived of a work log.
const ARRIVED: &str = "[demo]   work log ";
/// What the names of the demo's queues and exchanges begin with.
const NAMES: &str = "t_demo_";

/// Servers that somebody gives: a user who is no superuser, and a virtual host.
struct Given {
    user: String,
    admin_url: String,
    database_url: String,
    vhost: TestVhost,
    broker: ServerControl<RabbitMq>,
}

impl Given {
    async fn to(test: &str, right: &str) -> Outcome<Self> {
        let servers = shared_servers();
        servers.start().await?;
        let vhost = servers.vhost(test).await?;
        let broker = servers.rabbitmq().await?.control()?;
        let admin_url = servers.postgres().await?.url().to_owned();
        let user = format!("giver_of_{test}");
        let mut admin = PgConnection::connect(&admin_url).await?;
        let statement = format!("CREATE ROLE {user} LOGIN PASSWORD 'of-a-test' {right}");
        sqlx::raw_sql(AssertSqlSafe(statement)).execute(&mut admin).await?;
        let mut url = url::Url::parse(&admin_url)?;
        let named = url.set_username(&user).and_then(|()| url.set_password(Some("of-a-test")));
        named.map_err(|()| "the URL takes no user")?;
        Ok(Self { user, admin_url, database_url: url.into(), vhost, broker })
    }

    fn demo(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_demo"));
        command
            .env("TEST_SERVERS", "url")
            .env("DATABASE_URL", &self.database_url)
            .env("AMQP_URL", self.vhost.url())
            .env_remove("TEST_SERVERS_CONTROL")
            .env_remove("KEEP_DB")
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// The databases, queues and exchanges of the demo that are there now.
    async fn traces(&self) -> Outcome<(Vec<String>, Vec<String>, Vec<String>)> {
        let mut admin = PgConnection::connect(&self.admin_url).await?;
        let databases = "SELECT datname::text FROM pg_database WHERE pg_get_userbyid(datdba) = $1";
        let databases = sqlx::query_scalar(databases).bind(self.user.as_str()).fetch_all(&mut admin).await?;
        let vhost = url::Url::parse(self.vhost.url())?.path().trim_start_matches('/').to_owned();
        let list = async |what: &str| -> Outcome<Vec<String>> {
            let listed = self.broker.ctl(&["--quiet", what, "-p", &vhost, "name"]).await?;
            Ok(listed.lines().filter(|name| name.starts_with(NAMES)).map(ToOwned::to_owned).collect())
        };
        Ok((databases, list("list_queues").await?, list("list_exchanges").await?))
    }

    async fn assert_nothing_is_left(&self, output: &str) -> Outcome {
        assert_eq!(self.traces().await?, (Vec::new(), Vec::new(), Vec::new()), "{output}");
        Ok(())
    }
}

/// Runs it to its end; its exit code and what it has said.
async fn output_of(mut command: Command) -> Outcome<(Option<i32>, String)> {
    let output = timeout(PATIENCE, command.output()).await??;
    let text = [output.stdout, output.stderr].concat();
    Ok((output.status.code(), String::from_utf8_lossy(&text).into_owned()))
}

/// The steps and sequences of a line that shows a work log, without those that came again.
fn steps(line: &str) -> Option<Vec<(&str, i64)>> {
    let (_name, steps) = line.strip_prefix(ARRIVED)?.split_once(": ")?;
    let first = steps.split(" → ").filter(|step| !step.contains("again"));
    first.map(|step| step.split_once(" #").and_then(|(kind, rest)| Some((kind, number(rest)?)))).collect()
}

fn number(text: &str) -> Option<i64> {
    text.split(' ').next()?.parse().ok()
}

/// Some work logs are shown event by event, each in order and one at least to its end; the others are not.
fn assert_shows_arrivals_in_order(output: &str) {
    let shown: Vec<&str> = output.lines().filter(|line| line.starts_with(ARRIVED)).collect();
    assert!((15..=100).contains(&shown.len()), "{} lines show arrivals:\n{output}", shown.len());
    let mut complete = 0;
    for line in shown {
        let steps = steps(line).unwrap_or_default();
        assert!(!steps.is_empty(), "`{line}` cannot be read");
        assert!(steps.is_sorted_by(|(_, a), (_, b)| a < b), "{line}");
        let kinds: Vec<&str> = steps.iter().map(|(kind, _)| *kind).collect();
        assert!(["Reserved", "Started", "Completed"].starts_with(&kinds), "{line}");
        complete += usize::from(kinds.len() == 3);
    }
    assert!(complete > 0, "{output}");
    assert!(output.contains(", 0 out of order"), "{output}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_on_given_servers_shows_events_arriving_in_order_and_leaves_nothing_there() -> Outcome {
    let _permit = AT_ONCE.acquire().await?;
    let given = Given::to("whole_demo", "CREATEDB").await?;
    let (code, output) = output_of(given.demo()).await?;
    assert_eq!(code, Some(0), "{output}");
    assert_shows_arrivals_in_order(&output);
    assert!(output.contains("(relay-"), "nobody is told to have published:\n{output}");
    for word in ["on your PostgreSQL", "on your RabbitMQ", "killed relay-1 with SIGKILL", "order violations"] {
        assert!(output.contains(word), "`{word}` is missing:\n{output}");
    }
    given.assert_nothing_is_left(&output).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_without_a_broker_says_so_and_shows_what_the_relays_write() -> Outcome {
    let _permit = AT_ONCE.acquire().await?;
    let given = Given::to("demo_to_stdout", "CREATEDB").await?;
    let mut demo = given.demo();
    demo.env_remove("AMQP_URL");
    let (code, output) = output_of(demo).await?;
    assert_eq!(code, Some(0), "{output}");
    assert_shows_arrivals_in_order(&output);
    assert!(output.contains("events go to standard output instead"), "{output}");
    given.assert_nothing_is_left(&output).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_that_is_interrupted_leaves_nothing_on_given_servers() -> Outcome {
    let _permit = AT_ONCE.acquire().await?;
    let given = Given::to("stopped_demo", "CREATEDB").await?;
    let mut demo = given.demo().stdout(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(demo.stdout.take().ok_or("no output")?).lines();
    let first_arrival = async {
        let mut output = String::new();
        while let Some(line) = lines.next_line().await? {
            output.extend([line.as_str(), "\n"]);
            if line.starts_with(ARRIVED) {
                return Ok::<_, Box<dyn Error + Send + Sync>>(output);
            }
        }
        Err(format!("nothing arrives:\n{output}").into())
    };
    let mut output = timeout(PATIENCE, first_arrival).await??;
    let pid = demo.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)).ok_or("it has ended")?;
    // It stands still meanwhile: the lists may take longer than the whole demo.
    kill_process(pid, Signal::STOP)?;
    let (databases, queues, exchanges) = given.traces().await?;
    assert_eq!((databases.len(), queues.len(), exchanges.len()), (1, 3, 1), "it works elsewhere:\n{output}");

    kill_process(pid, Signal::INT)?;
    kill_process(pid, Signal::CONT)?;
    let rest = async {
        while let Some(line) = lines.next_line().await? {
            output.extend([line.as_str(), "\n"]);
        }
        demo.wait().await
    };
    let status = timeout(PATIENCE, rest).await??;
    assert_eq!(status.code(), Some(130), "{output}");
    given.assert_nothing_is_left(&output).await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_names_the_way_out_to_a_user_who_may_not_create_a_database() -> Outcome {
    let given = Given::to("poor_demo", "NOCREATEDB").await?;
    let (code, output) = output_of(given.demo()).await?;
    assert_eq!(code, Some(1), "{output}");
    for word in [format!("ALTER ROLE {} CREATEDB", given.user).as_str(), "unset DATABASE_URL"] {
        assert!(output.contains(word), "`{word}` is missing:\n{output}");
    }
    given.assert_nothing_is_left(&output).await
}
