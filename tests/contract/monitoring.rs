//! Alert rules and dashboard speak of metrics, labels and runbooks that exist.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use serde_json::Value;

use super::documentation::{Metrics, recorded};

const ALERTS: &str = include_str!("../../docs/monitoring/alerts.yml");
const ALERT_TESTS: &str = include_str!("../../docs/monitoring/alerts.test.yml");
const DASHBOARD: &str = include_str!("../../docs/monitoring/grafana-dashboard.json");

/// What Prometheus adds to every series.
const ADDED: [&str; 2] = ["instance", "job"];
/// The words of the language that the queries use; a further one is a further entry.
const WORDS: [&str; 13] = [
    "absent",
    "and",
    "histogram_quantile",
    "increase",
    "max",
    "min",
    "min_over_time",
    "rate",
    "sum",
    "time",
    "by",
    "without",
    "ignoring",
];
/// Those that a list of labels follows.
const GROUPING: [&str; 3] = ["by", "without", "ignoring"];

/// Names and punctuation; texts, ranges and numbers are left out.
fn tokens(query: &str) -> Vec<&str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
    let mut found = Vec::new();
    let mut rest = query.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => rest[1..].find('"').map(|at| at + 2),
            '[' => rest.find(']').map(|at| at + 1),
            c if is_name(c) => rest.find(|c| !is_name(c) && c != '.'),
            c => Some(c.len_utf8()),
        };
        let (token, after) = rest.split_at(length.unwrap_or(rest.len()));
        if !first.is_ascii_digit() && !matches!(first, '"' | '[') {
            found.push(token);
        }
        rest = after.trim_start();
    }
    found
}

/// What a query names.
#[derive(Debug, Default)]
struct Named<'a> {
    /// Metrics, each with the labels by which it is selected.
    metrics: Vec<(&'a str, Vec<&'a str>)>,
    /// Labels by which anything is grouped.
    grouped: Vec<&'a str>,
}

fn named(query: &str) -> Named<'_> {
    let is_name = |token: &&str| token.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let all = tokens(query);
    let mut named = Named::default();
    let mut at = 0;
    while let Some(token) = all.get(at).copied() {
        at += 1;
        let list_until = |end: &'static str| all[at..].iter().take_while(move |token| **token != end);
        if GROUPING.contains(&token) {
            named.grouped.extend(list_until(")").copied().filter(is_name));
            at += list_until(")").count();
        } else if is_name(&token) && !WORDS.contains(&token) {
            let selected = all.get(at) == Some(&"{");
            let labels = if selected { list_until("}").copied().filter(is_name).collect() } else { Vec::new() };
            named.metrics.push((token, labels));
            at += if selected { list_until("}").count() } else { 0 };
        }
    }
    named
}

/// The labels of a series; `None` if nothing records it.
fn labels_of(series: &str, recorded: &Metrics) -> Option<BTreeSet<String>> {
    let added = ADDED.map(str::to_owned);
    if let Some((_, labels)) = recorded.get(series).filter(|(kind, _)| kind != "histogram") {
        return Some(labels.iter().cloned().chain(added).collect());
    }
    let part = ["_bucket", "_count", "_sum"].into_iter().find(|end| series.ends_with(end))?;
    let (_, labels) = recorded.get(series.strip_suffix(part)?).filter(|(kind, _)| kind == "histogram")?;
    let bound = (part == "_bucket").then(|| "le".to_owned());
    Some(labels.iter().cloned().chain(added).chain(bound).collect())
}

/// Every name in the query, and every label in its legend, that is not recorded.
fn problems(query: &str, legend: &str, recorded: &Metrics) -> Vec<String> {
    let named = named(query);
    let mut found = Vec::new();
    let mut known = BTreeSet::new();
    for (metric, selected) in &named.metrics {
        let Some(labels) = labels_of(metric, recorded) else {
            found.push(format!("no metric {metric} in `{query}`"));
            continue;
        };
        let wrong = selected.iter().filter(|label| !labels.contains(**label));
        found.extend(wrong.map(|label| format!("no label {label} of {metric} in `{query}`")));
        known.extend(labels);
    }
    if named.metrics.is_empty() {
        found.push(format!("no metric at all in `{query}`"));
    }
    let shown = legend.split("{{").skip(1).filter_map(|rest| rest.split("}}").next());
    let wrong = named.grouped.iter().copied().chain(shown).filter(|label| !known.contains(*label));
    found.extend(wrong.map(|label| format!("no label {label} of any metric in `{query}`")));
    found
}

/// The values under the key in a file of rules: on its line, or folded into the deeper lines that follow.
fn values(yaml: &str, key: &str) -> Vec<String> {
    let lines: Vec<&str> = yaml.lines().collect();
    let depth = |line: &str| line.len() - line.trim_start().len();
    let value = |(at, line): (usize, &&str)| {
        let value = line.trim_start().trim_start_matches("- ").strip_prefix(key)?.strip_prefix(':')?.trim();
        if value != ">-" {
            return Some(value.to_owned());
        }
        let folded = lines[at + 1..].iter().take_while(|next| depth(next) > depth(line)).map(|next| next.trim());
        Some(folded.collect::<Vec<_>>().join(" "))
    };
    lines.iter().enumerate().filter_map(value).collect()
}

