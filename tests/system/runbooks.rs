//! The runbooks, followed as they stand there against the fault that each is for.

mod blocked_aggregate;
mod broker_down;
mod database_slow;
mod dead_growth;
mod disk_full;
mod lag_slo_burn;
mod poison_event;
mod replay_after_a_consumer_bug;
mod stuck_relay;

use std::path::Path;

use lapin::{
    BasicProperties, Channel, Confirmation, Connection as BrokerConnection, ConnectionProperties, ExchangeKind,
    options::{
        BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions,
        QueueDeleteOptions,
    },
    types::{AMQPValue, FieldTable},
};
use sqlx::{AssertSqlSafe, Column, Connection, PgConnection, Row, ValueRef};
use system_tests::AppEnvironment;

use crate::world::{Outcome, World, run};

pub(crate) const EVENT: &str = "0198c5a0-0000-7000-8000-000000000001";

/// An aggregate of three events, and one that is well.
pub(crate) const EVENTS: &str = "INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload) \
     SELECT ('0198c5a0-0000-7000-8000-00000000000' || n)::uuid, 'order', CASE n WHEN 4 THEN 'o-2' ELSE 'o-1' END, \
            'OrderPlaced', '1' FROM generate_series(1, 4) n";

/// The broker's side of [`EVENTS`]: an exchange of their own, and queues that a test binds to it by type and aggregate.
pub(crate) struct Orders {
    channel: Channel,
    _connection: BrokerConnection,
}

impl Orders {
    const EXCHANGE: &'static str = "orders";

    pub(crate) async fn declare(world: &World) -> Outcome<Self> {
        let connection = BrokerConnection::connect(world.broker_url(), ConnectionProperties::default()).await?;
        let channel = connection.create_channel().await?;
        let durable = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        channel.exchange_declare(Self::EXCHANGE.into(), ExchangeKind::Topic, durable, FieldTable::default()).await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok(Self { channel, _connection: connection })
    }

    pub(crate) async fn queue(&self, queue: &str, key: &str) -> Outcome {
        self.declare_queue(queue, FieldTable::default()).await?;
        self.bind(queue, key).await
    }

    /// A queue that holds the one message that it has room for, and refuses what else comes.
    pub(crate) async fn full_queue(&self, queue: &str, key: &str) -> Outcome {
        let mut arguments = FieldTable::default();
        arguments.insert("x-max-length".into(), AMQPValue::LongInt(1));
        arguments.insert("x-overflow".into(), AMQPValue::LongString("reject-publish".into()));
        self.declare_queue(queue, arguments).await?;
        let (options, properties) = (BasicPublishOptions::default(), BasicProperties::default());
        let filled = self.channel.basic_publish("".into(), queue.into(), options, b"1", properties).await?.await?;
        assert!(matches!(filled, Confirmation::Ack(None)), "{filled:?}");
        self.bind(queue, key).await
    }

    pub(crate) async fn bind(&self, queue: &str, key: &str) -> Outcome {
        let options = QueueBindOptions::default();
        let (queue, exchange, key) = (queue.into(), Self::EXCHANGE.into(), key.into());
        Ok(self.channel.queue_bind(queue, exchange, key, options, FieldTable::default()).await?)
    }

    pub(crate) async fn delete(&self, queue: &str) -> Outcome {
        self.channel.queue_delete(queue.into(), QueueDeleteOptions::default()).await?;
        Ok(())
    }

    async fn declare_queue(&self, queue: &str, arguments: FieldTable) -> Outcome {
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        self.channel.queue_declare(queue.into(), durable, arguments).await?;
        Ok(())
    }
}

