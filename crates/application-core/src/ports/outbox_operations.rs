//! Port: what an operator sees of single events, and does to them.

use std::time::Duration;

use async_trait::async_trait;
use time::OffsetDateTime;

use super::error::StoreError;
use crate::outbox::{
    AggregateId, AggregateType, Attribution, EventAction, EventHeaders, EventId, EventType, FailureClass, HolderName,
    OutboxEventStatus, Payload, Sequence,
};

/// Everything about one event, as the view `outbox_event_state` tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxEventState {
    /// The event.
    pub id: EventId,
    /// Its place in the order of its aggregate.
    pub sequence: Sequence,
    /// The aggregate's type.
    pub aggregate_type: AggregateType,
    /// The aggregate's identifier.
    pub aggregate_id: AggregateId,
    /// The event's type.
    pub event_type: EventType,
    /// Where it stands: all five statuses.
    pub status: OutboxEventStatus,
    /// Deliveries that failed through the message itself.
    pub attempts: u32,
    /// How often it was sent again on purpose.
    pub replays: u32,
    /// When it was stored.
    pub created_at: OffsetDateTime,
    /// When the broker confirmed it.
    pub published_at: Option<OffsetDateTime>,
    /// When it is due; none while it is leased, blocked or settled.
    pub due_at: Option<OffsetDateTime>,
    /// Class and reason of the last failure; of a published event it is history, until a replay clears it.
    pub last_error: Option<String>,
    /// When it was skipped or discarded.
    pub resolved_at: Option<OffsetDateTime>,
    /// `skipped` or `discarded`.
    pub resolution: Option<String>,
    /// Who holds its lane.
    pub holder: Option<HolderName>,
    /// When that lease ends.
    pub lease_expires_at: Option<OffsetDateTime>,
    /// The open event at the head of its lane, when that is another one: the one that an operator can act upon.
    pub blocked_behind: Option<EventId>,
}

/// An event with its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxEventContent {
    /// The payload, byte for byte as appended.
    pub payload: Payload,
    /// The headers.
    pub headers: EventHeaders,
}

/// Which events a list shows, newest key last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// Only this status.
    pub status: Option<OutboxEventStatus>,
    /// Only this aggregate type.
    pub aggregate_type: Option<AggregateType>,
    /// Only this aggregate.
    pub aggregate_id: Option<AggregateId>,
    /// Only this event type.
    pub event_type: Option<EventType>,
    /// Only events whose last failure was of this class.
    pub class: Option<FailureClass>,
    /// Only events that were stored this long ago or longer.
    pub older_than: Option<Duration>,
    /// Only events that the broker confirmed at this time or later, by their last confirm.
    pub published_from: Option<OffsetDateTime>,
    /// Only events that the broker confirmed before this time, by their last confirm.
    pub published_until: Option<OffsetDateTime>,
    /// Only this event and those behind it, by id.
    pub from: Option<EventId>,
    /// Only this event and those before it, by id.
    pub to: Option<EventId>,
    /// Only events that were neither skipped nor discarded.
    pub unresolved: bool,
    /// Only events after this one, by id: the last id of the page before.
    pub after: Option<EventId>,
    /// The most events; 1 to 1,000.
    pub limit: u32,
}

/// A page of events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventPage {
    /// In the order of their ids. A page may have fewer than it could and not be the last: a look through very many events
    /// that do not match ends it.
    pub events: Vec<OutboxEventState>,
    /// The `after` of the next page; none: there is nothing behind this one.
    pub next: Option<EventId>,
}

/// An aggregate that waits behind a DEAD event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockedAggregate {
    /// The aggregate's type.
    pub aggregate_type: AggregateType,
    /// The aggregate's identifier.
    pub aggregate_id: AggregateId,
    /// The DEAD event at its head.
    pub head: EventId,
    /// Why it died.
    pub reason: Option<String>,
    /// How long the head has been stored.
    pub age: Duration,
    /// The open events that wait, the head included; counted up to [`BlockedAggregate::DEEPEST`].
    pub depth: u32,
}

impl BlockedAggregate {
    /// Where counting the events behind a head stops.
    pub const DEEPEST: u32 = 1_000;
}

/// An operator's view and actions. Every action is one transition of each event that it names.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait OutboxOperationsPort: Send + Sync {
    /// The state of one event.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn find(&self, id: EventId) -> Result<Option<OutboxEventState>, StoreError>;

    /// Payload and headers of one event.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn content(&self, id: EventId) -> Result<Option<OutboxEventContent>, StoreError>;

    /// A page of events. Its price MUST be bounded, whatever is stored and however little of it matches.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn list(&self, filter: &EventFilter) -> Result<EventPage, StoreError>;

    /// Until when published history is gone, by the last confirm of each event: what was published later was removed by no
    /// clean-up and no purge. None: they have removed nothing.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn published_gone_until(&self) -> Result<Option<OffsetDateTime>, StoreError>;

    /// Aggregates that wait behind a DEAD event, oldest head first; at most `limit`.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn blocked(&self, limit: u32) -> Result<Vec<BlockedAggregate>, StoreError>;

    /// Does it to those of the events that are in the status that it starts from, and returns these; one transaction.
    ///
    /// It MUST record the change and its author in the same transaction, unless it changed nothing.
    ///
    /// # Errors
    /// [`StoreError`]; then nothing was changed, unless the answer got lost.
    async fn act(&self, action: EventAction, events: &[EventId], by: &Attribution) -> Result<Vec<EventId>, StoreError>;

    /// Requeues those of the events that are DEAD and were neither skipped nor discarded, and returns these; otherwise as
    /// [`act`](Self::act).
    ///
    /// Whether an event is resolved MUST be looked at where nobody can resolve it any more before the change: the caller
    /// took the events from a list, and another operator may have discarded them since.
    ///
    /// # Errors
    /// [`StoreError`]; then nothing was changed, unless the answer got lost.
    async fn requeue_unresolved(&self, events: &[EventId], by: &Attribution) -> Result<Vec<EventId>, StoreError>;
}
