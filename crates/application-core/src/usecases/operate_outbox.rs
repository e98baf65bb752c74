//! Use case: an operator's actions on the outbox.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
    sync::Arc,
};

use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{
    outbox::{Attribution, EventAction, EventId, HolderName, OnPublish, OutboxEventStatus},
    ports::{
        AuditEntry, BlockedAggregate, DeadGroup, EventFilter, EventPage, LeaderState, OutboxAuditPort,
        OutboxEventContent, OutboxEventState, OutboxHoldersPort, OutboxOperationsPort, OutboxPausePort,
        OutboxStatistics, OutboxStatisticsPort, Pause, PauseScope, RecentPublishing, RegisteredRelay, RelayLeases,
        RelayRegistryPort, StoreError, WakeupPort, with_causes,
    },
    usecases::StopSignal,
};

/// An action of an operator that could not be done.
#[derive(Debug, thiserror::Error)]
pub enum OperateError {
    /// No such event; it never was, or its retention is over.
    #[error("event {id} is not in the outbox")]
    NotFound {
        /// The event.
        id: EventId,
    },
    /// An event that is not there, in an outbox that deletes events when they are published.
    #[error("event {id} cannot be replayed: it is not in the outbox, which deletes events when they are published")]
    HistoryNotKept {
        /// The event.
        id: EventId,
    },
    /// A range to be sent again, in an outbox that deletes events when they are published.
    #[error(
        "a range cannot be replayed: the outbox deletes events when they are published; what is left is replayed by its id"
    )]
    RangeNotKept,
    /// A range to be sent again that begins where published events are gone.
    #[error(
        "{field} is {}, but published events are gone until {}: what is replayed must lie behind that",
        rfc3339(*asked),
        rfc3339(*gone_until)
    )]
    HistoryGone {
        /// The end of the range that says so.
        field: &'static str,
        /// What it says.
        asked: OffsetDateTime,
        /// Until when clean-up or a purge has removed published events.
        gone_until: OffsetDateTime,
    },
    /// The event's status does not allow the action.
    #[error("event {id} is {status}{}, so it cannot be {action}", if *resolved { " and resolved" } else { "" })]
    NotAllowed {
        /// The event.
        id: EventId,
        /// Where it stands.
        status: OutboxEventStatus,
        /// Whether it was skipped or discarded before.
        resolved: bool,
        /// What was asked for, as a participle.
        action: &'static str,
    },
    /// A range in which nothing can lie.
    #[error("{field} must lie behind {from}, but it is {until}")]
    EmptyRange {
        /// The end of the range.
        field: &'static str,
        /// Where the range begins.
        from: String,
        /// Where it should end.
        until: String,
    },
    /// The store failed.
    #[error("the outbox could not be operated")]
    Store {
        /// Why.
        #[source]
        source: StoreError,
    },
}

impl From<StoreError> for OperateError {
    fn from(source: StoreError) -> Self {
        Self::Store { source }
    }
}

/// An action on many events that failed midway.
#[derive(Debug, thiserror::Error)]
#[error("{events} events were changed before it failed")]
pub struct ManyFailed {
    /// Events that the batches before have changed; that stays so.
    pub events: u64,
    /// Where a call with the same filter goes on (its `after`) without a look at what those batches have been through; none:
    /// it begins anew. Whether the batch that failed took effect may be unknown, so it is looked at again.
    pub next: Option<EventId>,
    /// Why.
    pub source: OperateError,
}

/// What an operator works through.
#[derive(Clone)]
pub struct OperatePorts {
    /// Events.
    pub operations: Arc<dyn OutboxOperationsPort>,
    /// The record of changes.
    pub audit: Arc<dyn OutboxAuditPort>,
    /// Pauses.
    pub pause: Arc<dyn OutboxPausePort>,
    /// Leases and leaders.
    pub holders: Arc<dyn OutboxHoldersPort>,
    /// The list of relays.
    pub registry: Arc<dyn RelayRegistryPort>,
    /// The figures.
    pub statistics: Arc<dyn OutboxStatisticsPort>,
    /// Tells the relay.
    pub wakeup: Arc<dyn WakeupPort>,
}

