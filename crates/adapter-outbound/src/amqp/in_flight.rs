//! Futures that are polled by one task, and whose completions are seen with all that completed before them.
//!
//! What a confirm means depends on the confirms that completed before it (see `returns.rs`). The sets of `futures-util`
//! and `tokio` may pause with woken futures still waiting, and so show a confirm before an earlier one. This one polls
//! until nothing is left that was woken.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use futures_util::task::AtomicWaker;

/// A set of futures, each with a tag. A future that is polled after it was woken must not pretend to be pending.
pub(super) struct InFlight<T, F> {
    slots: Vec<Slot<T, F>>,
    free: Vec<usize>,
    woken: Arc<Woken>,
}

struct Slot<T, F> {
    entry: Option<(T, F)>,
    flag: Arc<SlotWaker>,
    waker: Waker,
}

/// The slots that want to be polled.
#[derive(Default)]
struct Woken {
    slots: Mutex<Vec<usize>>,
    task: AtomicWaker,
}

struct SlotWaker {
    slot: usize,
    queued: AtomicBool,
    woken: Arc<Woken>,
}

impl Woken {
    fn take(&self) -> Vec<usize> {
        std::mem::take(&mut *self.slots.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Wake for SlotWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::AcqRel) {
            self.woken.slots.lock().unwrap_or_else(PoisonError::into_inner).push(self.slot);
            self.woken.task.wake();
        }
    }
}

impl<T, F: Future + Unpin> InFlight<T, F> {
    pub(super) fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new(), woken: Arc::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a future; futures are polled for the first time in the order in which they were added.
    pub(super) fn push(&mut self, tag: T, future: F) {
        let at = self.free.pop().unwrap_or(self.slots.len());
        let entry = Some((tag, future));
        if let Some(slot) = self.slots.get_mut(at) {
            slot.entry = entry;
            slot.flag.wake_by_ref();
        } else {
            let woken = Arc::clone(&self.woken);
            let flag = Arc::new(SlotWaker { slot: at, queued: AtomicBool::new(false), woken });
            let waker = Waker::from(Arc::clone(&flag));
            flag.wake_by_ref();
            self.slots.push(Slot { entry, flag, waker });
        }
    }

    /// Polls whatever was woken until nothing is left that was, and hands out all that completed.
    pub(super) fn poll_completed(&mut self, cx: &mut Context<'_>) -> Poll<Vec<(T, F::Output)>> {
        self.woken.task.register(cx.waker());
        let mut completed = Vec::new();
        loop {
            let woken = self.woken.take();
            if woken.is_empty() {
                break;
            }
            for at in woken {
                completed.extend(self.poll_slot(at));
            }
        }
        if completed.is_empty() { Poll::Pending } else { Poll::Ready(completed) }
    }

    fn poll_slot(&mut self, at: usize) -> Option<(T, F::Output)> {
        let slot = self.slots.get_mut(at)?;
        // Before the poll: a wake-up during it must queue the slot again.
        slot.flag.queued.swap(false, Ordering::AcqRel);
        let (_, future) = slot.entry.as_mut()?;
        let Poll::Ready(output) = Pin::new(future).poll(&mut Context::from_waker(&slot.waker)) else { return None };
        let (tag, _) = slot.entry.take()?;
        self.free.push(at);
        Some((tag, output))
    }

