//! What open transactions hold, and who waits for it.

use std::collections::{BTreeMap, HashMap};

use application_core::{
    outbox::{EventId, LaneId},
    ports::ConsumerName,
};
use time::OffsetDateTime;

/// An open transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct TxId(u64);

/// What one transaction can hold against all others until it ends.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Resource {
    /// A lane: held by whoever appended to it.
    Lane(LaneId),
    /// An event id that was appended and may still be rolled back.
    Event(EventId),
    /// An inbox record that may still be rolled back.
    Inbox(ConsumerName, EventId),
}

/// What came of a try to take a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attempt {
    Granted,
    /// Another transaction holds it: try again when one has ended.
    Held,
    /// Waiting would close a circle of waiters.
    Deadlock,
}

/// All holders and waiters.
#[derive(Debug, Default)]
pub(super) struct Locks {
    last: u64,
    begun: BTreeMap<TxId, OffsetDateTime>,
    held: HashMap<Resource, TxId>,
    waiting: HashMap<TxId, Resource>,
}

impl Locks {
    pub(super) fn begin(&mut self, now: OffsetDateTime) -> TxId {
        self.last += 1;
        let tx = TxId(self.last);
        self.begun.insert(tx, now);
        tx
    }

    pub(super) fn end(&mut self, tx: TxId) {
        self.begun.remove(&tx);
        self.waiting.remove(&tx);
        self.held.retain(|_, holder| *holder != tx);
    }

    /// Takes the resource, or notes that the transaction waits for it.
    pub(super) fn try_lock(&mut self, tx: TxId, resource: &Resource) -> Attempt {
        match self.held.get(resource) {
            Some(holder) if *holder != tx => {
                if self.waits_for(*holder, tx) {
                    return Attempt::Deadlock;
                }
                self.waiting.insert(tx, resource.clone());
                Attempt::Held
            }
            _ => {
                self.waiting.remove(&tx);
                self.held.insert(resource.clone(), tx);
                Attempt::Granted
            }
        }
    }

    /// The transaction does not wait any more.
    pub(super) fn give_up(&mut self, tx: TxId) {
        self.waiting.remove(&tx);
    }

    pub(super) fn is_held(&self, lane: LaneId) -> bool {
        self.held.contains_key(&Resource::Lane(lane))
    }

    /// When the oldest open transaction began.
    pub(super) fn oldest(&self) -> Option<OffsetDateTime> {
        self.begun.values().min().copied()
    }

    /// Whether `waiter` waits for `target`, through any number of others.
    fn waits_for(&self, waiter: TxId, target: TxId) -> bool {
        let mut at = waiter;
        // The chain is free of circles, since none was ever closed.
        while let Some(next) = self.waiting.get(&at).and_then(|resource| self.held.get(resource)) {
            if *next == target {
                return true;
            }
            at = *next;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_of_three_waiters_is_refused_where_it_would_close() {
        let mut locks = Locks::default();
        let txs: Vec<_> = (0..3).map(|_| locks.begin(OffsetDateTime::UNIX_EPOCH)).collect();
        let lanes: Vec<_> = (0..3).map(|n| Resource::Lane(LaneId(n))).collect();
        for (tx, lane) in txs.iter().zip(&lanes) {
            assert_eq!(locks.try_lock(*tx, lane), Attempt::Granted);
        }
        assert_eq!(locks.try_lock(txs[0], &lanes[1]), Attempt::Held);
        assert_eq!(locks.try_lock(txs[1], &lanes[2]), Attempt::Held);
        assert_eq!(locks.try_lock(txs[2], &lanes[0]), Attempt::Deadlock);
        locks.end(txs[2]);
        assert_eq!(locks.try_lock(txs[1], &lanes[2]), Attempt::Granted);
    }

    #[test]
    fn what_a_transaction_holds_it_may_take_again() {
        let mut locks = Locks::default();
        let tx = locks.begin(OffsetDateTime::UNIX_EPOCH);
        let lane = Resource::Lane(LaneId(1));
        assert_eq!(locks.try_lock(tx, &lane), Attempt::Granted);
        assert_eq!(locks.try_lock(tx, &lane), Attempt::Granted);
        locks.end(tx);
        assert!(!locks.is_held(LaneId(1)));
    }
}
