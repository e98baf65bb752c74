//! The leader's lease in memory.

use std::time::Duration;

use application_core::{
    outbox::HolderName,
    ports::{LeaderTerm, LeadershipPort, StoreError},
};
use async_trait::async_trait;
use time::OffsetDateTime;

use super::{
    InMemoryOutbox, Operation,
    state::{LeaderRow, State},
};

impl State {
    /// Whether the term runs: what every transaction of a leader checks.
    pub(super) fn leads(&self, term: &LeaderTerm, now: OffsetDateTime) -> bool {
        self.leaders
            .get(&term.role)
            .is_some_and(|row| row.holder == term.holder && row.term == term.term && row.expires_at > now)
    }
}

#[async_trait]
impl LeadershipPort for InMemoryOutbox {
    async fn acquire(
        &self,
        role: &str,
        holder: &HolderName,
        lease: Duration,
    ) -> Result<Option<LeaderTerm>, StoreError> {
        self.shared.statement(Operation::Lead, |state, now| {
            let standing = state.leaders.get(role);
            let runs = standing.is_some_and(|row| row.expires_at > now);
            let term = match standing {
                Some(row) if runs && row.holder != *holder => return Ok(None),
                Some(row) if runs => row.term,
                Some(row) => row.term + 1,
                None => 1,
            };
            let row = LeaderRow { holder: holder.clone(), term, expires_at: now + lease };
            state.leaders.insert(role.to_owned(), row);
            Ok(Some(LeaderTerm { role: role.to_owned(), holder: holder.clone(), term }))
        })
    }

    async fn resign(&self, term: &LeaderTerm) -> Result<bool, StoreError> {
        self.shared.statement(Operation::Lead, |state, now| {
            let leads = state.leads(term, now);
            if leads && let Some(row) = state.leaders.get_mut(&term.role) {
                row.expires_at = now;
            }
            Ok(leads)
        })
    }
}
