//! The list of relays, in memory.

use std::time::Duration;

use application_core::{
    outbox::HolderName,
    ports::{LeaderTerm, PausedDestination, RegisteredRelay, RelayRegistryPort, RelayReport, StoreError},
};
use async_trait::async_trait;
use time::OffsetDateTime;
use uuid::Uuid;

use super::{
    InMemoryOutbox, Operation,
    failure::refused,
    state::{RelayRow, State, age},
};

impl RelayRow {
    fn is_gone(&self, now: OffsetDateTime) -> bool {
        age(self.seen_at, now) > self.report.every * RegisteredRelay::MISSED
    }

    fn seen(&self, now: OffsetDateTime) -> RegisteredRelay {
        let since = age(self.seen_at, now);
        let paused = self.report.paused.iter().cloned();
        RegisteredRelay {
            holder: self.report.holder.clone(),
            version: self.report.version.clone(),
            running: self.report.running + since,
            silent: since,
            gone: self.is_gone(now),
            paused: paused.map(|p| PausedDestination { paused_for: p.paused_for + since, ..p }).collect(),
        }
    }
}

impl State {
    fn report(&mut self, report: &RelayReport, now: OffsetDateTime) -> Result<(), StoreError> {
        let names = [(report.holder.as_str(), 200), (report.version.as_str(), 100)];
        if names.iter().any(|(text, most)| !(1..=*most).contains(&text.len())) || report.every.is_zero() {
            return Err(refused("a bound of outbox_relay"));
        }
        if report.paused.len() > PausedDestination::MOST {
            return Err(refused("outbox_relay_paused_check"));
        }
        let row = RelayRow { report: report.clone(), seen_at: now };
        self.relays.insert(report.holder.as_str().to_owned(), row);
        Ok(())
    }

    fn withdraw(&mut self, holder: &HolderName, run: Uuid) -> bool {
        let is_of_this_run = self.relays.get(holder.as_str()).is_some_and(|row| row.report.run == run);
        is_of_this_run && self.relays.remove(holder.as_str()).is_some()
    }

    fn forget_gone(&mut self, longer: Duration, batch: u32, now: OffsetDateTime) -> u32 {
        let gone = self.relays.iter().filter(|(_, row)| row.is_gone(now) && age(row.seen_at, now) > longer);
        let names: Vec<_> =
            gone.map(|(name, _)| name.clone()).take(usize::try_from(batch).unwrap_or(usize::MAX)).collect();
        self.relays.retain(|name, _| !names.contains(name));
        u32::try_from(names.len()).unwrap_or(u32::MAX)
    }
}

#[async_trait]
impl RelayRegistryPort for InMemoryOutbox {
    async fn report(&self, report: &RelayReport) -> Result<(), StoreError> {
        self.shared.statement(Operation::Registry, |state, now| state.report(report, now))
    }

    async fn withdraw(&self, holder: &HolderName, run: Uuid) -> Result<bool, StoreError> {
        self.shared.statement(Operation::Registry, |state, _| Ok(state.withdraw(holder, run)))
    }

    async fn registered(&self) -> Result<Vec<RegisteredRelay>, StoreError> {
        self.shared
            .statement(Operation::Registry, |state, now| Ok(state.relays.values().map(|row| row.seen(now)).collect()))
    }

    async fn forget_gone(&self, term: &LeaderTerm, age: Duration, batch: u32) -> Result<Option<u32>, StoreError> {
        self.shared.statement(Operation::Registry, |state, now| {
            Ok(state.leads(term, now).then(|| state.forget_gone(age, batch, now)))
        })
    }
}
