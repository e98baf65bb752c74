//! What an operator sees, in JSON: times in RFC 3339, ages in seconds; a payload is in the one answer that is about it.

use std::{collections::BTreeMap, time::Duration};

use application_core::{
    outbox::{EventAction, EventId, FailureClass},
    ports::{
        AuditEntry, BlockedAggregate, DeadGroup, EventPage, Finding, LagPercentiles, LeaderState, OutboxEventContent,
        OutboxEventState, OutboxStatistics, Pause, PauseScope, PausedDestination, RecentPublishing,
    },
    usecases::{Diagnosis, ManyReport, PurgeCount, RelayState},
};
use serde::Serialize;
use time::{OffsetDateTime, format_description::well_known::Rfc3339};
use utoipa::ToSchema;

use super::openapi::{action_schema, class_schema, events_schema, status_schema};

/// The state of the outbox. Counts stop at `countLimit`.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct StatusView {
    /// Where `failed` or `dead` has reached the limit: at least so many.
    pending: u64,
    in_flight: u64,
    failed: u64,
    dead: u64,
    blocked_aggregates: u64,
    #[schema(minimum = 0)]
    oldest_pending_age_seconds: Option<f64>,
    #[schema(minimum = 0)]
    oldest_in_flight_age_seconds: Option<f64>,
    #[schema(minimum = 0)]
    oldest_snapshot_age_seconds: Option<f64>,
    /// Publishing by all relays together; none where published events are deleted, for then nothing tells of them.
    recent_publishing: Option<RecentPublishingView>,
    /// The pauses that stand, that of everything first.
    paused: Vec<PauseView>,
    /// How many of the relays are alive.
    relays_alive: u64,
    /// Relays that report, and those that hold leases, by name.
    relays: Vec<RelayView>,
    /// Who leads in which role, or led last.
    leaders: Vec<LeaderView>,
    /// Counts stop here.
    count_limit: u64,
}

impl StatusView {
    pub(super) fn new(
        figures: &OutboxStatistics,
        recent: Option<RecentPublishing>,
        pauses: Vec<Pause>,
        relays: Vec<RelayState>,
        leaders: Vec<LeaderState>,
    ) -> Self {
        let seconds = |age: Option<Duration>| age.as_ref().map(Duration::as_secs_f64);
        Self {
            pending: figures.pending,
            in_flight: figures.in_flight,
            failed: figures.failed,
            dead: figures.dead,
            blocked_aggregates: figures.blocked_aggregates,
            oldest_pending_age_seconds: seconds(figures.oldest_pending_age),
            oldest_in_flight_age_seconds: seconds(figures.oldest_in_flight_age),
            oldest_snapshot_age_seconds: seconds(figures.oldest_snapshot_age),
            recent_publishing: recent.map(RecentPublishingView::from),
            paused: pauses.into_iter().map(PauseView::from).collect(),
            relays_alive: relays.iter().map(|relay| u64::from(relay.is_alive())).sum(),
            relays: relays.into_iter().map(RelayView::from).collect(),
            leaders: leaders.into_iter().map(LeaderView::from).collect(),
            count_limit: OutboxStatistics::COUNT_LIMIT,
        }
    }
}

/// The events that were published within the last minute, the newest 10,000 of them at most.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct RecentPublishingView {
    events: u64,
    /// The time within which these events were published.
    #[schema(minimum = 0)]
    span_seconds: f64,
    per_second: f64,
    /// From append to confirm, replays not counted; none: no event was published.
    #[schema(minimum = 0)]
    lag_p50_seconds: Option<f64>,
    #[schema(minimum = 0)]
    lag_p95_seconds: Option<f64>,
    #[schema(minimum = 0)]
    lag_p99_seconds: Option<f64>,
}

impl From<RecentPublishing> for RecentPublishingView {
    fn from(recent: RecentPublishing) -> Self {
        let lag = |of: fn(LagPercentiles) -> Duration| recent.lag.map(|lag| of(lag).as_secs_f64());
        Self {
            events: recent.events,
            span_seconds: recent.span.as_secs_f64(),
            per_second: recent.per_second(),
            lag_p50_seconds: lag(|lag| lag.p50),
            lag_p95_seconds: lag(|lag| lag.p95),
            lag_p99_seconds: lag(|lag| lag.p99),
        }
    }
}

/// A pause that stands.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct PauseView {
    /// The aggregate type that is paused; none: everything.
    aggregate_type: Option<String>,
    everything: bool,
    #[schema(minimum = 0)]
    age_seconds: f64,
    operator: String,
    reason: Option<String>,
}

