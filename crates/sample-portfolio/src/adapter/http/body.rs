//! The JSON that clients send and get.

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uuid::Uuid;

use super::problem::{FieldProblem, Problem};
use crate::{
    application::{CreateWorkLogCommand, WorkLogPage},
    domain::{InvalidWorkLog, Minutes, PortfolioId, Title, WorkLogId, WorkLogSnapshot},
    ports::{IdempotencyKey, PortfolioMinutes, WorkLogReceipt},
};

/// Body of `POST …/work-logs`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CreateBody {
    title: String,
    planned_minutes: i64,
}

impl CreateBody {
    /// Checks all fields before it complains of any.
    pub(super) fn into_command(
        self,
        portfolio: PortfolioId,
        key: IdempotencyKey,
        traceparent: Option<String>,
    ) -> Result<CreateWorkLogCommand, Problem> {
        let title = Title::try_new(self.title);
        let planned = Minutes::try_new(self.planned_minutes);
        match (title, planned) {
            (Ok(title), Ok(planned)) => Ok(CreateWorkLogCommand { portfolio, title, planned, key, traceparent }),
            (title, planned) => {
                let fields = [field("title", title), field("plannedMinutes", planned)];
                Err(Problem::invalid_fields(fields.into_iter().flatten().collect()))
            }
        }
    }
}

/// Body of `POST …/complete`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CompleteBody {
    spent_minutes: i64,
}

impl CompleteBody {
    pub(super) fn spent(&self) -> Result<Minutes, Problem> {
        let spent = Minutes::try_new(self.spent_minutes);
        spent.map_err(|error| Problem::invalid_fields(vec![FieldProblem::new("spentMinutes", &error)]))
    }
}

fn field<T>(name: &'static str, value: Result<T, InvalidWorkLog>) -> Option<FieldProblem> {
    value.err().map(|error| FieldProblem::new(name, &error))
}

/// Answer to a command.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ReceiptBody {
    id: Uuid,
    portfolio_id: Uuid,
    status: &'static str,
    version: u32,
    #[serde(with = "time::serde::rfc3339")]
    changed_at: OffsetDateTime,
}

impl From<&WorkLogReceipt> for ReceiptBody {
    fn from(receipt: &WorkLogReceipt) -> Self {
        let WorkLogReceipt { id, portfolio, status, version, changed_at } = *receipt;
        Self {
            id: id.as_uuid(),
            portfolio_id: portfolio.as_uuid(),
            status: status.as_str(),
            version: version.get(),
            changed_at,
        }
    }
}

/// A work log as clients see it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WorkLogBody {
    id: Uuid,
    portfolio_id: Uuid,
    title: String,
    status: &'static str,
    planned_minutes: u32,
    spent_minutes: Option<u32>,
    version: u32,
    #[serde(with = "time::serde::rfc3339")]
    reserved_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    changed_at: OffsetDateTime,
}

impl From<&WorkLogSnapshot> for WorkLogBody {
    fn from(state: &WorkLogSnapshot) -> Self {
        let WorkLogSnapshot { id, portfolio, title, planned, status, version, reserved_at, changed_at } = state;
        Self {
            id: id.as_uuid(),
            portfolio_id: portfolio.as_uuid(),
            title: title.as_str().to_owned(),
            status: status.as_str(),
            planned_minutes: planned.get(),
            spent_minutes: status.spent().map(Minutes::get),
            version: version.get(),
            reserved_at: *reserved_at,
            changed_at: *changed_at,
        }
    }
}

/// A page of work logs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PageBody {
    items: Vec<WorkLogBody>,
    /// To be sent as `after` for the next page; `null` on the last.
    next_after: Option<Uuid>,
}

impl From<&WorkLogPage> for PageBody {
    fn from(page: &WorkLogPage) -> Self {
        Self {
            items: page.items.iter().map(WorkLogBody::from).collect(),
            next_after: page.next_after.map(WorkLogId::as_uuid),
        }
    }
}

/// The sums of a portfolio.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct MinutesBody {
    portfolio_id: Uuid,
    completed_minutes: u64,
    events: EventCounts,
}

/// Events consumed, by kind.
#[derive(Debug, Serialize)]
struct EventCounts {
    reserved: u64,
    started: u64,
    completed: u64,
    cancelled: u64,
}

impl MinutesBody {
    pub(super) fn new(portfolio: PortfolioId, sums: &PortfolioMinutes) -> Self {
        let PortfolioMinutes { completed_minutes, reserved, started, completed, cancelled } = *sums;
        Self {
            portfolio_id: portfolio.as_uuid(),
            completed_minutes,
            events: EventCounts { reserved, started, completed, cancelled },
        }
    }
}
