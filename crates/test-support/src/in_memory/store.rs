//! Claim and settle in memory, in the steps of the database's functions.

use std::{collections::BTreeMap, time::Duration};

use application_core::{
    outbox::{
        ClaimRequest, ClaimScope, ConfirmedRun, EventId, FailedOutcome, FailedRun, LaneId, LeaseToken, OnPublish,
        OutboxEventStatus, OutboxTransition, Run, Sequence, Settlement,
    },
    ports::{OutboxStorePort, StoreError},
};
use async_trait::async_trait;
use time::OffsetDateTime;

use super::{
    InMemoryOutbox, Operation,
    failure::refused,
    state::{ClaimRow, Lease, LeaseEnd, State},
};

/// From this many expiries on a run is the head alone: it may be what kills the relay.
const SUSPECT_EXPIRIES: u32 = 3;
/// How often one claim looks again when all it found was out of order.
const ROUNDS: usize = 8;
/// How long a lane must have been due to count as overdue.
const OVERDUE: Duration = Duration::from_millis(100);

/// What a claim may still take.
struct Room {
    rows: usize,
    bytes: u64,
    taken: usize,
}

/// How a settling call settles.
struct Settling {
    operation: &'static str,
    on_publish: OnPublish,
    delay: Duration,
}

/// What a claim decides about a lane that it has looked at.
enum Verdict {
    /// No open event.
    Empty,
    /// The head is not to be sent: due again then, or never.
    Stopped(Option<OffsetDateTime>),
    /// These events are taken.
    Taken(Vec<EventId>, Lease),
    /// No room left; stays due.
    Left,
}

impl State {
    /// The lanes that are due and that nobody holds, longest waiting first.
    fn due_lanes(&self, request: &ClaimRequest, now: OffsetDateTime) -> Vec<LaneId> {
        let mut due: Vec<_> = self
            .lanes
            .iter()
            .filter(|(id, lane)| lane.lease.is_none() && !self.locks.is_held(**id))
            .filter_map(|(id, lane)| lane.due_at.filter(|at| *at <= now).map(|at| (at, *id)))
            .collect();
        due.sort();
        due.into_iter().map(|(_, id)| id).take(at_least_one(request.max_lanes)).collect()
    }

    fn overdue_lanes(&self, now: OffsetDateTime) -> Vec<LaneId> {
        self.lanes
            .iter()
            .filter(|(_, lane)| lane.lease.is_none() && lane.is_due(now - OVERDUE))
            .map(|(id, _)| *id)
            .collect()
    }

    /// Leases the lanes and returns their runs. Lanes whose head is not to be sent are moved out of the way.
    fn lease_lanes(
        &mut self,
        request: &ClaimRequest,
        lanes: &[LaneId],
        now: OffsetDateTime,
    ) -> Result<Vec<Run>, StoreError> {
        let mut room = Room { rows: at_least_one(request.max_events), bytes: request.max_bytes, taken: 0 };
        let mut runs = BTreeMap::new();
        for lane in lanes {
            if room.rows == 0 {
                break;
            }
            match self.verdict(request, *lane, &mut room, now) {
                Verdict::Left => {}
                Verdict::Empty => {
                    self.lanes.remove(lane);
                }
                Verdict::Stopped(due_at) => {
                    if let Some(row) = self.lanes.get_mut(lane) {
                        row.due_at = due_at;
                    }
                }
                Verdict::Taken(events, lease) => {
                    for id in &events {
                        self.step(*id, OutboxTransition::Claim, |_| {})?;
                    }
                    if let Some(row) = self.lanes.get_mut(lane) {
                        row.lease = Some(lease);
                        row.due_at = None;
                    }
                    let events = events.iter().filter_map(|id| self.events.get(id)).map(|row| row.in_hand(now));
                    runs.insert(*lane, events.collect::<Vec<_>>());
                }
            }
        }
        if !runs.is_empty() {
            let claim = ClaimRow {
                holder: request.holder.clone(),
                claimed_at: now,
                lease_expires_at: now + request.lease,
                lanes: runs.keys().copied().collect(),
                settled: Vec::new(),
                reaped: false,
            };
            self.claims.insert(request.token, claim);
        }
        Ok(runs.into_iter().map(|(lane, events)| Run { lane, events }).collect())
    }

