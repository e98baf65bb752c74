//! One delivery from first try to acknowledgement: handled, or parked, or left to be delivered again.

use std::{panic::AssertUnwindSafe, sync::Arc};

use application_core::{
    inbox::{InboundMessage, ParkedAggregate},
    outbox::{OutboxBackoffPolicy, storable},
    ports::{Clock, ConsumerName, Random, with_causes},
    usecases::Handled,
};
use futures_util::FutureExt;
use lapin::{message::Delivery, options::BasicAckOptions};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use super::{
    decode::{DecodeError, Identity},
    handle::HandleMessage,
    observer::{ConsumerObserver, ConsumerSignal, ParkCause},
    park::{Parker, ParkingNote},
    pauses::{Pauses, sleep},
    readiness::ConsumerReadiness,
    retry::{Fault, Tally},
    settings::ConsumerSettings,
    store::{Probe, Store},
    unpark::UnparkRequest,
};

/// What a delivery turned out to be.
pub(super) enum Incoming {
    Message(Box<InboundMessage>),
    Unpark(UnparkRequest),
    Undecodable {
        error: DecodeError,
        /// Which event it is, if anything in the delivery says so.
        identity: Option<Identity>,
    },
}

/// How the tries of a message ended.
pub(super) enum Ending {
    Handled,
    GivenUp { cause: ParkCause, reason: String },
}

/// Everything that the work on a delivery needs; shared by all deliveries of a session.
pub(super) struct Worker {
    pub(super) settings: ConsumerSettings,
    pub(super) backoff: OutboxBackoffPolicy,
    pub(super) consumer: ConsumerName,
    pub(super) handler: Arc<dyn HandleMessage>,
    pub(super) store: Store,
    pub(super) parker: Parker,
    pub(super) readiness: ConsumerReadiness,
    /// Tries that may run at once; a message that waits for its next try holds none.
    pub(super) slots: Semaphore,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) random: Arc<dyn Random>,
    pub(super) observer: Arc<dyn ConsumerObserver>,
}

impl Worker {
    /// Brings a delivery to its end and acknowledges it; `false`: it was left without an acknowledgement, because the
    /// session is closing or its channel is gone.
    pub(super) async fn settle(&self, delivery: Delivery, incoming: Incoming, closing: &CancellationToken) -> bool {
        let ended = match incoming {
            Incoming::Message(message) => self.message(&delivery, &message, closing).await,
            Incoming::Unpark(request) => self.unpark(&request, closing).await,
            Incoming::Undecodable { error, identity } => {
                let given_up = (ParkCause::Undecodable, with_causes(&error));
                self.give_up(&delivery, identity.as_ref(), given_up, closing).await
            }
        };
        // `Ok(false)`: the channel is gone, and the broker delivers the message again.
        ended.is_some() && matches!(delivery.acker.ack(BasicAckOptions::default()).await, Ok(true))
    }

    async fn message(&self, delivery: &Delivery, message: &InboundMessage, closing: &CancellationToken) -> Option<()> {
        let identity = message.into();
        if !self.settings.unordered
            && let Some(parked) = self.store.parked(message, closing).await?
        {
            // Its own mark: an earlier delivery of it ended after the mark and before its acknowledgement.
            let (cause, reason) = if parked.event == message.id {
                (ParkCause::TriesUsedUp, parked.reason)
            } else {
                (ParkCause::BehindAnother, format!("event {} of the same aggregate is parked", parked.event))
            };
            return self.park(delivery, Some(&identity), (cause, &reason), closing).await;
        }
        match self.tries(message, closing).await? {
            Ending::Handled => Some(()),
            Ending::GivenUp { cause, reason } => {
                self.give_up(delivery, Some(&identity), (cause, reason), closing).await
            }
        }
    }

    /// Parks a message, and its aggregate with it if that is known; `None`: closing.
    async fn give_up(
        &self,
        delivery: &Delivery,
        identity: Option<&Identity>,
        (cause, reason): (ParkCause, String),
        closing: &CancellationToken,
    ) -> Option<()> {
        if let Some(Identity { event, aggregate_type, aggregate_id }) = identity
            && !self.settings.unordered
        {
            // The mark comes before the copy: were it the other way round, a crash between them would handle the message
            // anew and park it twice.
            let parked = ParkedAggregate {
                aggregate_type: aggregate_type.clone(),
                aggregate_id: aggregate_id.clone(),
                event: *event,
                reason: storable(&reason),
            };
            self.store.park(&parked, closing).await?;
        }
        self.park(delivery, identity, (cause, &reason), closing).await
    }

