//! Which processes hold what, in memory.

use std::{collections::BTreeMap, time::Duration};

use application_core::ports::{LeaderState, OutboxHoldersPort, RelayLeases, StoreError};
use async_trait::async_trait;
use time::OffsetDateTime;

use super::{
    InMemoryOutbox, Operation,
    state::{State, age},
};

impl State {
    fn relays(&self, now: OffsetDateTime) -> Vec<RelayLeases> {
        let mut relays = BTreeMap::new();
        for (token, claim) in self.claims.iter().filter(|(_, claim)| !claim.reaped) {
            let relay = relays.entry(claim.holder.clone()).or_insert_with(|| RelayLeases {
                holder: claim.holder.clone(),
                claims: 0,
                lanes: 0,
                expired: 0,
                oldest_claim_age: Duration::ZERO,
            });
            let held = self.leased_by(*token, claim.lanes.iter().copied()).len();
            relay.claims += 1;
            relay.lanes += u32::try_from(held).unwrap_or(u32::MAX);
            relay.expired += u32::from(claim.lease_expires_at < now);
            relay.oldest_claim_age = relay.oldest_claim_age.max(age(claim.claimed_at, now));
        }
        relays.into_values().collect()
    }

    fn leader_states(&self, now: OffsetDateTime) -> Vec<LeaderState> {
        let state = |(role, row): (&String, &super::state::LeaderRow)| LeaderState {
            role: role.clone(),
            holder: row.holder.clone(),
            term: row.term,
            expires_in: (row.expires_at > now).then(|| age(now, row.expires_at)),
        };
        let mut leaders: Vec<_> = self.leaders.iter().map(state).collect();
        leaders.sort_by(|a, b| a.role.cmp(&b.role));
        leaders
    }
}

#[async_trait]
impl OutboxHoldersPort for InMemoryOutbox {
    async fn relays(&self) -> Result<Vec<RelayLeases>, StoreError> {
        self.shared.statement(Operation::Statistics, |state, now| Ok(state.relays(now)))
    }

    async fn leaders(&self) -> Result<Vec<LeaderState>, StoreError> {
        self.shared.statement(Operation::Statistics, |state, now| Ok(state.leader_states(now)))
    }
}