impl From<Pause> for PauseView {
    fn from(pause: Pause) -> Self {
        Self {
            aggregate_type: pause.scope.aggregate_type().map(ToString::to_string),
            everything: pause.scope == PauseScope::Everything,
            age_seconds: pause.age.as_secs_f64(),
            operator: pause.by.operator.as_str().to_owned(),
            reason: pause.by.reason.map(|reason| reason.as_str().to_owned()),
        }
    }
}

/// A relay: what it says of itself, and what it holds.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct RelayView {
    holder: String,
    /// `alive`; `gone`, if it has missed its reports; `unknown`, if it does not report and holds leases all the same.
    state: &'static str,
    /// The program's version; none, as the next two: it does not report.
    version: Option<String>,
    #[schema(minimum = 0)]
    running_seconds: Option<f64>,
    /// Time since its last report.
    #[schema(minimum = 0)]
    silent_seconds: Option<f64>,
    /// Its claims that hold a lane.
    claims: u32,
    /// The lanes that they hold.
    lanes: u32,
    /// Claims whose lease has ended: the reaper will return them.
    expired: u32,
    /// None: it holds no claim.
    #[schema(minimum = 0)]
    oldest_claim_age_seconds: Option<f64>,
    /// What it sends nothing to, the longest first, at most 20; of a relay that is gone it is not told.
    paused: Vec<PausedDestinationView>,
}

impl From<RelayState> for RelayView {
    fn from(relay: RelayState) -> Self {
        let (state, leases) = (relay.state(), relay.leases.as_ref());
        let seconds = |span: Duration| span.as_secs_f64();
        let registered = relay.registered.as_ref();
        Self {
            holder: relay.holder.as_str().to_owned(),
            state,
            version: registered.map(|registered| registered.version.clone()),
            running_seconds: registered.map(|registered| seconds(registered.running)),
            silent_seconds: registered.map(|registered| seconds(registered.silent)),
            claims: leases.map_or(0, |leases| leases.claims),
            lanes: leases.map_or(0, |leases| leases.lanes),
            expired: leases.map_or(0, |leases| leases.expired),
            oldest_claim_age_seconds: leases.map(|leases| seconds(leases.oldest_claim_age)),
            paused: registered
                .into_iter()
                .flat_map(|registered| &registered.paused)
                .map(PausedDestinationView::from)
                .collect(),
        }
    }
}

/// An open circuit breaker, or a publisher that can send nothing.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct PausedDestinationView {
    /// None: everything.
    destination: Option<String>,
    reason: String,
    #[schema(minimum = 0)]
    age_seconds: f64,
}

impl From<&PausedDestination> for PausedDestinationView {
    fn from(paused: &PausedDestination) -> Self {
        Self {
            destination: paused.destination.as_ref().map(ToString::to_string),
            reason: paused.reason.clone(),
            age_seconds: paused.paused_for.as_secs_f64(),
        }
    }
}

/// Who leads in a role, or led last.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct LeaderView {
    role: String,
    holder: String,
    term: i64,
    /// How long the term still runs; none: it is over, and nobody leads.
    #[schema(minimum = 0)]
    expires_in_seconds: Option<f64>,
}

impl From<LeaderState> for LeaderView {
    fn from(leader: LeaderState) -> Self {
        Self {
            role: leader.role,
            holder: leader.holder.as_str().to_owned(),
            term: leader.term,
            expires_in_seconds: leader.expires_in.map(|left| left.as_secs_f64()),
        }
    }
}

/// One event, without its payload.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct EventView {
    #[schema(format = "uuid")]
    id: String,
    sequence: i64,
    aggregate_type: String,
    aggregate_id: String,
    event_type: String,
    #[schema(schema_with = status_schema)]
    status: &'static str,
    /// Deliveries that failed through the message itself.
    attempts: u32,
    /// How often it was sent again on purpose.
    replays: u32,
    #[schema(format = "date-time")]
    created_at: Option<String>,
    #[schema(format = "date-time")]
    published_at: Option<String>,
    /// When it is due; none while it is leased, blocked or settled.
    #[schema(format = "date-time")]
    due_at: Option<String>,
    /// Class and reason of the last failure.
    last_error: Option<String>,
    #[schema(format = "date-time")]
    resolved_at: Option<String>,
    /// `skipped` or `discarded`.
    resolution: Option<String>,
    /// Who holds its lane.
    holder: Option<String>,
    #[schema(format = "date-time")]
    lease_expires_at: Option<String>,
    /// The open event at the head of its lane, when that is another one.
    #[schema(format = "uuid")]
    blocked_behind: Option<String>,
}

