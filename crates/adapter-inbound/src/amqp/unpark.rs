//! Handling the parked messages of one aggregate after their cause was put right.
//!
//! The request is a message in the work queue, so that it reaches the consumer that is active, in the aggregate's own
//! lane: while the consumer handles it, no other message of the aggregate is handled or parked. The consumer takes the
//! parked messages in order straight from the parking queue and lifts the mark after the last one; nothing can overtake.
//! If one fails again, it and those behind it stay parked, and so does the mark.
//!
//! Of several handlers of the queue, a parked message is handed to the one for whom it was parked, and to nobody else: one
//! that is stuck holds back its own messages and its own mark alone. What was parked for somebody who is not here, under an
//! earlier name perhaps, stays parked until that one is here again or the message is given up. A copy that names nobody is
//! handed to all, and what one of them cannot handle holds back all.
//!
//! Passes over the parking queue follow one another in this process. Those of two processes do not exclude each other: each
//! work queue needs a parking queue of its own, and a single active consumer.

use std::{borrow::Cow, sync::Arc, time::Duration};

use application_core::{
    inbox::InboundMessage,
    outbox::{AggregateId, AggregateType, EventId},
    ports::{ConsumerName, GiveUp, UnparkRequestError, UnparkRequestPort, with_causes},
};
use async_trait::async_trait;
use lapin::{
    BasicProperties, Channel,
    message::Delivery,
    options::{BasicAckOptions, BasicGetOptions, BasicNackOptions, ConfirmSelectOptions},
    types::{AMQPValue, FieldTable},
};
use tokio_util::sync::CancellationToken;

use super::{
    connection::{AmqpError, Purpose, channel, connect, within},
    decode::{Identity, decode},
    handle::HandleMessage,
    observer::ConsumerSignal,
    park::{PARKED_BY, close, publish_to_queue, short},
    pauses::{Pauses, sleep},
    settings::ConsumerSettings,
    work::{Ending, Worker},
};

const UNPARK: &str = "x-unpark";
const DISCARD: &str = "x-unpark-discard";
const DISCARD_OF: &str = "x-unpark-discard-of";
const AGGREGATE_TYPE: &str = "x-aggregate-type";
const AGGREGATE_ID: &str = "x-aggregate-id";

/// Asks the consumer to handle the parked messages of an aggregate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnparkRequest {
    /// The aggregate's type.
    pub aggregate_type: AggregateType,
    /// The aggregate's identifier.
    pub aggregate_id: AggregateId,
    /// A parked message to throw away instead of handling it, because it can never be handled.
    pub discard: Option<GiveUp>,
}

impl UnparkRequest {
    /// Reads a request; `None`: the delivery is none.
    pub(super) fn from_headers(properties: &BasicProperties) -> Option<Self> {
        let table = properties.headers().as_ref()?.inner();
        let text = |name: &str| match table.get(name)? {
            AMQPValue::LongString(text) => std::str::from_utf8(text.as_bytes()).ok(),
            AMQPValue::ShortString(text) => Some(text.as_str()),
            _ => None,
        };
        table.get(UNPARK)?;
        Some(Self {
            aggregate_type: AggregateType::try_new(text(AGGREGATE_TYPE)?).ok()?,
            aggregate_id: AggregateId::try_new(text(AGGREGATE_ID)?).ok()?,
            discard: match table.get(DISCARD) {
                None => None,
                Some(_) => Some(GiveUp {
                    event: text(DISCARD)?.parse().ok()?,
                    consumer: match table.get(DISCARD_OF) {
                        None => None,
                        Some(_) => Some(ConsumerName::try_new(text(DISCARD_OF)?).ok()?),
                    },
                }),
            },
        })
    }

    /// Whether the copy that was parked for this consumer is to be given up.
    fn gives_up(&self, parked: EventId, by: Option<&str>) -> bool {
        self.discard.as_ref().is_some_and(|GiveUp { event, consumer }| {
            *event == parked && consumer.as_ref().is_none_or(|consumer| by == Some(consumer.as_str()))
        })
    }

    fn to_properties(&self) -> BasicProperties {
        let mut headers = FieldTable::default();
        headers.insert(short(UNPARK), AMQPValue::Boolean(true));
        let mut insert = |name: &str, text: String| {
            headers.insert(short(name), AMQPValue::LongString(text.into()));
        };
        insert(AGGREGATE_TYPE, self.aggregate_type.to_string());
        insert(AGGREGATE_ID, self.aggregate_id.to_string());
        if let Some(GiveUp { event, consumer }) = &self.discard {
            insert(DISCARD, event.to_string());
            if let Some(consumer) = consumer {
                insert(DISCARD_OF, consumer.to_string());
            }
        }
        BasicProperties::default().with_delivery_mode(2).with_headers(headers)
    }
}

