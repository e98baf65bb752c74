//! Integration events: what others may rely on, mapped from domain events.
//!
//! A domain event may change with the domain; an integration event is a contract. A change that old consumers cannot
//! read raises `SCHEMA_VERSION` and adds a golden file; the files of earlier versions stay and must decode for ever.
//! Every field is classified: a payload is copied to whoever listens, so that it holds nothing personal.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use time::OffsetDateTime;
use uuid::Uuid;

use application_core::outbox::{EventId, InvalidEvent, NewOutboxEvent};

use crate::domain::{WorkLogEvent, WorkLogId};

#[cfg(test)]
mod event_payload_pii_contract;
#[cfg(test)]
mod golden_payloads;

/// The aggregate type of every event here. Together with the work log's id it names the lane that keeps their order.
pub const AGGREGATE_TYPE: &str = "work-log";

/// What a field may tell about a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Classification {
    /// Nothing.
    None,
    /// Something personal; refused by `event_payload_pii_contract` unless a reason is given.
    Personal {
        /// Why it may leave the service all the same.
        allowed_because: Option<&'static str>,
    },
    /// A credential; always refused.
    Secret,
}

/// A payload that leaves the service.
pub trait IntegrationEvent: Serialize + DeserializeOwned {
    /// The event's type, as consumers know it.
    const EVENT_TYPE: &'static str;
    /// The version of the payload's schema, from 1.
    const SCHEMA_VERSION: u32;
    /// Every field of the payload, by its JSON name.
    const FIELDS: &'static [(&'static str, Classification)];
}

/// One entry of [`CATALOGUE`].
#[derive(Debug, Clone, Copy)]
pub struct EventDescription {
    /// The event's type.
    pub event_type: &'static str,
    /// The newest version of its schema.
    pub schema_version: u32,
    /// The payload's fields and what they may tell.
    pub fields: &'static [(&'static str, Classification)],
}

impl EventDescription {
    const fn of<E: IntegrationEvent>() -> Self {
        Self { event_type: E::EVENT_TYPE, schema_version: E::SCHEMA_VERSION, fields: E::FIELDS }
    }
}

/// Every integration event of this module.
pub const CATALOGUE: &[EventDescription] = &[
    EventDescription::of::<WorkLogReservedIntegrationEvent>(),
    EventDescription::of::<WorkLogStartedIntegrationEvent>(),
    EventDescription::of::<WorkLogCompletedIntegrationEvent>(),
    EventDescription::of::<WorkLogCancelledIntegrationEvent>(),
];

/// Work was reserved on a portfolio. The title stays inside: it may be personal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkLogReservedIntegrationEvent {
    /// The work log.
    pub work_log_id: Uuid,
    /// Its portfolio.
    pub portfolio_id: Uuid,
    /// How long the work should take, in minutes.
    pub planned_minutes: u32,
}

impl IntegrationEvent for WorkLogReservedIntegrationEvent {
    const EVENT_TYPE: &'static str = "WorkLogReserved";
    const SCHEMA_VERSION: u32 = 1;
    const FIELDS: &'static [(&'static str, Classification)] = &[
        ("workLogId", Classification::None),
        ("portfolioId", Classification::None),
        ("plannedMinutes", Classification::None),
    ];
}

/// The work began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkLogStartedIntegrationEvent {
    /// The work log.
    pub work_log_id: Uuid,
    /// Its portfolio.
    pub portfolio_id: Uuid,
}

impl IntegrationEvent for WorkLogStartedIntegrationEvent {
    const EVENT_TYPE: &'static str = "WorkLogStarted";
    const SCHEMA_VERSION: u32 = 1;
    const FIELDS: &'static [(&'static str, Classification)] =
        &[("workLogId", Classification::None), ("portfolioId", Classification::None)];
}

/// The work is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkLogCompletedIntegrationEvent {
    /// The work log.
    pub work_log_id: Uuid,
    /// Its portfolio.
    pub portfolio_id: Uuid,
    /// How long the work took, in minutes.
    pub spent_minutes: u32,
}

impl IntegrationEvent for WorkLogCompletedIntegrationEvent {
    const EVENT_TYPE: &'static str = "WorkLogCompleted";
    const SCHEMA_VERSION: u32 = 1;
    const FIELDS: &'static [(&'static str, Classification)] = &[
        ("workLogId", Classification::None),
        ("portfolioId", Classification::None),
        ("spentMinutes", Classification::None),
    ];
}