impl fmt::Debug for OperatePorts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperatePorts").finish_non_exhaustive()
    }
}

/// Looks at the outbox and acts on its events.
pub struct OperateOutboxUseCase {
    ports: OperatePorts,
    on_publish: OnPublish,
}

impl OperateOutboxUseCase {
    /// Puts the ports together; published events are kept.
    #[must_use]
    pub const fn new(ports: OperatePorts) -> Self {
        Self { ports, on_publish: OnPublish::Keep }
    }

    /// Says what the relay does with published events, for the reason of a refused replay.
    #[must_use]
    pub const fn on_publish(mut self, on_publish: OnPublish) -> Self {
        self.on_publish = on_publish;
        self
    }

    /// Does it to one event.
    ///
    /// # Errors
    /// [`OperateError`]; [`OperateError::HistoryNotKept`] for a replay where published events are deleted.
    pub async fn act(&self, action: EventAction, id: EventId, by: &Attribution) -> Result<(), OperateError> {
        let changed = self.ports.operations.act(action, &[id], by).await?;
        self.tell(action, &changed, by);
        if !changed.is_empty() {
            return Ok(());
        }
        let state = self.ports.operations.find(id).await?;
        Err(self.why_left(action, &LeftAlone::new(id, state.as_ref())))
    }

    /// Why an action leaves this event alone.
    #[must_use]
    pub fn why_left(&self, action: EventAction, left: &LeftAlone) -> OperateError {
        let LeftAlone { id, found } = *left;
        match found {
            Some((status, resolved)) => OperateError::NotAllowed { id, status, resolved, action: action.participle() },
            None if action == EventAction::Replay && self.on_publish == OnPublish::Delete => {
                OperateError::HistoryNotKept { id }
            }
            None => OperateError::NotFound { id },
        }
    }

    /// Does it to all that are meant, in batches of one transaction each, and begins no further batch once told to stop.
    /// Events that are not in the status that the action starts from are left alone, so a repetition goes on where an
    /// interrupted call ended; those that were named are reported, as they stand afterwards. By filter, a requeue leaves
    /// resolved events alone, those included that are resolved while it runs: they were given up on purpose.
    ///
    /// A replay by filter looks at each event once, in the order of ids. A repetition would send again what the call before
    /// sent and the broker has confirmed since, unless it goes on behind that call's [`ManyReport::next`] or the filter's
    /// `published_until` is in the past. A range of times that begins, or ends, where published events are gone is refused;
    /// one that says nothing of where it begins is about what is left, and [`ManyReport::gone_until`] tells of the rest.
    ///
    /// # Delivery
    /// The events of one batch keep the order of their aggregate; from batch to batch the order is that of ids.
    ///
    /// # Errors
    /// [`ManyFailed`]; the batches before are done.
    pub async fn act_on_many(
        &self,
        action: EventAction,
        which: &Selection,
        batch: u32,
        by: &Attribution,
        stop: &StopSignal,
    ) -> Result<ManyReport, ManyFailed> {
        let mut pages =
            Pages::new(action, which, batch).map_err(|source| ManyFailed { events: 0, next: None, source })?;
        let gone_until = self.gone_until(action, which).await;
        let gone_until = gone_until.map_err(|source| ManyFailed { events: 0, next: pages.after(), source })?;
        let mut report = ManyReport { gone_until, ..ManyReport::default() };
        while !stop.is_set() {
            let before = pages.after();
            match self.act_on_page(action, which, by, &mut pages, &mut report).await {
                Ok(true) => {}
                Ok(false) => break,
                Err(source) => return Err(ManyFailed { events: report.events, next: before, source }),
            }
        }
        // Meanwhile more may have gone. What was done is told, whether that can be said or not.
        match self.gone_until(action, which).await {
            Ok(gone_until) => report.gone_until = gone_until,
            Err(OperateError::HistoryGone { gone_until, .. }) => report.gone_until = Some(gone_until),
            Err(error) => tracing::warn!(error = with_causes(&error), "whether history has gone meanwhile is unknown"),
        }
        Ok(ManyReport { interrupted: !pages.is_over(), next: pages.after(), ..report })
    }