/// Puts a request into the work queue and waits for the broker's confirm; the consumer acts on it when its turn comes.
///
/// # Delivery
/// At least once; a repeated request finds nothing left to do.
///
/// # Errors
/// [`AmqpError`]; the request may be in the queue all the same.
pub async fn request_unpark(settings: &ConsumerSettings, request: &UnparkRequest) -> Result<(), AmqpError> {
    let connection = connect(settings, Purpose::Unpark).await?;
    let channel = channel(&connection, settings.connect_timeout).await?;
    let confirm = channel.confirm_select(ConfirmSelectOptions::default());
    within(settings.connect_timeout, "asking for confirms", confirm).await?;
    let properties = request.to_properties();
    let result = publish_to_queue(&channel, &settings.queue, b"", properties, settings.confirm_timeout).await;
    close(&connection, settings.connect_timeout).await;
    result
}

/// Requests by way of the work queue.
#[derive(Debug, Clone)]
pub struct AmqpUnparkAdapter {
    settings: ConsumerSettings,
}

impl AmqpUnparkAdapter {
    /// Asks the consumer that has these settings, in whichever process it runs.
    #[must_use]
    pub const fn new(settings: ConsumerSettings) -> Self {
        Self { settings }
    }
}

#[async_trait]
impl UnparkRequestPort for AmqpUnparkAdapter {
    async fn request(
        &self,
        aggregate_type: &AggregateType,
        aggregate_id: &AggregateId,
        discard: Option<GiveUp>,
    ) -> Result<(), UnparkRequestError> {
        let (aggregate_type, aggregate_id) = (aggregate_type.clone(), aggregate_id.clone());
        let request = UnparkRequest { aggregate_type, aggregate_id, discard };
        let asked = request_unpark(&self.settings, &request).await;
        asked.map_err(|error| UnparkRequestError { source: error.into() })
    }
}

/// How far a handler got with what is parked for it of an aggregate.
#[derive(Default)]
struct Progress {
    messages: u32,
    /// What it could not handle, and why; whatever is parked behind that waits.
    stuck: Option<(EventId, String)>,
}

/// A handler and how far it got.
type Theirs<'a> = (&'a Arc<dyn HandleMessage>, &'a mut Progress);

/// What became of one parked message.
enum Met {
    /// It was handled or given up.
    Done,
    /// It stays parked.
    Left,
}

impl Worker {
    /// Handles what is parked of the aggregate; `None`: closing.
    pub(super) async fn unpark(&self, request: &UnparkRequest, closing: &CancellationToken) -> Option<()> {
        let (mut pauses, mut told) = (Pauses::new(&self.settings.outage), false);
        loop {
            // A pass holds the messages of all other aggregates until it ends. A second one meanwhile would not meet its
            // own among them, and would lift a mark whose messages come back later, behind those that it held back.
            let turn = closing.run_until_cancelled(self.unparking.lock()).await?;
            let passed = self.pass(request, closing).await;
            drop(turn);
            match passed {
                Ok(progress) => return self.lift(request, progress?, closing).await,
                Err(error) => {
                    let error = with_causes(&error);
                    if std::mem::replace(&mut told, true) {
                        tracing::debug!(consumer = %self.consumer, error, "the parking queue still cannot be read");
                    } else {
                        tracing::warn!(consumer = %self.consumer, error, "the parking queue could not be read");
                    }
                }
            }
            sleep(&*self.clock, pauses.draw(&*self.random), closing).await?;
        }
    }

    /// Lifts the marks of those who have nothing parked of the aggregate any more; `None`: closing.
    async fn lift(&self, request: &UnparkRequest, progress: Vec<Progress>, closing: &CancellationToken) -> Option<()> {
        let UnparkRequest { aggregate_type, aggregate_id, .. } = request;
        for (handler, Progress { messages, stuck }) in self.handlers.iter().zip(progress) {
            let consumer = handler.consumer();
            if let Some((event, reason)) = stuck {
                tracing::warn!(%consumer, %aggregate_type, %aggregate_id, event.id = %event, reason, "an aggregate stays parked");
                continue;
            }
            self.store.unpark(consumer, aggregate_type, aggregate_id, closing).await?;
            tracing::info!(%consumer, %aggregate_type, %aggregate_id, messages, "an aggregate was unparked");
            self.observer.observe(consumer, &ConsumerSignal::Unparked { messages });
        }
        Some(())
    }