/// The work will not be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkLogCancelledIntegrationEvent {
    /// The work log.
    pub work_log_id: Uuid,
    /// Its portfolio.
    pub portfolio_id: Uuid,
}

impl IntegrationEvent for WorkLogCancelledIntegrationEvent {
    const EVENT_TYPE: &'static str = "WorkLogCancelled";
    const SCHEMA_VERSION: u32 = 1;
    const FIELDS: &'static [(&'static str, Classification)] =
        &[("workLogId", Classification::None), ("portfolioId", Classification::None)];
}

/// Maps a domain event to the event that goes into the outbox.
///
/// # Errors
/// [`InvalidEvent`] when a bound of the outbox is broken, which only `traceparent` can do.
pub fn to_outbox_event(
    event: &WorkLogEvent,
    id: EventId,
    traceparent: Option<&str>,
) -> Result<NewOutboxEvent, InvalidEvent> {
    match *event {
        WorkLogEvent::Reserved { id: work_log, portfolio, planned, at } => {
            let payload = WorkLogReservedIntegrationEvent {
                work_log_id: work_log.as_uuid(),
                portfolio_id: portfolio.as_uuid(),
                planned_minutes: planned.get(),
            };
            build(id, work_log, at, traceparent, &payload)
        }
        WorkLogEvent::Started { id: work_log, portfolio, at } => {
            let payload =
                WorkLogStartedIntegrationEvent { work_log_id: work_log.as_uuid(), portfolio_id: portfolio.as_uuid() };
            build(id, work_log, at, traceparent, &payload)
        }
        WorkLogEvent::Completed { id: work_log, portfolio, spent, at } => {
            let payload = WorkLogCompletedIntegrationEvent {
                work_log_id: work_log.as_uuid(),
                portfolio_id: portfolio.as_uuid(),
                spent_minutes: spent.get(),
            };
            build(id, work_log, at, traceparent, &payload)
        }
        WorkLogEvent::Cancelled { id: work_log, portfolio, at } => {
            let payload =
                WorkLogCancelledIntegrationEvent { work_log_id: work_log.as_uuid(), portfolio_id: portfolio.as_uuid() };
            build(id, work_log, at, traceparent, &payload)
        }
    }
}

fn build<E: IntegrationEvent>(
    id: EventId,
    work_log: WorkLogId,
    at: OffsetDateTime,
    traceparent: Option<&str>,
    payload: &E,
) -> Result<NewOutboxEvent, InvalidEvent> {
    NewOutboxEvent::draft(id, (AGGREGATE_TYPE, &work_log.to_string()), E::EVENT_TYPE, payload)
        .occurred_at(at)
        .schema_version(E::SCHEMA_VERSION)
        .traceparent(traceparent)
        .build()
}

/// One domain event of each kind, and the outbox events that they become.
#[cfg(test)]
mod examples {
    use time::macros::datetime;

    use super::*;
    use crate::domain::{Minutes, PortfolioId};

    pub(super) const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    pub(super) fn domain_events() -> Vec<WorkLogEvent> {
        let id = WorkLogId::new(Uuid::from_u128(0x0190_b2c3_0000_7000_8000_0000_0000_0001));
        let portfolio = PortfolioId::new(Uuid::from_u128(0x0190_b2c3_0000_7000_8000_0000_0000_00aa));
        let minutes = |n| Minutes::try_new(n).expect("valid");
        let at = datetime!(2026-03-01 12:00:00.25 UTC);
        vec![
            WorkLogEvent::Reserved { id, portfolio, planned: minutes(90), at },
            WorkLogEvent::Started { id, portfolio, at },
            WorkLogEvent::Completed { id, portfolio, spent: minutes(75), at },
            WorkLogEvent::Cancelled { id, portfolio, at },
        ]
    }

    pub(super) fn outbox_events() -> Vec<NewOutboxEvent> {
        let id = EventId::new(Uuid::from_u128(7));
        domain_events().iter().map(|event| to_outbox_event(event, id, Some(TRACEPARENT)).expect("valid")).collect()
    }
}
