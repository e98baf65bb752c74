//! Traces as a collector receives them, and collectors that are away.

mod collector;

use std::net::TcpListener;

use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use reqwest::{Client, StatusCode};
use rustix::process::Signal;
use serde_json::json;
use system_tests::{AppEnvironment, AppProcess};

use self::collector::{Collector, Received, hex};
use crate::world::{Outcome, PATIENCE, PORTFOLIO, World, complete_one};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CLIENT: &str = "b7ad6b7169203331";
const EXCHANGE: &str = "outbox.events";
const QUEUE: &str = "app.events";

fn exporting_to(environment: AppEnvironment, endpoint: &str) -> AppEnvironment {
    environment.with("APP__TELEMETRY__OTLP__ENDPOINT", endpoint)
}

async fn stop(process: &mut AppProcess) -> Outcome {
    process.signal(Signal::TERM)?;
    let status = process.ended(PATIENCE).await?;
    assert!(status.success(), "{status}\n{}", process.log());
    Ok(())
}

fn named<'a>(trace: &'a [Received], name: &str) -> Outcome<&'a Received> {
    let found = trace.iter().find(|received| received.span.name == name);
    let names = || trace.iter().map(|received| received.span.name.as_str()).collect::<Vec<_>>();
    found.ok_or_else(|| format!("there is no {name:?} among {:?}", names()).into())
}

fn parent<'a>(trace: &'a [Received], child: &Received) -> Outcome<&'a Received> {
    let found = trace.iter().find(|received| received.span.span_id == child.span.parent_span_id);
    found.ok_or_else(|| format!("{:?} has no parent here", child.span.name).into())
}

#[tokio::test(flavor = "multi_thread")]
async fn one_trace_leads_from_a_request_over_two_processes_to_the_effect() -> Outcome {
    let (world, collector) = (World::shared("traces").await?, Collector::start().await?);
    // Nothing is exported before the stop, which must flush it.
    let exporting = |environment: AppEnvironment| {
        exporting_to(environment, &collector.endpoint())
            .with("OTEL_BSP_SCHEDULE_DELAY", "600000")
            .with("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    };
    let mut writer = exporting(world.environment_without_publisher()).serve("writer").await?;
    let mut reader = exporting(world.environment.clone()).serve("reader").await?;
    let answer = Client::new()
        .post(writer.url(&format!("/portfolios/{PORTFOLIO}/work-logs")))
        .header("idempotency-key", "traced")
        .header("traceparent", format!("00-{TRACE}-{CLIENT}-01"))
        .json(&json!({ "title": "traced", "plannedMinutes": 30 }))
        .send()
        .await?;
    assert_eq!(answer.status(), StatusCode::CREATED);
    world.until_settled().await?;
    stop(&mut writer).await?;
    stop(&mut reader).await?;

    let trace = collector.trace(TRACE);
    let request = named(&trace, "POST /portfolios/{portfolio_id}/work-logs")?;
    let append = named(&trace, "append")?;
    let publish = named(&trace, &format!("{EXCHANGE} publish"))?;
    let process = named(&trace, &format!("{QUEUE} process"))?;
    let of_request = parent(&trace, append)?;
    let is_effect = |received: &&Received| received.span.parent_span_id == process.span.span_id;
    let of_effect = trace.iter().find(is_effect).ok_or("the effect's transaction")?;
    for (received, kind, at) in [
        (request, SpanKind::Server, "writer"),
        (of_request, SpanKind::Internal, "writer"),
        (append, SpanKind::Internal, "writer"),
        (publish, SpanKind::Producer, "reader"),
        (process, SpanKind::Consumer, "reader"),
        (of_effect, SpanKind::Internal, "reader"),
    ] {
        let told = (received.span.kind(), received.process.as_str(), received.environment.as_str());
        assert_eq!(told, (kind, at, "test"), "{}", received.span.name);
    }
    assert_eq!([&of_request.span.name, &of_effect.span.name], ["transaction"; 2]);
    assert_eq!(hex(&request.span.parent_span_id), CLIENT);
    assert_eq!(of_request.span.parent_span_id, request.span.span_id);
    assert_eq!(publish.span.parent_span_id, append.span.span_id);
    assert_eq!(process.span.parent_span_id, publish.span.span_id);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_away_or_silent_is_told_of_once_and_holds_nothing_up() -> Outcome {
    let world = World::shared("no_collector").await?;
    // It is connected to and answers nobody.
    let silent = TcpListener::bind("127.0.0.1:0")?;
    let silent = (silent.local_addr()?, silent);
    for (name, endpoint) in [("away", "http://127.0.0.1:9".to_owned()), ("silent", format!("http://{}", silent.0))] {
        let environment = exporting_to(world.environment.clone(), &endpoint)
            .with("APP__TELEMETRY__OTLP__TIMEOUT", "200ms")
            .with("APP__LOGS__FILTER", "info,app_bootstrap=debug")
            .with("OTEL_BSP_SCHEDULE_DELAY", "50");
        let mut process = environment.serve(name).await?;
        let until_failed_again = async {
            for number in 0.. {
                complete_one(&process, &format!("{name}-{number}")).await?;
                if process.log().contains("spans still cannot be exported") {
                    break;
                }
            }
            Outcome::Ok(())
        };
        tokio::time::timeout(PATIENCE, until_failed_again).await??;
        world.until_settled().await?;
        stop(&mut process).await?;
        assert_eq!(process.log().matches("spans cannot be exported").count(), 1, "{}", process.log());
    }
    Ok(())
}
