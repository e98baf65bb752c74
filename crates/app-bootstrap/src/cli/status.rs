//! `app outbox status`: the figures, pauses, relays, breakers and leaders of the moment, once or again and again.

use std::{
    io::{self, IsTerminal},
    process::ExitCode,
    time::Duration,
};

use application_core::{
    outbox::{AggregateType, Reason},
    ports::{
        Destination, LagPercentiles, LeaderState, OutboxStatistics, Pause, PauseScope, PausedDestination,
        RecentPublishing,
    },
    usecases::{OperateOutboxUseCase, RelayState},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{outbox::text, output};
use crate::{error::BootstrapError, shutdown::cancel_at_signal, words::counted};

/// To the upper left corner, and clear what is there.
const REDRAW: &str = "\u{1b}[H\u{1b}[2J";

pub(super) async fn run(
    outbox: &OperateOutboxUseCase,
    watch: Option<u64>,
    json: bool,
) -> Result<ExitCode, BootstrapError> {
    let cancel = CancellationToken::new();
    if watch.is_some() {
        cancel_at_signal(cancel.clone())?;
    }
    let redraws = watch.is_some() && !json && io::stdout().is_terminal();
    loop {
        let status = status(outbox).await?;
        let shown = if json { status.to_string() } else { table(&status) };
        output::line(if redraws { format!("{REDRAW}{shown}") } else { shown });
        let Some(seconds) = watch else { return Ok(ExitCode::SUCCESS) };
        if tokio::time::timeout(Duration::from_secs(seconds), cancel.cancelled()).await.is_ok() {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

async fn status(outbox: &OperateOutboxUseCase) -> Result<Value, BootstrapError> {
    let (statistics, relays) = (outbox.statistics().await?, outbox.relays().await?);
    let seconds = |age: Option<Duration>| age.map(|age| age.as_secs_f64());
    Ok(json!({
        "pending": statistics.pending,
        "inFlight": statistics.in_flight,
        "failed": statistics.failed,
        "dead": statistics.dead,
        "blockedAggregates": statistics.blocked_aggregates,
        "oldestPendingAgeSeconds": seconds(statistics.oldest_pending_age),
        "oldestInFlightAgeSeconds": seconds(statistics.oldest_in_flight_age),
        "oldestSnapshotAgeSeconds": seconds(statistics.oldest_snapshot_age),
        "recentPublishing": outbox.recent_publishing().await?.map(|recent| publishing(&recent)),
        "paused": outbox.pauses().await?.iter().map(pause).collect::<Vec<_>>(),
        "relaysAlive": relays.iter().filter(|relay| relay.is_alive()).count(),
        "relays": relays.iter().map(relay).collect::<Vec<_>>(),
        "leaders": outbox.leaders().await?.iter().map(leader).collect::<Vec<_>>(),
        "countLimit": OutboxStatistics::COUNT_LIMIT,
    }))
}

fn publishing(recent: &RecentPublishing) -> Value {
    let lag = |of: fn(LagPercentiles) -> Duration| recent.lag.map(|lag| of(lag).as_secs_f64());
    json!({
        "events": recent.events,
        "spanSeconds": recent.span.as_secs_f64(),
        "perSecond": recent.per_second(),
        "lagP50Seconds": lag(|lag| lag.p50),
        "lagP95Seconds": lag(|lag| lag.p95),
        "lagP99Seconds": lag(|lag| lag.p99),
    })
}

fn relay(relay: &RelayState) -> Value {
    let (registered, leases) = (relay.registered.as_ref(), relay.leases.as_ref());
    let paused = registered.into_iter().flat_map(|registered| &registered.paused);
    json!({
        "holder": relay.holder.as_str(),
        "state": relay.state(),
        "version": registered.map(|registered| registered.version.as_str()),
        "runningSeconds": registered.map(|registered| registered.running.as_secs_f64()),
        "silentSeconds": registered.map(|registered| registered.silent.as_secs_f64()),
        "claims": leases.map_or(0, |leases| leases.claims),
        "lanes": leases.map_or(0, |leases| leases.lanes),
        "expired": leases.map_or(0, |leases| leases.expired),
        "oldestClaimAgeSeconds": leases.map(|leases| leases.oldest_claim_age.as_secs_f64()),
        "paused": paused.map(paused_destination).collect::<Vec<_>>(),
    })
}

fn paused_destination(paused: &PausedDestination) -> Value {
    json!({
        "destination": paused.destination.as_ref().map(Destination::as_str),
        "reason": paused.reason,
        "ageSeconds": paused.paused_for.as_secs_f64(),
    })
}

fn leader(leader: &LeaderState) -> Value {
    json!({
        "role": leader.role,
        "holder": leader.holder.as_str(),
        "term": leader.term,
        "expiresInSeconds": leader.expires_in.map(|left| left.as_secs_f64()),
    })
}

fn pause(pause: &Pause) -> Value {
    json!({
        "aggregateType": pause.scope.aggregate_type().map(AggregateType::as_str),
        "everything": pause.scope == PauseScope::Everything,
        "ageSeconds": pause.age.as_secs_f64(),
        "operator": pause.by.operator.as_str(),
        "reason": pause.by.reason.as_ref().map(Reason::as_str),
    })
}

fn table(status: &Value) -> String {
    let (limit, mut lines) = (OutboxStatistics::COUNT_LIMIT, Vec::new());
    let figure = |key: &str| status.get(key).and_then(Value::as_u64).unwrap_or_default();
    for (label, key) in [
        ("PENDING", "pending"),
        ("IN_FLIGHT", "inFlight"),
        ("FAILED", "failed"),
        ("DEAD", "dead"),
        ("blocked aggregates", "blockedAggregates"),
    ] {
        let count = figure(key);
        // Beside so many others, what is pending cannot all be told.
        let many = count >= limit || key == "pending" && figure("failed").max(figure("dead")) >= limit;
        let more = if many { " or more" } else { "" };
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
    if let Some(recent) = status.get("recentPublishing").filter(|recent| !recent.is_null()) {
        let number = |name: &str| recent.get(name).and_then(Value::as_f64);
        let lag = number("lagP99Seconds").map(|lag| format!(", 99 % within {lag:.2} s")).unwrap_or_default();
        let (rate, span) = (number("perSecond").unwrap_or_default(), number("spanSeconds").unwrap_or_default());
        lines.push(format!("{:<24}{rate:.1} a second over {span:.0} s{lag}", "published"));
    }
    for pause in status.get("paused").and_then(Value::as_array).into_iter().flatten() {
        let field = |name: &str| pause.get(name).filter(|value| !value.is_null()).map(text);
        let what = field("aggregateType").unwrap_or_else(|| "everything".to_owned());
        let who = field("operator").unwrap_or_default();
        let why = field("reason").map(|reason| format!(": {reason}")).unwrap_or_default();
        lines.push(format!("{:<24}{what}, by {who}{why}", "paused"));
    }
    let relays = status.get("relays").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    lines.push(format!("{:<24}{} of {}", "relays alive", figure("relaysAlive"), relays.len()));
    for relay in relays {
        lines.push(format!("{:<24}{}", "relay", relay_line(relay)));
    }
    for relay in relays {
        lines.extend(breaker_lines(relay));
    }
    for leader in status.get("leaders").and_then(Value::as_array).into_iter().flatten() {
        let field = |name: &str| leader.get(name).map(text).unwrap_or_default();
        let left = leader.get("expiresInSeconds").and_then(Value::as_f64);
        let left = left.map_or_else(|| "term is over".to_owned(), |left| format!("{left:.1} s left"));
        lines.push(format!("{:<24}{} of {}, term {}, {left}", "leader", field("holder"), field("role"), field("term")));
    }
    lines.join("\n")
}

fn relay_line(relay: &Value) -> String {
    let field = |name: &str| relay.get(name).map(text).unwrap_or_default();
    let seconds = |name: &str| relay.get(name).and_then(Value::as_f64);
    let figure = |name: &str| relay.get(name).and_then(Value::as_u64).unwrap_or_default();
    let mut parts = vec![field("state")];
    if let Some(silent) = seconds("silentSeconds") {
        parts.push(format!("seen {silent:.1} s ago"));
    }
    match seconds("oldestClaimAgeSeconds") {
        None => parts.push("idle".to_owned()),
        Some(age) => {
            let held = [("lanes", "lane"), ("claims", "claim")];
            parts.push(held.map(|(name, noun)| counted(figure(name), noun)).join(" in "));
            parts.push(format!("oldest {age:.1} s, {} expired", figure("expired")));
        }
    }
    format!("{}: {}", field("holder"), parts.join(", "))
}

/// A destination whose breaker is open is so for one relay: another may reach it.
fn breaker_lines(relay: &Value) -> Vec<String> {
    let holder = relay.get("holder").map(text).unwrap_or_default();
    let line = |paused: &Value| {
        let field = |name: &str| paused.get(name).filter(|value| !value.is_null()).map(text);
        let what = field("destination").unwrap_or_else(|| "everything".to_owned());
        let age = paused.get("ageSeconds").and_then(Value::as_f64).unwrap_or_default();
        format!("{:<24}{what} of {holder}, open for {age:.1} s: {}", "breaker", field("reason").unwrap_or_default())
    };
    relay.get("paused").and_then(Value::as_array).into_iter().flatten().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_relay_is_told_alive_and_an_open_breaker_with_its_destination_and_reason() {
        let status = json!({
            "relaysAlive": 1,
            "relays": [
                { "holder": "a", "state": "alive", "silentSeconds": 3.0, "claims": 0, "lanes": 0, "expired": 0,
                  "oldestClaimAgeSeconds": null,
                  "paused": [{ "destination": "orders", "reason": "unavailable: no exchange", "ageSeconds": 12.0 },
                             { "destination": null, "reason": "no connection", "ageSeconds": 1.0 }] },
                { "holder": "b", "state": "gone", "silentSeconds": 60.0, "claims": 1, "lanes": 2, "expired": 1,
                  "oldestClaimAgeSeconds": 61.0, "paused": [] },
            ],
        });
        let shown = table(&status);
        for line in [
            "relays alive            1 of 2",
            "relay                   a: alive, seen 3.0 s ago, idle",
            "relay                   b: gone, seen 60.0 s ago, 2 lanes in 1 claim, oldest 61.0 s, 1 expired",
            "breaker                 orders of a, open for 12.0 s: unavailable: no exchange",
            "breaker                 everything of a, open for 1.0 s: no connection",
        ] {
            assert!(shown.lines().any(|shown| shown == line), "{line} is not in\n{shown}");
        }
    }
}
