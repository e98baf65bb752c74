//! Actions on events: by id, or on all that match, in batches that can be interrupted.

use std::{process::ExitCode, time::Duration};

use application_core::{
    outbox::{AggregateId, AggregateType, EventAction, EventId, EventType, FailureClass, SettledHistory},
    ports::{EventFilter, with_causes},
    usecases::{
        LeftAlone, MOST_IN_A_BATCH, ManyFailed, ManyReport, OperateError, OperateOutboxUseCase, PurgeOutboxUseCase,
        Selection,
    },
};
use clap::Args;
use serde_json::{Map, Value, json};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::{
    attribution::AttributionArgs,
    output,
    values::{age, aggregate_id, aggregate_type, event_type, time},
};
use crate::{error::BootstrapError, shutdown::stop_at_signal, words::counted};

/// The exit code of a command that was told to stop, as a shell would have it.
const EXIT_INTERRUPTED: u8 = 130;

/// Which events, by what they are about.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct AboutArgs {
    /// Only this aggregate type.
    #[arg(long, value_parser = aggregate_type)]
    aggregate_type: Option<AggregateType>,
    /// Only this aggregate.
    #[arg(long, value_parser = aggregate_id)]
    aggregate_id: Option<AggregateId>,
    /// Only this event type.
    #[arg(long, value_parser = event_type)]
    event_type: Option<EventType>,
}

impl AboutArgs {
    fn filter(self) -> EventFilter {
        let Self { aggregate_type, aggregate_id, event_type } = self;
        EventFilter { aggregate_type, aggregate_id, event_type, ..EventFilter::default() }
    }
}

/// Which events, by what is known of them.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct FilterArgs {
    #[command(flatten)]
    about: AboutArgs,
    /// Only events whose last failure was of this class: unavailable, rejected, unroutable or poison.
    #[arg(long)]
    class: Option<FailureClass>,
    /// Only events that were stored this long ago or longer, for example 90s, 2h or 7d.
    #[arg(long, value_name = "AGE", value_parser = age)]
    older_than: Option<Duration>,
}

impl FilterArgs {
    pub(super) fn filter(self) -> EventFilter {
        EventFilter { class: self.class, older_than: self.older_than, ..self.about.filter() }
    }
}

/// Which events, by their ids and by when they were published.
#[derive(Debug, Clone, Default, Args)]
pub(super) struct RangeArgs {
    /// Only events that the broker confirmed at this time or later, for example 2026-01-02T03:04:05Z.
    #[arg(long, value_name = "TIME", value_parser = time)]
    published_from: Option<OffsetDateTime>,
    /// Only events that the broker confirmed before this time.
    #[arg(long, value_name = "TIME", value_parser = time)]
    published_until: Option<OffsetDateTime>,
    /// Only this event and those with higher ids.
    #[arg(long, value_name = "ID")]
    from: Option<EventId>,
    /// Only this event and those with lower ids.
    #[arg(long, value_name = "ID")]
    to: Option<EventId>,
}

impl RangeArgs {
    pub(super) fn within(self, filter: EventFilter) -> EventFilter {
        let Self { published_from, published_until, from, to } = self;
        EventFilter { published_from, published_until, from, to, ..filter }
    }
}

/// Events by id, or all DEAD ones that match.
#[derive(Debug, Clone, Args)]
pub(super) struct ManyArgs {
    /// The events; without any, all unresolved DEAD ones that match.
    #[arg(
        conflicts_with_all = ["aggregate_type", "aggregate_id", "event_type", "class", "older_than", "all"],
        required_unless_present_any = ["aggregate_type", "aggregate_id", "event_type", "class", "older_than", "all"],
    )]
    ids: Vec<EventId>,
    #[command(flatten)]
    filter: FilterArgs,
    /// Every DEAD event that is not resolved.
    #[arg(long)]
    all: bool,
    /// Only say how many events it would change.
    #[arg(long)]
    dry_run: bool,
    /// How many events one transaction changes; after it, an interrupted command ends.
    #[arg(long, value_name = "EVENTS", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_IN_A_BATCH)))]
    batch: u32,
    #[command(flatten)]
    by: AttributionArgs,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl ManyArgs {
    pub(super) async fn run(
        self,
        action: EventAction,
        outbox: &OperateOutboxUseCase,
    ) -> Result<ExitCode, BootstrapError> {
        let Self { ids, filter, all: _, dry_run, batch, by, json } = self;
        let which = if ids.is_empty() { Selection::Matching(filter.filter()) } else { Selection::Events(ids) };
        Work { which, dry_run, batch, by, json }.run(action, outbox).await
    }
}

