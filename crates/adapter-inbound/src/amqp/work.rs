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
    /// The handlers' names, for lines of the log about all of them.
    pub(super) consumer: String,
    /// At least one; each name once.
    pub(super) handlers: Vec<Arc<dyn HandleMessage>>,
    pub(super) store: Store,
    pub(super) parker: Parker,
    pub(super) readiness: ConsumerReadiness,
    /// Tries that may run at once; a message that waits for its next try holds none.
    pub(super) slots: Semaphore,
    /// Held by the one pass over the parking queue that runs.
    pub(super) unparking: tokio::sync::Mutex<()>,
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
                self.undecodable(&delivery, &with_causes(&error), identity.as_ref(), closing).await
            }
        };
        // `Ok(false)`: the channel is gone, and the broker delivers the message again.
        ended.is_some() && matches!(delivery.acker.ack(BasicAckOptions::default()).await, Ok(true))
    }

    /// Nobody can say whom a message is for that cannot be read. Once it is known which one it is, it is parked for all.
    async fn undecodable(
        &self,
        delivery: &Delivery,
        reason: &str,
        identity: Option<&Identity>,
        closing: &CancellationToken,
    ) -> Option<()> {
        let told = if identity.is_some() { self.handlers.len() } else { 1 };
        for handler in self.handlers.iter().take(told) {
            let given_up = (ParkCause::Undecodable, reason.to_owned());
            self.give_up(handler.consumer(), delivery, identity, given_up, closing).await?;
        }
        Some(())
    }

    /// Hands a message to each handler that listens to it, one after the other: a later one gets it only once the earlier ones
    /// have handled it or given it up.
    async fn message(&self, delivery: &Delivery, message: &InboundMessage, closing: &CancellationToken) -> Option<()> {
        let mut heard = false;
        for handler in &self.handlers {
            if handler.listens_to(message) {
                heard = true;
                self.hand_over(&**handler, delivery, message, closing).await?;
            }
        }
        if !heard && let Some(first) = self.handlers.first() {
            // Once, since it is no handler's more than another's.
            self.observer.observe(first.consumer(), &ConsumerSignal::Unheard);
            tracing::debug!(event.id = %message.id, event.r#type = %message.event_type, "no handler listens to it");
        }
        Some(())
    }

    async fn hand_over(
        &self,
        handler: &dyn HandleMessage,
        delivery: &Delivery,
        message: &InboundMessage,
        closing: &CancellationToken,
    ) -> Option<()> {
        let (consumer, identity) = (handler.consumer(), message.into());
        if !self.settings.unordered
            && let Some(parked) = self.store.parked(consumer, message, closing).await?
        {
            // Its own mark: an earlier delivery of it ended after the mark and before its acknowledgement.
            let (cause, reason) = if parked.event == message.id {
                (ParkCause::TriesUsedUp, parked.reason)
            } else {
                (ParkCause::BehindAnother, format!("event {} of the same aggregate is parked", parked.event))
            };
            return self.park(consumer, delivery, Some(&identity), (cause, &reason), closing).await;
        }
        match self.tries(handler, message, closing).await? {
            Ending::Handled => Some(()),
            Ending::GivenUp { cause, reason } => {
                self.give_up(consumer, delivery, Some(&identity), (cause, reason), closing).await
            }
        }
    }

    /// Parks a message, and its aggregate with it if that is known; `None`: closing.
    async fn give_up(
        &self,
        consumer: &ConsumerName,
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
            self.store.park(consumer, &parked, closing).await?;
        }
        self.park(consumer, delivery, identity, (cause, &reason), closing).await
    }

    /// Tries a message until it is handled or given up; `None`: closing.
    pub(super) async fn tries(
        &self,
        handler: &dyn HandleMessage,
        message: &InboundMessage,
        closing: &CancellationToken,
    ) -> Option<Ending> {
        let (consumer, mut tally) = (handler.consumer(), Tally::default());
        loop {
            let Some(fault) = self.one_try(handler, message, closing).await? else { return Some(Ending::Handled) };
            let (tries, reason) = match fault {
                Fault::Rejected(reason) => return Some(Ending::GivenUp { cause: ParkCause::Rejected, reason }),
                Fault::Charged(reason) => (tally.charge(), reason),
                Fault::Store(reason) => match self.store.probe(consumer, message, closing).await? {
                    Probe::WasAway => continue,
                    Probe::Works => (tally.forgive(), reason),
                },
            };
            if tries >= self.backoff.max_attempts() {
                return Some(Ending::GivenUp { cause: ParkCause::TriesUsedUp, reason });
            }
            let delay = self.backoff.delay(tries.max(1), &*self.random);
            tracing::warn!(%consumer, event.id = %message.id, tries, ?delay, reason, "a try failed");
            self.observer.observe(consumer, &ConsumerSignal::Retried { tries, delay });
            sleep(&*self.clock, delay, closing).await?;
        }
    }

    /// One try: `Some(None)` when the effect exists now; `None`: closing. A try that has begun is not broken off.
    async fn one_try(
        &self,
        handler: &dyn HandleMessage,
        message: &InboundMessage,
        closing: &CancellationToken,
    ) -> Option<Option<Fault>> {
        // The semaphore is never closed.
        let _slot = closing.run_until_cancelled(self.slots.acquire()).await?.ok()?;
        if closing.is_cancelled() {
            return None;
        }
        let started = self.clock.monotonic();
        let span = tracing::info_span!(
            "inbox.handle",
            consumer = %handler.consumer(),
            event.id = %message.id,
            event.r#type = %message.event_type,
            aggregate.r#type = %message.aggregate_type,
            aggregate.id = %message.aggregate_id,
            traceparent = message.headers.get("traceparent"),
        );
        let limit = self.settings.handler_timeout;
        let attempt = AssertUnwindSafe(handler.handle(message).instrument(span)).catch_unwind();
        match tokio::time::timeout(limit, attempt).await {
            Err(_) => Some(Some(Fault::Charged(format!("the handler did not end within {limit:?}")))),
            Ok(Err(_panic)) => Some(Some(Fault::Charged("the handler panicked".to_owned()))),
            Ok(Ok(Err(error))) => Some(Some(Fault::of(&error))),
            Ok(Ok(Ok(effect))) => {
                self.observer.observe(handler.consumer(), &self.success(message, effect, started));
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
        consumer: &ConsumerName,
        delivery: &Delivery,
        identity: Option<&Identity>,
        (cause, reason): (ParkCause, &str),
        closing: &CancellationToken,
    ) -> Option<()> {
        let span = tracing::info_span!(
            "inbox.park",
            %consumer,
            cause = cause.as_str(),
            event.id = identity.map(|of| tracing::field::display(of.event)),
            aggregate.r#type = identity.map(|of| of.aggregate_type.as_str()),
            aggregate.id = identity.map(|of| of.aggregate_id.as_str()),
        );
        let parking = async {
            let mut pauses = Pauses::new(&self.settings.outage);
            loop {
                let note = ParkingNote { cause, reason, identity, by: consumer, at: self.clock.now() };
                match self.parker.publish(delivery, note).await {
                    Ok(()) => {
                        tracing::warn!(reason = storable(reason), "a message was parked");
                        self.readiness.parking_works();
                        self.observer.observe(consumer, &ConsumerSignal::Parked { cause });
                        return Some(());
                    }
                    Err(error) => {
                        let error = with_causes(&error);
                        if self.readiness.parking_fails(error.clone()) {
                            tracing::error!(error, "a message could not be parked; it stays in its queue");
                        } else {
                            tracing::debug!(error, "a message still cannot be parked");
                        }
                        self.observer.observe(consumer, &ConsumerSignal::ParkingFailed);
                    }
                }
                sleep(&*self.clock, pauses.draw(&*self.random), closing).await?;
            }
        };
        parking.instrument(span).await
    }

    /// Reports what all handlers share.
    pub(super) fn observe_for_all(&self, signal: &ConsumerSignal) {
        for handler in &self.handlers {
            self.observer.observe(handler.consumer(), signal);
        }
    }
}
