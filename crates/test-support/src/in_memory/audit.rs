//! What operators have changed, in memory.

use application_core::{
    outbox::{AggregateType, Attribution, EventId, OperatorName, Reason},
    ports::{AuditEntry, OutboxAuditPort, StoreError},
};
use async_trait::async_trait;
use time::OffsetDateTime;

use super::{InMemoryOutbox, Operation, failure::refused, state::State};

/// The bounds of the table.
pub(super) fn check(by: &Attribution) -> Result<(), StoreError> {
    OperatorName::try_new(by.operator.as_str()).map_err(refused)?;
    by.reason.as_ref().map(|reason| Reason::try_new(reason.as_str())).transpose().map_err(refused)?;
    Ok(())
}

impl State {
    /// Of an action on single events as many are affected as there are, of another one.
    pub(super) fn record(
        &mut self,
        action: &str,
        aggregate_type: Option<&AggregateType>,
        events: &[EventId],
        by: &Attribution,
        now: OffsetDateTime,
    ) {
        let number = i64::try_from(self.audit.len()).unwrap_or(i64::MAX).saturating_add(1);
        self.audit.push(AuditEntry {
            number,
            acted_at: now,
            by: by.clone(),
            action: action.to_owned(),
            aggregate_type: aggregate_type.map(ToString::to_string),
            aggregate_id: None,
            consumer: None,
            events: events.to_vec(),
            affected: u64::try_from(events.len().max(1)).unwrap_or(u64::MAX),
        });
    }

    /// Of an action that names no events it is said how many there were.
    pub(super) fn record_count(&mut self, action: &str, affected: usize, by: &Attribution, now: OffsetDateTime) {
        self.record(action, None, &[], by, now);
        if let Some(entry) = self.audit.last_mut() {
            entry.affected = u64::try_from(affected).unwrap_or(u64::MAX);
        }
    }
}

#[async_trait]
impl OutboxAuditPort for InMemoryOutbox {
    async fn audit(&self, before: Option<i64>, limit: u32) -> Result<Vec<AuditEntry>, StoreError> {
        self.shared.statement(Operation::Operate, |state, _| {
            let entries = state.audit.iter().rev().filter(|entry| before.is_none_or(|before| entry.number < before));
            Ok(entries.take(usize::try_from(limit).unwrap_or(usize::MAX)).cloned().collect())
        })
    }

    async fn audit_of(&self, event: EventId, limit: u32) -> Result<Vec<AuditEntry>, StoreError> {
        self.shared.statement(Operation::Operate, |state, _| {
            let entries = state.audit.iter().rev().filter(|entry| entry.events.contains(&event));
            Ok(entries.take(usize::try_from(limit).unwrap_or(usize::MAX)).cloned().collect())
        })
    }
}