impl From<OutboxEventState> for EventView {
    fn from(event: OutboxEventState) -> Self {
        Self {
            id: event.id.to_string(),
            sequence: event.sequence.0,
            aggregate_type: event.aggregate_type.to_string(),
            aggregate_id: event.aggregate_id.to_string(),
            event_type: event.event_type.to_string(),
            status: event.status.as_str(),
            attempts: event.attempts,
            replays: event.replays,
            created_at: rfc3339(Some(event.created_at)),
            published_at: rfc3339(event.published_at),
            due_at: rfc3339(event.due_at),
            last_error: event.last_error,
            resolved_at: rfc3339(event.resolved_at),
            resolution: event.resolution,
            holder: event.holder.map(|holder| holder.as_str().to_owned()),
            lease_expires_at: rfc3339(event.lease_expires_at),
            blocked_behind: event.blocked_behind.map(|id| id.to_string()),
        }
    }
}

/// An aggregate that waits behind a DEAD event.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct BlockedView {
    aggregate_type: String,
    aggregate_id: String,
    /// The DEAD event.
    #[schema(format = "uuid")]
    head: String,
    /// Why it died.
    reason: Option<String>,
    #[schema(minimum = 0)]
    age_seconds: f64,
    /// The open events that wait, the head included; counted up to 1,000.
    depth: u32,
}

impl From<BlockedAggregate> for BlockedView {
    fn from(blocked: BlockedAggregate) -> Self {
        Self {
            aggregate_type: blocked.aggregate_type.to_string(),
            aggregate_id: blocked.aggregate_id.to_string(),
            head: blocked.head.to_string(),
            reason: blocked.reason,
            age_seconds: blocked.age.as_secs_f64(),
            depth: blocked.depth,
        }
    }
}

/// The unresolved DEAD events in groups.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeadView {
    groups: Vec<DeadGroupView>,
    /// The first events up to this many are counted.
    count_limit: u64,
}

/// DEAD events that have died alike; the fields but `events` are a filter that finds them.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct DeadGroupView {
    #[schema(schema_with = class_schema)]
    #[serde(skip_serializing_if = "Option::is_none")]
    class: Option<&'static str>,
    aggregate_type: String,
    event_type: String,
    events: u64,
    #[schema(minimum = 0)]
    oldest_age_seconds: f64,
    /// The last error of one of them.
    example: Option<String>,
}

impl DeadView {
    pub(super) fn new(groups: Vec<DeadGroup>, count_limit: u64) -> Self {
        Self { groups: groups.into_iter().map(DeadGroupView::from).collect(), count_limit }
    }
}

impl From<DeadGroup> for DeadGroupView {
    fn from(group: DeadGroup) -> Self {
        Self {
            class: group.class.map(FailureClass::as_str),
            aggregate_type: group.aggregate_type.to_string(),
            event_type: group.event_type.to_string(),
            events: group.events,
            oldest_age_seconds: group.oldest_age.as_secs_f64(),
            example: group.example,
        }
    }
}

/// A change that an operator made.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct AuditView {
    /// Later entries have higher ones.
    number: i64,
    #[schema(format = "date-time")]
    acted_at: Option<String>,
    operator: String,
    reason: Option<String>,
    /// `requeue`, `discard`, `replay`, `pause`, `resume`, `purge`, `repair`, `forget`, `unpark` or
    /// `discard_parked`.
    action: String,
    /// Of a pause or resume of one aggregate type, and of an aggregate whose messages were parked.
    aggregate_type: Option<String>,
    /// Of an aggregate whose messages were parked.
    aggregate_id: Option<String>,
    /// Whose records of handled events were forgotten, or whose parked message alone was given up.
    consumer: Option<String>,
    #[schema(schema_with = events_schema)]
    events: Vec<String>,
    /// How many events, lanes, pauses, records or aggregates were changed.
    affected: u64,
}

impl From<AuditEntry> for AuditView {
    fn from(entry: AuditEntry) -> Self {
        Self {
            number: entry.number,
            acted_at: rfc3339(Some(entry.acted_at)),
            operator: entry.by.operator.as_str().to_owned(),
            reason: entry.by.reason.map(|reason| reason.as_str().to_owned()),
            action: entry.action,
            aggregate_type: entry.aggregate_type,
            aggregate_id: entry.aggregate_id,
            consumer: entry.consumer,
            events: entry.events.iter().map(ToString::to_string).collect(),
            affected: entry.affected,
        }
    }
}

