//! The way to the record of parked aggregates, and the gate that closes while the database is away.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use application_core::{
    inbox::{InboundMessage, ParkedAggregate},
    outbox::{AggregateId, AggregateType},
    ports::{Clock, ConsumerName, ParkingPort, Random, StoreError, with_causes},
};
use tokio_util::sync::CancellationToken;

use super::{
    observer::{ConsumerObserver, ConsumerSignal},
    pauses::{Pauses, sleep},
    settings::OutageSettings,
};

/// What a probe of the database found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Probe {
    /// It answered at once.
    Works,
    /// It had been away, and answers again.
    WasAway,
}

/// What is asked of the parking port.
#[derive(Debug, Clone, Copy)]
enum Question<'a> {
    Lookup(&'a ConsumerName, &'a AggregateType, &'a AggregateId),
    Park(&'a ConsumerName, &'a ParkedAggregate),
    Unpark(&'a ConsumerName, &'a AggregateType, &'a AggregateId),
}

impl<'a> Question<'a> {
    const fn lookup(consumer: &'a ConsumerName, message: &'a InboundMessage) -> Self {
        Self::Lookup(consumer, &message.aggregate_type, &message.aggregate_id)
    }
}

/// The consumers of one queue, for a line of the log about all of them.
pub(super) fn names(consumers: &[ConsumerName]) -> String {
    consumers.iter().map(ConsumerName::as_str).collect::<Vec<_>>().join(", ")
}

/// Asks the parking port, waiting through any outage: one caller asks on behalf of all, the others wait their turn.
pub(super) struct Store {
    /// All who wait while the database is away.
    consumers: Vec<ConsumerName>,
    parking: Arc<dyn ParkingPort>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    observer: Arc<dyn ConsumerObserver>,
    outage: OutageSettings,
    away: AtomicBool,
    turn: tokio::sync::Mutex<()>,
}

impl Store {
    pub(super) fn new(
        consumers: Vec<ConsumerName>,
        parking: Arc<dyn ParkingPort>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        observer: Arc<dyn ConsumerObserver>,
        outage: OutageSettings,
    ) -> Self {
        let (away, turn) = (AtomicBool::new(false), tokio::sync::Mutex::new(()));
        Self { consumers, parking, clock, random, observer, outage, away, turn }
    }

    /// Why the message's aggregate is parked for the consumer, if it is; the outer `None`: closing.
    pub(super) async fn parked(
        &self,
        consumer: &ConsumerName,
        message: &InboundMessage,
        closing: &CancellationToken,
    ) -> Option<Option<ParkedAggregate>> {
        self.through(Question::lookup(consumer, message), closing).await
    }

    /// Marks an aggregate for the consumer; `None`: closing.
    pub(super) async fn park(
        &self,
        consumer: &ConsumerName,
        parked: &ParkedAggregate,
        closing: &CancellationToken,
    ) -> Option<()> {
        self.through(Question::Park(consumer, parked), closing).await.map(|_| ())
    }

    /// Lifts the consumer's mark if there is one; `None`: closing.
    pub(super) async fn unpark(
        &self,
        consumer: &ConsumerName,
        aggregate_type: &AggregateType,
        aggregate_id: &AggregateId,
        closing: &CancellationToken,
    ) -> Option<()> {
        self.through(Question::Unpark(consumer, aggregate_type, aggregate_id), closing).await.map(|_| ())
    }

    /// Finds out whether the database is away, and waits until it is not; `None`: closing.
    pub(super) async fn probe(
        &self,
        consumer: &ConsumerName,
        message: &InboundMessage,
        closing: &CancellationToken,
    ) -> Option<Probe> {
        let question = Question::lookup(consumer, message);
        if !self.is_away() {
            match self.ask(question).await {
                Ok(_) => return Some(Probe::Works),
                Err(error) => self.went_away(&error),
            }
        }
        self.through(question, closing).await.map(|_| Probe::WasAway)
    }

    async fn ask(&self, question: Question<'_>) -> Result<Option<ParkedAggregate>, StoreError> {
        match question {
            Question::Lookup(consumer, aggregate_type, aggregate_id) => {
                self.parking.parked(consumer, aggregate_type, aggregate_id).await
            }
            Question::Park(consumer, parked) => self.parking.park(consumer, parked).await.map(|()| None),
            Question::Unpark(consumer, aggregate_type, aggregate_id) => {
                self.parking.unpark(consumer, aggregate_type, aggregate_id).await.map(|_| None)
            }
        }
    }

    async fn through(&self, question: Question<'_>, closing: &CancellationToken) -> Option<Option<ParkedAggregate>> {
        if !self.is_away() {
            match self.ask(question).await {
                Ok(answer) => return Some(answer),
                Err(error) => self.went_away(&error),
            }
        }
        let _turn = closing.run_until_cancelled(self.turn.lock()).await?;
        let mut pauses = Pauses::new(&self.outage);
        loop {
            // Whoever had the turn before may have seen the database come back.
            if self.is_away() {
                sleep(&*self.clock, pauses.draw(&*self.random), closing).await?;
            }
            match self.ask(question).await {
                Ok(answer) => {
                    self.came_back();
                    return Some(answer);
                }
                Err(error) => self.went_away(&error),
            }
        }
    }

    fn is_away(&self) -> bool {
        self.away.load(Ordering::Acquire)
    }

    fn went_away(&self, error: &StoreError) {
        if !self.away.swap(true, Ordering::AcqRel) {
            let reason = with_causes(error);
            let consumer = names(&self.consumers);
            tracing::warn!(consumer, reason, "the database is away; nothing is consumed until it is back");
            self.observe(&ConsumerSignal::StoreUnavailable);
        }
    }

    fn came_back(&self) {
        if self.away.swap(false, Ordering::AcqRel) {
            tracing::info!(consumer = names(&self.consumers), "the database is back");
            self.observe(&ConsumerSignal::StoreAvailable);
        }
    }

    fn observe(&self, signal: &ConsumerSignal) {
        for consumer in &self.consumers {
            self.observer.observe(consumer, signal);
        }
    }
}
