//! The tables of the in-memory outbox, and the rules that hold between them.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use application_core::{
    inbox::ParkedAggregate,
    outbox::{
        AggregateId, AggregateType, Attribution, EventHeaders, EventId, EventType, HolderName, LaneId, LeaseToken,
        NewOutboxEvent, OutboxEvent, OutboxEventStatus, OutboxTransition, Payload, Sequence,
    },
    ports::{AuditEntry, ConsumerName, PauseScope, RelayReport, StoreError},
};
use time::OffsetDateTime;

use super::{failure::refused, locks::Locks};

/// A row of the event table. `status` is one of the stored four; a lease makes it `IN_FLIGHT`.
#[derive(Debug, Clone)]
pub(super) struct EventRow {
    pub(super) id: EventId,
    pub(super) sequence: Sequence,
    pub(super) lane: LaneId,
    pub(super) aggregate_type: AggregateType,
    pub(super) aggregate_id: AggregateId,
    pub(super) event_type: EventType,
    pub(super) payload: Payload,
    pub(super) headers: EventHeaders,
    pub(super) status: OutboxEventStatus,
    pub(super) attempts: u32,
    pub(super) next_attempt_at: Option<OffsetDateTime>,
    pub(super) created_at: OffsetDateTime,
    pub(super) published_at: Option<OffsetDateTime>,
    pub(super) last_error: Option<String>,
    pub(super) resolved: Option<(OffsetDateTime, &'static str)>,
    pub(super) replays: u32,
}

impl EventRow {
    pub(super) fn new(event: &NewOutboxEvent, sequence: Sequence, now: OffsetDateTime) -> Self {
        Self {
            id: event.id(),
            sequence,
            lane: lane_of(event.aggregate_type(), event.aggregate_id()),
            aggregate_type: event.aggregate_type().clone(),
            aggregate_id: event.aggregate_id().clone(),
            event_type: event.event_type().clone(),
            payload: event.payload().clone(),
            headers: event.headers().clone(),
            status: OutboxEventStatus::Pending,
            attempts: 0,
            next_attempt_at: None,
            created_at: now,
            published_at: None,
            last_error: None,
            resolved: None,
            replays: 0,
        }
    }

    /// Neither published nor resolved.
    pub(super) const fn is_open(&self) -> bool {
        self.published_at.is_none() && self.resolved.is_none()
    }

    pub(super) fn in_hand(&self, now: OffsetDateTime) -> OutboxEvent {
        OutboxEvent {
            id: self.id,
            sequence: self.sequence,
            aggregate_type: self.aggregate_type.clone(),
            aggregate_id: self.aggregate_id.clone(),
            event_type: self.event_type.clone(),
            payload: self.payload.clone(),
            headers: self.headers.clone(),
            attempts: self.attempts,
            replays: self.replays,
            created_at: self.created_at,
            age_at_claim: age(self.created_at, now),
        }
    }
}

/// The lease on a lane: whose it is, and the run that it covers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lease {
    pub(super) token: LeaseToken,
    pub(super) from: Sequence,
    pub(super) through: Sequence,
}

/// A row of the lane table. Without `due_at` it is leased, or parked behind a DEAD or paused head.
#[derive(Debug, Clone)]
pub(super) struct LaneRow {
    pub(super) due_at: Option<OffsetDateTime>,
    pub(super) lease: Option<Lease>,
    pub(super) expiries: u32,
}

impl LaneRow {
    pub(super) const fn due(at: OffsetDateTime) -> Self {
        Self { due_at: Some(at), lease: None, expiries: 0 }
    }

    pub(super) fn is_due(&self, now: OffsetDateTime) -> bool {
        self.due_at.is_some_and(|at| at <= now)
    }
}

/// A row of the claim table.
#[derive(Debug, Clone)]
pub(super) struct ClaimRow {
    pub(super) holder: HolderName,
    pub(super) claimed_at: OffsetDateTime,
    pub(super) lease_expires_at: OffsetDateTime,
    pub(super) lanes: Vec<LaneId>,
    /// Those whose events a report has settled: a repeated report settles none of them again.
    pub(super) settled: Vec<LaneId>,
    /// The token is void; the row stays while appenders hold some of its lanes.
    pub(super) reaped: bool,
}