/// A page: `next` is the `after` or `before` of the following one; without it, this is the last. A page of events may have
/// fewer than `limit` and a `next` all the same: it ended after very many events that do not match.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Page<T> {
    items: Vec<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    next: Option<String>,
}

impl Page<EventView> {
    pub(super) fn of_events(page: EventPage) -> Self {
        let items = page.events.into_iter().map(EventView::from).collect();
        Self { items, next: page.next.map(|id| id.to_string()) }
    }
}

impl<T> Page<T> {
    /// A page that is not full is the last.
    pub(super) fn new(items: Vec<T>, limit: u32, next: Option<String>) -> Self {
        let full = u32::try_from(items.len()).is_ok_and(|count| count >= limit);
        Self { items, next: next.filter(|_| full) }
    }
}

/// What an action on many events did, or would do.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ManyView {
    #[schema(schema_with = action_schema)]
    action: &'static str,
    /// Events that were changed, or would be; at least so many if `interrupted`.
    events: u64,
    dry_run: bool,
    /// The time was over before all were looked at: the same request goes on, quicker with `next` as its `after`.
    interrupted: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "uuid", nullable = false)]
    next: Option<String>,
    /// Published events are gone until then: some that the filter means may be gone, and were not sent again. Left out if
    /// nothing that it means can be gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "date-time", nullable = false)]
    history_gone_until: Option<String>,
    /// Of the events that were named, those that are not in the outbox; left out if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(schema_with = events_schema)]
    unknown: Vec<String>,
    /// Of the events that were named, those whose status does not allow the action; left out if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(schema_with = events_schema)]
    unchanged: Vec<String>,
}

impl ManyView {
    pub(super) fn new(action: EventAction, report: ManyReport, dry_run: bool) -> Self {
        let ManyReport { events, interrupted, next, gone_until, left } = report;
        let named = |known: bool| {
            left.iter().filter(|left| left.found.is_some() == known).map(|left| left.id.to_string()).collect()
        };
        let (unknown, unchanged) = (named(false), named(true));
        let (next, history_gone_until) = (next.map(|id| id.to_string()), rfc3339(gone_until));
        Self { action: action.as_str(), events, dry_run, interrupted, next, history_gone_until, unknown, unchanged }
    }
}

/// What a purge deleted, or would delete.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PurgeView {
    /// Events that were deleted, or would be.
    events: u64,
    dry_run: bool,
    /// Counting stopped at a limit: there may be more.
    at_least: bool,
    /// The time was over before all were deleted: the same request goes on.
    interrupted: bool,
}

impl PurgeView {
    pub(super) const fn counted(count: PurgeCount) -> Self {
        Self { events: count.events, dry_run: true, at_least: count.at_least, interrupted: false }
    }

    pub(super) const fn done(report: &ManyReport) -> Self {
        Self { events: report.events, dry_run: false, at_least: false, interrupted: report.interrupted }
    }
}

/// The content of one event.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct PayloadView {
    #[schema(format = "uuid")]
    id: String,
    headers: BTreeMap<String, String>,
    /// The JSON text as it was appended: as a value its numbers could lose digits.
    payload: String,
}

impl PayloadView {
    pub(super) fn new(id: EventId, content: &OutboxEventContent) -> Self {
        let headers = content.headers.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Self { id: id.to_string(), headers, payload: content.payload.as_str().to_owned() }
    }
}

/// What is wrong.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct DoctorView {
    /// None: all is well, as far as it was looked at.
    findings: Vec<FindingView>,
    /// Checks that this process's user of the database has no right to make.
    not_looked_at: Vec<String>,
}

/// Something that is wrong, and what to do about it.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct FindingView {
    /// The check that found it.
    check: String,
    problem: String,
    /// What it is about.
    subject: String,
    cure: String,
}

impl DoctorView {
    pub(super) fn new(diagnoses: Vec<Diagnosis>) -> Self {
        let forbidden = diagnoses.iter().filter(|diagnosis| diagnosis.forbidden);
        let not_looked_at = forbidden.map(|diagnosis| diagnosis.check.to_owned()).collect();
        let found = |Diagnosis { check, findings, .. }: Diagnosis| {
            findings.into_iter().map(move |Finding { problem, subject, cure }| FindingView {
                check: check.to_owned(),
                problem,
                subject,
                cure,
            })
        };
        Self { findings: diagnoses.into_iter().flat_map(found).collect(), not_looked_at }
    }
}

/// Whether anything was changed.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ChangedView {
    pub(super) changed: bool,
}

fn rfc3339(time: Option<OffsetDateTime>) -> Option<String> {
    time.and_then(|time| time.format(&Rfc3339).ok())
}