    /// Until when history is gone to which a replay by filter may reach; refused if the filter says that it does.
    async fn gone_until(&self, action: EventAction, which: &Selection) -> Result<Option<OffsetDateTime>, OperateError> {
        let (EventAction::Replay, Selection::Matching(filter)) = (action, which) else { return Ok(None) };
        if self.on_publish == OnPublish::Delete {
            return Err(OperateError::RangeNotKept);
        }
        let Some(gone_until) = self.ports.operations.published_gone_until().await? else { return Ok(None) };
        let gone = |field, asked| Err(OperateError::HistoryGone { field, asked, gone_until });
        match (filter.published_from, filter.published_until) {
            (Some(from), _) if from <= gone_until => gone("published_from", from),
            (None, Some(until)) if until <= gone_until => gone("published_until", until),
            (Some(_), _) => Ok(None),
            (None, _) => Ok(Some(gone_until)),
        }
    }

    /// The next batch; `false`: there was none.
    async fn act_on_page(
        &self,
        action: EventAction,
        which: &Selection,
        by: &Attribution,
        pages: &mut Pages,
        report: &mut ManyReport,
    ) -> Result<bool, OperateError> {
        let Some(ids) = pages.next(self.ports.operations.as_ref()).await? else { return Ok(false) };
        if ids.is_empty() {
            return Ok(true);
        }
        let changed = match (action, which) {
            (EventAction::Requeue, Selection::Matching(_)) => {
                self.ports.operations.requeue_unresolved(&ids, by).await?
            }
            _ => self.ports.operations.act(action, &ids, by).await?,
        };
        self.tell(action, &changed, by);
        report.events += wide(changed.len());
        if let Selection::Events(_) = which {
            for id in ids.into_iter().filter(|id| !changed.contains(id)) {
                let state = self.ports.operations.find(id).await?;
                report.left.push(LeftAlone::new(id, state.as_ref()));
            }
        }
        Ok(true)
    }

    /// Counts what [`Self::act_on_many`] would change now, and changes nothing.
    ///
    /// # Errors
    /// [`OperateError`].
    pub async fn count_many(
        &self,
        action: EventAction,
        which: &Selection,
        stop: &StopSignal,
    ) -> Result<ManyReport, OperateError> {
        let mut pages = Pages::new(action, which, MOST_IN_A_BATCH)?;
        let gone_until = self.gone_until(action, which).await?;
        let mut report = ManyReport { gone_until, ..ManyReport::default() };
        while !stop.is_set() {
            let Some(ids) = pages.next(self.ports.operations.as_ref()).await? else { return Ok(report) };
            match which {
                Selection::Matching(_) => report.events += wide(ids.len()),
                Selection::Events(_) => self.count_startable(action, &ids, &mut report).await?,
            }
        }
        Ok(ManyReport { interrupted: !pages.is_over(), next: pages.after(), ..report })
    }

    /// The state of one event.
    ///
    /// # Errors
    /// [`OperateError`].
    pub async fn show(&self, id: EventId) -> Result<OutboxEventState, OperateError> {
        self.ports.operations.find(id).await?.ok_or(OperateError::NotFound { id })
    }

    /// Payload and headers of one event. The store may refuse them to whoever may see everything else.
    ///
    /// # Errors
    /// [`OperateError`].
    pub async fn content(&self, id: EventId) -> Result<OutboxEventContent, OperateError> {
        self.ports.operations.content(id).await?.ok_or(OperateError::NotFound { id })
    }