    /// Goes over the parking queue once. What stays parked is held without an acknowledgement, so that it is not met again,
    /// and given back at the end. The inner `None`: closing.
    async fn pass(
        &self,
        request: &UnparkRequest,
        closing: &CancellationToken,
    ) -> Result<Option<Vec<Progress>>, AmqpError> {
        let limit = self.settings.connect_timeout;
        let connection = connect(&self.settings, Purpose::Unpark).await?;
        let channel = channel(&connection, limit).await?;
        let mut held = Vec::new();
        let result = self.walk(&channel, request, &mut held, closing).await;
        give_back(&channel, &held, limit).await;
        close(&connection, limit).await;
        result
    }

    async fn walk(
        &self,
        channel: &Channel,
        request: &UnparkRequest,
        held: &mut Vec<u64>,
        closing: &CancellationToken,
    ) -> Result<Option<Vec<Progress>>, AmqpError> {
        let limit = self.settings.connect_timeout;
        let mut progress: Vec<Progress> = self.handlers.iter().map(|_| Progress::default()).collect();
        loop {
            let getting = channel.basic_get(short(&self.settings.parking_queue), BasicGetOptions::default());
            let Some(parked) = within(limit, "reading the parking queue", getting).await? else {
                return Ok(Some(progress));
            };
            let delivery = &parked.delivery;
            held.push(delivery.delivery_tag);
            match self.again(delivery, request, &mut progress, closing).await {
                None => return Ok(None),
                Some(Met::Left) => {}
                Some(Met::Done) => {
                    let acknowledging = delivery.acker.ack(BasicAckOptions::default());
                    within(limit, "acknowledging a parked message", acknowledging).await?;
                    held.pop();
                }
            }
        }
    }

    /// Handles one parked message if it is the aggregate's; `None`: closing.
    async fn again(
        &self,
        delivery: &Delivery,
        request: &UnparkRequest,
        progress: &mut [Progress],
        closing: &CancellationToken,
    ) -> Option<Met> {
        let max_body_bytes = self.settings.max_body_bytes;
        let decoded = decode(self.settings.format, max_body_bytes, &delivery.properties, &delivery.data);
        let identity = match &decoded {
            Ok(message) => Some(message.into()),
            Err(_) => Identity::of(max_body_bytes, &delivery.properties, &delivery.data),
        };
        let Some(Identity { event, aggregate_type, aggregate_id }) = identity else { return Some(Met::Left) };
        if aggregate_type != request.aggregate_type || aggregate_id != request.aggregate_id {
            return Some(Met::Left);
        }
        let by = parked_by(&delivery.properties);
        let consumer = by.as_deref().unwrap_or(self.consumer.as_str());
        if request.gives_up(event, by.as_deref()) {
            tracing::warn!(consumer, event.id = %event, "a parked message is discarded by request");
            return Some(Met::Done);
        }
        let is_theirs = |name: &str| by.as_deref().is_none_or(|by| by == name);
        let all = self.handlers.iter().zip(progress);
        let mut theirs: Vec<Theirs<'_>> = all.filter(|(handler, _)| is_theirs(handler.consumer().as_str())).collect();
        if theirs.is_empty() {
            tracing::warn!(consumer, event.id = %event, "a message stays parked: the handler that it was parked for is not here");
            return Some(Met::Left);
        }
        if theirs.iter().any(|(_, progress)| progress.stuck.is_some()) {
            return Some(Met::Left);
        }
        let ended = match decoded {
            Ok(message) => self.hand_again(&mut theirs, &message, closing).await?,
            Err(error) => Err(with_causes(&error)),
        };
        match ended {
            Ok(heard) => {
                if !heard {
                    tracing::info!(consumer, event.id = %event, "a parked message is let go: nobody listens to it any more");
                }
                Some(Met::Done)
            }
            Err(reason) => {
                for (_, progress) in theirs {
                    progress.stuck = Some((event, reason.clone()));
                }
                Some(Met::Left)
            }
        }
    }

