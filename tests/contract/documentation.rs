//! What the docs list is what the code has.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::postgres::Postgres;

const METRICS: &str = include_str!("../../crates/app-bootstrap/src/telemetry/metrics.rs");
const METRICS_PAGE: &str = include_str!("../../docs/metrics.md");
const CONNECTOR: &str = include_str!("../../docs/examples/debezium-event-router.json");

/// Of each metric its type and labels.
pub(crate) type Metrics = BTreeMap<String, (String, BTreeSet<String>)>;

fn quoted(text: &str, mark: char) -> impl Iterator<Item = &str> {
    text.split(mark).skip(1).step_by(2)
}

/// What the code records.
pub(crate) fn recorded() -> Metrics {
    let mut metrics = Metrics::new();
    for kind in ["counter", "gauge", "histogram"] {
        for call in METRICS.split(&format!("{kind}!(")).skip(1) {
            let end = call.find([')', ';']).expect("the call ends");
            // Parentheses of a label's value may cut the call short, after the name of the label.
            let (name, labels) = call[..end].split_once(',').unwrap_or((&call[..end], ""));
            let name = quoted(name, '"').next().expect("a name").to_owned();
            let labels = quoted(labels, '"').map(str::to_owned).collect();
            let before = metrics.insert(name.clone(), (kind.to_owned(), labels));
            let after = metrics.get(&name).cloned();
            assert!(before.is_none() || before == after, "{name} is recorded in two ways");
        }
    }
    metrics
}

fn documented() -> Metrics {
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        assert!(cells[4].len() > 10, "{line} says what it means");
        let labels = quoted(cells[3], '`').map(str::to_owned).collect();
        (cells[1].trim_matches('`').to_owned(), (cells[2].to_owned(), labels))
    };
    METRICS_PAGE.lines().filter(|line| line.starts_with("| `")).map(row).collect()
}

#[test]
fn metrics_documented_are_the_metrics_recorded() {
    let recorded = recorded();
    assert!(recorded.len() > 20, "{recorded:?}");
    assert_eq!(documented(), recorded);
}

#[tokio::test]
async fn the_example_connector_names_columns_of_the_table() {
    let connector: Value = serde_json::from_str(CONNECTOR).expect("JSON");
    let settings = connector["config"].as_object().expect("settings");
    let text = |key: &str| settings[key].as_str().expect("a text");
    let mut named: BTreeSet<&str> = settings
        .iter()
        .filter(|(key, _)| key.contains(".table.field.event.") || key.ends_with(".route.by.field"))
        .map(|(_, value)| value.as_str().expect("a text"))
        .collect();
    let placed = text("transforms.outbox.table.fields.additional.placement").split(',');
    named.extend(placed.map(|placement| placement.split(':').next().unwrap_or_default()));
    assert!(named.contains("id") && named.contains("aggregate_type"), "{named:?}");
    let (schema, table) = text("table.include.list").split_once('.').expect("schema and table");
    let postgres = Postgres::fresh().await;
    let query = format!(
        "SELECT column_name::text FROM information_schema.columns \
          WHERE table_schema = '{schema}' AND table_name = '{table}' AND is_generated = 'NEVER'"
    );
    let columns: BTreeSet<String> = postgres.sql().await.column::<String>(&query).await.into_iter().collect();
    let missing: Vec<_> = named.iter().filter(|name| !columns.contains(**name)).collect();
    assert!(missing.is_empty(), "{missing:?} of {columns:?}");
}
