//! Which message a return belongs to.
//!
//! The broker gives a message back that no queue takes, and acks it afterwards. The client keeps what was given back in
//! a line, and hands the first of the line to whichever confirm completes next, be it of another message; one ack of
//! many messages completes their confirms in no order. What can be relied on:
//!
//! 1. A message's own return entered the line before its confirm completed.
//! 2. So a confirm that completed *without* a return found the line empty: its own return, if there is one, was handed
//!    to a confirm that completed earlier.
//! 3. A confirm that completed *with another message's* return proves nothing about its own message: its own return may
//!    still stand in line. It is held until a later confirm finds the line empty, or no message is left on its way.

use std::collections::{HashMap, HashSet};

use application_core::outbox::PublishFailure;
use lapin::{Confirmation, message::BasicReturnMessage};
use tokio::sync::oneshot;
use uuid::Uuid;

/// What is remembered of a message that was sent.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) id: Uuid,
    pub(super) bytes: usize,
    pub(super) answer: oneshot::Sender<Result<(), PublishFailure>>,
    /// The broker's words, if it gave the message back.
    pub(super) returned: Option<String>,
}

pub(super) type Answer = lapin::Result<Confirmation>;

/// Acked messages that may yet turn out to have been given back.
#[derive(Debug, Default)]
pub(super) struct Returns {
    held: Vec<Sent>,
}

impl Returns {
    /// Takes in confirms and hands out those whose meaning is certain, some of them from earlier calls.
    ///
    /// `completed` MUST hold all confirms that completed before any in it, and were not handed in before; `in_flight`
    /// are the messages that have no confirm yet, none if `nothing_left`.
    pub(super) fn attribute<'a>(
        &mut self,
        completed: Vec<(Sent, Answer)>,
        in_flight: impl Iterator<Item = &'a mut Sent>,
        nothing_left: bool,
    ) -> Vec<(Sent, Answer)> {
        let mut arrived: Vec<_> = completed.into_iter().map(Arrived::from).collect();
        let returned: HashMap<_, _> = arrived.iter_mut().filter_map(|one| one.carried.take()).collect();
        if !returned.is_empty() {
            let mut found = HashSet::new();
            let mut mark = |sent: &mut Sent| {
                // An event that was sent twice is marked twice: no ack of it may be believed.
                if let Some(text) = returned.get(&Some(sent.id)) {
                    sent.returned = Some(text.clone());
                    found.insert(Some(sent.id));
                }
            };
            for one in &mut arrived {
                mark(&mut one.sent);
            }
            self.held.iter_mut().for_each(&mut mark);
            in_flight.for_each(&mut mark);
            for (id, reason) in returned.iter().filter(|(id, _)| !found.contains(*id)) {
                tracing::warn!(?id, reason, "the broker returned a message that nobody waits for");
            }
        }
        // Confirms of one call completed in an unknown order, but after those of earlier calls.
        let line_was_empty = arrived.iter().any(|one| one.found_line_empty);
        let mut certain = self.release(line_was_empty || nothing_left);
        for Arrived { sent, answer, carried_others, .. } in arrived {
            let doubtful = carried_others && sent.returned.is_none() && matches!(answer, Ok(Confirmation::Ack(_)));
            if doubtful && !nothing_left {
                self.held.push(sent);
            } else {
                certain.push((sent, answer));
            }
        }
        certain
    }

    /// Gives up waiting: what is held was acked, but perhaps given back.
    pub(super) fn drain(&mut self) -> Vec<Sent> {
        std::mem::take(&mut self.held)
    }

    fn release(&mut self, all: bool) -> Vec<(Sent, Answer)> {
        let released = self.held.extract_if(.., |sent| all || sent.returned.is_some());
        released.map(|sent| (sent, Ok(Confirmation::Ack(None)))).collect()
    }
}

/// A confirm, taken apart.
struct Arrived {
    sent: Sent,
    answer: Answer,
    carried: Option<(Option<Uuid>, String)>,
    carried_others: bool,
    found_line_empty: bool,
}

impl From<(Sent, Answer)> for Arrived {
    fn from((sent, mut answer): (Sent, Answer)) -> Self {
        let (mut carried, mut found_line_empty) = (None, false);
        if let Ok(Confirmation::Ack(returned) | Confirmation::Nack(returned)) = &mut answer {
            carried = returned.take().map(|message| identify(&message));
            found_line_empty = carried.is_none();
        }
        let carried_others = carried.as_ref().is_some_and(|(id, _)| *id != Some(sent.id));
        Self { sent, answer, carried, carried_others, found_line_empty }
    }
}

