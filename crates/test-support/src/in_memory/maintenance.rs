//! Reaping and cleaning in memory.

use std::time::Duration;

use application_core::{
    outbox::{Attribution, EventId, LeaseToken, OutboxTransition, SettledHistory},
    ports::{LeaderTerm, OutboxMaintenancePort, ReapReport, ReapRequest, StoreError},
};
use async_trait::async_trait;
use time::OffsetDateTime;

use super::{
    InMemoryOutbox, Operation,
    audit::check,
    state::{EventRow, LeaseEnd, State},
};

impl State {
    /// Claims whose lease has run out, those not yet voided first.
    fn expired_claims(&self, most: u32, now: OffsetDateTime) -> Vec<LeaseToken> {
        let mut expired: Vec<_> = self
            .claims
            .iter()
            .filter(|(_, claim)| claim.lease_expires_at < now)
            .map(|(token, claim)| (claim.reaped, claim.lease_expires_at, *token))
            .collect();
        expired.sort();
        expired.into_iter().map(|(_, _, token)| token).take(usize::try_from(most).unwrap_or(usize::MAX)).collect()
    }

    fn reap(&mut self, request: &ReapRequest, now: OffsetDateTime) -> Result<ReapReport, StoreError> {
        let mut report = ReapReport::default();
        for token in self.expired_claims(request.max_claims, now) {
            let Some(claim) = self.claims.get_mut(&token) else { continue };
            if !claim.reaped {
                claim.reaped = true;
                report.claims += 1;
            }
            let lanes = claim.lanes.clone();
            let leased = self.leased_by(token, lanes.into_iter());
            for lane in &leased {
                if !self.locks.is_held(*lane) {
                    report.dead += self.kill_expired_head(*lane, request, now)?;
                }
            }
            let postponed = self.end_leases(token, &leased, now, LeaseEnd::Expired)?;
            report.lanes += count(leased.len() - postponed.len());
            report.postponed += count(postponed.len());
        }
        Ok(report)
    }

    /// Kills the head if its lease has now run out too often: it may be what kills the relay (rule R15).
    fn kill_expired_head(
        &mut self,
        lane: application_core::outbox::LaneId,
        request: &ReapRequest,
        now: OffsetDateTime,
    ) -> Result<u32, StoreError> {
        let Some(row) = self.lanes.get(&lane) else { return Ok(0) };
        let outlived = row.expiries + 1 >= request.dead_after_expiries;
        let head = self.head_of(lane).filter(|head| row.lease.is_some_and(|lease| lease.from == head.sequence));
        let Some((id, skip)) = head
            .filter(|head| outlived && self.is_in_flight(head.id, &[lane]))
            .map(|head| (head.id, request.skip_types.contains(&head.aggregate_type)))
        else {
            return Ok(0);
        };
        let error = format!("lease expired {} times", request.dead_after_expiries);
        self.step(id, OutboxTransition::Die, |event| {
            event.next_attempt_at = None;
            event.last_error = Some(error);
        })?;
        if skip {
            self.step(id, OutboxTransition::Resolve, |event| event.resolved = Some((now, "skipped")))?;
        }
        Ok(1)
    }

    /// Events of this history that are older than `age`, oldest first.
    fn purgeable(&self, history: SettledHistory, age: Duration, now: OffsetDateTime) -> Vec<EventId> {
        let over_since = |event: &EventRow| match history {
            SettledHistory::Published => event.published_at,
            SettledHistory::Resolved => event.resolved.map(|(at, _)| at),
        };
        let mut old: Vec<_> = self
            .events
            .values()
            .filter_map(|event| over_since(event).map(|at| (at, event.id)))
            .filter(|(at, _)| *at < now - age)
            .collect();
        old.sort();
        old.into_iter().map(|(_, id)| id).collect()
    }

    fn clean_up(&mut self, retention: Duration, batch: u32, now: OffsetDateTime) -> u32 {
        let mut old: Vec<_> = self
            .events
            .values()
            .filter_map(|event| event.published_at.map(|at| (at, event.id)))
            .filter(|(at, _)| *at < now - retention)
            .collect();
        old.sort();
        old.truncate(usize::try_from(batch).unwrap_or(usize::MAX));
        for (_, id) in &old {
            self.forget(*id);
        }
        count(old.len())
    }

    /// Removes an event that is over, and remembers until when published ones are gone.
    fn forget(&mut self, id: EventId) {
        let published_at = self.events.remove(&id).and_then(|event| event.published_at);
        self.published_gone_until = self.published_gone_until.max(published_at);
    }
}

#[async_trait]
impl OutboxMaintenancePort for InMemoryOutbox {
    async fn reap(&self, request: &ReapRequest) -> Result<ReapReport, StoreError> {
        self.shared.statement(Operation::Maintain, |state, now| state.reap(request, now))
    }

    async fn clean_up(&self, term: &LeaderTerm, retention: Duration, batch: u32) -> Result<Option<u32>, StoreError> {
        self.shared.statement(Operation::Maintain, |state, now| {
            Ok(state.leads(term, now).then(|| state.clean_up(retention, batch, now)))
        })
    }

    async fn purge(
        &self,
        history: SettledHistory,
        age: Duration,
        batch: u32,
        by: &Attribution,
    ) -> Result<u32, StoreError> {
        check(by)?;
        self.shared.statement(Operation::Maintain, |state, now| {
            let mut old = state.purgeable(history, age, now);
            old.truncate(usize::try_from(batch).unwrap_or(usize::MAX));
            for id in &old {
                state.forget(*id);
            }
            if !old.is_empty() {
                state.record_count("purge", old.len(), by, now);
            }
            Ok(count(old.len()))
        })
    }

    async fn count_purgeable(&self, history: SettledHistory, age: Duration) -> Result<u64, StoreError> {
        self.shared.statement(Operation::Maintain, |state, now| {
            Ok(u64::try_from(state.purgeable(history, age, now).len()).unwrap_or(u64::MAX))
        })
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
