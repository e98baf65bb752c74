//! What operators look at: figures, health and metrics.

use rustix::process::Signal;
use serde_json::Value;
use system_tests::eventually;

use crate::world::{Outcome, PATIENCE, World, complete_one, counter, read, run};

#[tokio::test(flavor = "multi_thread")]
async fn outbox_status_shows_the_backlog_as_table_and_json() -> Outcome {
    let world = World::shared("status").await?;
    let mut disabled = world.environment_without_publisher().serve("disabled").await?;
    for key in ["one", "two"] {
        complete_one(&disabled, key).await?;
    }
    disabled.signal(Signal::TERM)?;
    assert!(disabled.ended(PATIENCE).await?.success());
    let quiet = world.environment.clone().with("APP__LOGS__FILTER", "error");

    let (status, table) = run(&quiet, &["outbox", "status"]).await?;
    assert!(status.success(), "{table}");
    let pending = table.lines().find(|line| line.starts_with("PENDING")).unwrap_or_default();
    assert_eq!(pending.split_whitespace().collect::<Vec<_>>(), ["PENDING", "6"], "{table}");
    assert!(table.contains("blocked aggregates"), "{table}");

    let (status, json) = run(&quiet, &["outbox", "status", "--json"]).await?;
    assert!(status.success(), "{json}");
    let figures: Value = serde_json::from_str(&json)?;
    assert_eq!((&figures["pending"], &figures["inFlight"]), (&Value::from(6), &Value::from(0)), "{json}");
    assert!(figures["oldestPendingAgeSeconds"].is_number(), "{json}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_and_health_are_served() -> Outcome {
    let world = World::alone("health").await?;
    let process = world.serve("only").await?;
    assert_eq!(read(&process, "/livez").await?.0, 200);
    let (status, report) = read(&process, "/readyz").await?;
    assert_eq!(status, 200, "{report}");

    complete_one(&process, "one").await?;
    world.until_settled().await?;
    let counted = || async { (counter(&process, "outbox_published_total").await.ok()? >= 3.0).then_some(()) };
    eventually("three published events in the metrics", PATIENCE, counted).await?;

    let rabbitmq = world.rabbitmq().await?;
    rabbitmq.stop().await?;
    let unready = || async { read(&process, "/readyz").await.ok().filter(|(status, _)| *status == 503) };
    let (_, report) = eventually("an answer of 503", PATIENCE, unready).await?;
    let report: Value = serde_json::from_str(&report)?;
    let down = |name: &str| {
        let checks = report["checks"].as_array().into_iter().flatten();
        checks.clone().any(|check| check["name"] == name && check["status"] == "down")
    };
    assert!(down("broker") || down("consumer"), "{report}");
    assert!(!down("database") && !down("schema"), "{report}");
    let named = || async {
        let (_, report) = read(&process, "/readyz").await.ok()?;
        let report: Value = serde_json::from_str(&report).ok()?;
        let mut checks = report["checks"].as_array()?.iter();
        checks.find(|check| check["name"] == "broker" && check["status"] == "down").map(|check| check["reason"].clone())
    };
    let reason = eventually("the broker named as down", PATIENCE, named).await?;
    assert!(reason.as_str().is_some_and(|reason| !reason.is_empty()), "{reason}");
    assert_eq!(read(&process, "/livez").await?.0, 200, "an outage of the broker is no reason to restart");

    rabbitmq.start().await?;
    let ready = || async { read(&process, "/readyz").await.ok().filter(|(status, _)| *status == 200) };
    eventually("readiness after the outage", PATIENCE, ready).await?;
    Ok(())
}
