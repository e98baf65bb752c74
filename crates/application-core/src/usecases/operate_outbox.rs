//! Use case: an operator's actions on the outbox.

use std::{fmt, sync::Arc};

use crate::{
    outbox::{EventId, OnPublish, OutboxEventStatus},
    ports::{
        BlockedAggregate, EventFilter, OutboxEventState, OutboxOperationsPort, OutboxStatistics, OutboxStatisticsPort,
        StoreError, WakeupPort,
    },
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

/// Looks at the outbox and acts on single events.
pub struct OperateOutboxUseCase {
    operations: Arc<dyn OutboxOperationsPort>,
    statistics: Arc<dyn OutboxStatisticsPort>,
    wakeup: Arc<dyn WakeupPort>,
    on_publish: OnPublish,
}

impl OperateOutboxUseCase {
    /// Puts the ports together; published events are kept.
    #[must_use]
    pub fn new(
        operations: Arc<dyn OutboxOperationsPort>,
        statistics: Arc<dyn OutboxStatisticsPort>,
        wakeup: Arc<dyn WakeupPort>,
    ) -> Self {
        Self { operations, statistics, wakeup, on_publish: OnPublish::Keep }
    }

    /// Says what the relay does with published events, for the reason of a refused replay.
    #[must_use]
    pub const fn on_publish(mut self, on_publish: OnPublish) -> Self {
        self.on_publish = on_publish;
        self
    }

    /// Tries a DEAD event anew, attempts from zero.
    ///
    /// # Errors
    /// [`OperateError`].
    pub async fn requeue(&self, id: EventId) -> Result<(), OperateError> {
        let changed = self.operations.requeue(id).await?;
        self.finish(id, changed, "requeued").await
    }

    /// Resolves a DEAD event, so that its aggregate goes on without it.
    ///
    /// # Errors
    /// [`OperateError`].
    pub async fn discard(&self, id: EventId) -> Result<(), OperateError> {
        let changed = self.operations.discard(id).await?;
        self.finish(id, changed, "discarded").await
    }

    /// Sends a published event again under its id.
    ///
    /// # Errors
    /// [`OperateError`]; [`OperateError::HistoryNotKept`] where published events are deleted.
    pub async fn replay(&self, id: EventId) -> Result<(), OperateError> {
        let changed = self.operations.replay(id).await?;
        match self.finish(id, changed, "replayed").await {
            Err(OperateError::NotFound { id }) if self.on_publish == OnPublish::Delete => {
                Err(OperateError::HistoryNotKept { id })
            }
            other => other,
        }
    }

    /// The state of one event.
    ///
    /// # Errors
    /// [`OperateError`].
    pub async fn show(&self, id: EventId) -> Result<OutboxEventState, OperateError> {
        self.operations.find(id).await?.ok_or(OperateError::NotFound { id })
    }

    /// A page of events.
    ///
    /// # Errors
    /// [`OperateError`].
    pub async fn list(&self, filter: &EventFilter) -> Result<Vec<OutboxEventState>, OperateError> {
        Ok(self.operations.list(filter).await?)
    }

    /// Aggregates that wait behind a DEAD event.
    ///
    /// # Errors
    /// [`OperateError`].
    pub async fn blocked(&self, limit: u32) -> Result<Vec<BlockedAggregate>, OperateError> {
        Ok(self.operations.blocked(limit).await?)
    }

    /// The figures of the moment.
    ///
    /// # Errors
    /// [`OperateError`].
    pub async fn statistics(&self) -> Result<OutboxStatistics, OperateError> {
        Ok(self.statistics.statistics().await?)
    }

    async fn finish(&self, id: EventId, changed: bool, action: &'static str) -> Result<(), OperateError> {
        if changed {
            tracing::info!(event.id = %id, action, "an operator acted on an event");
            self.wakeup.wake();
            return Ok(());
        }
        let state = self.show(id).await?;
        let resolved = state.resolved_at.is_some();
        Err(OperateError::NotAllowed { id, status: state.status, resolved, action })
    }
}

impl fmt::Debug for OperateOutboxUseCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OperateOutboxUseCase").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::ports::{MockOutboxOperationsPort, MockOutboxStatisticsPort, MockWakeupPort};

    async fn replay_of_what_is_not_there(on_publish: OnPublish) -> OperateError {
        let mut operations = MockOutboxOperationsPort::new();
        operations.expect_replay().times(1).returning(|_| Ok(false));
        operations.expect_find().times(1).returning(|_| Ok(None));
        let (statistics, wakeup) = (MockOutboxStatisticsPort::new(), MockWakeupPort::new());
        let operate = OperateOutboxUseCase::new(Arc::new(operations), Arc::new(statistics), Arc::new(wakeup));
        operate.on_publish(on_publish).replay(EventId::new(Uuid::from_u128(1))).await.unwrap_err()
    }

    #[tokio::test]
    async fn a_replay_is_refused_with_the_reason_where_published_events_are_deleted() {
        let kept = replay_of_what_is_not_there(OnPublish::Keep).await;
        assert!(matches!(kept, OperateError::NotFound { .. }), "{kept:?}");
        let deleted = replay_of_what_is_not_there(OnPublish::Delete).await;
        assert!(matches!(deleted, OperateError::HistoryNotKept { .. }), "{deleted:?}");
        assert!(deleted.to_string().contains("deletes events when they are published"), "{deleted}");
    }
}