/// The dashboard's queries with their legends.
fn dashboard_queries() -> Vec<(String, String)> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    let panels = dashboard["panels"].as_array().expect("panels");
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    targets.map(|target| (text(&target["expr"]), text(&target["legendFormat"]))).collect()
}

#[test]
fn alerts_and_dashboard_use_metrics_and_labels_that_are_recorded() {
    let recorded = recorded();
    let alerts: Vec<_> = values(ALERTS, "expr").into_iter().map(|query| (query, String::new())).collect();
    let dashboard = dashboard_queries();
    assert!(alerts.len() > 10 && dashboard.len() > 20, "{} and {}", alerts.len(), dashboard.len());
    let found: Vec<_> =
        alerts.iter().chain(&dashboard).flat_map(|(query, legend)| problems(query, legend, &recorded)).collect();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn a_name_that_nothing_records_is_found_wherever_it_stands() {
    let recorded = recorded();
    let found = |query: &str, legend: &str| problems(query, legend, &recorded).join("; ");
    let sound = r#"sum by (class, job) (rate(outbox_dead_total{class!="poison", job=~"a"}[$__rate_interval])) > 1.5e3"#;
    assert_eq!(found(sound, "{{class}}"), "");
    assert_eq!(found("histogram_quantile(0.5, sum by (le) (rate(outbox_lag_seconds_bucket[5m])))", ""), "");
    for (query, legend, name) in [
        ("rate(outbox_publishd_total[5m])", "", "outbox_publishd_total"),
        ("outbox_lag_seconds > 1", "", "outbox_lag_seconds"),
        ("outbox_published_total_count", "", "outbox_published_total_count"),
        (r#"outbox_dead_total{reason="poison"}"#, "", "reason"),
        (r#"outbox_lag_seconds_count{le="5"}"#, "", "le"),
        ("sum by (clas) (outbox_dead_total)", "", "clas"),
        ("quantile(0.5, outbox_dead_total)", "", "quantile"),
        ("outbox_events", "{{state}}", "state"),
        ("time()", "", "no metric at all"),
    ] {
        let found = found(query, legend);
        assert!(found.contains(name), "{query}: {found:?}");
    }
}

#[test]
fn the_dashboard_asks_for_its_data_source_and_its_panels_have_places_of_their_own() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).expect("JSON");
    let variables = dashboard["templating"]["list"].as_array().expect("variables");
    let variable = |name: &str| variables.iter().find(|variable| variable["name"] == name).expect("the variable");
    assert_eq!(variable("datasource")["type"], "datasource");
    let panels = dashboard["panels"].as_array().expect("panels");
    let sources = panels.iter().filter(|panel| panel["type"] != "row").map(|panel| &panel["datasource"]["uid"]);
    assert!(sources.chain([&variable("job")["datasource"]["uid"]]).all(|source| source == "${datasource}"));
    let query = variable("job")["query"]["query"].as_str().expect("a query");
    let inside = query.strip_prefix("label_values(").and_then(|rest| rest.strip_suffix(')')).expect("label_values");
    let (metric, label) = inside.split_once(", ").expect("a metric and a label");
    assert!(labels_of(metric, &recorded()).expect("a metric that is recorded").contains(label), "{query}");
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().expect("an id")).collect();
    assert_eq!(ids.len(), panels.len());
    let number = |panel: &Value, key: &str| panel["gridPos"][key].as_u64().expect("a number");
    let mut taken = BTreeMap::new();
    for panel in panels {
        let (x, y, w, h) = (number(panel, "x"), number(panel, "y"), number(panel, "w"), number(panel, "h"));
        assert!(x + w <= 24, "{panel}");
        for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            let other = taken.insert(cell, &panel["title"]);
            assert_eq!(other, None, "under {}", panel["title"]);
        }
    }
}

#[test]
fn every_alert_says_how_urgent_it_is_leads_to_its_runbook_and_is_tested_both_ways() {
    let alerts = values(ALERTS, "alert");
    let (severities, runbooks) = (values(ALERTS, "severity"), values(ALERTS, "runbook_url"));
    assert!(alerts.len() > 10, "{alerts:?}");
    let said = [severities.len(), runbooks.len(), values(ALERTS, "summary").len()];
    assert_eq!(said, [alerts.len(); 3]);
    assert!(severities.iter().all(|severity| matches!(severity.as_str(), "page" | "ticket")), "{severities:?}");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (alert, runbook) in alerts.iter().zip(&runbooks) {
        let text = std::fs::read_to_string(root.join(runbook)).unwrap_or_default();
        assert!(text.contains(&format!("`{alert}`")), "{runbook} begins with {alert}");
        let tested = |expected: &str| {
            let named = format!("alertname: {alert}\n");
            ALERT_TESTS
                .match_indices(&named)
                .any(|(at, _)| ALERT_TESTS[at + named.len()..].trim_start().starts_with(expected))
        };
        assert!(tested("exp_alerts: []"), "{alert} is seen not to fire");
        assert!(tested("exp_alerts:\n"), "{alert} is seen to fire");
    }
}