/// Relays to [`Orders`]: one worker, so that all that is due is judged together, and no second try.
pub(crate) fn relaying(world: &World) -> AppEnvironment {
    quiet(world)
        .with("APP__OUTBOUND__ROUTE__EXCHANGE", Orders::EXCHANGE)
        // The service's own queue, which a start declares, would take everything.
        .with("APP__OUTBOUND__AMQP__TOPOLOGY__BINDING_KEYS", r#"["of-no-event"]"#)
        .with("APP__OUTBOUND__ROUTE__ROUTING_KEY", "{aggregate_type}.{aggregate_id}")
        .with("APP__OUTBOX__RELAY__WORKERS", "1")
        .with("APP__OUTBOX__RETRY__MAX_ATTEMPTS", "1")
        .with("APP__OUTBOX__BREAKER__FAILURES_IN_A_ROW", "1")
}

/// Publishes what is due, and ends.
pub(crate) async fn relay(environment: &AppEnvironment) -> Outcome<String> {
    let (status, output) = run(environment, &["relay", "--until-drained"]).await?;
    assert!(status.success(), "{output}");
    Ok(output)
}

pub(crate) async fn published(world: &World) -> Outcome<i64> {
    world.number("SELECT count(*) FROM outbox_event WHERE published_at IS NOT NULL").await
}

pub(crate) async fn dead(world: &World) -> Outcome<i64> {
    world.number("SELECT count(*) FROM outbox_event WHERE status = 'DEAD' AND resolved_at IS NULL").await
}

/// Somebody who follows a runbook, part by part.
pub(crate) struct Reader<'a> {
    world: &'a World,
    environment: AppEnvironment,
    blocks: Vec<Block>,
    known: Vec<(&'static str, String)>,
    outputs: Vec<(String, String)>,
}

/// A block of code in the part whose heading begins with this number.
struct Block {
    part: String,
    language: String,
    lines: Vec<String>,
    followed: bool,
}

impl<'a> Reader<'a> {
    /// Opens a runbook; its commands run in the world's environment.
    pub(crate) fn opens(runbook: &str, world: &'a World) -> Outcome<Self> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/runbooks").join(runbook);
        let (mut part, mut blocks, mut open) = (String::new(), Vec::<Block>::new(), false);
        for line in std::fs::read_to_string(path)?.lines() {
            match (line.strip_prefix("```"), line.strip_prefix("## "), blocks.last_mut()) {
                (Some(_), _, _) if open => open = false,
                (Some(language), _, _) => {
                    let (part, language) = (part.clone(), language.to_owned());
                    blocks.push(Block { part, language, lines: Vec::new(), followed: false });
                    open = true;
                }
                (None, _, Some(block)) if open => block.lines.push(line.to_owned()),
                (None, Some(heading), _) => heading.split('.').next().unwrap_or_default().clone_into(&mut part),
                _ => {}
            }
        }
        let environment = quiet(world);
        Ok(Self { world, environment, blocks, known: Vec::new(), outputs: Vec::new() })
    }

    /// What the runbook calls `$NAME`.
    pub(crate) fn knows(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.known.push((name, value.into()));
        self
    }

    /// Runs the commands from another environment.
    pub(crate) fn from(mut self, environment: AppEnvironment) -> Self {
        self.environment = environment;
        self
    }

    /// Does what a part says, in its order; what it shows as output must be in the output.
    pub(crate) async fn follow(&mut self, part: &str) -> Outcome {
        let blocks = self.blocks.iter_mut().filter(|block| block.part == part);
        let blocks: Vec<(String, Vec<String>)> = blocks
            .map(|block| {
                block.followed = true;
                (block.language.clone(), block.lines.clone())
            })
            .collect();
        assert!(!blocks.is_empty(), "the runbook has a part {part} with commands");
        let mut said = Vec::new();
        for (language, lines) in blocks {
            let lines: Vec<String> = lines.iter().map(|line| self.filled(line)).collect();
            match language.as_str() {
                "sh" => {
                    said.clear();
                    for line in lines {
                        said.push(self.type_in(&line).await?);
                    }
                }
                "sql" => {
                    said.clear();
                    for statement in lines.join("\n").split_terminator(';') {
                        said.push(self.ask(statement.trim()).await?);
                    }
                }
                "text" => {
                    let said: Vec<String> =
                        said.iter().flat_map(|output: &String| output.lines()).map(outline).collect();
                    for line in lines {
                        let shown = outline(&line);
                        assert!(said.iter().any(|said| is_shown(&shown, said)), "`{line}` is not in {said:#?}");
                    }
                }
                other => return Err(format!("a block of {other} cannot be followed").into()),
            }
        }
        Ok(())
    }

    /// What the last command that begins so wrote.
    pub(crate) fn wrote(&self, command: &str) -> &str {
        let mut found = self.outputs.iter().rev().filter(|(line, _)| line.starts_with(command));
        found.next().map_or("", |(_, output)| output.trim())
    }

    /// Nothing of the runbook was left out.
    pub(crate) fn closes(self) {
        let left: Vec<_> = self.blocks.iter().filter(|block| !block.followed).map(|block| &block.lines).collect();
        assert!(left.is_empty(), "{left:?}");
        assert!(self.outputs.len() > 3, "the commands of the runbook are found");
    }

    fn filled(&self, line: &str) -> String {
        self.known.iter().fold(line.to_owned(), |line, (name, value)| line.replace(&format!("${name}"), value))
    }

    /// Runs a command, which must succeed; the doctor may find something.
    async fn type_in(&mut self, line: &str) -> Outcome<String> {
        let words = words(line);
        let Some((&"app", arguments)) = words.split_first() else {
            return Err(format!("no command of app: {line}").into());
        };
        let (status, output) = run(&self.environment, arguments).await?;
        let may_find = arguments.starts_with(&["outbox", "doctor"]) && status.code() == Some(1);
        assert!(status.success() || may_find, "{line}: {output}");
        self.outputs.push((line.to_owned(), output.clone()));
        Ok(output)
    }

    /// Runs a statement as psql would, each row a line.
    async fn ask(&mut self, statement: &str) -> Outcome<String> {
        let mut connection = PgConnection::connect(self.world.database_url()).await?;
        let rows = sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).fetch_all(&mut connection).await?;
        let mut lines = Vec::new();
        for row in &rows {
            let mut cells = Vec::new();
            for column in row.columns() {
                let value = row.try_get_raw(column.ordinal())?;
                cells.push(if value.is_null() { String::new() } else { value.as_str()?.to_owned() });
            }
            lines.push(cells.join(" | "));
        }
        let output = lines.join("\n");
        self.outputs.push((statement.to_owned(), output.clone()));
        Ok(output)
    }
}