    /// A page of events, by one look at the store.
    ///
    /// # Errors
    /// [`OperateError`].
    pub async fn page(&self, filter: &EventFilter) -> Result<EventPage, OperateError> {
        check_range(filter)?;
        Ok(self.ports.operations.list(filter).await?)
    }

    /// As many events as the filter's limit says, if there are so many: looks as often as that takes.
    ///
    /// # Errors
    /// [`OperateError`].
    pub async fn list(&self, filter: &EventFilter) -> Result<Vec<OutboxEventState>, OperateError> {
        let (mut rest, mut found) = (filter.clone(), Vec::new());
        loop {
            let EventPage { events, next } = self.page(&rest).await?;
            rest.limit = rest.limit.saturating_sub(u32::try_from(events.len()).unwrap_or(u32::MAX));
            found.extend(events);
            if next.is_none() || rest.limit == 0 {
                return Ok(found);
            }
            rest.after = next;
        }
    }

    /// Aggregates that wait behind a DEAD event.
    ///
    /// # Errors
    /// [`OperateError`].
    pub async fn blocked(&self, limit: u32) -> Result<Vec<BlockedAggregate>, OperateError> {
        Ok(self.ports.operations.blocked(limit).await?)
    }

    /// The figures of the moment.
    ///
    /// # Errors
    /// [`OperateError`].
    pub async fn statistics(&self) -> Result<OutboxStatistics, OperateError> {
        Ok(self.ports.statistics.statistics().await?)
    }

    /// How publishing goes, all relays together; `None` where published events are deleted, for then nothing tells of them.
    ///
    /// # Errors
    /// [`OperateError`].
    pub async fn recent_publishing(&self) -> Result<Option<RecentPublishing>, OperateError> {
        match self.on_publish {
            OnPublish::Keep => Ok(Some(self.ports.statistics.recent_publishing().await?)),
            OnPublish::Delete => Ok(None),
        }
    }

    /// How the unresolved DEAD events have died.
    ///
    /// # Errors
    /// [`OperateError`].
    pub async fn dead_groups(&self) -> Result<Vec<DeadGroup>, OperateError> {
        Ok(self.ports.statistics.dead_groups().await?)
    }

    /// What operators have done to one event, newest first.
    ///
    /// # Errors
    /// [`OperateError`].
    pub async fn audit_of(&self, event: EventId, limit: u32) -> Result<Vec<AuditEntry>, OperateError> {
        Ok(self.ports.audit.audit_of(event, limit).await?)
    }

    /// What operators have changed, newest first, before the entry with this number.
    ///
    /// # Errors
    /// [`OperateError`].
    pub async fn audit(&self, before: Option<i64>, limit: u32) -> Result<Vec<AuditEntry>, OperateError> {
        Ok(self.ports.audit.audit(before, limit).await?)
    }

    /// Holds events back. `false`: they are held back already.
    ///
    /// # Errors
    /// [`OperateError`].
    pub async fn pause(&self, scope: &PauseScope, by: &Attribution) -> Result<bool, OperateError> {
        let changed = self.ports.pause.pause(scope, by).await?;
        if changed {
            tracing::warn!(?scope, operator = by.operator.as_str(), "an operator paused the outbox");
        }
        Ok(changed)
    }

    /// Lets events go again. `false`: they were not held back.
    ///
    /// # Errors
    /// [`OperateError`].
    pub async fn resume(&self, scope: &PauseScope, by: &Attribution) -> Result<bool, OperateError> {
        let changed = self.ports.pause.resume(scope, by).await?;
        if changed {
            tracing::warn!(?scope, operator = by.operator.as_str(), "an operator resumed the outbox");
            self.ports.wakeup.wake();
        }
        Ok(changed)
    }

    /// The pauses that stand.
    ///
    /// # Errors
    /// [`OperateError`].
    pub async fn pauses(&self) -> Result<Vec<Pause>, OperateError> {
        Ok(self.ports.pause.pauses().await?)
    }