/// A row of the leader table.
#[derive(Debug, Clone)]
pub(super) struct LeaderRow {
    pub(super) holder: HolderName,
    pub(super) term: i64,
    pub(super) expires_at: OffsetDateTime,
}

/// A row of the list of relays.
#[derive(Debug, Clone)]
pub(super) struct RelayRow {
    pub(super) report: RelayReport,
    pub(super) seen_at: OffsetDateTime,
}

/// Why a lease ends, as far as the expiries of the head are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeaseEnd {
    Settled,
    Expired,
}

/// Everything that is committed, and what open transactions hold.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) events: BTreeMap<EventId, EventRow>,
    /// The open events of each lane in order.
    pub(super) open: BTreeMap<(LaneId, Sequence), EventId>,
    pub(super) lanes: BTreeMap<LaneId, LaneRow>,
    pub(super) claims: HashMap<LeaseToken, ClaimRow>,
    pub(super) leaders: HashMap<String, LeaderRow>,
    pub(super) relays: BTreeMap<String, RelayRow>,
    pub(super) inbox: HashMap<(ConsumerName, EventId), OffsetDateTime>,
    pub(super) parked: HashMap<(ConsumerName, AggregateType, AggregateId), ParkedAggregate>,
    pub(super) audit: Vec<AuditEntry>,
    pub(super) pauses: BTreeMap<PauseScope, (OffsetDateTime, Attribution)>,
    /// Until when published events were removed, by the time of their publishing.
    pub(super) published_gone_until: Option<OffsetDateTime>,
    pub(super) locks: Locks,
    last_sequence: i64,
}

/// Two aggregates whose hashes collide share a lane: they are merely ordered together.
pub(super) fn lane_of(aggregate_type: &AggregateType, aggregate_id: &AggregateId) -> LaneId {
    let mut hasher = DefaultHasher::new();
    (aggregate_type, aggregate_id).hash(&mut hasher);
    LaneId(hasher.finish().cast_signed())
}

pub(super) fn age(since: OffsetDateTime, now: OffsetDateTime) -> Duration {
    (now - since).try_into().unwrap_or_default()
}

impl State {
    /// Drawn under the lane's lock, as the database's sequence is.
    pub(super) const fn next_sequence(&mut self) -> Sequence {
        self.last_sequence += 1;
        Sequence(self.last_sequence)
    }

    pub(super) fn insert(&mut self, row: EventRow) {
        self.lanes.entry(row.lane).or_insert_with(|| LaneRow::due(row.created_at));
        self.open.insert((row.lane, row.sequence), row.id);
        self.events.insert(row.id, row);
    }

    /// The open events of a lane in order.
    pub(super) fn open_of(&self, lane: LaneId) -> impl Iterator<Item = &EventRow> {
        let whole = (lane, Sequence(i64::MIN))..=(lane, Sequence(i64::MAX));
        self.open.range(whole).filter_map(|(_, id)| self.events.get(id))
    }

    pub(super) fn head_of(&self, lane: LaneId) -> Option<&EventRow> {
        self.open_of(lane).next()
    }

    /// The status as everybody sees it: a lease over the event counts.
    pub(super) fn status_of(&self, event: &EventRow) -> OutboxEventStatus {
        let leased = self.lanes.get(&event.lane).and_then(|lane| lane.lease);
        match leased {
            Some(Lease { from, through, .. })
                if event.is_open()
                    && event.status != OutboxEventStatus::Dead
                    && (from..=through).contains(&event.sequence) =>
            {
                OutboxEventStatus::InFlight
            }
            _ => event.status,
        }
    }

    /// Takes a step of the state machine, or refuses it; changes the row as the caller says, if it does.
    pub(super) fn step(
        &mut self,
        id: EventId,
        transition: OutboxTransition,
        change: impl FnOnce(&mut EventRow),
    ) -> Result<(), StoreError> {
        let Some(event) = self.events.get(&id) else {
            return Err(refused(format!("event {id} is not there")));
        };
        let next = self.status_of(event).after(transition).map_err(refused)?;
        let Some(event) = self.events.get_mut(&id) else { return Ok(()) };
        // A lease is on the lane, not on the row.
        if next != OutboxEventStatus::InFlight {
            event.status = next;
        }
        change(event);
        let (key, is_open) = ((event.lane, event.sequence), event.is_open());
        if is_open {
            self.open.insert(key, id);
        } else {
            self.open.remove(&key);
        }
        Ok(())
    }