    fn verdict(&self, request: &ClaimRequest, lane: LaneId, room: &mut Room, now: OffsetDateTime) -> Verdict {
        let suspect = self.lanes.get(&lane).is_some_and(|row| row.expiries >= SUSPECT_EXPIRIES);
        let longest = if suspect { 1 } else { at_least_one(request.max_run) };
        let read: Vec<_> = self.open_of(lane).take(longest.min(room.rows)).collect();
        room.rows = room.rows.saturating_sub(read.len().max(1));
        if read.is_empty() {
            return Verdict::Empty;
        }
        let mut run: Vec<(EventId, Sequence)> = Vec::new();
        for event in &read {
            let waits = event.next_attempt_at.is_some_and(|at| at > now);
            let parks = event.status == OutboxEventStatus::Dead || self.is_type_paused(event);
            if parks || waits {
                if run.is_empty() {
                    return Verdict::Stopped(event.next_attempt_at.filter(|_| !parks));
                }
                break;
            }
            let bytes = u64::try_from(event.payload.as_str().len()).unwrap_or(u64::MAX);
            if bytes > room.bytes && room.taken > 0 {
                // What does not fit leaves no room for what follows.
                room.bytes = 0;
                break;
            }
            room.bytes = room.bytes.saturating_sub(bytes);
            room.taken += 1;
            run.push((event.id, event.sequence));
        }
        match (run.first(), run.last()) {
            (Some((_, from)), Some((_, through))) => {
                let lease = Lease { token: request.token, from: *from, through: *through };
                Verdict::Taken(run.iter().map(|(id, _)| *id).collect(), lease)
            }
            _ => Verdict::Left,
        }
    }

    fn claim_due(&mut self, request: &ClaimRequest, now: OffsetDateTime) -> Result<Vec<Run>, StoreError> {
        if self.claims.contains_key(&request.token) {
            return Err(refused("the token was used before"));
        }
        if self.is_paused() {
            return Ok(Vec::new());
        }
        let mut request = request.clone();
        for _ in 0..ROUNDS {
            let lanes = self.due_lanes(&request, now);
            if lanes.is_empty() {
                break;
            }
            let runs = self.lease_lanes(&request, &lanes, now)?;
            if !runs.is_empty() {
                return Ok(runs);
            }
            // As the database does: heads alone, so that what waits behind them leaves room for more lanes.
            request.max_run = 1;
        }
        Ok(Vec::new())
    }

    /// Publishes what was confirmed, charges what failed, and ends the leases; all that a settling call does.
    fn settle(
        &mut self,
        Settling { operation, on_publish, delay }: Settling,
        token: LeaseToken,
        runs: &[(&ConfirmedRun, Option<&FailedRun>)],
        now: OffsetDateTime,
    ) -> Result<Settlement, StoreError> {
        if runs.is_empty() {
            return Ok(Settlement::default());
        }
        let lanes = runs.iter().map(|(run, _)| run.lane);
        let Some(leased) = self.fence(token, lanes.clone()) else {
            return Ok(Settlement { stale: true, ..Settlement::default() });
        };
        let (mut expected, mut events) = (0, 0);
        let settled = self.take_up(token, lanes);
        let repeated = !settled.is_empty();
        for (run, failed) in runs.iter().filter(|(run, _)| !settled.contains(&run.lane)) {
            for id in &run.confirmed {
                expected += 1;
                events += self.publish(*id, &leased, on_publish, now)?;
            }
            if let Some(failed) = failed {
                expected += 1;
                events += self.charge(failed, &leased, now)?;
            }
        }
        let postponed = self.end_leases(token, &leased, now + delay, LeaseEnd::Settled)?;
        // As in the database, what was there is settled before the count is found wrong.
        let counted = |operation, expected: usize, actual: usize| {
            let (expected, actual) = (wide(expected), wide(actual));
            if expected == actual { Ok(()) } else { Err(StoreError::RowsAffected { operation, expected, actual }) }
        };
        counted(operation, expected, events)?;
        if !repeated {
            counted(operation, runs.len(), leased.len())?;
        }
        Ok(Settlement {
            freed: narrow(leased.len() - postponed.len()),
            events: narrow(events),
            postponed,
            stale: false,
        })
    }

    /// Remembers that the claim's lanes are settled now, and tells which of them an earlier report had settled.
    fn take_up(&mut self, token: LeaseToken, lanes: impl Iterator<Item = LaneId>) -> Vec<LaneId> {
        let Some(claim) = self.claims.get_mut(&token) else { return Vec::new() };
        let (settled, new): (Vec<_>, Vec<_>) =
            lanes.filter(|lane| claim.lanes.contains(lane)).partition(|lane| claim.settled.contains(lane));
        claim.settled.extend(new);
        settled
    }

    /// Frees what an earlier call postponed; lanes that are free already do no harm.
    fn free_postponed(
        &mut self,
        token: LeaseToken,
        runs: &[ConfirmedRun],
        now: OffsetDateTime,
    ) -> Result<Settlement, StoreError> {
        let Some(leased) = self.fence(token, runs.iter().map(|run| run.lane)) else {
            return Ok(Settlement { stale: true, ..Settlement::default() });
        };
        let postponed = self.end_leases(token, &leased, now, LeaseEnd::Settled)?;
        Ok(Settlement { freed: narrow(leased.len() - postponed.len()), events: 0, postponed, stale: false })
    }

