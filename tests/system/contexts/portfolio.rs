//! The sample as it runs: from a request to a queue on the broker, and to its own consumer.

use reqwest::Client;
use serde_json::{Value, json};
use system_tests::consumed::{Consumed, Outcome};

#[tokio::test(flavor = "multi_thread")]
async fn a_work_log_reaches_a_queue_and_the_consumer_once_it_is_committed() -> Outcome {
    let service = Consumed::prepare("portfolio").await?;
    let process = service.serve().await?;
    let path = process.url("/portfolios/8b8ad1f5-9a5c-4d0e-9d63-6a3a6f0f7a11/work-logs");
    let body = json!({ "title": "Write the first page", "plannedMinutes": 30 });
    let created = Client::new().post(&path).header("idempotency-key", "1").body(body.to_string());
    let created = created.header("content-type", "application/json").send().await?.error_for_status()?;
    let created: Value = serde_json::from_str(&created.text().await?)?;
    let id = created["id"].as_str().ok_or("an id")?.to_owned();
    Client::new().post(format!("{path}/{id}/start")).send().await?.error_for_status()?;

    let arrived = service.arrived(&format!("work-log/{id}"), 2).await?;
    assert_eq!(arrived, ["WorkLogReserved", "WorkLogStarted"]);
    assert_eq!(service.handled("portfolio-minutes", 2).await?, 2);
    Ok(())
}
