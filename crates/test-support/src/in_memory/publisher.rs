//! A publisher in memory that records what it is sent, and answers as a test tells it.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use application_core::{
    outbox::{EventId, FailureClass, OutboxEvent, PublishFailure},
    ports::{Availability, Destination, MessagePublishPort},
};
use async_trait::async_trait;
use tokio::sync::watch;

/// Confirms everything at once, unless it was told otherwise; clones share what they record.
///
/// The aggregate's type is an event's destination, unless [`RecordingPublisher::route_by`] says otherwise.
#[derive(Clone)]
pub struct RecordingPublisher {
    inner: Arc<Inner>,
}

struct Inner {
    state: Mutex<State>,
    /// Counts up at every change, for those who wait for one.
    changes: watch::Sender<u64>,
}

type Route = Arc<dyn Fn(&OutboxEvent) -> Result<Destination, PublishFailure> + Send + Sync>;

struct State {
    availability: Availability,
    route: Route,
    next: HashMap<EventId, VecDeque<PublishFailure>>,
    down: HashMap<Destination, PublishFailure>,
    holding: bool,
    let_through: HashSet<EventId>,
    sent: Vec<OutboxEvent>,
    confirmed: Vec<EventId>,
}

impl Default for RecordingPublisher {
    fn default() -> Self {
        Self::new()
    }
}

impl RecordingPublisher {
    /// A publisher that is available and confirms everything.
    #[must_use]
    pub fn new() -> Self {
        let state = State {
            availability: Availability::Available,
            route: Arc::new(|event| Ok(Destination::new(event.aggregate_type.as_str()))),
            next: HashMap::new(),
            down: HashMap::new(),
            holding: false,
            let_through: HashSet::new(),
            sent: Vec::new(),
            confirmed: Vec::new(),
        };
        Self { inner: Arc::new(Inner { state: Mutex::new(state), changes: watch::Sender::new(0) }) }
    }

    /// Switches what [`MessagePublishPort::availability`] answers; sends are not affected.
    pub fn set_availability(&self, availability: Availability) {
        self.change(|state| state.availability = availability);
    }

    /// Decides the destinations of events; a failure stands for an event that no route takes.
    pub fn route_by(
        &self,
        route: impl Fn(&OutboxEvent) -> Result<Destination, PublishFailure> + Send + Sync + 'static,
    ) {
        self.change(|state| state.route = Arc::new(route));
    }

    /// Makes the next send of the event fail; several calls make several sends fail, one after the other.
    pub fn refuse_next(&self, event: EventId, class: FailureClass) {
        let failure = PublishFailure::new(class, "refused by the test");
        self.change(|state| state.next.entry(event).or_default().push_back(failure));
    }

    /// Makes every send to the destination fail until it is healed.
    pub fn break_destination(&self, destination: &Destination, class: FailureClass) {
        let failure = PublishFailure::new(class, "broken by the test");
        self.change(|state| state.down.insert(destination.clone(), failure));
    }

    /// Ends [`RecordingPublisher::break_destination`].
    pub fn heal_destination(&self, destination: &Destination) {
        self.change(|state| state.down.remove(destination));
    }

    /// Holds back the answers to all sends from now on, until they are released or the guard is dropped.
    #[must_use = "the answers are held back for as long as the guard lives"]
    pub fn hold_confirms(&self) -> HeldConfirms {
        self.change(|state| state.holding = true);
        HeldConfirms { publisher: self.clone() }
    }

    /// What was sent, in order, refused sends included.
    #[must_use]
    pub fn sent(&self) -> Vec<OutboxEvent> {
        self.state().sent.clone()
    }

    /// The ids of what was sent, in order, refused sends included.
    #[must_use]
    pub fn sent_ids(&self) -> Vec<EventId> {
        self.state().sent.iter().map(|event| event.id).collect()
    }

    /// The ids of what was confirmed, in order.
    #[must_use]
    pub fn confirmed_ids(&self) -> Vec<EventId> {
        self.state().confirmed.clone()
    }

    /// Waits until at least this many sends were begun.
    pub async fn wait_until_sent(&self, count: usize) {
        let mut changes = self.inner.changes.subscribe();
        // The sender lives as long as `self`: the wait ends by a change alone.
        let _ = changes.wait_for(|_| self.state().sent.len() >= count).await;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.state());
        self.inner.changes.send_modify(|count| *count += 1);
        changed
    }
}

impl fmt::Debug for RecordingPublisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        f.debug_struct("RecordingPublisher")
            .field("sent", &state.sent.len())
            .field("confirmed", &state.confirmed.len())
            .finish_non_exhaustive()
    }
}

/// Answers that are held back; dropping it releases them all.
#[derive(Debug)]
pub struct HeldConfirms {
    publisher: RecordingPublisher,
}

impl HeldConfirms {
    /// Releases the answer for one event, sent already or not.
    pub fn release(&self, event: EventId) {
        self.publisher.change(|state| state.let_through.insert(event));
    }

    /// Releases everything.
    pub fn release_all(self) {
        drop(self);
    }
}

impl Drop for HeldConfirms {
    fn drop(&mut self) {
        self.publisher.change(|state| {
            state.holding = false;
            state.let_through.clear();
        });
    }
}

#[async_trait]
impl MessagePublishPort for RecordingPublisher {
    fn availability(&self) -> Availability {
        self.state().availability.clone()
    }

    fn destination(&self, event: &OutboxEvent) -> Result<Destination, PublishFailure> {
        let route = Arc::clone(&self.state().route);
        route(event)
    }

    async fn publish(&self, event: &OutboxEvent) -> Result<(), PublishFailure> {
        let mut changes = self.inner.changes.subscribe();
        self.change(|state| state.sent.push(event.clone()));
        let released = |state: &State| !state.holding || state.let_through.contains(&event.id);
        // The sender lives as long as `self`: the wait ends by a change alone.
        let _ = changes.wait_for(|_| released(&self.state())).await;
        let destination = self.destination(event)?;
        self.change(|state| {
            if let Some(failure) = state.next.get_mut(&event.id).and_then(VecDeque::pop_front) {
                return Err(failure);
            }
            if let Some(failure) = state.down.get(&destination) {
                return Err(failure.clone());
            }
            state.confirmed.push(event.id);
            Ok(())
        })
    }
}