    /// Relays that report, or hold leases, by name. Of one that is gone it is not told what it had paused.
    ///
    /// # Errors
    /// [`OperateError`].
    pub async fn relays(&self) -> Result<Vec<RelayState>, OperateError> {
        let mut relays = BTreeMap::new();
        for mut relay in self.ports.registry.registered().await? {
            if relay.gone {
                relay.paused.clear();
            }
            let state = RelayState::of(&mut relays, &relay.holder);
            state.registered = Some(relay);
        }
        for leases in self.ports.holders.relays().await? {
            let state = RelayState::of(&mut relays, &leases.holder);
            state.leases = Some(leases);
        }
        Ok(relays.into_values().collect())
    }

    /// Who leads in which role.
    ///
    /// # Errors
    /// [`OperateError`].
    pub async fn leaders(&self) -> Result<Vec<LeaderState>, OperateError> {
        Ok(self.ports.holders.leaders().await?)
    }

    /// Tells the log and the relay of what was changed.
    fn tell(&self, action: EventAction, changed: &[EventId], by: &Attribution) {
        if let Some(first) = changed.first() {
            let operator = by.operator.as_str();
            tracing::info!(%action, operator, events = changed.len(), first = %first, "an operator acted on events");
            self.ports.wakeup.wake();
        }
    }

    async fn count_startable(
        &self,
        action: EventAction,
        ids: &[EventId],
        report: &mut ManyReport,
    ) -> Result<(), OperateError> {
        for id in ids {
            let state = self.ports.operations.find(*id).await?;
            if state.as_ref().is_some_and(|state| starts_from(action, state)) {
                report.events += 1;
            } else {
                report.left.push(LeftAlone::new(*id, state.as_ref()));
            }
        }
        Ok(())
    }
}

/// A relay: what it says of itself, and what it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayState {
    /// Its name.
    pub holder: HolderName,
    /// Its entry in the list of relays; none: it never reported, withdrew, or is gone for long.
    pub registered: Option<RegisteredRelay>,
    /// Its leases; none: it holds none.
    pub leases: Option<RelayLeases>,
}

impl RelayState {
    /// The entry of this name, which is made if it is not there yet.
    fn of<'a>(relays: &'a mut BTreeMap<String, Self>, holder: &HolderName) -> &'a mut Self {
        let relay = relays.entry(holder.as_str().to_owned());
        relay.or_insert_with(|| Self { holder: holder.clone(), registered: None, leases: None })
    }

    /// `alive`, `gone` if it has missed its reports, `unknown` if it is not in the list.
    #[must_use]
    pub const fn state(&self) -> &'static str {
        match &self.registered {
            Some(relay) if relay.gone => "gone",
            Some(_) => "alive",
            None => "unknown",
        }
    }

    /// Whether it has reported of late.
    #[must_use]
    pub const fn is_alive(&self) -> bool {
        matches!(&self.registered, Some(relay) if !relay.gone)
    }
}

/// What an action on many is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// These events.
    Events(Vec<EventId>),
    /// Every event that matches, from its `after` on; its status and limit are the action's to say.
    Matching(EventFilter),
}

/// An event that was named, and that an action left as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftAlone {
    /// The event.
    pub id: EventId,
    /// Its status, and whether it is resolved; none: it is not in the outbox.
    pub found: Option<(OutboxEventStatus, bool)>,
}

impl LeftAlone {
    fn new(id: EventId, state: Option<&OutboxEventState>) -> Self {
        Self { id, found: state.map(|state| (state.status, state.resolved_at.is_some())) }
    }
}

/// What an action on many did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ManyReport {
    /// Events that were changed, or would be.
    pub events: u64,
    /// Whether it was told to stop before all were looked at.
    pub interrupted: bool,
    /// Where a call with the same filter goes on (its `after`) without a look at what this one has been through; none: it
    /// begins anew.
    pub next: Option<EventId>,
    /// Of a replay by filter: published events are gone until then, and those of them that the filter means, if any, are not
    /// among those that were sent again; none: nothing that it means can be gone.
    pub gone_until: Option<OffsetDateTime>,
    /// Events that were named and looked at, and are left as they were.
    pub left: Vec<LeftAlone>,
}

