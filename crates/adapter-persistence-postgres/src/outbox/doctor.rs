//! What the doctor looks at in the database. One struct, one check.

mod permissions;
mod server;

use application_core::{
    outbox::Attribution,
    ports::{Finding, LaneRepairPort, OutboxCheckPort, StoreError},
};
use async_trait::async_trait;

pub use self::{
    permissions::{OutboxRole, PermissionCheck},
    server::{AutovacuumCheck, ClockCheck, IndexCheck, RoutingCheck, SchemaCheck, ServerSettingsCheck, SnapshotCheck},
};
use super::{LaneProblem, OutboxEventRepository};

/// The view `outbox_doctor`: lanes that do not fit their events or claims.
#[derive(Debug, Clone)]
pub struct LaneCheck(OutboxEventRepository);

impl LaneCheck {
    /// The most lanes that are listed one by one.
    pub const MOST_LISTED: usize = 1_000;

    /// Looks through this repository.
    #[must_use]
    pub const fn new(repository: OutboxEventRepository) -> Self {
        Self(repository)
    }
}

#[async_trait]
impl OutboxCheckPort for LaneCheck {
    fn name(&self) -> &'static str {
        "lanes"
    }

    async fn look(&self) -> Result<Vec<Finding>, StoreError> {
        let problems = self.0.examine_lanes().await?;
        let more = problems.len() > Self::MOST_LISTED;
        let mut findings: Vec<_> = problems.into_iter().take(Self::MOST_LISTED).map(finding).collect();
        if more {
            findings.push(Finding {
                problem: "more lanes are wrong".to_owned(),
                subject: format!("lanes after the first {}", Self::MOST_LISTED),
                cure: CURE.to_owned(),
            });
        }
        Ok(findings)
    }
}

/// Every problem of a lane has the same one: what a lane says can always be read off the events.
const CURE: &str = "stop the relays, wait until their leases have run out, then `app outbox doctor --repair`";

fn finding(LaneProblem { problem, lane, head }: LaneProblem) -> Finding {
    let from = head.map(|sequence| format!(", from sequence {sequence}")).unwrap_or_default();
    Finding { problem, subject: format!("lane {lane}{from}"), cure: CURE.to_owned() }
}

#[async_trait]
impl LaneRepairPort for OutboxEventRepository {
    async fn repair_lanes(&self, by: &Attribution) -> Result<u64, StoreError> {
        Self::repair_lanes(self, by).await
    }
}
