//! The figures of the outbox in memory.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use application_core::{
    outbox::{FailureClass, OutboxEventStatus},
    ports::{DeadGroup, LagPercentiles, OutboxStatistics, OutboxStatisticsPort, RecentPublishing, StoreError},
};
use async_trait::async_trait;
use time::OffsetDateTime;

use super::{
    InMemoryOutbox, Operation,
    state::{EventRow, State, age},
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

    fn recent_publishing(&self, now: OffsetDateTime) -> RecentPublishing {
        let published = |event: &&EventRow| event.published_at.is_some_and(|at| age(at, now) < RecentPublishing::SPAN);
        let mut recent: Vec<_> = self.events.values().filter(published).collect();
        recent.sort_by_key(|event| Reverse(event.published_at));
        recent.truncate(usize::try_from(RecentPublishing::MOST).unwrap_or(usize::MAX));
        let events = u64::try_from(recent.len()).unwrap_or(u64::MAX);
        let oldest = recent.last().and_then(|event| event.published_at).map(|at| age(at, now));
        let span = oldest.filter(|_| events >= RecentPublishing::MOST).unwrap_or(RecentPublishing::SPAN);
        let first = recent.iter().filter(|event| event.replays == 0);
        let mut lags: Vec<_> = first.filter_map(|event| Some(age(event.created_at, event.published_at?))).collect();
        lags.sort_unstable();
        let lag = |hundredths| percentile(&lags, hundredths);
        let lag = match (lag(50), lag(95), lag(99)) {
            (Some(p50), Some(p95), Some(p99)) => Some(LagPercentiles { p50, p95, p99 }),
            _ => None,
        };
        RecentPublishing { events, span, lag }
    }

    fn dead_groups(&self, now: OffsetDateTime) -> Vec<DeadGroup> {
        let mut groups = BTreeMap::new();
        for event in self.open.values().filter_map(|id| self.events.get(id)) {
            if event.status != OutboxEventStatus::Dead {
                continue;
            }
            let class = class_of(event.last_error.as_deref());
            let key = (event.aggregate_type.to_string(), event.event_type.to_string(), class);
            let group = groups.entry(key).or_insert_with(|| DeadGroup {
                class,
                aggregate_type: event.aggregate_type.clone(),
                event_type: event.event_type.clone(),
                events: 0,
                oldest_age: Duration::ZERO,
                example: event.last_error.clone(),
            });
            group.events += 1;
            group.oldest_age = group.oldest_age.max(age(event.created_at, now));
        }
        let mut groups: Vec<_> = groups.into_values().collect();
        groups.sort_by_key(|group| Reverse(group.events));
        groups.truncate(usize::try_from(DeadGroup::MOST).unwrap_or(usize::MAX));
        groups
    }
}

/// The least value that so many hundredths of the sorted ones do not exceed.
fn percentile(sorted: &[Duration], hundredths: usize) -> Option<Duration> {
    sorted.get((sorted.len() * hundredths).div_ceil(100).checked_sub(1)?).copied()
}

fn class_of(error: Option<&str>) -> Option<FailureClass> {
    error?.split_once(": ")?.0.parse().ok()
}

#[async_trait]
impl OutboxStatisticsPort for InMemoryOutbox {
    async fn statistics(&self) -> Result<OutboxStatistics, StoreError> {
        self.shared.statement(Operation::Statistics, |state, now| Ok(state.statistics(now)))
    }

    async fn dead_groups(&self) -> Result<Vec<DeadGroup>, StoreError> {
        self.shared.statement(Operation::Statistics, |state, now| Ok(state.dead_groups(now)))
    }

    async fn recent_publishing(&self) -> Result<RecentPublishing, StoreError> {
        self.shared.statement(Operation::Statistics, |state, now| Ok(state.recent_publishing(now)))
    }
}
