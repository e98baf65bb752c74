//! What the docs list is what the code has.

use std::collections::{BTreeMap, BTreeSet};

use app_bootstrap::settings::{Settings, Sources};
use application_core::outbox::FailureClass;
use serde_json::Value;
use test_support::documents::pages;

use super::postgres::Postgres;

const METRICS: &str = include_str!("../../crates/app-bootstrap/src/telemetry/metrics.rs");
const METRICS_PAGE: &str = include_str!("../../docs/metrics.md");
const CLASSES_PAGE: &str = include_str!("../../docs/failure-classes.md");
const SETTINGS_PAGE: &str = include_str!("../../docs/settings.md");
const CONNECTOR: &str = include_str!("../../docs/examples/debezium-event-router.json");

const PRODUCTION: &str = include_str!("../../docs/guides/go-to-production.md");
const CONTAINERFILE: &str = include_str!("../../docs/examples/Containerfile");
const MANIFESTS: &str = include_str!("../../docs/examples/kubernetes.yaml");
const RELAY_MANIFESTS: &str = include_str!("../../docs/examples/kubernetes-relay.yaml");
const DOCKERIGNORE: &str = include_str!("../../.dockerignore");
const GITIGNORE: &str = include_str!("../../.gitignore");

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

#[test]
fn the_page_of_failure_classes_lists_each_class_with_settings_and_metrics_that_exist() {
    let classes = FailureClass::ALL.map(FailureClass::as_str);
    let named = |line: &str| quoted(line, '`').next().unwrap_or_default().to_owned();
    let (meaning, seen) = CLASSES_PAGE.split_once("## What an operator sees").expect("a section");
    let (seen, _) = seen.split_once("\n## ").expect("another section");
    for table in [meaning, seen] {
        let listed: Vec<String> = table.lines().filter(|line| line.starts_with("| `")).map(named).collect();
        assert_eq!(listed, classes);
    }
    let words: BTreeSet<&str> = CLASSES_PAGE.lines().flat_map(|line| quoted(line, '`')).collect();
    let keys = || words.iter().filter(|word| ["outbox.", "outbound."].iter().any(|part| word.starts_with(part)));
    assert!(keys().count() > 8, "{words:?}");
    for key in keys() {
        assert!(SETTINGS_PAGE.contains(&format!("| `{key}` |")), "{key} is no setting");
    }
    let metrics: BTreeSet<&str> = words
        .iter()
        .filter(|word| word.starts_with("outbox_"))
        .map(|word| word.split('{').next().unwrap_or(word))
        .collect();
    assert!(metrics.len() > 2, "{words:?}");
    let recorded = recorded();
    for metric in metrics {
        assert!(recorded.contains_key(metric), "{metric} is no metric");
    }
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

/// What is wrong with a block of settings; nothing, if it can be used as it stands.
fn wrong_settings(text: &str) -> Option<String> {
    match toml::from_str::<Settings>(text) {
        Ok(settings) => settings.problems().first().map(ToString::to_string),
        Err(error) => Some(error.to_string()),
    }
}

/// What is said of a process's memory and connections goes with the defaults.
#[test]
fn the_page_of_production_sizes_by_the_defaults_of_the_relay() {
    let relay = Settings::default().outbox.relay;
    let (workers, mebibytes) = (relay.workers, relay.max_bytes >> 20);
    let memory = format!("`outbox.relay.workers` ({workers}) × `outbox.relay.max_bytes` ({mebibytes} MiB)");
    assert!(PRODUCTION.contains(&memory), "{memory}");
    let kept = format!("| `outbox.relay.workers` | keep {workers};");
    assert!(PRODUCTION.contains(&kept), "{kept}");
}

#[test]
fn settings_on_the_pages_can_be_used() {
    let blocks: Vec<_> = pages().iter().flat_map(|page| page.blocks_of("toml")).collect();
    for block in &blocks {
        assert_eq!(wrong_settings(&block.text), None, "{}", block.place);
    }
    assert!(blocks.len() > 3, "{} blocks of settings", blocks.len());
}

#[test]
fn a_block_of_settings_with_an_unknown_key_or_a_value_out_of_bounds_is_found() {
    for (text, words) in [
        ("[outbox.relay]\nwrokers = 3\n", "wrokers"),
        ("[outbox.relay]\nworkers = 0\n", "outbox.relay.workers is 0"),
        ("[outbox.relay\n", "TOML"),
    ] {
        let wrong = wrong_settings(text).expect("a problem");
        assert!(wrong.contains(words), "{wrong}");
    }
}

/// The value behind the only line that begins so.
fn manifest<'a>(lines: &[&'a str], key: &str) -> &'a str {
    let mut found = lines.iter().filter_map(|line| line.strip_prefix(key));
    let value = found.next().expect("a line that begins so");
    assert!(found.next().is_none(), "{key} is there twice");
    value.trim()
}

