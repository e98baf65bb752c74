//! The plans of the outbox's own statements, also of those inside its functions, which `EXPLAIN` of a call does not show.
//!
//! The server's `auto_explain` tells them to the session that runs them, and the driver hands such notices on as trace
//! events: whatever the adapters send is explained as it is, with the settings that stand on it.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    instrument::WithSubscriber,
    span,
};

use crate::error::BenchError;

/// The settings of `auto_explain`: every statement, nested ones included.
const SETTINGS: &[(&str, &str)] = &[
    ("session_preload_libraries", "auto_explain"),
    ("auto_explain.log_min_duration", "0"),
    ("auto_explain.log_nested_statements", "on"),
    ("auto_explain.log_analyze", "on"),
    ("auto_explain.log_buffers", "on"),
    ("auto_explain.log_format", "json"),
    ("auto_explain.log_level", "notice"),
];

/// Where the driver puts notices.
const NOTICES: &str = "sqlx::postgres::notice";

/// A statement that was run, and its plan.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Explained {
    pub(crate) query: String,
    pub(crate) plan: Value,
}

/// How often plans go to a table.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Access {
    /// From end to end.
    pub(crate) sequential: usize,
    /// By an index or a known place, or to write.
    pub(crate) other: usize,
}

/// A database whose new sessions explain what they run.
pub(crate) struct Explaining {
    connection: PgConnection,
    database: String,
}

impl Explaining {
    /// From now on; `None`: this server cannot, or does not let us.
    pub(crate) async fn begin(database_url: &str) -> Result<Option<Self>, BenchError> {
        let mut connection = PgConnection::connect(database_url).await?;
        if sqlx::raw_sql("LOAD 'auto_explain'").execute(&mut connection).await.is_err() {
            return Ok(None);
        }
        let name = "SELECT quote_ident(current_database())";
        let database = sqlx::query(name).fetch_one(&mut connection).await?.try_get(0)?;
        let mut explaining = Self { connection, database };
        for (setting, value) in SETTINGS {
            explaining.alter(&format!("SET {setting} = '{value}'")).await?;
        }
        Ok(Some(explaining))
    }

    /// Until now: what is measured afterwards is not explained.
    pub(crate) async fn end(mut self) -> Result<(), BenchError> {
        for (setting, _) in SETTINGS {
            self.alter(&format!("RESET {setting}")).await?;
        }
        Ok(())
    }

    async fn alter(&mut self, change: &str) -> Result<(), BenchError> {
        let alter = format!("ALTER DATABASE {} {change}", self.database);
        sqlx::raw_sql(AssertSqlSafe(alter)).execute(&mut self.connection).await?;
        Ok(())
    }
}

/// Runs the work and returns its answer with the plans of the statements that were explained meanwhile.
pub(crate) async fn explained<T>(work: impl Future<Output = T>) -> (T, Vec<Explained>) {
    let notices = Notices::default();
    let answer = work.with_subscriber(notices.clone()).await;
    let told = std::mem::take(&mut *notices.0.lock().unwrap_or_else(PoisonError::into_inner));
    (answer, told.iter().filter_map(|notice| read(notice)).collect())
}

/// Reads a notice: a line with the time, then an object. `None`: it is about something else.
fn read(notice: &str) -> Option<Explained> {
    let (_, document) = notice.split_once("plan:")?;
    let mut document: Value = serde_json::from_str(document.trim()).ok()?;
    let query = document.get("Query Text")?.as_str()?.to_owned();
    Some(Explained { query, plan: document.get_mut("Plan")?.take() })
}

/// How the plan, with everything below it, goes to the table.
pub(crate) fn access(plan: &Value, table: &str) -> Access {
    let text = |key: &str| plan.get(key).and_then(Value::as_str);
    let mut found = Access::default();
    if text("Relation Name") == Some(table) {
        match text("Node Type") {
            Some("Seq Scan" | "Sample Scan") => found.sequential += 1,
            _ => found.other += 1,
        }
    }
    for below in plan.get("Plans").and_then(Value::as_array).into_iter().flatten() {
        let of_below = access(below, table);
        found.sequential += of_below.sequential;
        found.other += of_below.other;
    }
    found
}

/// Keeps the driver's notices, and nothing else.
#[derive(Debug, Clone, Default)]
struct Notices(Arc<Mutex<Vec<String>>>);

impl Subscriber for Notices {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == NOTICES
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Message(self));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct Message<'a>(&'a Notices);

impl Message<'_> {
    fn keep(&self, field: &Field, text: String) {
        if field.name() == "message" {
            self.0.0.lock().unwrap_or_else(PoisonError::into_inner).push(text);
        }
    }
}

impl Visit for Message<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.keep(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.keep(field, format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTICE: &str = r#"duration: 0.033 ms  plan:
{
  "Query Text": "SELECT e.id FROM outbox_event e, outbox_lane l WHERE e.note = '{plan:'",
  "Plan": {
    "Node Type": "Nested Loop",
    "Plans": [
      {"Node Type": "Seq Scan", "Relation Name": "outbox_lane"},
      {"Node Type": "Limit", "Plans": [
        {"Node Type": "Index Scan", "Relation Name": "outbox_event", "Index Name": "outbox_event_open"}]}
    ]
  }
}"#;

    #[test]
    fn the_plan_and_the_text_of_a_statement_are_read_from_its_notice() {
        let Explained { query, plan } = read(NOTICE).unwrap();
        assert!(query.ends_with("'{plan:'"), "{query}");
        assert_eq!(plan["Node Type"], "Nested Loop");
        assert_eq!(read("relation already exists, skipping"), None);
        assert_eq!(read("duration: 0.1 ms  plan:\nSeq Scan on t"), None, "a plan that is no document");
    }

    #[test]
    fn a_scan_of_the_table_is_found_however_deep_and_no_scan_of_another_one_is_taken_for_it() {
        let plan = read(NOTICE).unwrap().plan;
        assert_eq!(access(&plan, "outbox_event"), Access { sequential: 0, other: 1 });
        let worse = NOTICE.replace("Index Scan", "Seq Scan");
        assert_eq!(access(&read(&worse).unwrap().plan, "outbox_event"), Access { sequential: 1, other: 0 });
        assert_eq!(access(&plan, "outbox_lane"), Access { sequential: 1, other: 0 });
        assert_eq!(access(&plan, "outbox_claim"), Access::default());
    }

    #[tokio::test]
    async fn notices_of_the_driver_are_kept_and_no_other_events() {
        let work = async {
            tracing::info!(target: "sqlx::postgres::notice", message = NOTICE);
            tracing::info!(message = NOTICE);
            7
        };
        let (answer, plans) = explained(work).await;
        assert_eq!((answer, plans.len()), (7, 1));
    }
}