/// A line without what differs from run to run: widths, and words with a figure in them.
fn outline(line: &str) -> String {
    let word = |word: &str| if word.contains(|c: char| c.is_ascii_digit()) { "#".to_owned() } else { word.to_owned() };
    line.split_whitespace().map(word).collect::<Vec<_>>().join(" ")
}

/// Whether a line is the one that a runbook shows, where `…` stands for words that differ from run to run.
fn is_shown(shown: &str, said: &str) -> bool {
    let Some((first, others)) = shown.split_once('…') else { return shown == said };
    let mut parts: Vec<&str> = others.split('…').collect();
    let last = parts.pop().unwrap_or_default();
    let rest = parts.into_iter().fold(said.strip_prefix(first), |rest, part| Some(rest?.split_once(part)?.1));
    rest.is_some_and(|rest| rest.ends_with(last))
}

#[test]
fn an_output_other_than_the_one_that_a_runbook_shows_is_told_from_it() {
    let said = outline("broker   start the server   no answer within 1s   the broker of outbound.amqp.url");
    for shown in ["broker start the server no answer within 9s the broker of outbound.amqp.url", "broker …", "…"] {
        assert!(is_shown(&outline(shown), &said), "{shown}");
    }
    assert!(is_shown(&outline("broker … no answer … the broker of outbound.amqp.url"), &said));
    for shown in ["broker", "start …", "broker start the server … the broker of consumer.url", "broker … refused …", ""]
    {
        assert!(!is_shown(&outline(shown), &said), "{shown}");
    }
}

/// Words as a shell splits them, as far as runbooks go: blanks, and single quotes around them.
fn words(line: &str) -> Vec<&str> {
    let parts = line.split('\'').enumerate();
    parts.flat_map(|(n, part)| if n % 2 == 1 { vec![part] } else { part.split_whitespace().collect() }).collect()
}

/// Commands whose output is their result alone.
pub(crate) fn quiet(world: &World) -> AppEnvironment {
    world.environment.clone().with("APP__LOGS__FILTER", "error")
}

/// Publishes what is due to standard output, and returns it.
pub(crate) async fn drain(world: &World) -> Outcome<String> {
    relay(&quiet(world).with("APP__OUTBOUND__PUBLISHER", "stdout")).await
}