    /// The tags of the futures that have not completed.
    pub(super) fn tags_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().filter_map(|slot| slot.entry.as_mut().map(|(tag, _)| tag))
    }

    /// Drops all futures and hands out their tags.
    pub(super) fn drain(&mut self) -> Vec<T> {
        self.free.clear();
        self.slots.drain(..).filter_map(|slot| slot.entry.map(|(tag, _)| tag)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use proptest::prelude::*;
    use tokio::{
        sync::oneshot,
        task::{coop::Unconstrained, unconstrained},
    };

    use super::*;

    /// Tokio's channels pretend to be pending after a while; the client's confirms do not.
    type Confirms = InFlight<usize, Unconstrained<oneshot::Receiver<Option<usize>>>>;

    async fn next(set: &mut Confirms) -> Vec<(usize, Option<usize>)> {
        let completed = poll_fn(|cx| set.poll_completed(cx)).await;
        completed.into_iter().map(|(tag, result)| (tag, result.unwrap())).collect()
    }

    #[tokio::test]
    async fn first_polls_keep_the_order_of_adding_even_where_slots_are_used_again() {
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut set = InFlight::new();
        let push = |set: &mut InFlight<_, _>, n: usize| {
            let order = Arc::clone(&order);
            set.push(n, Box::pin(async move { order.lock().unwrap().push(n) }));
        };
        (0..5).for_each(|n| push(&mut set, n));
        assert_eq!(poll_fn(|cx| set.poll_completed(cx)).await.len(), 5);
        (5..12).for_each(|n| push(&mut set, n));
        assert_eq!(poll_fn(|cx| set.poll_completed(cx)).await.len(), 7);
        assert_eq!(*order.lock().unwrap(), (0..12).collect::<Vec<_>>());
        assert!(set.is_empty());
    }

    #[tokio::test]
    async fn what_completes_while_others_are_polled_is_seen_with_them() {
        let (early, receiver) = oneshot::channel();
        let mut set: InFlight<usize, Pin<Box<dyn Future<Output = ()>>>> = InFlight::new();
        set.push(1, Box::pin(async { receiver.await.unwrap() }));
        // Completes the first, which was polled already, and then itself.
        set.push(2, Box::pin(async { early.send(()).unwrap() }));
        let completed = poll_fn(|cx| set.poll_completed(cx)).await;
        assert_eq!(completed.into_iter().map(|(tag, ())| tag).collect::<Vec<_>>(), [2, 1]);
    }

    #[tokio::test]
    async fn nothing_that_completed_before_another_is_seen_after_it() {
        const MESSAGES: usize = 300;
        for _ in 0..30 {
            let (senders, receivers): (Vec<_>, Vec<_>) = (0..MESSAGES).map(|_| oneshot::channel()).unzip();
            let mut set = Confirms::new();
            receivers.into_iter().enumerate().for_each(|(tag, receiver)| set.push(tag, unconstrained(receiver)));
            let client = std::thread::spawn(move || {
                for (at, sender) in senders.into_iter().enumerate().rev() {
                    // What the next one in this order needs to know lies with this one.
                    sender.send(at.checked_sub(1)).unwrap();
                }
            });
            let (mut known, mut seen) = (vec![false; MESSAGES], 0);
            while seen < MESSAGES {
                let batch = next(&mut set).await;
                seen += batch.len();
                for (_, hint) in &batch {
                    if let Some(other) = hint {
                        known[*other] = true;
                    }
                }
                assert!(batch.iter().all(|(tag, _)| known[*tag] || *tag == MESSAGES - 1));
            }
            client.join().unwrap();
        }
    }

    #[tokio::test]
    async fn a_late_wake_up_of_a_dropped_future_harms_no_new_one() {
        let (old, receiver) = oneshot::channel();
        let mut set = Confirms::new();
        set.push(1, unconstrained(receiver));
        assert!(poll_fn(|cx| Poll::Ready(set.poll_completed(cx))).await.is_pending());
        assert_eq!(set.drain(), [1]);
        let (new, receiver) = oneshot::channel();
        set.push(2, unconstrained(receiver));
        drop(old);
        new.send(None).unwrap();
        assert_eq!(next(&mut set).await, [(2, None)]);
    }

    proptest! {
        #[test]
        fn every_future_is_handed_out_once(order in Just((0..40_usize).collect::<Vec<_>>()).prop_shuffle(), step in 1_usize..7) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            runtime.block_on(async {
                let (mut senders, receivers): (Vec<_>, Vec<_>) =
                    (0..order.len()).map(|_| { let (s, r) = oneshot::channel(); (Some(s), r) }).unzip();
                let mut set = Confirms::new();
                receivers.into_iter().enumerate().for_each(|(tag, receiver)| set.push(tag, unconstrained(receiver)));
                let mut seen = Vec::new();
                for chunk in order.chunks(step) {
                    for at in chunk {
                        senders[*at].take().unwrap().send(None).unwrap();
                    }
                    seen.extend(next(&mut set).await.into_iter().map(|(tag, _)| tag));
                    assert_eq!(set.len(), order.len() - seen.len());
                }
                seen.sort_unstable();
                assert_eq!(seen, (0..order.len()).collect::<Vec<_>>());
            });
        }
    }
}
