//! `app outbox …`: look at the outbox and act on its events.

use std::{process::ExitCode, time::Duration};

use application_core::{
    outbox::{AggregateType, EventId, HolderName, OutboxEventStatus},
    ports::{BlockedAggregate, EventFilter, Finding, OutboxEventState, OutboxStatistics},
    usecases::{Diagnosis, ExamineOutboxUseCase, OperateOutboxUseCase},
};
use clap::Subcommand;
use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;

use super::{output, setup, values::aggregate_type};
use crate::{error::BootstrapError, settings::Settings};

#[derive(Debug, Subcommand)]
pub(super) enum OutboxCommand {
    /// Backlog by status, oldest ages, blocked aggregates.
    Status {
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Events in the order of their ids, a page at a time.
    List {
        /// Only this status: PENDING, `IN_FLIGHT`, PUBLISHED, FAILED or DEAD, in upper or lower case.
        #[arg(long)]
        status: Option<OutboxEventStatus>,
        /// Only this aggregate type.
        #[arg(long, value_parser = aggregate_type)]
        aggregate_type: Option<AggregateType>,
        /// Only events after this id: the last one of the page before.
        #[arg(long)]
        after: Option<EventId>,
        /// How many events.
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
        /// Print a JSON array.
        #[arg(long)]
        json: bool,
    },
    /// Everything about one event.
    Show {
        /// The event.
        id: EventId,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Aggregates that wait behind a DEAD event.
    Blocked {
        /// How many aggregates.
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
        /// Print a JSON array.
        #[arg(long)]
        json: bool,
    },
    /// What is wrong with the outbox, and the cure of each finding; exits with 1 if anything is.
    Doctor {
        /// First build the lanes anew from the open events; refused while a relay holds a lease.
        #[arg(long)]
        repair: bool,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Try a DEAD event anew, attempts from zero.
    Requeue {
        /// The event.
        id: EventId,
    },
    /// Give a DEAD event up, so that its aggregate goes on without it.
    Discard {
        /// The event.
        id: EventId,
    },
    /// Send a published event again under its id.
    Replay {
        /// The event.
        id: EventId,
    },
}

impl OutboxCommand {
    pub(super) async fn run(self, settings: &Settings) -> Result<ExitCode, BootstrapError> {
        let config = setup::outbox(settings).await?;
        let outbox = config.operate();
        match self {
            Self::Doctor { repair, json } => return doctor(&config.doctor(), repair, json).await,
            Self::Status { json } => print(&status(&outbox.statistics().await?), json, status_table),
            Self::List { status, aggregate_type, after, limit, json } => {
                let filter = EventFilter { status, aggregate_type, after, limit, ..EventFilter::default() };
                let events = outbox.list(&filter).await?;
                print(&Value::Array(events.iter().map(event).collect()), json, rows_table);
            }
            Self::Show { id, json } => print(&event(&outbox.show(id).await?), json, fields_table),
            Self::Blocked { limit, json } => {
                let aggregates = outbox.blocked(limit).await?;
                print(&Value::Array(aggregates.iter().map(blocked).collect()), json, rows_table);
            }
            Self::Requeue { id } => act(&outbox, id, "requeued").await?,
            Self::Discard { id } => act(&outbox, id, "discarded").await?,
            Self::Replay { id } => act(&outbox, id, "replayed").await?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

async fn doctor(doctor: &ExamineOutboxUseCase, repair: bool, json: bool) -> Result<ExitCode, BootstrapError> {
    let lanes = if repair { Some(doctor.repair_lanes().await.map_err(BootstrapError::Repair)?) } else { None };
    let findings: Vec<_> = doctor.examine().await.iter().flat_map(findings).collect();
    let code = ExitCode::from(u8::from(!findings.is_empty()));
    if json {
        output::line(json!({ "rebuiltLanes": lanes, "findings": findings }).to_string());
    } else {
        if let Some(lanes) = lanes {
            output::line(format!("{lanes} lanes rebuilt"));
        }
        output::line(rows_table(&Value::Array(findings)));
    }
    Ok(code)
}

fn findings(diagnosis: &Diagnosis) -> Vec<Value> {
    let value = |finding: &Finding| {
        json!({
            "check": diagnosis.check,
            "problem": finding.problem,
            "subject": finding.subject,
            "cure": finding.cure,
        })
    };
    diagnosis.findings.iter().map(value).collect()
}

async fn act(outbox: &OperateOutboxUseCase, id: EventId, action: &str) -> Result<(), BootstrapError> {
    match action {
        "requeued" => outbox.requeue(id).await?,
        "discarded" => outbox.discard(id).await?,
        _ => outbox.replay(id).await?,
    }
    output::line(format!("1 event {action}: {id}"));
    Ok(())
}

fn print(value: &Value, json: bool, table: fn(&Value) -> String) {
    output::line(if json { value.to_string() } else { table(value) });
}

fn status(statistics: &OutboxStatistics) -> Value {
    let seconds = |age: Option<Duration>| age.map(|age| age.as_secs_f64());
    json!({
        "pending": statistics.pending,
        "inFlight": statistics.in_flight,
        "failed": statistics.failed,
        "dead": statistics.dead,
        "blockedAggregates": statistics.blocked_aggregates,
        "oldestPendingAgeSeconds": seconds(statistics.oldest_pending_age),
        "oldestInFlightAgeSeconds": seconds(statistics.oldest_in_flight_age),
        "oldestSnapshotAgeSeconds": seconds(statistics.oldest_snapshot_age),
        "countLimit": OutboxStatistics::COUNT_LIMIT,
    })
}

fn event(event: &OutboxEventState) -> Value {
    let time = |at: Option<time::OffsetDateTime>| at.and_then(|at| at.format(&Rfc3339).ok());
    json!({
        "id": event.id.to_string(),
        "status": event.status.as_str(),
        "sequence": event.sequence.0,
        "aggregateType": event.aggregate_type.as_str(),
        "aggregateId": event.aggregate_id.as_str(),
        "eventType": event.event_type.as_str(),
        "attempts": event.attempts,
        "replays": event.replays,
        "createdAt": time(Some(event.created_at)),
        "publishedAt": time(event.published_at),
        "dueAt": time(event.due_at),
        "lastError": event.last_error,
        "resolvedAt": time(event.resolved_at),
        "resolution": event.resolution,
        "holder": event.holder.as_ref().map(HolderName::as_str),
        "leaseExpiresAt": time(event.lease_expires_at),
        "blockedBehind": event.blocked_behind.map(|id| id.to_string()),
    })
}

fn blocked(aggregate: &BlockedAggregate) -> Value {
    json!({
        "aggregateType": aggregate.aggregate_type.as_str(),
        "aggregateId": aggregate.aggregate_id.as_str(),
        "head": aggregate.head.to_string(),
        "reason": aggregate.reason,
        "ageSeconds": aggregate.age.as_secs_f64(),
        "depth": aggregate.depth,
    })
}

fn status_table(status: &Value) -> String {
    let (limit, mut lines) = (OutboxStatistics::COUNT_LIMIT, Vec::new());
    for (label, key) in [
        ("PENDING", "pending"),
        ("IN_FLIGHT", "inFlight"),
        ("FAILED", "failed"),
        ("DEAD", "dead"),
        ("blocked aggregates", "blockedAggregates"),
    ] {
        let count = status.get(key).and_then(Value::as_u64).unwrap_or_default();
        let more = if count >= limit { " or more" } else { "" };
        lines.push(format!("{label:<24}{count}{more}"));
    }
    for (label, key) in [
        ("oldest pending", "oldestPendingAgeSeconds"),
        ("oldest in flight", "oldestInFlightAgeSeconds"),
        ("oldest snapshot", "oldestSnapshotAgeSeconds"),
    ] {
        let age = status.get(key).and_then(Value::as_f64);
        lines.push(format!("{label:<24}{}", age.map_or_else(|| "-".to_owned(), |age| format!("{age:.1} s"))));
    }
    lines.join("\n")
}

fn fields_table(event: &Value) -> String {
    let fields = event.as_object().into_iter().flatten();
    fields.map(|(name, value)| format!("{name:<20}{}", text(value))).collect::<Vec<_>>().join("\n")
}

fn rows_table(rows: &Value) -> String {
    let rows: Vec<_> = rows.as_array().into_iter().flatten().filter_map(Value::as_object).collect();
    let Some(first) = rows.first() else { return "none".to_owned() };
    let names: Vec<&String> =
        first.keys().filter(|name| rows.iter().any(|row| !row.get(*name).is_none_or(Value::is_null))).collect();
    let width = |name: &String| {
        rows.iter()
            .map(|row| row.get(name).map_or(1, |value| text(value).chars().count()))
            .max()
            .unwrap_or(1)
            .max(name.len())
    };
    let widths: Vec<_> = names.iter().map(|name| width(name)).collect();
    let line = |cells: Vec<String>| {
        let cells = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let mut lines = vec![line(names.iter().map(|name| (*name).clone()).collect())];
    lines.extend(
        rows.iter().map(|row| line(names.iter().map(|name| row.get(*name).map_or_else(String::new, text)).collect())),
    );
    lines.join("\n")
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
