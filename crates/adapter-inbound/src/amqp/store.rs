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
    Lookup(&'a AggregateType, &'a AggregateId),
    Park(&'a ParkedAggregate),
    Unpark(&'a AggregateType, &'a AggregateId),
}

impl<'a> Question<'a> {
    const fn lookup(message: &'a InboundMessage) -> Self {
        Self::Lookup(&message.aggregate_type, &message.aggregate_id)
    }
}

/// Asks the parking port, waiting through any outage: one caller asks on behalf of all, the others wait their turn.
pub(super) struct Store {
    consumer: ConsumerName,
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
        consumer: ConsumerName,
        parking: Arc<dyn ParkingPort>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        observer: Arc<dyn ConsumerObserver>,
        outage: OutageSettings,
    ) -> Self {
        let (away, turn) = (AtomicBool::new(false), tokio::sync::Mutex::new(()));
        Self { consumer, parking, clock, random, observer, outage, away, turn }
    }

    /// Why the message's aggregate is parked, if it is; the outer `None`: closing.
    pub(super) async fn parked(
        &self,
        message: &InboundMessage,
        closing: &CancellationToken,
    ) -> Option<Option<ParkedAggregate>> {
        self.through(Question::lookup(message), closing).await
    }

    /// Marks an aggregate; `None`: closing.
    pub(super) async fn park(&self, parked: &ParkedAggregate, closing: &CancellationToken) -> Option<()> {
        self.through(Question::Park(parked), closing).await.map(|_| ())
    }

    /// Lifts a mark, if there is one; `None`: closing.
    pub(super) async fn unpark(
        &self,
        aggregate_type: &AggregateType,
        aggregate_id: &AggregateId,
        closing: &CancellationToken,
    ) -> Option<()> {
        self.through(Question::Unpark(aggregate_type, aggregate_id), closing).await.map(|_| ())
    }

    /// Finds out whether the database is away, and waits until it is not; `None`: closing.
    pub(super) async fn probe(&self, message: &InboundMessage, closing: &CancellationToken) -> Option<Probe> {
        let question = Question::lookup(message);
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
            Question::Lookup(aggregate_type, aggregate_id) => {
                self.parking.parked(&self.consumer, aggregate_type, aggregate_id).await
            }
            Question::Park(parked) => self.parking.park(&self.consumer, parked).await.map(|()| None),
            Question::Unpark(aggregate_type, aggregate_id) => {
                self.parking.unpark(&self.consumer, aggregate_type, aggregate_id).await.map(|_| None)
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
            tracing::warn!(consumer = %self.consumer, reason, "the database is away; nothing is consumed until it is back");
            self.observer.observe(&self.consumer, &ConsumerSignal::StoreUnavailable);
        }
    }

    fn came_back(&self) {
        if self.away.swap(false, Ordering::AcqRel) {
            tracing::info!(consumer = %self.consumer, "the database is back");
            self.observer.observe(&self.consumer, &ConsumerSignal::StoreAvailable);
        }
    }
}
