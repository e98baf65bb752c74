//! What an operator sees and does, in memory.

use std::collections::BTreeSet;

use application_core::{
    outbox::{Attribution, EventAction, EventId, FailureClass, OutboxEventStatus, OutboxTransition},
    ports::{
        BlockedAggregate, EventFilter, EventPage, OutboxEventContent, OutboxEventState, OutboxOperationsPort,
        StoreError,
    },
};
use async_trait::async_trait;
use time::OffsetDateTime;

use super::{
    InMemoryOutbox, Operation,
    audit::check,
    state::{EventRow, State, age},
};

impl State {
    fn state_of(&self, event: &EventRow) -> OutboxEventState {
        let status = self.status_of(event);
        let lane = self.lanes.get(&event.lane).filter(|_| event.is_open());
        let claim = lane
            .and_then(|lane| lane.lease)
            .filter(|_| status == OutboxEventStatus::InFlight)
            .and_then(|lease| self.claims.get(&lease.token));
        let lane_due_at = lane.filter(|lane| lane.lease.is_none()).and_then(|lane| lane.due_at);
        let head = self.head_of(event.lane).filter(|head| event.is_open() && head.sequence < event.sequence);
        OutboxEventState {
            id: event.id,
            sequence: event.sequence,
            aggregate_type: event.aggregate_type.clone(),
            aggregate_id: event.aggregate_id.clone(),
            event_type: event.event_type.clone(),
            status,
            attempts: event.attempts,
            replays: event.replays,
            created_at: event.created_at,
            published_at: event.published_at,
            due_at: lane_due_at
                .filter(|_| event.status != OutboxEventStatus::Dead)
                .map(|due| event.next_attempt_at.map_or(due, |next| next.max(due))),
            last_error: event.last_error.clone(),
            resolved_at: event.resolved.map(|(at, _)| at),
            resolution: event.resolved.map(|(_, how)| how.to_owned()),
            holder: claim.map(|claim| claim.holder.clone()),
            lease_expires_at: claim.map(|claim| claim.lease_expires_at),
            blocked_behind: head.map(|head| head.id),
        }
    }

    fn matching(&self, filter: &EventFilter, now: OffsetDateTime) -> EventPage {
        let most = usize::try_from(filter.limit).unwrap_or(usize::MAX);
        let events: Vec<_> = self
            .events
            .values()
            .filter(|event| filter.after.is_none_or(|after| event.id > after))
            .filter(|event| filter.aggregate_type.as_ref().is_none_or(|wanted| *wanted == event.aggregate_type))
            .filter(|event| filter.aggregate_id.as_ref().is_none_or(|wanted| *wanted == event.aggregate_id))
            .filter(|event| filter.event_type.as_ref().is_none_or(|wanted| *wanted == event.event_type))
            .filter(|event| filter.class.is_none_or(|class| of_class(event, class)))
            .filter(|event| filter.older_than.is_none_or(|least| now - event.created_at >= least))
            .filter(|event| filter.published_from.is_none_or(|first| event.published_at.is_some_and(|at| at >= first)))
            .filter(|event| filter.published_until.is_none_or(|end| event.published_at.is_some_and(|at| at < end)))
            .filter(|event| filter.from.is_none_or(|first| event.id >= first))
            .filter(|event| filter.to.is_none_or(|last| event.id <= last))
            .filter(|event| !filter.unresolved || event.resolved.is_none())
            .filter(|event| filter.status.is_none_or(|wanted| wanted == self.status_of(event)))
            .map(|event| self.state_of(event))
            .take(most)
            .collect();
        let next = events.last().map(|event| event.id).filter(|_| events.len() == most);
        EventPage { events, next }
    }

    fn blocked(&self, limit: u32, now: OffsetDateTime) -> Vec<BlockedAggregate> {
        let mut heads: Vec<_> = self
            .lanes
            .iter()
            .filter(|(_, lane)| lane.lease.is_none())
            .filter_map(|(id, _)| self.head_of(*id))
            .filter(|head| head.status == OutboxEventStatus::Dead)
            .collect();
        heads.sort_by_key(|head| (head.created_at, head.sequence));
        heads.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        heads
            .into_iter()
            .map(|head| BlockedAggregate {
                aggregate_type: head.aggregate_type.clone(),
                aggregate_id: head.aggregate_id.clone(),
                head: head.id,
                reason: head.last_error.clone(),
                age: age(head.created_at, now),
                depth: u32::try_from(self.open_of(head.lane).count())
                    .unwrap_or(u32::MAX)
                    .min(BlockedAggregate::DEEPEST),
            })
            .collect()
    }
}

