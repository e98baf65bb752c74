//! Events that an operator holds back, in memory.

use application_core::{
    outbox::{Attribution, OutboxEventStatus},
    ports::{OutboxPausePort, Pause, PauseScope, StoreError},
};
use async_trait::async_trait;
use time::OffsetDateTime;

use super::{
    InMemoryOutbox, Operation,
    audit::check,
    state::{EventRow, State, age},
};

impl State {
    pub(super) fn is_paused(&self) -> bool {
        self.pauses.contains_key(&PauseScope::Everything)
    }

    pub(super) fn is_type_paused(&self, event: &EventRow) -> bool {
        self.pauses.contains_key(&PauseScope::Type(event.aggregate_type.clone()))
    }

    /// Makes due the parked lanes whose head is of that type.
    fn unpark(&mut self, scope: &PauseScope, now: OffsetDateTime) {
        let parked: Vec<_> = self
            .lanes
            .iter()
            .filter(|(_, lane)| lane.lease.is_none() && lane.due_at.is_none())
            .filter_map(|(id, _)| self.head_of(*id))
            .filter(|head| scope.aggregate_type() == Some(&head.aggregate_type))
            .filter(|head| head.status != OutboxEventStatus::Dead)
            .map(|head| head.lane)
            .collect();
        for lane in parked {
            if let Some(row) = self.lanes.get_mut(&lane) {
                row.due_at = Some(now);
            }
        }
    }
}

#[async_trait]
impl OutboxPausePort for InMemoryOutbox {
    async fn pause(&self, scope: &PauseScope, by: &Attribution) -> Result<bool, StoreError> {
        check(by)?;
        self.shared.statement(Operation::Operate, |state, now| {
            if state.pauses.contains_key(scope) {
                return Ok(false);
            }
            state.pauses.insert(scope.clone(), (now, by.clone()));
            state.record("pause", scope.aggregate_type(), &[], by, now);
            Ok(true)
        })
    }

    async fn resume(&self, scope: &PauseScope, by: &Attribution) -> Result<bool, StoreError> {
        check(by)?;
        self.shared.statement(Operation::Operate, |state, now| {
            if state.pauses.remove(scope).is_none() {
                return Ok(false);
            }
            state.unpark(scope, now);
            state.record("resume", scope.aggregate_type(), &[], by, now);
            Ok(true)
        })
    }

    async fn pauses(&self) -> Result<Vec<Pause>, StoreError> {
        self.shared.statement(Operation::Operate, |state, now| {
            let pause = |(scope, (at, by)): (&PauseScope, &(OffsetDateTime, Attribution))| Pause {
                scope: scope.clone(),
                age: age(*at, now),
                by: by.clone(),
            };
            Ok(state.pauses.iter().map(pause).collect())
        })
    }
}
