//! Handling the parked messages of one aggregate after their cause was put right.
//!
//! The request is a message in the work queue, so that it reaches the consumer that is active, in the aggregate's own
//! lane: while the consumer handles it, no other message of the aggregate is handled or parked. The consumer takes the
//! parked messages in order straight from the parking queue and lifts the mark after the last one; nothing can overtake.
//! If one fails again, it and those behind it stay parked, and so does the mark.
//!
//! Of several handlers of the queue, a parked message is handed to the one for whom it was parked. One that was parked for
//! somebody who is not here, under an earlier name perhaps, is handed to all: the inbox keeps a second effect away.

use application_core::{
    outbox::{AggregateId, AggregateType, EventId},
    ports::{UnparkRequestError, UnparkRequestPort, with_causes},
};
use async_trait::async_trait;
use lapin::{
    BasicProperties, Channel,
    message::BasicGetMessage,
    options::{BasicAckOptions, BasicGetOptions, ConfirmSelectOptions},
    types::{AMQPValue, FieldTable},
};
use tokio_util::sync::CancellationToken;

use super::{
    connection::{AmqpError, Purpose, channel, connect, within},
    decode::{Identity, decode},
    observer::ConsumerSignal,
    park::{PARKED_BY, close, publish_to_queue, short},
    pauses::{Pauses, sleep},
    settings::ConsumerSettings,
    work::{Ending, Worker},
};

const UNPARK: &str = "x-unpark";
const DISCARD: &str = "x-unpark-discard";
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
    pub discard: Option<EventId>,
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
                Some(_) => Some(text(DISCARD)?.parse().ok()?),
            },
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
        if let Some(event) = self.discard {
            insert(DISCARD, event.to_string());
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
        discard: Option<EventId>,
    ) -> Result<(), UnparkRequestError> {
        let (aggregate_type, aggregate_id) = (aggregate_type.clone(), aggregate_id.clone());
        let request = UnparkRequest { aggregate_type, aggregate_id, discard };
        let asked = request_unpark(&self.settings, &request).await;
        asked.map_err(|error| UnparkRequestError { source: error.into() })
    }
}

/// How one pass over the parking queue ended.
enum Pass {
    /// Every parked message of the aggregate was handled; how many by which handler, in their order.
    Emptied {
        messages: Vec<u32>,
    },
    /// One could not be handled; it is still parked.
    Stuck {
        event: EventId,
        reason: String,
    },
    Closing,
}