/// Published events by id, or all that match, to be sent again.
#[derive(Debug, Clone, Args)]
pub(super) struct ReplayArgs {
    /// The events; without any, all published ones that match.
    #[arg(
        conflicts_with_all = [
            "aggregate_type", "aggregate_id", "event_type", "published_from", "published_until", "from", "to", "after",
        ],
        required_unless_present_any = [
            "aggregate_type", "aggregate_id", "event_type", "published_from", "published_until", "from", "to",
        ],
    )]
    ids: Vec<EventId>,
    #[command(flatten)]
    about: AboutArgs,
    #[command(flatten)]
    range: RangeArgs,
    /// Only events after this id: where an interrupted command ended.
    #[arg(long, value_name = "ID")]
    after: Option<EventId>,
    /// Only say how many events it would send again.
    #[arg(long)]
    dry_run: bool,
    /// How many events one transaction opens; after it, an interrupted command ends.
    #[arg(long, value_name = "EVENTS", default_value_t = MOST_IN_A_BATCH, value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_IN_A_BATCH)))]
    batch: u32,
    #[command(flatten)]
    by: AttributionArgs,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl ReplayArgs {
    pub(super) async fn run(self, outbox: &OperateOutboxUseCase) -> Result<ExitCode, BootstrapError> {
        let Self { ids, about, range, after, dry_run, batch, by, json } = self;
        let which = if ids.is_empty() {
            Selection::Matching(EventFilter { after, ..range.within(about.filter()) })
        } else {
            Selection::Events(ids)
        };
        Work { which, dry_run, batch, by, json }.run(EventAction::Replay, outbox).await
    }
}

/// What a command does to events, and how it tells of it.
struct Work {
    which: Selection,
    dry_run: bool,
    batch: u32,
    by: AttributionArgs,
    json: bool,
}

impl Work {
    async fn run(self, action: EventAction, outbox: &OperateOutboxUseCase) -> Result<ExitCode, BootstrapError> {
        let Self { which, dry_run, batch, by, json } = self;
        let (by, stop) = (by.attribution(), stop_at_signal()?);
        let named = match &which {
            // What is said of one event alone is why it could not be done.
            Selection::Events(ids) => {
                if let ([id], false) = (&ids[..], dry_run) {
                    outbox.act(action, *id, &by).await?;
                    let report = ManyReport { events: 1, ..ManyReport::default() };
                    return Ok(say(action.into(), &report, Some(&[]), false, json));
                }
                true
            }
            Selection::Matching(_) => false,
        };
        let report = if dry_run {
            outbox.count_many(action, &which, &stop).await?
        } else {
            let acting = outbox.act_on_many(action, &which, batch, &by, &stop);
            acting.await.map_err(|failed| failed_midway(action.into(), failed, json))?
        };
        let code = say(action.into(), &report, named.then_some(&report.left[..]), dry_run, json);
        if !json {
            if let Some(gone_until) = report.gone_until {
                let gone_until = rfc3339(gone_until);
                output::hint(format!("published events are gone until {gone_until}: none of those is among them"));
            }
            for left in &report.left {
                output::hint(outbox.why_left(action, left).to_string());
            }
        }
        Ok(code)
    }
}

const PURGE: Done = Done { action: "purge", participle: "purged", takes_after: false };