/// The most events of one batch.
pub const MOST_IN_A_BATCH: u32 = 1_000;

fn starts_from(action: EventAction, state: &OutboxEventState) -> bool {
    match action {
        EventAction::Requeue => state.status == OutboxEventStatus::Dead,
        EventAction::Discard => state.status == OutboxEventStatus::Dead && state.resolved_at.is_none(),
        EventAction::Replay => state.status == OutboxEventStatus::Published,
    }
}

fn rfc3339(time: OffsetDateTime) -> String {
    time.format(&Rfc3339).unwrap_or_else(|_unwritable| time.to_string())
}

/// A range that was turned round by mistake would answer that there is nothing.
fn check_range(filter: &EventFilter) -> Result<(), OperateError> {
    let EventFilter { published_from, published_until, from, to, .. } = filter;
    match (published_from, published_until) {
        (Some(from), Some(until)) if from >= until => {
            return Err(OperateError::EmptyRange {
                field: "published_until",
                from: from.to_string(),
                until: until.to_string(),
            });
        }
        _ => {}
    }
    match (from, to) {
        (Some(from), Some(to)) if from > to => {
            Err(OperateError::EmptyRange { field: "to", from: from.to_string(), until: to.to_string() })
        }
        _ => Ok(()),
    }
}

/// The batches of a selection, one after the other.
enum Pages {
    Given { left: Vec<EventId>, batch: usize },
    Found(EventFilter),
    Over,
}

impl Pages {
    fn new(action: EventAction, which: &Selection, batch: u32) -> Result<Self, OperateError> {
        let batch = batch.clamp(1, MOST_IN_A_BATCH);
        Ok(match which {
            // Each once, however often it is named: it can be changed, or left alone, only once.
            Selection::Events(ids) => {
                let mut seen = HashSet::new();
                let left = ids.iter().copied().filter(|id| seen.insert(*id)).collect();
                Self::Given { left, batch: usize::try_from(batch).unwrap_or(1) }
            }
            Selection::Matching(filter) => {
                check_range(filter)?;
                let status = match action {
                    EventAction::Requeue | EventAction::Discard => OutboxEventStatus::Dead,
                    EventAction::Replay => OutboxEventStatus::Published,
                };
                let filter = filter.clone();
                Self::Found(EventFilter { status: Some(status), unresolved: true, limit: batch, ..filter })
            }
        })
    }

    /// The next ones, maybe none of what was looked at; `None`: that was all. An event that dies behind the page that was
    /// read is a later call's.
    async fn next(&mut self, operations: &dyn OutboxOperationsPort) -> Result<Option<Vec<EventId>>, StoreError> {
        match self {
            Self::Given { left, batch } => {
                let ids: Vec<_> = left.drain(..left.len().min(*batch)).collect();
                Ok(Some(ids).filter(|ids| !ids.is_empty()))
            }
            Self::Found(filter) => {
                let EventPage { events, next } = operations.list(filter).await?;
                match next {
                    Some(next) => filter.after = Some(next),
                    None => *self = Self::Over,
                }
                Ok(Some(events.into_iter().map(|event| event.id).collect()))
            }
            Self::Over => Ok(None),
        }
    }

    fn is_over(&self) -> bool {
        match self {
            Self::Given { left, .. } => left.is_empty(),
            Self::Found(_) => false,
            Self::Over => true,
        }
    }

    /// What was looked at so far ends here.
    const fn after(&self) -> Option<EventId> {
        match self {
            Self::Found(filter) => filter.after,
            Self::Given { .. } | Self::Over => None,
        }
    }
}

fn wide(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

impl fmt::Debug for OperateOutboxUseCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperateOutboxUseCase").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