    fn publish(
        &mut self,
        id: EventId,
        leased: &[LaneId],
        on_publish: OnPublish,
        now: OffsetDateTime,
    ) -> Result<usize, StoreError> {
        if !self.is_in_flight(id, leased) {
            return Ok(0);
        }
        self.step(id, OutboxTransition::Confirm, |event| event.published_at = Some(now))?;
        if on_publish == OnPublish::Delete {
            self.events.remove(&id);
        }
        Ok(1)
    }

    fn charge(&mut self, failed: &FailedRun, leased: &[LaneId], now: OffsetDateTime) -> Result<usize, StoreError> {
        if !self.is_in_flight(failed.failed, leased) {
            return Ok(0);
        }
        let (transition, next_attempt_at) = match failed.outcome {
            FailedOutcome::Retry { after } => (OutboxTransition::Retry, Some(now + after)),
            FailedOutcome::Block | FailedOutcome::Skip => (OutboxTransition::Die, None),
        };
        self.step(failed.failed, transition, |event| {
            event.attempts += 1;
            event.next_attempt_at = next_attempt_at;
            event.last_error = Some(failed.error.clone());
        })?;
        if failed.outcome == FailedOutcome::Skip {
            self.step(failed.failed, OutboxTransition::Resolve, |event| event.resolved = Some((now, "skipped")))?;
        }
        Ok(1)
    }
}

impl InMemoryOutbox {
    const fn settling(&self, operation: &'static str, delay: Duration) -> Settling {
        Settling { operation, on_publish: self.on_publish, delay }
    }

    async fn claim_overdue(&self, request: &ClaimRequest) -> Result<Vec<Run>, StoreError> {
        // As the database does: two tries, and never a second wait while a lane is held.
        let overdue = self.shared.state().overdue_lanes(self.shared.clock.now());
        for lane in overdue.into_iter().take(2) {
            self.shared.wait_a_moment_for(lane).await;
            let now = self.shared.clock.now();
            let mut state = self.shared.state();
            let due = state.lanes.get(&lane).is_some_and(|row| row.lease.is_none() && row.is_due(now));
            if due && !state.locks.is_held(lane) && !state.is_paused() {
                return state.lease_lanes(request, &[lane], now);
            }
        }
        Ok(Vec::new())
    }
}

#[async_trait]
impl OutboxStorePort for InMemoryOutbox {
    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<Run>, StoreError> {
        match request.scope {
            ClaimScope::Due => self.shared.statement(Operation::Claim, |state, now| state.claim_due(request, now)),
            ClaimScope::Overdue => {
                let answer = self.shared.meet(Operation::Claim)?;
                answer.pass(self.claim_overdue(request).await?)
            }
        }
    }

    async fn acknowledge(&self, token: LeaseToken, runs: &[ConfirmedRun]) -> Result<Settlement, StoreError> {
        if let Some(first) = runs.first()
            && runs.iter().all(|run| run.confirmed.is_empty())
        {
            self.shared.wait_a_moment_for(first.lane).await;
            return self.shared.statement(Operation::Acknowledge, |state, now| state.free_postponed(token, runs, now));
        }
        let runs: Vec<_> = runs.iter().map(|run| (run, None)).collect();
        self.shared.statement(Operation::Acknowledge, |state, now| {
            state.settle(self.settling("acknowledge", Duration::ZERO), token, &runs, now)
        })
    }

    async fn fail(&self, token: LeaseToken, runs: &[FailedRun]) -> Result<Settlement, StoreError> {
        let runs: Vec<_> = runs.iter().map(|failed| (&failed.run, Some(failed))).collect();
        self.shared.statement(Operation::Fail, |state, now| {
            state.settle(self.settling("fail", Duration::ZERO), token, &runs, now)
        })
    }

    async fn release(
        &self,
        token: LeaseToken,
        runs: &[ConfirmedRun],
        delay: Duration,
    ) -> Result<Settlement, StoreError> {
        let runs: Vec<_> = runs.iter().map(|run| (run, None)).collect();
        self.shared.statement(Operation::Release, |state, now| {
            state.settle(self.settling("release", delay), token, &runs, now)
        })
    }

    async fn renew(&self, token: LeaseToken, lease: Duration) -> Result<bool, StoreError> {
        self.shared.statement(Operation::Renew, |state, now| {
            let standing = state.claims.get_mut(&token).filter(|claim| !claim.reaped);
            let renewed = standing.map(|claim| claim.lease_expires_at = now + lease);
            Ok(renewed.is_some())
        })
    }
}

fn at_least_one(n: u32) -> usize {
    usize::try_from(n.max(1)).unwrap_or(usize::MAX)
}

fn wide(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

fn narrow(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
