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

use sqlx::{AssertSqlSafe, Column, Connection, PgConnection, Row, ValueRef};
use system_tests::AppEnvironment;

use crate::world::{Outcome, World, run};

pub(crate) const EVENT: &str = "0198c5a0-0000-7000-8000-000000000001";

/// An aggregate of three events, and one that is well.
pub(crate) const EVENTS: &str = "INSERT INTO outbox_event (id, aggregate_type, aggregate_id, event_type, payload) \
     SELECT ('0198c5a0-0000-7000-8000-00000000000' || n)::uuid, 'order', CASE n WHEN 4 THEN 'o-2' ELSE 'o-1' END, \
            'OrderPlaced', '1' FROM generate_series(1, 4) n";

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
                        assert!(said.contains(&outline(&line)), "`{line}` is not in {said:#?}");
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
    let publishing = quiet(world).with("APP__OUTBOUND__PUBLISHER", "stdout");
    let (status, output) = run(&publishing, &["relay", "--until-drained"]).await?;
    assert!(status.success(), "{output}");
    Ok(output)
}