/// Which history, and how old.
#[derive(Debug, Clone, Args)]
pub(super) struct PurgeArgs {
    /// Only events that were published, discarded or skipped this long ago or longer, for example 12h or 7days.
    #[arg(long, value_name = "AGE", value_parser = age)]
    older_than: Duration,
    /// Only this history: published, or resolved (DEAD events that were discarded or skipped).
    #[arg(long, value_name = "HISTORY")]
    only: Option<SettledHistory>,
    /// Only say how many events it would remove.
    #[arg(long)]
    dry_run: bool,
    /// How many events one transaction removes; after it, an interrupted command ends.
    #[arg(long, value_name = "EVENTS", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    batch: u32,
    #[command(flatten)]
    by: AttributionArgs,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

impl PurgeArgs {
    pub(super) async fn run(self, purge: &PurgeOutboxUseCase) -> Result<ExitCode, BootstrapError> {
        let histories = self.only.map_or_else(|| SettledHistory::ALL.to_vec(), |only| vec![only]);
        if self.dry_run {
            let count = purge.count(&histories, self.older_than).await.map_err(BootstrapError::Count)?;
            if count.at_least && !self.json {
                output::line(format!("{} events or more would be purged", count.events));
                return Ok(ExitCode::SUCCESS);
            }
            let report = ManyReport { events: count.events, ..ManyReport::default() };
            return Ok(say(PURGE, &report, None, true, self.json));
        }
        let (by, stop) = (self.by.attribution(), stop_at_signal()?);
        let purging = purge.purge(&histories, self.older_than, self.batch, &by, &stop);
        let report = purging.await.map_err(|failed| failed_midway(PURGE, failed, self.json))?;
        Ok(say(PURGE, &report, None, false, self.json))
    }
}

/// What was done, in words.
#[derive(Debug, Clone, Copy)]
struct Done {
    action: &'static str,
    participle: &'static str,
    /// Whether a repetition begins where the command ended only if it is told so: what was done can be done again.
    takes_after: bool,
}

impl From<EventAction> for Done {
    fn from(action: EventAction) -> Self {
        let takes_after = action == EventAction::Replay;
        Self { action: action.as_str(), participle: action.participle(), takes_after }
    }
}

impl Done {
    /// How a command goes on that has ended before its work was done.
    fn goes_on(self, next: Option<EventId>) -> String {
        match next {
            Some(next) if self.takes_after => format!("the same command goes on with --after {next}"),
            _ if self.takes_after => "the same command begins anew".to_owned(),
            _ => "it is safe to run the same command again: it goes on".to_owned(),
        }
    }

    /// The result in words.
    fn in_words(self, report: &ManyReport, dry_run: bool) -> String {
        let would_be = if dry_run { "would be " } else { "" };
        let early =
            if report.interrupted { format!("; interrupted, {}", self.goes_on(report.next)) } else { String::new() };
        format!("{} {would_be}{}{early}", counted(report.events, "event"), self.participle)
    }

    /// The result for programs.
    fn in_json(self, report: &ManyReport, dry_run: bool) -> Map<String, Value> {
        let ManyReport { events, interrupted, next, gone_until, .. } = report;
        let mut said = Map::new();
        said.insert("action".to_owned(), json!(self.action));
        said.insert("events".to_owned(), json!(events));
        said.insert("dryRun".to_owned(), json!(dry_run));
        said.insert("interrupted".to_owned(), json!(interrupted));
        if let Some(next) = next.filter(|_| *interrupted && self.takes_after) {
            said.insert("next".to_owned(), json!(next.to_string()));
        }
        if let Some(gone_until) = gone_until {
            said.insert("historyGoneUntil".to_owned(), json!(rfc3339(*gone_until)));
        }
        said
    }