/// The message's id and the broker's words. The content is not looked at, and goes nowhere.
fn identify(message: &BasicReturnMessage) -> (Option<Uuid>, String) {
    let id = message.properties.message_id().as_ref().and_then(|id| Uuid::parse_str(id.as_str()).ok());
    let (exchange, key) = (message.exchange.as_str(), message.routing_key.as_str());
    let place =
        if exchange.is_empty() { format!("queue {key:?}") } else { format!("exchange {exchange:?} with key {key:?}") };
    (id, format!("{} ({place})", message.reply_text.as_str()))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, VecDeque};

    use lapin::{BasicProperties, message::Delivery};
    use proptest::prelude::*;

    use super::*;

    fn sent(n: u128) -> Sent {
        Sent { id: Uuid::from_u128(n), bytes: 1, answer: oneshot::channel().0, returned: None }
    }

    fn given_back(n: u128) -> BasicReturnMessage {
        let mut delivery = Delivery::mock(0, "e".into(), "k".into(), false, Vec::new());
        delivery.properties = BasicProperties::default().with_message_id(Uuid::from_u128(n).to_string().into());
        BasicReturnMessage { delivery, reply_code: 312, reply_text: "NO_ROUTE".into() }
    }

    fn acked(sent: Sent, carrying: Option<u128>) -> (Sent, Answer) {
        (sent, Ok(Confirmation::Ack(carrying.map(given_back))))
    }

    /// Which messages were told that they were given back.
    fn told(certain: Vec<(Sent, Answer)>) -> BTreeMap<u128, bool> {
        certain.into_iter().map(|(sent, _)| (sent.id.as_u128(), sent.returned.is_some())).collect()
    }

    #[test]
    fn a_return_handed_to_another_message_reaches_its_own() {
        let mut returns = Returns::default();
        let certain = returns.attribute(vec![acked(sent(1), Some(2)), acked(sent(2), None)], std::iter::empty(), true);
        assert_eq!(told(certain), BTreeMap::from([(1, false), (2, true)]));
    }

    #[test]
    fn two_returns_that_were_swapped_are_both_found_even_if_their_confirms_are_seen_apart() {
        let mut returns = Returns::default();
        let mut one = sent(1);
        let certain = returns.attribute(vec![acked(sent(2), Some(1))], std::iter::once(&mut one), false);
        assert_eq!(told(certain), BTreeMap::new(), "nothing is known of 2 yet");
        let certain = returns.attribute(vec![acked(one, Some(2))], std::iter::empty(), true);
        assert_eq!(told(certain), BTreeMap::from([(1, true), (2, true)]));
    }

    #[test]
    fn a_held_ack_is_believed_once_a_later_confirm_found_the_line_empty() {
        let mut returns = Returns::default();
        let (mut one, mut three) = (sent(1), sent(3));
        let certain = returns.attribute(vec![acked(sent(2), Some(1))], [&mut one, &mut three].into_iter(), false);
        assert_eq!(told(certain), BTreeMap::new());
        let certain = returns.attribute(vec![acked(one, None)], std::iter::once(&mut three), false);
        assert_eq!(told(certain), BTreeMap::from([(1, true), (2, false)]));
    }

    /// What the broker and the client do: messages in flight, the line of returns, confirms in order of completion.
    #[derive(Debug)]
    struct Model {
        line: VecDeque<u128>,
        completed: Vec<(u128, Option<u128>)>,
    }

    impl Model {
        fn complete(&mut self, n: u128) {
            let carried = self.line.pop_front();
            self.completed.push((n, carried));
        }
    }

    proptest! {
        #[test]
        fn whatever_the_order_no_returned_message_counts_as_confirmed_and_no_other_as_returned(
            routed in prop::collection::vec(any::<bool>(), 1..40),
            lags in prop::collection::vec(0_usize..6, 40),
            shuffles in prop::collection::vec(any::<prop::sample::Index>(), 200),
            cuts in prop::collection::vec(1_usize..5, 40),
        ) {
            // Acks of messages come some steps after their returns, in groups whose members complete in any order.
            let mut model = Model { line: VecDeque::new(), completed: Vec::new() };
            let mut due: Vec<(usize, u128)> = Vec::new();
            let mut draw = shuffles.iter().cycle();
            for step in 0..routed.len() + 8 {
                if let (Some(routed), Some(lag)) = (routed.get(step), lags.get(step)) {
                    if !routed {
                        model.line.push_back(step as u128);
                    }
                    due.push((step + lag, step as u128));
                }
                let mut group: Vec<_> = due.extract_if(.., |(at, _)| *at <= step).map(|(_, n)| n).collect();
                while !group.is_empty() {
                    let at = draw.next().unwrap().index(group.len());
                    model.complete(group.swap_remove(at));
                }
            }
            prop_assert_eq!(model.completed.len(), routed.len());
            // The publisher sees prefixes of that, each in any order.
            let mut in_flight: BTreeMap<u128, Sent> = (0..routed.len() as u128).map(|n| (n, sent(n))).collect();
            let (mut returns, mut seen) = (Returns::default(), BTreeMap::new());
            let (mut rest, mut cuts) = (model.completed.as_slice(), cuts.iter().cycle());
            while !rest.is_empty() {
                let (now, later) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
                rest = later;
                let mut batch: Vec<_> =
                    now.iter().map(|(n, carried)| acked(in_flight.remove(n).unwrap(), *carried)).collect();
                let turn = draw.next().unwrap().index(batch.len());
                batch.rotate_left(turn);
                let nothing_left = in_flight.is_empty();
                seen.extend(told(returns.attribute(batch, in_flight.values_mut(), nothing_left)));
            }
            let expected: BTreeMap<_, _> = routed.iter().enumerate().map(|(n, routed)| (n as u128, !routed)).collect();
            prop_assert_eq!(seen, expected);
            prop_assert!(returns.drain().is_empty());
        }
    }
}
