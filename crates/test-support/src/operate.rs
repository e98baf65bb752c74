//! An operator's actions on one event, in the words of tests.

use application_core::{
    outbox::{Attribution, EventAction, EventId, OperatorName},
    ports::{OutboxOperationsPort, StoreError},
};

/// Who acts in tests.
#[must_use]
pub fn tester() -> Attribution {
    Attribution { operator: OperatorName::from_stored("tester"), reason: None }
}

/// Single actions on [`OutboxOperationsPort`]; `false`: the event is not in a status that the action starts from.
pub trait OperateOne {
    /// DEAD → PENDING.
    fn requeue(&self, id: EventId) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// DEAD → resolved.
    fn discard(&self, id: EventId) -> impl Future<Output = Result<bool, StoreError>> + Send;

    /// PUBLISHED → PENDING.
    fn replay(&self, id: EventId) -> impl Future<Output = Result<bool, StoreError>> + Send;
}

impl<T: OutboxOperationsPort + ?Sized> OperateOne for T {
    async fn requeue(&self, id: EventId) -> Result<bool, StoreError> {
        one(self, EventAction::Requeue, id).await
    }

    async fn discard(&self, id: EventId) -> Result<bool, StoreError> {
        one(self, EventAction::Discard, id).await
    }

    async fn replay(&self, id: EventId) -> Result<bool, StoreError> {
        one(self, EventAction::Replay, id).await
    }
}

async fn one<T>(operations: &T, action: EventAction, id: EventId) -> Result<bool, StoreError>
where
    T: OutboxOperationsPort + ?Sized,
{
    Ok(operations.act(action, &[id], &tester()).await? == [id])
}