fn of_class(event: &EventRow, class: FailureClass) -> bool {
    event.last_error.as_ref().is_some_and(|error| error.starts_with(&format!("{class}: ")))
}

/// What a person does to an event.
struct Action {
    /// Whether the event is in a state that the action starts from.
    starts_from: fn(&EventRow) -> bool,
    transition: OutboxTransition,
    change: fn(&mut EventRow, OffsetDateTime),
}

const REQUEUE: Action = Action {
    starts_from: |event| event.status == OutboxEventStatus::Dead,
    transition: OutboxTransition::Requeue,
    change: |event, _| {
        event.attempts = 0;
        event.next_attempt_at = None;
        event.resolved = None;
    },
};

const REQUEUE_UNRESOLVED: Action =
    Action { starts_from: |event| event.status == OutboxEventStatus::Dead && event.resolved.is_none(), ..REQUEUE };

const DISCARD: Action = Action {
    starts_from: |event| event.status == OutboxEventStatus::Dead && event.resolved.is_none(),
    transition: OutboxTransition::Resolve,
    change: |event, now| event.resolved = Some((now, "discarded")),
};

const REPLAY: Action = Action {
    starts_from: |event| event.status == OutboxEventStatus::Published,
    transition: OutboxTransition::Replay,
    change: |event, _| {
        event.attempts = 0;
        event.next_attempt_at = None;
        event.last_error = None;
        event.published_at = None;
        event.replays += 1;
    },
};

impl InMemoryOutbox {
    /// Waits until no appender holds a lane of the events, and changes all of them at one moment.
    async fn operate(
        &self,
        (name, action): (EventAction, &Action),
        events: &[EventId],
        by: &Attribution,
    ) -> Result<Vec<EventId>, StoreError> {
        let answer = self.shared.meet(Operation::Operate)?;
        check(by)?;
        loop {
            // Created before the look: an end between the two is not missed.
            let ended = self.shared.ended.notified();
            let now = self.shared.clock.now();
            {
                let mut state = self.shared.state();
                let startable: BTreeSet<_> = events.iter().copied().collect();
                let startable: Vec<_> = startable
                    .iter()
                    .filter_map(|id| state.events.get(id))
                    .filter(|event| (action.starts_from)(event))
                    .map(|event| (event.id, event.lane))
                    .collect();
                if !startable.iter().any(|(_, lane)| state.locks.is_held(*lane)) {
                    for (id, lane) in &startable {
                        state.open_lane(*lane, now);
                        state.step(*id, action.transition, |event| (action.change)(event, now))?;
                    }
                    let changed: Vec<_> = startable.into_iter().map(|(id, _)| id).collect();
                    if !changed.is_empty() {
                        state.record(name.as_str(), None, &changed, by, now);
                    }
                    return answer.pass(changed);
                }
            }
            ended.await;
        }
    }
}

#[async_trait]
impl OutboxOperationsPort for InMemoryOutbox {
    async fn find(&self, id: EventId) -> Result<Option<OutboxEventState>, StoreError> {
        self.shared
            .statement(Operation::Operate, |state, _| Ok(state.events.get(&id).map(|event| state.state_of(event))))
    }

    async fn content(&self, id: EventId) -> Result<Option<OutboxEventContent>, StoreError> {
        self.shared.statement(Operation::Operate, |state, _| {
            Ok(state
                .events
                .get(&id)
                .map(|event| OutboxEventContent { payload: event.payload.clone(), headers: event.headers.clone() }))
        })
    }

    async fn list(&self, filter: &EventFilter) -> Result<EventPage, StoreError> {
        self.shared.statement(Operation::Operate, |state, now| Ok(state.matching(filter, now)))
    }

    async fn published_gone_until(&self) -> Result<Option<OffsetDateTime>, StoreError> {
        self.shared.statement(Operation::Operate, |state, _| Ok(state.published_gone_until))
    }

    async fn blocked(&self, limit: u32) -> Result<Vec<BlockedAggregate>, StoreError> {
        self.shared.statement(Operation::Operate, |state, now| Ok(state.blocked(limit, now)))
    }

    async fn act(&self, action: EventAction, events: &[EventId], by: &Attribution) -> Result<Vec<EventId>, StoreError> {
        let how = match action {
            EventAction::Requeue => &REQUEUE,
            EventAction::Discard => &DISCARD,
            EventAction::Replay => &REPLAY,
        };
        self.operate((action, how), events, by).await
    }

    async fn requeue_unresolved(&self, events: &[EventId], by: &Attribution) -> Result<Vec<EventId>, StoreError> {
        self.operate((EventAction::Requeue, &REQUEUE_UNRESOLVED), events, by).await
    }
}