impl Worker {
    /// Handles what is parked of the aggregate; `None`: closing.
    pub(super) async fn unpark(&self, request: &UnparkRequest, closing: &CancellationToken) -> Option<()> {
        let UnparkRequest { aggregate_type, aggregate_id, .. } = request;
        let (mut pauses, mut told) = (Pauses::new(&self.settings.outage), false);
        loop {
            match self.pass(request, closing).await {
                Ok(Pass::Emptied { messages }) => {
                    self.store.unpark(aggregate_type, aggregate_id, closing).await?;
                    let all: u32 = messages.iter().sum();
                    tracing::info!(consumer = %self.consumer, %aggregate_type, %aggregate_id, messages = all, "an aggregate was unparked");
                    for (handler, messages) in self.handlers.iter().zip(messages) {
                        self.observer.observe(handler.consumer(), &ConsumerSignal::Unparked { messages });
                    }
                    return Some(());
                }
                Ok(Pass::Stuck { event, reason }) => {
                    tracing::warn!(consumer = %self.consumer, %aggregate_type, %aggregate_id, event.id = %event, reason, "an aggregate stays parked");
                    return Some(());
                }
                Ok(Pass::Closing) => return None,
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

    /// Goes over the parking queue once. Messages of other aggregates are held without an acknowledgement, so that they
    /// are not met again, and go back to their places when the connection closes.
    async fn pass(&self, request: &UnparkRequest, closing: &CancellationToken) -> Result<Pass, AmqpError> {
        let limit = self.settings.connect_timeout;
        let connection = connect(&self.settings, Purpose::Unpark).await?;
        let channel = channel(&connection, limit).await?;
        let result = self.walk(&channel, request, closing).await;
        close(&connection, limit).await;
        result
    }

    async fn walk(
        &self,
        channel: &Channel,
        request: &UnparkRequest,
        closing: &CancellationToken,
    ) -> Result<Pass, AmqpError> {
        let limit = self.settings.connect_timeout;
        let mut messages = vec![0; self.handlers.len()];
        loop {
            let getting = channel.basic_get(short(&self.settings.parking_queue), BasicGetOptions::default());
            let Some(parked) = within(limit, "reading the parking queue", getting).await? else { break };
            if let Some(pass) = self.again(&parked, request, &mut messages, closing).await? {
                return Ok(pass);
            }
        }
        Ok(Pass::Emptied { messages })
    }

    /// Handles one parked message if it is the aggregate's; gives how the pass ended, if it did.
    async fn again(
        &self,
        parked: &BasicGetMessage,
        request: &UnparkRequest,
        messages: &mut [u32],
        closing: &CancellationToken,
    ) -> Result<Option<Pass>, AmqpError> {
        let delivery = &parked.delivery;
        let max_body_bytes = self.settings.max_body_bytes;
        let decoded = decode(self.settings.format, max_body_bytes, &delivery.properties, &delivery.data);
        let identity = match &decoded {
            Ok(message) => Some(message.into()),
            Err(_) => Identity::of(max_body_bytes, &delivery.properties, &delivery.data),
        };
        let Some(Identity { event, aggregate_type, aggregate_id }) = identity else { return Ok(None) };
        if aggregate_type != request.aggregate_type || aggregate_id != request.aggregate_id {
            return Ok(None);
        }
        if request.discard == Some(event) {
            tracing::warn!(consumer = %self.consumer, event.id = %event, "a parked message is discarded by request");
        } else {
            let message = match decoded {
                Ok(message) => message,
                Err(error) => return Ok(Some(Pass::Stuck { event, reason: with_causes(&error) })),
            };
            let by = parked_by(&delivery.properties);
            let is_here = self.handlers.iter().any(|handler| by == Some(handler.consumer().as_str()));
            for (handler, handled) in self.handlers.iter().zip(messages) {
                if is_here && by != Some(handler.consumer().as_str()) || !handler.listens_to(&message) {
                    continue;
                }
                match self.tries(&**handler, &message, closing).await {
                    None => return Ok(Some(Pass::Closing)),
                    Some(Ending::GivenUp { reason, .. }) => return Ok(Some(Pass::Stuck { event, reason })),
                    Some(Ending::Handled) => *handled += 1,
                }
            }
        }
        let acknowledging = delivery.acker.ack(BasicAckOptions::default());
        let limit = self.settings.connect_timeout;
        within(limit, "acknowledging a parked message", acknowledging).await?;
        Ok(None)
    }
}

/// For whom a message was parked.
fn parked_by(properties: &BasicProperties) -> Option<&str> {
    match properties.headers().as_ref()?.inner().get(PARKED_BY)? {
        AMQPValue::LongString(text) => std::str::from_utf8(text.as_bytes()).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> UnparkRequest {
        UnparkRequest {
            aggregate_type: AggregateType::from_stored("work-log"),
            aggregate_id: AggregateId::from_stored("7"),
            discard: Some("0198c5a0-0000-7000-8000-000000000001".parse().unwrap()),
        }
    }

    #[test]
    fn a_request_survives_its_headers() {
        let all = request();
        assert_eq!(UnparkRequest::from_headers(&all.to_properties()), Some(all.clone()));
        let without = UnparkRequest { discard: None, ..all };
        assert_eq!(UnparkRequest::from_headers(&without.to_properties()), Some(without));
    }

    #[test]
    fn a_request_that_cannot_be_read_is_an_ordinary_message() {
        let broken = |name: &str, value: AMQPValue| {
            let mut headers = request().to_properties().headers().clone().unwrap();
            headers.insert(short(name), value);
            UnparkRequest::from_headers(&BasicProperties::default().with_headers(headers))
        };
        assert_eq!(broken(DISCARD, AMQPValue::LongString("none".into())), None);
        assert_eq!(broken(AGGREGATE_ID, AMQPValue::LongString("".into())), None);
        assert_eq!(broken(AGGREGATE_TYPE, AMQPValue::LongString(vec![0xFF].into())), None);
        assert_eq!(UnparkRequest::from_headers(&BasicProperties::default()), None);
    }
}