    /// Tries a message until it is handled or given up; `None`: closing.
    pub(super) async fn tries(&self, message: &InboundMessage, closing: &CancellationToken) -> Option<Ending> {
        let mut tally = Tally::default();
        loop {
            let Some(fault) = self.one_try(message, closing).await? else { return Some(Ending::Handled) };
            let (tries, reason) = match fault {
                Fault::Rejected(reason) => return Some(Ending::GivenUp { cause: ParkCause::Rejected, reason }),
                Fault::Charged(reason) => (tally.charge(), reason),
                Fault::Store(reason) => match self.store.probe(message, closing).await? {
                    Probe::WasAway => continue,
                    Probe::Works => (tally.forgive(), reason),
                },
            };
            if tries >= self.backoff.max_attempts() {
                return Some(Ending::GivenUp { cause: ParkCause::TriesUsedUp, reason });
            }
            let delay = self.backoff.delay(tries.max(1), &*self.random);
            tracing::warn!(consumer = %self.consumer, event.id = %message.id, tries, ?delay, reason, "a try failed");
            self.observe(&ConsumerSignal::Retried { tries, delay });
            sleep(&*self.clock, delay, closing).await?;
        }
    }

    /// One try: `Some(None)` when the effect exists now; `None`: closing. A try that has begun is not broken off.
    async fn one_try(&self, message: &InboundMessage, closing: &CancellationToken) -> Option<Option<Fault>> {
        // The semaphore is never closed.
        let _slot = closing.run_until_cancelled(self.slots.acquire()).await?.ok()?;
        if closing.is_cancelled() {
            return None;
        }
        let started = self.clock.monotonic();
        let span = tracing::info_span!(
            "inbox.handle",
            consumer = %self.consumer,
            event.id = %message.id,
            event.r#type = %message.event_type,
            aggregate.r#type = %message.aggregate_type,
            aggregate.id = %message.aggregate_id,
            traceparent = message.headers.get("traceparent"),
        );
        let limit = self.settings.handler_timeout;
        let handling = AssertUnwindSafe(self.handler.handle(message).instrument(span)).catch_unwind();
        match tokio::time::timeout(limit, handling).await {
            Err(_) => Some(Some(Fault::Charged(format!("the handler did not end within {limit:?}")))),
            Ok(Err(_panic)) => Some(Some(Fault::Charged("the handler panicked".to_owned()))),
            Ok(Ok(Err(error))) => Some(Some(Fault::of(&error))),
            Ok(Ok(Ok(handled))) => {
                self.observe(&self.success(message, handled, started));
                Some(None)
            }
        }
    }

    fn success(&self, message: &InboundMessage, handled: Handled, started: std::time::Duration) -> ConsumerSignal {
        match handled {
            Handled::Duplicate => ConsumerSignal::Duplicate,
            Handled::Applied => {
                let took = self.clock.monotonic().saturating_sub(started);
                let age = self.clock.now() - message.occurred_at;
                let lag = (!message.replay).then(|| age.try_into().unwrap_or_default());
                ConsumerSignal::Applied { took, lag }
            }
        }
    }

    /// Publishes a copy to the parking queue until the broker confirms it; `None`: closing.
    async fn park(
        &self,
        delivery: &Delivery,
        identity: Option<&Identity>,
        (cause, reason): (ParkCause, &str),
        closing: &CancellationToken,
    ) -> Option<()> {
        let span = tracing::info_span!(
            "inbox.park",
            consumer = %self.consumer,
            cause = cause.as_str(),
            event.id = identity.map(|of| tracing::field::display(of.event)),
            aggregate.r#type = identity.map(|of| of.aggregate_type.as_str()),
            aggregate.id = identity.map(|of| of.aggregate_id.as_str()),
        );
        let parking = async {
            let mut pauses = Pauses::new(&self.settings.outage);
            loop {
                let note = ParkingNote { cause, reason, identity, by: &self.consumer, at: self.clock.now() };
                match self.parker.publish(delivery, note).await {
                    Ok(()) => {
                        tracing::warn!(reason = storable(reason), "a message was parked");
                        self.readiness.parking_works();
                        self.observe(&ConsumerSignal::Parked { cause });
                        return Some(());
                    }
                    Err(error) => {
                        let error = with_causes(&error);
                        if self.readiness.parking_fails(error.clone()) {
                            tracing::error!(error, "a message could not be parked; it stays in its queue");
                        } else {
                            tracing::debug!(error, "a message still cannot be parked");
                        }
                        self.observe(&ConsumerSignal::ParkingFailed);
                    }
                }
                sleep(&*self.clock, pauses.draw(&*self.random), closing).await?;
            }
        };
        parking.instrument(span).await
    }

    pub(super) fn observe(&self, signal: &ConsumerSignal) {
        self.observer.observe(&self.consumer, signal);
    }
}