    /// Hands a parked message to those who listen to it; gives whether anybody does, or why one could not handle it. `None`:
    /// closing.
    async fn hand_again(
        &self,
        theirs: &mut [Theirs<'_>],
        message: &InboundMessage,
        closing: &CancellationToken,
    ) -> Option<Result<bool, String>> {
        let mut heard = false;
        for (handler, progress) in theirs {
            if handler.listens_to(message) {
                match self.tries(&***handler, message, closing).await? {
                    Ending::GivenUp { reason, .. } => return Some(Err(reason)),
                    Ending::Handled => progress.messages += 1,
                }
                heard = true;
            }
        }
        Some(Ok(heard))
    }
}

/// Gives messages back in their order, before the connection closes: what a quorum queue takes back because a connection
/// is gone comes later than the close, and in no order that is promised.
async fn give_back(channel: &Channel, held: &[u64], limit: Duration) {
    for tag in held {
        let options = BasicNackOptions { requeue: true, ..BasicNackOptions::default() };
        if let Err(error) = within(limit, "giving back a parked message", channel.basic_nack(*tag, options)).await {
            tracing::debug!(error = with_causes(&error), "parked messages come back when the connection is gone");
            break;
        }
    }
}

/// For whom a message was parked. A name that cannot be read is nobody's here, and not everybody's.
fn parked_by(properties: &BasicProperties) -> Option<Cow<'_, str>> {
    match properties.headers().as_ref()?.inner().get(PARKED_BY)? {
        AMQPValue::LongString(text) => Some(String::from_utf8_lossy(text.as_bytes())),
        AMQPValue::ShortString(text) => Some(Cow::Borrowed(text.as_str())),
        other => Some(Cow::Owned(format!("{other:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(number: u8) -> EventId {
        format!("0198c5a0-0000-7000-8000-00000000000{number}").parse().unwrap()
    }

    fn request() -> UnparkRequest {
        UnparkRequest {
            aggregate_type: AggregateType::from_stored("work-log"),
            aggregate_id: AggregateId::from_stored("7"),
            discard: Some(GiveUp { event: event(1), consumer: Some(ConsumerName::new("minutes")) }),
        }
    }

    #[test]
    fn a_request_survives_its_headers() {
        let all = request();
        assert_eq!(UnparkRequest::from_headers(&all.to_properties()), Some(all.clone()));
        let of_all = GiveUp { event: event(1), consumer: None };
        for discard in [None, Some(of_all)] {
            let other = UnparkRequest { discard, ..all.clone() };
            assert_eq!(UnparkRequest::from_headers(&other.to_properties()), Some(other.clone()));
        }
    }

    #[test]
    fn a_request_gives_up_the_copy_of_the_consumer_that_it_names_or_the_copies_of_all() {
        let of_one = request();
        assert!(of_one.gives_up(event(1), Some("minutes")));
        for (parked, by) in [(1, Some("mailing")), (1, None), (2, Some("minutes"))] {
            assert!(!of_one.gives_up(event(parked), by), "{parked} {by:?}");
        }
        let of_all = UnparkRequest { discard: Some(GiveUp { event: event(1), consumer: None }), ..of_one.clone() };
        for by in [Some("minutes"), Some("mailing"), None] {
            assert!(of_all.gives_up(event(1), by), "{by:?}");
        }
        assert!(!UnparkRequest { discard: None, ..of_one }.gives_up(event(1), None));
    }

    #[test]
    fn a_copy_whose_consumer_cannot_be_read_is_not_taken_for_one_that_names_nobody() {
        let of = |value: AMQPValue| {
            let mut headers = FieldTable::default();
            headers.insert(short(PARKED_BY), value);
            parked_by(&BasicProperties::default().with_headers(headers)).map(Cow::into_owned)
        };
        assert_eq!(of(AMQPValue::LongString("minutes".into())).as_deref(), Some("minutes"));
        assert_eq!(of(AMQPValue::ShortString("minutes".into())).as_deref(), Some("minutes"));
        assert!(of(AMQPValue::LongString(vec![0xFF].into())).is_some());
        assert!(of(AMQPValue::Void).is_some());
        assert_eq!(parked_by(&BasicProperties::default()), None);
    }

    #[test]
    fn a_request_that_cannot_be_read_is_an_ordinary_message() {
        let broken = |name: &str, value: AMQPValue| {
            let mut headers = request().to_properties().headers().clone().unwrap();
            headers.insert(short(name), value);
            UnparkRequest::from_headers(&BasicProperties::default().with_headers(headers))
        };
        assert_eq!(broken(DISCARD, AMQPValue::LongString("none".into())), None);
        assert_eq!(broken(DISCARD_OF, AMQPValue::LongString("".into())), None);
        assert_eq!(broken(AGGREGATE_ID, AMQPValue::LongString("".into())), None);
        assert_eq!(broken(AGGREGATE_TYPE, AMQPValue::LongString(vec![0xFF].into())), None);
        assert_eq!(UnparkRequest::from_headers(&BasicProperties::default()), None);
    }
}