    /// A failure midway, for people and, with its reason, for programs.
    fn failed(self, failed: &ManyFailed) -> (String, Value) {
        let ManyFailed { events, next, source } = failed;
        let (Self { action, participle, .. }, go_on) = (self, self.goes_on(*next));
        let words = format!("{} {participle} before the {action} failed; {go_on}", counted(*events, "event"));
        let report = ManyReport { events: *events, interrupted: true, next: *next, ..ManyReport::default() };
        let mut said = self.in_json(&report, false);
        said.insert("error".to_owned(), json!(with_causes(source)));
        (words, Value::Object(said))
    }
}

/// The error to end with after a failure midway. Whoever reads JSON gets one object then as well.
fn failed_midway(done: Done, failed: ManyFailed, json: bool) -> BootstrapError {
    if !matches!(failed.source, OperateError::Store { .. }) {
        return failed.source.into();
    }
    let (words, said) = done.failed(&failed);
    if json {
        output::line(said.to_string());
    }
    BootstrapError::Midway { done: words, source: failed.source }
}

/// Says what was done, and as JSON also which of the events that were named are left as they were. The exit code is a
/// failure's if one of them is unknown.
fn say(done: Done, report: &ManyReport, left: Option<&[LeftAlone]>, dry_run: bool, json: bool) -> ExitCode {
    if json {
        let mut said = done.in_json(report, dry_run);
        if let Some(left) = left {
            said.insert("unknown".to_owned(), unknown(left).collect());
            said.insert("unchanged".to_owned(), unchanged(left).collect());
        }
        output::line(Value::Object(said).to_string());
    } else {
        output::line(done.in_words(report, dry_run));
    }
    if report.interrupted {
        return ExitCode::from(EXIT_INTERRUPTED);
    }
    if left.is_some_and(|left| unknown(left).next().is_some()) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn rfc3339(time: OffsetDateTime) -> String {
    time.format(&Rfc3339).unwrap_or_else(|_unwritable| time.to_string())
}

/// The ids that are not in the outbox.
fn unknown(left: &[LeftAlone]) -> impl Iterator<Item = Value> {
    left.iter().filter(|left| left.found.is_none()).map(|left| json!(left.id.to_string()))
}

/// Events that do not stand where the action starts from.
fn unchanged(left: &[LeftAlone]) -> impl Iterator<Item = Value> {
    left.iter().filter_map(|left| {
        let (status, resolved) = left.found?;
        Some(json!({ "id": left.id.to_string(), "status": status.as_str(), "resolved": resolved }))
    })
}

#[cfg(test)]
mod tests {
    use application_core::ports::StoreError;

    use super::*;

    fn id() -> EventId {
        "0198c5a0-0000-7000-8000-000000000002".parse().unwrap()
    }

    fn failed(next: Option<EventId>) -> ManyFailed {
        let source = OperateError::Store { source: StoreError::Timeout { limit: Duration::from_secs(5) } };
        ManyFailed { events: 2, next, source }
    }

    #[test]
    fn a_replay_that_fails_midway_says_what_it_has_done_and_from_where_the_same_command_goes_on() {
        let (words, said) = Done::from(EventAction::Replay).failed(&failed(Some(id())));
        let go_on =
            format!("2 events replayed before the replay failed; the same command goes on with --after {}", id());
        assert_eq!(words, go_on);
        let expected = json!({
            "action": "replay", "events": 2, "dryRun": false, "interrupted": true, "next": id().to_string(),
            "error": "the outbox could not be operated: the database did not answer within 5s",
        });
        assert_eq!(said, expected);
        let (words, said) = Done::from(EventAction::Replay).failed(&failed(None));
        assert!(words.ends_with("; the same command begins anew"), "{words}");
        assert_eq!(said.get("next"), None);
        let error = failed_midway(EventAction::Replay.into(), failed(Some(id())), false);
        assert_eq!(error.to_string(), go_on);
    }

    #[test]
    fn a_purge_that_is_interrupted_or_fails_says_how_many_events_are_gone_and_that_it_is_safe_to_run_again() {
        const SAFE: &str = "it is safe to run the same command again: it goes on";
        let report = ManyReport { events: 2_000, interrupted: true, ..ManyReport::default() };
        assert_eq!(PURGE.in_words(&report, false), format!("2000 events purged; interrupted, {SAFE}"));
        let (words, said) = PURGE.failed(&failed(None));
        assert_eq!(words, format!("2 events purged before the purge failed; {SAFE}"));
        assert_eq!((&said["events"], &said["interrupted"]), (&json!(2), &json!(true)), "{said}");
    }

    #[test]
    fn what_is_refused_before_anything_was_done_is_told_as_it_is() {
        let range = OperateError::EmptyRange { field: "to", from: "2".to_owned(), until: "1".to_owned() };
        let refused = ManyFailed { events: 0, next: None, source: range };
        let error = failed_midway(EventAction::Replay.into(), refused, true);
        assert!(matches!(error, BootstrapError::Operate(OperateError::EmptyRange { .. })), "{error:?}");
    }
}
