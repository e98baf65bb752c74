//! Integration events: what others may rely on, mapped from domain events.
//!
//! A domain event may change with the domain; an integration event is a contract. A change that old consumers cannot
//! read is a new version: a type of its own, listed beside the old one, which stays and decodes for ever. Every field is
//! classified: a payload is copied to whoever listens, so that it holds nothing personal.

use event_contracts::{Classification, EventContract, IntegrationEvent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uuid::Uuid;

use application_core::outbox::{EventId, InvalidEvent, NewOutboxEvent};

use crate::domain::{WorkLogEvent, WorkLogId};

#[cfg(test)]
mod golden_payloads;

/// The aggregate type of every event here. Together with the work log's id it names the lane that keeps their order.
pub const AGGREGATE_TYPE: &str = "work-log";

/// Every integration event of this module, in every version that was ever sent.
pub const CATALOGUE: &[EventContract] = &[
    EventContract::of::<WorkLogReservedIntegrationEvent>(AGGREGATE_TYPE),
    EventContract::of::<WorkLogStartedIntegrationEvent>(AGGREGATE_TYPE),
    EventContract::of::<WorkLogCompletedIntegrationEvent>(AGGREGATE_TYPE),
    EventContract::of::<WorkLogCancelledIntegrationEvent>(AGGREGATE_TYPE),
];

/// The work log of the examples.
const EXAMPLE_WORK_LOG: Uuid = Uuid::from_u128(0x0190_b2c3_0000_7000_8000_0000_0000_0001);
/// The portfolio of the examples.
const EXAMPLE_PORTFOLIO: Uuid = Uuid::from_u128(0x0190_b2c3_0000_7000_8000_0000_0000_00aa);

/// Work was reserved on a portfolio. The title stays inside: it may be personal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkLogReservedIntegrationEvent {
    /// The work log.
    #[schemars(extend("x-classification" = Classification::None))]
    pub work_log_id: Uuid,
    /// Its portfolio.
    #[schemars(extend("x-classification" = Classification::None))]
    pub portfolio_id: Uuid,
    /// How long the work should take, in minutes.
    #[schemars(extend("x-classification" = Classification::None))]
    pub planned_minutes: u32,
}

impl IntegrationEvent for WorkLogReservedIntegrationEvent {
    const EVENT_TYPE: &'static str = "WorkLogReserved";
    const SCHEMA_VERSION: u32 = 1;

    fn example() -> Self {
        Self { work_log_id: EXAMPLE_WORK_LOG, portfolio_id: EXAMPLE_PORTFOLIO, planned_minutes: 90 }
    }
}

/// The work began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkLogStartedIntegrationEvent {
    /// The work log.
    #[schemars(extend("x-classification" = Classification::None))]
    pub work_log_id: Uuid,
    /// Its portfolio.
    #[schemars(extend("x-classification" = Classification::None))]
    pub portfolio_id: Uuid,
}

impl IntegrationEvent for WorkLogStartedIntegrationEvent {
    const EVENT_TYPE: &'static str = "WorkLogStarted";
    const SCHEMA_VERSION: u32 = 1;

    fn example() -> Self {
        Self { work_log_id: EXAMPLE_WORK_LOG, portfolio_id: EXAMPLE_PORTFOLIO }
    }
}

/// The work is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkLogCompletedIntegrationEvent {
    /// The work log.
    #[schemars(extend("x-classification" = Classification::None))]
    pub work_log_id: Uuid,
    /// Its portfolio.
    #[schemars(extend("x-classification" = Classification::None))]
    pub portfolio_id: Uuid,
    /// How long the work took, in minutes.
    #[schemars(extend("x-classification" = Classification::None))]
    pub spent_minutes: u32,
}

impl IntegrationEvent for WorkLogCompletedIntegrationEvent {
    const EVENT_TYPE: &'static str = "WorkLogCompleted";
    const SCHEMA_VERSION: u32 = 1;

    fn example() -> Self {
        Self { work_log_id: EXAMPLE_WORK_LOG, portfolio_id: EXAMPLE_PORTFOLIO, spent_minutes: 75 }
    }
}

/// The work will not be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkLogCancelledIntegrationEvent {
    /// The work log.
    #[schemars(extend("x-classification" = Classification::None))]
    pub work_log_id: Uuid,
    /// Its portfolio.
    #[schemars(extend("x-classification" = Classification::None))]
    pub portfolio_id: Uuid,
}

impl IntegrationEvent for WorkLogCancelledIntegrationEvent {
    const EVENT_TYPE: &'static str = "WorkLogCancelled";
    const SCHEMA_VERSION: u32 = 1;

    fn example() -> Self {
        Self { work_log_id: EXAMPLE_WORK_LOG, portfolio_id: EXAMPLE_PORTFOLIO }
    }
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
        let (id, portfolio) = (WorkLogId::new(EXAMPLE_WORK_LOG), PortfolioId::new(EXAMPLE_PORTFOLIO));
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
