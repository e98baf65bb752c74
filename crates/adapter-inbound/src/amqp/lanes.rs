//! Which of the delivered messages may be handled now: one per aggregate, in the order of delivery.

use std::collections::{HashMap, VecDeque};

use application_core::outbox::{AggregateId, AggregateType};

/// What is handled one after the other.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum LaneKey {
    /// The messages of one aggregate.
    Aggregate(AggregateType, AggregateId),
    /// One message that stands for itself.
    Alone(u64),
}

/// Messages that wait behind a running one of their lane. Holds no lane without a running message.
#[derive(Debug)]
pub(super) struct Lanes<T> {
    waiting: HashMap<LaneKey, VecDeque<T>>,
}

impl<T> Default for Lanes<T> {
    fn default() -> Self {
        Self { waiting: HashMap::new() }
    }
}

impl<T> Lanes<T> {
    /// Takes in a message: gives it back if it may run at once.
    pub(super) fn admit(&mut self, key: &LaneKey, item: T) -> Option<T> {
        if let Some(queue) = self.waiting.get_mut(key) {
            queue.push_back(item);
            return None;
        }
        self.waiting.insert(key.clone(), VecDeque::new());
        Some(item)
    }

    /// Ends the running message of a lane: gives the next one, which runs from now on.
    pub(super) fn finish(&mut self, key: &LaneKey) -> Option<T> {
        let next = self.waiting.get_mut(key).and_then(VecDeque::pop_front);
        if next.is_none() {
            self.waiting.remove(key);
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(id: u8) -> LaneKey {
        LaneKey::Aggregate(AggregateType::from_stored("t"), AggregateId::from_stored(id.to_string()))
    }

    proptest! {
        #[test]
        fn each_lane_runs_one_message_at_a_time_in_the_order_of_delivery(
            steps in proptest::collection::vec((0_u8..4, any::<bool>()), 0..200)
        ) {
            let mut lanes = Lanes::default();
            let mut running: HashMap<u8, usize> = HashMap::new();
            let mut started: HashMap<u8, Vec<usize>> = HashMap::new();
            let mut admitted: HashMap<u8, Vec<usize>> = HashMap::new();
            for (number, (lane, finish)) in steps.into_iter().enumerate() {
                let next = if finish {
                    let Some(_) = running.remove(&lane) else { continue };
                    lanes.finish(&key(lane))
                } else {
                    admitted.entry(lane).or_default().push(number);
                    lanes.admit(&key(lane), number)
                };
                if let Some(next) = next {
                    prop_assert!(running.insert(lane, next).is_none(), "two messages of one lane run");
                    started.entry(lane).or_default().push(next);
                }
            }
            for (lane, started) in started {
                prop_assert_eq!(&admitted[&lane][..started.len()], &started[..]);
            }
        }
    }

    #[test]
    fn a_lane_that_is_done_leaves_nothing_behind() {
        let mut lanes = Lanes::default();
        assert_eq!(lanes.admit(&key(1), 'a'), Some('a'));
        assert_eq!(lanes.finish(&key(1)), None);
        assert!(lanes.waiting.is_empty());
    }
}
