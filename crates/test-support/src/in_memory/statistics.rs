//! The figures of the outbox in memory.

use std::{collections::BTreeSet, time::Duration};

use application_core::{
    outbox::OutboxEventStatus,
    ports::{OutboxStatistics, OutboxStatisticsPort, StoreError},
};
use async_trait::async_trait;
use time::OffsetDateTime;

use super::{
    InMemoryOutbox, Operation,
    state::{State, age},
};

impl State {
    fn statistics(&self, now: OffsetDateTime) -> OutboxStatistics {
        let mut figures = OutboxStatistics::default();
        let (mut oldest, mut oldest_dead): (Option<OffsetDateTime>, Option<OffsetDateTime>) = (None, None);
        let mut blocked = BTreeSet::new();
        for ((lane, _), id) in &self.open {
            let Some(event) = self.events.get(id) else { continue };
            let status = self.status_of(event);
            let count = match status {
                OutboxEventStatus::InFlight => &mut figures.in_flight,
                OutboxEventStatus::Failed => &mut figures.failed,
                OutboxEventStatus::Dead => &mut figures.dead,
                OutboxEventStatus::Pending | OutboxEventStatus::Published => &mut figures.pending,
            };
            *count = (*count + 1).min(OutboxStatistics::COUNT_LIMIT);
            // The events of a lane come in order: what is behind a DEAD one comes after it.
            if status == OutboxEventStatus::Dead {
                blocked.insert(*lane);
                oldest_dead = Some(oldest_dead.map_or(event.created_at, |oldest| oldest.min(event.created_at)));
            }
            if status != OutboxEventStatus::InFlight && event.replays == 0 && !blocked.contains(lane) {
                oldest = Some(oldest.map_or(event.created_at, |oldest| oldest.min(event.created_at)));
            }
        }
        let parked = self.lanes.iter().filter(|(id, row)| row.lease.is_none() && blocked.contains(id)).count();
        figures.blocked_aggregates = u64::try_from(parked).unwrap_or(u64::MAX).min(OutboxStatistics::COUNT_LIMIT);
        let since = |at: Option<OffsetDateTime>| -> Option<Duration> { at.map(|at| age(at, now)) };
        figures.oldest_pending_age = since(oldest);
        figures.oldest_blocked_age = since(oldest_dead);
        figures.oldest_in_flight_age = since(self.claims.values().map(|claim| claim.claimed_at).min());
        figures.oldest_snapshot_age = since(self.locks.oldest());
        figures
    }
}

#[async_trait]
impl OutboxStatisticsPort for InMemoryOutbox {
    async fn statistics(&self) -> Result<OutboxStatistics, StoreError> {
        self.shared.statement(Operation::Statistics, |state, now| Ok(state.statistics(now)))
    }
}