    /// Those of the lanes that the claim still leases, or `None` when the claim is void: the fence (rule R14).
    pub(super) fn fence(&self, token: LeaseToken, lanes: impl Iterator<Item = LaneId>) -> Option<Vec<LaneId>> {
        self.claims.get(&token).filter(|claim| !claim.reaped)?;
        Some(self.leased_by(token, lanes))
    }

    pub(super) fn leased_by(&self, token: LeaseToken, lanes: impl Iterator<Item = LaneId>) -> Vec<LaneId> {
        lanes.filter(|lane| self.lease_of(*lane).is_some_and(|lease| lease.token == token)).collect()
    }

    pub(super) fn lease_of(&self, lane: LaneId) -> Option<Lease> {
        self.lanes.get(&lane)?.lease
    }

    /// Whether the event is under a lease of one of the lanes: only then may its claim settle it.
    pub(super) fn is_in_flight(&self, id: EventId, leased: &[LaneId]) -> bool {
        self.events
            .get(&id)
            .is_some_and(|event| leased.contains(&event.lane) && self.status_of(event) == OutboxEventStatus::InFlight)
    }

    /// Frees those of the claim's lanes that no appender holds, gives the claim up with its last lane, and returns the
    /// lanes that it had to leave.
    pub(super) fn end_leases(
        &mut self,
        token: LeaseToken,
        leased: &[LaneId],
        due_at: OffsetDateTime,
        end: LeaseEnd,
    ) -> Result<Vec<LaneId>, StoreError> {
        let (postponed, free): (Vec<_>, Vec<_>) = leased.iter().copied().partition(|lane| self.locks.is_held(*lane));
        for lane in free {
            self.free_lane(lane, due_at, end)?;
        }
        let lanes = self.claims.get(&token).map(|claim| claim.lanes.clone()).unwrap_or_default();
        if self.leased_by(token, lanes.into_iter()).is_empty() {
            self.claims.remove(&token);
        }
        Ok(postponed)
    }

    /// Ends the lease of a lane. What is left of it waits for what its head waits for: an operator, its next attempt, or
    /// a relay. Expiries belong to the head: a new head starts from zero.
    fn free_lane(&mut self, lane: LaneId, due_at: OffsetDateTime, end: LeaseEnd) -> Result<(), StoreError> {
        let Some(lease) = self.lease_of(lane) else { return Ok(()) };
        for (id, status) in self.run_of(lane, lease) {
            let back = if status == OutboxEventStatus::Failed {
                OutboxTransition::ReturnFailed
            } else {
                OutboxTransition::ReturnFresh
            };
            self.step(id, back, |_| {})?;
        }
        let head = self.head_of(lane).map(|head| (head.sequence, head.status, head.next_attempt_at));
        let Some((sequence, status, next_attempt_at)) = head else {
            self.lanes.remove(&lane);
            return Ok(());
        };
        if let Some(row) = self.lanes.get_mut(&lane) {
            row.lease = None;
            row.due_at =
                (status != OutboxEventStatus::Dead).then(|| next_attempt_at.map_or(due_at, |next| next.max(due_at)));
            row.expiries = match (sequence == lease.from, end) {
                (false, _) => 0,
                (true, LeaseEnd::Expired) => row.expiries + 1,
                (true, LeaseEnd::Settled) => row.expiries,
            };
        }
        Ok(())
    }

    /// The events that the lease covers and that are still to be settled, with their stored statuses.
    fn run_of(&self, lane: LaneId, lease: Lease) -> Vec<(EventId, OutboxEventStatus)> {
        self.open_of(lane)
            .filter(|event| (lease.from..=lease.through).contains(&event.sequence))
            .filter(|event| event.status != OutboxEventStatus::Dead)
            .map(|event| (event.id, event.status))
            .collect()
    }

    /// Creates the lane of an event that an operator re-opens or resolves, or makes it due. A leased lane is looked at
    /// again when its lease ends.
    pub(super) fn open_lane(&mut self, lane: LaneId, now: OffsetDateTime) {
        let row = self.lanes.entry(lane).or_insert_with(|| LaneRow::due(now));
        if row.lease.is_none() {
            row.due_at = Some(now);
            row.expiries = 0;
        }
    }
}
