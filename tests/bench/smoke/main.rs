//! The benchmarks run, report in the agreed form, and fail when a run was wrong. No figure is looked at.

use std::fs;

use benchmarks::{Plan, Plant, Report, run};
use test_support::servers::shared;

fn plan(plant: Option<Plant>) -> Plan {
    Plan { only: vec!["noop".to_owned()], quick: true, json: None, plant }
}

#[tokio::test]
async fn a_quick_benchmark_reports_conditions_raw_runs_and_a_summary() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.json");
    let plan = Plan { json: Some(file.clone()), ..plan(None) };
    let report = run(shared(), &plan).await.unwrap();
    assert!(report.is_sound(), "{}", report.tables());
    assert_eq!(Report::read(&file).unwrap(), report);

    let document: serde_json::Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert!(document["conditions"]["postgres"].is_string() && document["conditions"]["quick"] == true);
    assert_eq!(document["runs"][0]["figure"], "noop.relay");
    let line = document["summary"][0].as_object().unwrap();
    let keys: Vec<_> = line.keys().map(String::as_str).collect();
    assert_eq!(keys, ["holds", "name", "target", "unit", "value"]);
    assert!(line["value"].is_number() && line["holds"].is_boolean());
    assert!(report.tables().contains("QUICK"));
}

#[tokio::test]
async fn a_planted_wrong_order_fails_the_run_however_fast_it_was() {
    let report = run(shared(), &plan(Some(Plant::WrongOrder))).await.unwrap();
    let failure = report.benchmarks[0].failure.as_deref().unwrap();
    assert!(!report.is_sound() && failure.contains("out of order                              1"), "{failure}");
    assert!(report.summary.iter().all(|line| !line.holds && line.value.is_none()));
}

#[tokio::test]
async fn a_planted_loss_fails_the_run() {
    let report = run(shared(), &plan(Some(Plant::Loss))).await.unwrap();
    let failure = report.benchmarks[0].failure.as_deref().unwrap();
    assert!(!report.is_sound() && failure.contains("lost                                      1"), "{failure}");
}

#[tokio::test]
async fn an_unknown_benchmark_is_refused_with_the_known_ones() {
    let unknown = Plan { only: vec!["dairn".to_owned()], ..Plan::default() };
    let error = run(shared(), &unknown).await.unwrap_err();
    assert!(error.to_string().contains("`dairn`") && error.to_string().contains("drain"), "{error}");
}
