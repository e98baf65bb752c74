//! The statuses and transitions exist once, in the core; the table, the view, the docs and the metrics agree with them.

use std::collections::BTreeSet;

use application_core::outbox::{OutboxEventStatus, TRANSITIONS};

use super::postgres::Postgres;

const LIFECYCLE: &str = include_str!("../../docs/outbox-lifecycle.md");
const METRICS: &str = include_str!("../../crates/app-bootstrap/src/telemetry/metrics.rs");

fn names(statuses: &[OutboxEventStatus]) -> BTreeSet<String> {
    statuses.iter().map(|status| status.as_str().to_owned()).collect()
}

/// Every text in single quotes.
fn quoted(definition: &str) -> BTreeSet<String> {
    definition.split('\'').skip(1).step_by(2).map(str::to_owned).collect()
}

#[tokio::test]
async fn the_check_of_the_table_allows_the_stored_statuses_and_no_other() {
    let postgres = Postgres::fresh().await;
    let query = "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'outbox_event_status_check'";
    let definition: String = postgres.sql().await.one(query).await;
    assert_eq!(quoted(&definition), names(&OutboxEventStatus::STORED), "{definition}");
}

#[tokio::test]
async fn the_view_adds_the_one_status_that_is_not_stored() {
    let postgres = Postgres::fresh().await;
    let definition: String = postgres.sql().await.one("SELECT pg_get_viewdef('outbox_event_state')").await;
    let (_, end) = definition.split_once("CASE").expect("the status is derived");
    let (case, _) = end.split_once("AS status").expect("the column is called status");
    let mut shown = names(&OutboxEventStatus::STORED);
    shown.extend(quoted(case));
    assert_eq!(shown, names(&OutboxEventStatus::ALL), "{case}");
}

#[test]
fn the_docs_list_every_status_and_which_are_stored() {
    let (_, section) = LIFECYCLE.split_once("## Statuses").expect("a section");
    let (section, _) = section.split_once("\n## ").expect("another section");
    let rows: Vec<Vec<&str>> = section
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let listed = |rows: &mut dyn Iterator<Item = &Vec<&str>>| -> BTreeSet<String> {
        rows.map(|row| row[0].trim_matches('`').to_owned()).collect()
    };
    assert_eq!(listed(&mut rows.iter()), names(&OutboxEventStatus::ALL));
    assert_eq!(listed(&mut rows.iter().filter(|row| row[1] == "yes")), names(&OutboxEventStatus::STORED));
}

#[test]
fn the_diagram_of_the_docs_shows_every_transition_and_no_other() {
    let arrows = LIFECYCLE.lines().filter_map(|line| line.trim().split_once(" --> "));
    let mut drawn: Vec<(String, String)> = arrows
        .map(|(from, rest)| (from.to_owned(), rest.split(':').next().unwrap_or_default().to_owned()))
        .filter(|(from, to)| from != "[*]" && to != "[*]")
        .collect();
    let mut coded: Vec<(String, String)> =
        TRANSITIONS.iter().map(|(from, _, to)| (from.to_string(), to.to_string())).collect();
    drawn.sort();
    coded.sort();
    assert_eq!(drawn, coded);
}

#[test]
fn the_metric_of_the_backlog_is_labelled_by_every_status_but_published() {
    let (_, function) = METRICS.split_once("fn record_statistics").expect("the function");
    let (function, _) = function.split_once("\n}\n").expect("its end");
    assert!(function.contains(r#""status" => status.as_str().to_lowercase()"#), "the label is the status's own name");
    for status in OutboxEventStatus::ALL {
        let counted = function.contains(&format!("OutboxEventStatus::{status:?},"));
        assert_eq!(counted, status != OutboxEventStatus::Published, "{status}");
    }
}
