//! `app outbox …`: look at the outbox and act on its events.

use std::process::ExitCode;

use application_core::{
    outbox::{AggregateType, EventAction, EventId, HolderName, OutboxEventStatus, Reason},
    ports::{AuditEntry, BlockedAggregate, EventFilter, OutboxEventContent, OutboxEventState, PauseScope, StoreError},
    usecases::{OperateError, OperateOutboxUseCase},
};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use time::format_description::well_known::Rfc3339;

use super::{
    attribution::AttributionArgs,
    doctor::{self, DoctorArgs},
    many::{FilterArgs, ManyArgs, PurgeArgs, RangeArgs, ReplayArgs},
    output, setup, status,
    values::aggregate_type,
};
use crate::{error::BootstrapError, settings::Settings};

#[derive(Debug, Subcommand)]
pub(super) enum OutboxCommand {
    /// Backlog by status, oldest ages, blocked aggregates, pauses, relays alive and what they hold, open breakers, leaders.
    #[command(after_help = STATUS_EXAMPLES)]
    Status {
        /// Show it again every so many seconds, until Ctrl-C.
        #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
        watch: Option<u64>,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Events in the order of their ids, a page at a time.
    #[command(after_help = LIST_EXAMPLES)]
    List {
        /// Only this status: PENDING, `IN_FLIGHT`, PUBLISHED, FAILED or DEAD, in upper or lower case.
        #[arg(long)]
        status: Option<OutboxEventStatus>,
        #[command(flatten)]
        filter: FilterArgs,
        #[command(flatten)]
        range: RangeArgs,
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
    /// Everything about one event but its content: where it stands, and what operators have done to it.
    #[command(after_help = SHOW_EXAMPLES)]
    Show {
        /// The event.
        id: EventId,
        /// Its payload and headers as well: the payload as the text that was appended.
        #[arg(long)]
        payload: bool,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Aggregates that wait behind a DEAD event.
    #[command(after_help = BLOCKED_EXAMPLES)]
    Blocked {
        /// How many aggregates.
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
        /// Print a JSON array.
        #[arg(long)]
        json: bool,
    },
    /// What is wrong with the outbox, and the cure of each finding; exits with 1 if anything is.
    #[command(after_help = doctor::EXAMPLES)]
    Doctor(DoctorArgs),
    /// Try DEAD events anew, attempts from zero: by id, or all that match and are not resolved.
    #[command(after_help = REQUEUE_EXAMPLES)]
    Requeue(ManyArgs),
    /// Give DEAD events up, so that their aggregates go on without them: by id, or all that match.
    #[command(after_help = DISCARD_EXAMPLES)]
    Discard(ManyArgs),
    /// Send published events again under their ids: by id, or all that match.
    #[command(after_help = REPLAY_EXAMPLES)]
    Replay(ReplayArgs),
    /// Delete history that is older than an age: published events, and those that were discarded or skipped.
    #[command(after_help = PURGE_EXAMPLES)]
    Purge(PurgeArgs),
    /// Hold events back: everything, or one aggregate type. What is in flight finishes; appending goes on.
    #[command(after_help = PAUSE_EXAMPLES)]
    Pause {
        #[command(flatten)]
        scope: ScopeArgs,
        #[command(flatten)]
        by: AttributionArgs,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Let events go again that were held back; each pause is lifted by itself.
    #[command(after_help = PAUSE_EXAMPLES)]
    Resume {
        #[command(flatten)]
        scope: ScopeArgs,
        #[command(flatten)]
        by: AttributionArgs,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// What operators have changed, newest first: who, when, what, why, which.
    #[command(after_help = AUDIT_EXAMPLES)]
    Audit {
        /// Only what was done to this event.
        #[arg(long, value_name = "ID", conflicts_with = "before")]
        event: Option<EventId>,
        /// Only entries before this number: the last one of the page before.
        #[arg(long, value_name = "NUMBER")]
        before: Option<i64>,
        /// How many entries.
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1000))]
        limit: u32,
        /// Print a JSON array, with the ids of the events.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct ScopeArgs {
    /// Everything.
    #[arg(long)]
    all: bool,
    /// The events of this aggregate type.
    #[arg(long, value_parser = aggregate_type)]
    aggregate_type: Option<AggregateType>,
}

impl ScopeArgs {
    fn scope(self) -> PauseScope {
        self.aggregate_type.map_or(PauseScope::Everything, PauseScope::Type)
    }
}

const STATUS_EXAMPLES: &str = "\
Examples:
  app outbox status
  app outbox status --watch 2
  app outbox status --json

The lag is the age of the oldest pending event. Breakers are known to each relay alone: its /metrics shows them.";

const SHOW_EXAMPLES: &str = "\
Examples:
  app outbox show 0198c5a0-0000-7000-8000-000000000001
  app outbox show 0198c5a0-0000-7000-8000-000000000001 --json
  app outbox show 0198c5a0-0000-7000-8000-000000000001 --payload

`blockedBehind` names the event to act upon when this one waits for another. Exits with 1 if there is no such event.
The audit, what operators have done to the event, is shown to operators alone.
What a payload holds is not for everybody: with the roles of migrations/roles, operators and readers are refused it.";

const BLOCKED_EXAMPLES: &str = "\
Examples:
  app outbox blocked
  app outbox blocked --limit 1000 --json

`head` is the event to requeue or to discard.";

const PURGE_EXAMPLES: &str = "\
Examples:
  app outbox purge --older-than 7days --dry-run
  app outbox purge --older-than 7days --reason 'the disk is full'
  app outbox purge --older-than 30days --only resolved

What is purged cannot be replayed, and its ids are no duplicates any more. Open and DEAD events stay, whatever their age.
A line of the log tells of each batch, if logs.filter lets it through.
Interrupted or failed, it says how many events are gone; it is safe to run it again: it goes on.
Exit codes: 0 done, 1 refused or failed, 2 wrong arguments, 130 interrupted after a batch (the same command goes on).";

const PAUSE_EXAMPLES: &str = "\
Examples:
  app outbox pause --aggregate-type order --reason 'the shop is being moved'
  app outbox resume --aggregate-type order
  app outbox pause --all --json

What is paused is shown by `app outbox status`. A second pause or resume changes nothing and is no error.
A resume wakes what was held back in steps; a line of the log tells of each, if logs.filter lets it through.";

const LIST_EXAMPLES: &str = "\
Examples:
  app outbox list --status dead --class rejected --older-than 1h
  app outbox list --aggregate-type order --aggregate-id 42 --json
  app outbox list --status dead --after 0198c5a0-0000-7000-8000-000000000001
  app outbox list --published-from 2026-01-02T10:00:00Z --published-until 2026-01-02T12:00:00Z";

const REQUEUE_EXAMPLES: &str = "\
Examples:
  app outbox requeue 0198c5a0-0000-7000-8000-000000000001 --reason 'queue is back'
  app outbox requeue --class unroutable --older-than 10m --dry-run
  app outbox requeue --aggregate-type order --aggregate-id 42 --by zoe

Of several ids, those that cannot be changed are named and the others are changed.
Exit codes: 0 done, 1 refused or failed or an id is unknown, 2 wrong arguments, 130 interrupted after a batch (the same command goes on).";

const DISCARD_EXAMPLES: &str = "\
Examples:
  app outbox discard 0198c5a0-0000-7000-8000-000000000001 --reason 'sent by hand'
  app outbox discard --event-type OrderPlaced --class poison --dry-run

Of several ids, those that cannot be changed are named and the others are changed.
Exit codes: 0 done, 1 refused or failed or an id is unknown, 2 wrong arguments, 130 interrupted after a batch (the same command goes on).";

const REPLAY_EXAMPLES: &str = "\
Examples:
  app outbox replay 0198c5a0-0000-7000-8000-000000000001 --reason 'consumer lost it'
  app outbox replay 0198c5a0-0000-7000-8000-000000000001 0198c5a0-0000-7000-8000-000000000002 --dry-run
  app outbox replay --event-type OrderPlaced --published-from 2026-01-02T10:00:00Z --published-until 2026-01-02T12:00:00Z --dry-run
  app outbox replay --aggregate-type order --from 0198c5a0-0000-7000-8000-000000000001 --to 0198c5a0-0000-7000-8000-000000000009

A consumer that handled the event knows it by its inbox: `app inbox forget` comes first if it is to have its effect again.
An event that is sent again has a new time of publishing: with --published-until in the past, a repetition sends none twice.
A range of times that reaches where published events are gone (by retention or purge) is refused, and says until when they are;
one that does not say where it begins sends what is left, and tells of it.
The events of a batch keep the order of their aggregate; batch follows batch in the order of ids.
Of several ids, those that cannot be sent again are named, the others are.
By filter, one that fails midway names the --after from which the same command goes on, as an interrupted one does.
If its beginning has gone meanwhile, that is refused as well: raise --published-from behind what is gone, with the same --after.
Exit codes: 0 done, 1 refused or failed or an id is unknown, 2 wrong arguments, 130 interrupted after a batch (the same command goes on with the --after that it names).";

const AUDIT_EXAMPLES: &str = "\
Examples:
  app outbox audit --limit 10
  app outbox audit --before 42 --json
  app outbox audit --event 0198c5a0-0000-7000-8000-000000000001";

impl OutboxCommand {
    pub(super) async fn run(self, settings: &Settings) -> Result<ExitCode, BootstrapError> {
        if let Self::Doctor(arguments) = self {
            return arguments.run(settings).await;
        }
        let config = setup::outbox(settings).await?;
        let outbox = config.operate();
        match self {
            Self::Status { watch, json } => return status::run(&outbox, watch, json).await,
            Self::Doctor(_) => {}
            Self::List { status, filter, range, after, limit, json } => {
                let filter = EventFilter { status, after, limit, ..range.within(filter.filter()) };
                let events = outbox.list(&filter).await?;
                print(&Value::Array(events.iter().map(event).collect()), json, rows_table);
            }
            Self::Show { id, payload, json } => {
                let state = outbox.show(id).await?;
                let mut value = if json { event(&state) } else { shown(&state) };
                if payload {
                    add_content(&mut value, &outbox.content(id).await?);
                }
                let record = record_of(&outbox, id).await?;
                if json {
                    add_record(&mut value, record.as_ref());
                }
                print(&value, json, |value| with_record(fields_table(value), record.as_ref()));
                if record.is_none() {
                    output::hint("what operators have done to it is for operators to see");
                }
            }
            Self::Blocked { limit, json } => {
                let aggregates = outbox.blocked(limit).await?;
                print(&Value::Array(aggregates.iter().map(blocked).collect()), json, rows_table);
            }
            Self::Requeue(many) => return many.run(EventAction::Requeue, &outbox).await,
            Self::Discard(many) => return many.run(EventAction::Discard, &outbox).await,
            Self::Replay(replay) => return replay.run(&outbox).await,
            Self::Purge(purge) => return purge.run(&config.purge()).await,
            Self::Pause { scope, by, json } => {
                let scope = scope.scope();
                let changed = outbox.pause(&scope, &by.attribution()).await?;
                let said = if changed { "1 pause set" } else { "0 pauses set: it was paused already" };
                print(&pause_change("pause", &scope, changed), json, |_| said.to_owned());
            }
            Self::Resume { scope, by, json } => {
                let scope = scope.scope();
                let changed = outbox.resume(&scope, &by.attribution()).await?;
                let said = if changed { "1 pause lifted" } else { "0 pauses lifted: it was not paused" };
                print(&pause_change("resume", &scope, changed), json, |_| said.to_owned());
            }
            Self::Audit { event, before, limit, json } => {
                let entries = match event {
                    Some(event) => outbox.audit_of(event, limit).await?,
                    None => outbox.audit(before, limit).await?,
                };
                let value = if json { audit_entry } else { audit_row };
                print(&Value::Array(entries.iter().map(value).collect()), json, rows_table);
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn pause_change(action: &str, scope: &PauseScope, changed: bool) -> Value {
    json!({
        "action": action,
        "aggregateType": scope.aggregate_type().map(AggregateType::as_str),
        "everything": *scope == PauseScope::Everything,
        "changed": changed,
        "pauses": u8::from(changed),
    })
}

pub(super) fn print(value: &Value, json: bool, table: impl FnOnce(&Value) -> String) {
    output::line(if json { value.to_string() } else { table(value) });
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

/// For people: the last failure of an event that was published since is history.
fn shown(state: &OutboxEventState) -> Value {
    let mut value = event(state);
    if let (Some(_), Some(error), Some(fields)) = (state.published_at, &state.last_error, value.as_object_mut()) {
        fields.insert("lastError".to_owned(), json!(format!("{error} (before it was published)")));
    }
    value
}

/// The payload stays a text: as a value its numbers could lose digits.
fn add_content(event: &mut Value, content: &OutboxEventContent) {
    let headers: Map<String, Value> =
        content.headers.iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
    if let Some(fields) = event.as_object_mut() {
        fields.insert("headers".to_owned(), Value::Object(headers));
        fields.insert("payload".to_owned(), json!(content.payload.as_str()));
    }
}

/// What operators have done to the event, newest first, without the list of the events that it was done to; `None`: this
/// process's user may not see it.
async fn record_of(outbox: &OperateOutboxUseCase, id: EventId) -> Result<Option<Value>, BootstrapError> {
    const MOST: u32 = 1_000;
    let entries = match outbox.audit_of(id, MOST).await {
        Ok(entries) => entries,
        Err(OperateError::Store { source: StoreError::Forbidden { .. } }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if u32::try_from(entries.len()).is_ok_and(|count| count >= MOST) {
        output::hint(format!("of what operators have done to it, the newest {MOST} entries are shown"));
    }
    let entry = |entry: &AuditEntry| {
        let mut entry = audit_entry(entry);
        if let Some(fields) = entry.as_object_mut() {
            fields.remove("events");
        }
        entry
    };
    Ok(Some(Value::Array(entries.iter().map(entry).collect())))
}

fn add_record(event: &mut Value, record: Option<&Value>) {
    if let Some(fields) = event.as_object_mut() {
        fields.insert("audit".to_owned(), record.cloned().unwrap_or(Value::Null));
    }
}

fn with_record(event: String, record: Option<&Value>) -> String {
    match record {
        Some(record) => format!("{event}\n\naudit, newest first\n{}", rows_table(record)),
        None => event,
    }
}

fn audit_entry(entry: &AuditEntry) -> Value {
    json!({
        "number": entry.number,
        "actedAt": entry.acted_at.format(&Rfc3339).ok(),
        "operator": entry.by.operator.as_str(),
        "action": entry.action,
        "affected": entry.affected,
        "aggregateType": entry.aggregate_type,
        "aggregateId": entry.aggregate_id,
        "consumer": entry.consumer,
        "reason": entry.by.reason.as_ref().map(Reason::as_str),
        "events": entry.events.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

/// In a table a long list would push everything else aside: one event is named, more are counted.
fn audit_row(entry: &AuditEntry) -> Value {
    let mut row = audit_entry(entry);
    let event = if let [only] = &entry.events[..] { json!(only.to_string()) } else { Value::Null };
    if let Some(fields) = row.as_object_mut() {
        fields.remove("events");
        fields.insert("event".to_owned(), event);
    }
    row
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

fn fields_table(event: &Value) -> String {
    let fields = event.as_object().into_iter().flatten();
    fields.map(|(name, value)| format!("{name:<20}{}", text(value))).collect::<Vec<_>>().join("\n")
}

pub(super) fn rows_table(rows: &Value) -> String {
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

pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use application_core::outbox::{AggregateId, EventType, Sequence};
    use time::OffsetDateTime;

    use super::*;

    fn state(published_at: Option<OffsetDateTime>) -> OutboxEventState {
        OutboxEventState {
            id: "0198c5a0-0000-7000-8000-000000000001".parse().unwrap(),
            sequence: Sequence(7),
            aggregate_type: AggregateType::from_stored("order"),
            aggregate_id: AggregateId::from_stored("o-1"),
            event_type: EventType::from_stored("OrderPlaced"),
            status: if published_at.is_some() { OutboxEventStatus::Published } else { OutboxEventStatus::Failed },
            attempts: 1,
            replays: 0,
            created_at: OffsetDateTime::UNIX_EPOCH,
            published_at,
            due_at: None,
            last_error: Some("rejected: full".to_owned()),
            resolved_at: None,
            resolution: None,
            holder: None,
            lease_expires_at: None,
            blocked_behind: None,
        }
    }

    #[test]
    fn the_last_failure_of_a_published_event_is_shown_as_history() {
        let published = state(Some(OffsetDateTime::UNIX_EPOCH));
        assert_eq!(shown(&published)["lastError"], "rejected: full (before it was published)");
        assert_eq!(event(&published)["lastError"], "rejected: full", "programs get the words alone");
        assert_eq!(shown(&state(None))["lastError"], "rejected: full");
    }
}