/// The settings that the environment of a manifest gives to its process; what a secret or the cluster says is made up.
fn settings_of(lines: &[&str]) -> Settings {
    let values = lines.windows(2).filter_map(|pair| {
        let (name, value) = (pair[0].strip_prefix("- name: ")?, pair[1].strip_prefix("value: ")?);
        Some((name.to_owned(), value.trim_matches('"').to_owned()))
    });
    let mut environment: BTreeMap<String, String> = values.collect();
    assert!(environment.len() > 3, "{environment:?}");
    assert!(lines.contains(&"- name: APP__SERVICE__INSTANCE"));
    environment.insert("APP__SERVICE__INSTANCE".to_owned(), "app-5d9c7b-x2x2x".to_owned());
    environment.insert("DATABASE_URL".to_owned(), "postgres://user:secret@db/app".to_owned());
    environment.insert("AMQP_URL".to_owned(), "amqps://user:secret@broker/%2f".to_owned());
    Sources { environment, ..Sources::default() }.load().expect("the environment of the manifests")
}

/// `before` is how long a pod waits before it tells its process to stop.
fn fits(manifests: &str, process: &str, listeners: &[&str], before: u64) {
    let lines: Vec<&str> = manifests.lines().map(str::trim).collect();
    let settings = settings_of(&lines);
    assert!(lines.contains(&format!("args: [\"{process}\"]").as_str()), "app {process} is run");

    let waits = lines.iter().find_map(|line| line.strip_prefix("command: [\"sleep\", "));
    assert_eq!(waits, (before > 0).then(|| format!("\"{before}\"]")).as_deref());
    let grace = settings.service.grace.as_secs();
    let allowed: u64 = manifest(&lines, "terminationGracePeriodSeconds:").parse().expect("seconds");
    assert!(allowed >= before + grace + 5, "{allowed} s are too few for {before} s, {grace} s and closing");

    let opened = lines.iter().filter(|line| line.starts_with("containerPort:")).count();
    assert_eq!(opened, listeners.len(), "app {process} listens on {listeners:?}");
    for name in listeners {
        let listener = if *name == "http" { settings.http.listen } else { settings.operations.health_listen };
        let port =
            lines.windows(2).find(|pair| pair[0] == format!("- name: {name}") && pair[1].starts_with("containerPort"));
        assert_eq!(port.expect("a port")[1], format!("containerPort: {}", listener.port()));
        assert!(listener.ip().is_unspecified(), "{name} faces the cluster");
    }
    assert_eq!(manifest(&lines, "prometheus.io/port:"), format!("\"{}\"", settings.operations.health_listen.port()));
    assert!(settings.operations.ops_listen.is_some_and(|listener| listener.ip().is_loopback()));
    let probed: BTreeSet<&str> = lines.iter().filter_map(|line| line.strip_prefix("path: ")).collect();
    assert_eq!(probed, BTreeSet::from(["/livez", "/readyz"]));
}

#[test]
fn the_example_manifests_fit_the_settings_and_the_listeners() {
    fits(MANIFESTS, "serve", &["http", "health"], 5);
    fits(RELAY_MANIFESTS, "relay", &["health"], 0);
    assert!(CONTAINERFILE.contains("--path crates/app-bootstrap") && CONTAINERFILE.contains("USER 10001"));
}

/// What a checkout keeps to itself, history included, is not copied into the image's build either.
#[test]
fn an_image_is_built_without_what_git_ignores_and_without_the_history() {
    let left_out: BTreeSet<&str> = DOCKERIGNORE.lines().filter(|line| !line.starts_with('#')).collect();
    // Git looks for a name in every folder, a container engine at the root alone.
    let name = |line: &str| line.strip_prefix('/').map_or_else(|| format!("**/{line}"), str::to_owned);
    let ignored = GITIGNORE.lines().map(name);
    let mut wanted: BTreeSet<String> = ignored.collect();
    assert!(wanted.contains("target"), "{wanted:?}");
    wanted.insert(".git".to_owned());
    assert_eq!(left_out, wanted.iter().map(String::as_str).collect());
}
