//! Copies of messages in the parking queue, each confirmed by the broker.

use std::{sync::Arc, time::Duration};

use application_core::{outbox::storable, ports::ConsumerName};
use lapin::{
    BasicProperties, Channel, Confirmation, Connection,
    message::Delivery,
    options::{BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions},
    types::{AMQPValue, FieldTable, ShortString},
};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use super::{
    connection::{AmqpError, Purpose, channel, connect, within},
    decode::Identity,
    observer::ParkCause,
    settings::ConsumerSettings,
};

const PERSISTENT: u8 = 2;
/// What a content header frame holds besides the header table: the other properties, at most 255 bytes each, and ours.
const FRAME_RESERVE: usize = 8 * 1024;
/// The header that names the consumer for whom a message is parked.
pub(super) const PARKED_BY: &str = "x-parked-by";
/// The deepest header table that is copied.
const MAX_TABLE_DEPTH: usize = 16;

/// Why and by whom a message is parked.
#[derive(Debug, Clone, Copy)]
pub(super) struct ParkingNote<'a> {
    pub(super) cause: ParkCause,
    pub(super) reason: &'a str,
    /// Which event it is, if known.
    pub(super) identity: Option<&'a Identity>,
    pub(super) by: &'a ConsumerName,
    pub(super) at: OffsetDateTime,
}

/// Publishes to the parking queue over a connection of its own: the broker stops reading from a connection that publishes
/// while it is short of memory, and acknowledgements must not wait for that.
pub(super) struct Parker {
    settings: ConsumerSettings,
    link: tokio::sync::Mutex<Option<Arc<Link>>>,
}

struct Link {
    // Dropping it closes the connection.
    connection: Connection,
    channel: Channel,
}

impl Parker {
    pub(super) fn new(settings: &ConsumerSettings) -> Self {
        Self { settings: settings.clone(), link: tokio::sync::Mutex::new(None) }
    }

    /// Connects if need be, and makes sure that the parking queue exists.
    pub(super) async fn prepare(&self) -> Result<(), AmqpError> {
        self.link().await.map(|_| ())
    }

    /// Publishes a copy and waits for the broker's confirm.
    ///
    /// # Delivery
    /// After an error the copy may be in the queue all the same.
    pub(super) async fn publish(&self, delivery: &Delivery, note: ParkingNote<'_>) -> Result<(), AmqpError> {
        let link = self.link().await?;
        let properties = parked_properties(delivery, &self.settings.queue, note, frame_max(&link.connection));
        let queue = &self.settings.parking_queue;
        let limit = self.settings.confirm_timeout;
        let result = publish_to_queue(&link.channel, queue, &delivery.data, properties, limit).await;
        if let Err(error) = &result
            && !matches!(error, AmqpError::Returned { .. } | AmqpError::NotConfirmed { .. })
        {
            self.forget(&link).await;
        }
        result
    }

    pub(super) async fn close(&self) {
        if let Some(link) = self.link.lock().await.take() {
            close(&link.connection, self.settings.connect_timeout).await;
        }
    }

    async fn link(&self) -> Result<Arc<Link>, AmqpError> {
        let mut link = self.link.lock().await;
        if let Some(link) = &*link
            && link.channel.status().connected()
        {
            return Ok(Arc::clone(link));
        }
        let fresh = Arc::new(self.open().await?);
        *link = Some(Arc::clone(&fresh));
        Ok(fresh)
    }

    async fn open(&self) -> Result<Link, AmqpError> {
        let limit = self.settings.connect_timeout;
        let connection = connect(&self.settings, Purpose::Park).await?;
        let probe = channel(&connection, limit).await?;
        let queue = short(&self.settings.parking_queue);
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let declared = probe.queue_declare(queue, passive, FieldTable::default());
        within(limit, "looking for the parking queue", declared).await?;
        let channel = channel(&connection, limit).await?;
        let confirm = channel.confirm_select(ConfirmSelectOptions::default());
        within(limit, "asking for confirms", confirm).await?;
        Ok(Link { connection, channel })
    }

    /// Makes the next publish connect anew, unless somebody has done so already.
    async fn forget(&self, broken: &Arc<Link>) {
        let mut link = self.link.lock().await;
        if link.as_ref().is_some_and(|link| Arc::ptr_eq(link, broken)) {
            *link = None;
        }
    }
}

/// Publishes to a queue through the default exchange; `Ok`: the broker has taken responsibility.
pub(super) async fn publish_to_queue(
    channel: &Channel,
    queue: &str,
    body: &[u8],
    properties: BasicProperties,
    limit: Duration,
) -> Result<(), AmqpError> {
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let confirmation = within(limit, "publishing to a queue", async {
        channel.basic_publish(ShortString::default(), short(queue), options, body, properties).await?.await
    })
    .await?;
    match confirmation {
        Confirmation::Ack(None) => Ok(()),
        Confirmation::Ack(Some(returned)) => {
            let reason = returned.reply_text.to_string();
            Err(AmqpError::Returned { queue: queue.to_owned(), reason })
        }
        Confirmation::Nack(_) | Confirmation::NotRequested => Err(AmqpError::NotConfirmed { queue: queue.to_owned() }),
    }
}

/// Closes a connection as far as the broker still listens.
pub(super) async fn close(connection: &Connection, limit: Duration) {
    if let Err(error) = within(limit, "closing the connection", connection.close(200, "OK".into())).await {
        tracing::debug!(%error, "the connection was gone already");
    }
}

/// A queue's name; the settings have checked its length.
pub(super) fn short(text: &str) -> ShortString {
    ShortString::try_new(text).unwrap_or_default()
}

fn frame_max(connection: &Connection) -> usize {
    match connection.configuration().frame_max() {
        0 => usize::MAX,
        bytes => usize::try_from(bytes).unwrap_or(usize::MAX),
    }
}

/// The original's properties, except what would make the broker refuse the copy, drop it or send it elsewhere; those
/// stand in headers `x-original-…`.
fn parked_properties(delivery: &Delivery, queue: &str, note: ParkingNote<'_>, frame_max: usize) -> BasicProperties {
    let original = &delivery.properties;
    let mut headers = FieldTable::default();
    let mut original_text = |name: &str, text: Option<&ShortString>| {
        if let Some(text) = text {
            headers.insert(short(name), AMQPValue::LongString(text.to_string().into()));
        }
    };
    // A copy must outlive the original's time to live, and another user's name is refused.
    original_text("x-original-expiration", original.expiration().as_ref());
    original_text("x-original-user-id", original.user_id().as_ref());
    original_text("x-original-exchange", Some(&delivery.exchange));
    original_text("x-original-routing-key", Some(&delivery.routing_key));
    original_text("x-original-queue", Some(&short(queue)));
    let mut insert = |name: &str, text: String| {
        headers.insert(short(name), AMQPValue::LongString(text.into()));
    };
    insert("x-parked-cause", note.cause.as_str().to_owned());
    insert("x-parked-reason", storable(note.reason));
    insert(PARKED_BY, note.by.to_string());
    insert("x-parked-at", note.at.format(&Rfc3339).unwrap_or_default());
    // Unparking finds the copy by these, even when the original's headers do not fit.
    if let Some(Identity { event, aggregate_type, aggregate_id }) = note.identity {
        insert("x-event-id", event.to_string());
        insert("x-aggregate-type", aggregate_type.to_string());
        insert("x-aggregate-id", aggregate_id.to_string());
    }
    copy_headers(original.headers().as_ref(), &mut headers, frame_max);
    let mut properties = BasicProperties::default().with_delivery_mode(PERSISTENT).with_headers(headers);
    let copy = |text: &Option<ShortString>, with: fn(BasicProperties, ShortString) -> BasicProperties, to| match text {
        Some(text) => with(to, text.clone()),
        None => to,
    };
    properties = copy(original.content_type(), BasicProperties::with_content_type, properties);
    properties = copy(original.content_encoding(), BasicProperties::with_content_encoding, properties);
    properties = copy(original.correlation_id(), BasicProperties::with_correlation_id, properties);
    properties = copy(original.reply_to(), BasicProperties::with_reply_to, properties);
    properties = copy(original.message_id(), BasicProperties::with_message_id, properties);
    properties = copy(original.kind(), BasicProperties::with_type, properties);
    properties = copy(original.app_id(), BasicProperties::with_app_id, properties);
    if let Some(timestamp) = *original.timestamp() {
        properties = properties.with_timestamp(timestamp);
    }
    if let Some(priority) = *original.priority() {
        properties = properties.with_priority(priority);
    }
    properties
}

/// Copies the original's headers below our own, unless all together do not fit one frame: a broker closes the connection
/// over that, and the message could never be parked.
fn copy_headers(original: Option<&FieldTable>, headers: &mut FieldTable, frame_max: usize) {
    let Some(original) = original else { return };
    let budget = frame_max.saturating_sub(FRAME_RESERVE);
    if table_size(original, MAX_TABLE_DEPTH).is_none_or(|size| size > budget) {
        headers.insert(short("x-parked-without-headers"), AMQPValue::Boolean(true));
        return;
    }
    for (name, value) in original {
        // CC and BCC are orders to the broker: it would deliver the copy to those queues as well.
        let name = match name.as_str() {
            "CC" => short("x-original-cc"),
            "BCC" => short("x-original-bcc"),
            _ => name.clone(),
        };
        if !headers.contains_key(name.as_str()) {
            headers.insert(name, value.clone());
        }
    }
}

/// About how many bytes a table takes; `None`: it is nested too deeply.
fn table_size(table: &FieldTable, depth: usize) -> Option<usize> {
    let depth = depth.checked_sub(1)?;
    table.into_iter().try_fold(4_usize, |size, (name, value)| {
        Some(size.saturating_add(name.as_str().len() + 1).saturating_add(value_size(value, depth)?))
    })
}

fn value_size(value: &AMQPValue, depth: usize) -> Option<usize> {
    Some(match value {
        AMQPValue::LongString(text) => text.len() + 5,
        AMQPValue::ShortString(text) => text.as_str().len() + 5,
        AMQPValue::ByteArray(bytes) => bytes.len() + 5,
        AMQPValue::FieldTable(table) => table_size(table, depth)?.saturating_add(1),
        AMQPValue::FieldArray(array) => {
            let depth = depth.checked_sub(1)?;
            array
                .as_slice()
                .iter()
                .try_fold(5_usize, |size, value| Some(size.saturating_add(value_size(value, depth)?)))?
        }
        _ => 9,
    })
}

#[cfg(test)]
mod tests {
    use application_core::outbox::{AggregateId, AggregateType};
    use time::macros::datetime;

    use super::*;

    fn delivery(properties: BasicProperties) -> Delivery {
        let mut delivery = Delivery::mock(1, "ex".into(), "rk".into(), false, b"{}".to_vec());
        delivery.properties = properties;
        delivery
    }

    fn parked(properties: BasicProperties, frame_max: usize) -> BasicProperties {
        let by = ConsumerName::new("c");
        let at = datetime!(2026-01-02 03:04:05 UTC);
        let identity = Identity {
            event: "0198c5a0-0000-7000-8000-000000000001".parse().unwrap(),
            aggregate_type: AggregateType::from_stored("t"),
            aggregate_id: AggregateId::from_stored("7"),
        };
        let (cause, reason) = (ParkCause::Rejected, "no\0such\nthing");
        let note = ParkingNote { cause, reason, identity: Some(&identity), by: &by, at };
        parked_properties(&delivery(properties), "work", note, frame_max)
    }

    fn text(properties: &BasicProperties, name: &str) -> Option<String> {
        match properties.headers().as_ref()?.inner().get(name)? {
            AMQPValue::LongString(text) => Some(text.to_string()),
            other => Some(format!("{other:?}")),
        }
    }

    #[test]
    fn a_parked_copy_says_why_and_whence() {
        let copy = parked(BasicProperties::default().with_message_id("m".into()).with_priority(3), 131_072);
        for (name, value) in [
            ("x-parked-cause", "rejected"),
            ("x-parked-reason", "no such thing"),
            ("x-parked-by", "c"),
            ("x-parked-at", "2026-01-02T03:04:05Z"),
            ("x-event-id", "0198c5a0-0000-7000-8000-000000000001"),
            ("x-aggregate-type", "t"),
            ("x-aggregate-id", "7"),
            ("x-original-exchange", "ex"),
            ("x-original-routing-key", "rk"),
            ("x-original-queue", "work"),
        ] {
            assert_eq!(text(&copy, name).as_deref(), Some(value), "{name}");
        }
        assert_eq!(copy.delivery_mode(), &Some(PERSISTENT));
        assert_eq!((copy.message_id(), copy.priority()), (&Some("m".into()), &Some(3)));
    }

    #[test]
    fn what_would_lose_or_divert_the_copy_is_kept_as_text_only() {
        let mut headers = FieldTable::default();
        headers.insert("CC".into(), AMQPValue::LongString("elsewhere".into()));
        headers.insert("x-parked-by".into(), AMQPValue::LongString("a forger".into()));
        headers.insert("mine".into(), AMQPValue::LongLongInt(7));
        let original = BasicProperties::default()
            .with_expiration("1000".into())
            .with_user_id("somebody".into())
            .with_headers(headers);
        let copy = parked(original, 131_072);
        assert_eq!((copy.expiration(), copy.user_id()), (&None, &None));
        assert_eq!(text(&copy, "CC"), None);
        assert_eq!(text(&copy, "x-original-cc").as_deref(), Some("elsewhere"));
        assert_eq!(text(&copy, "x-original-expiration").as_deref(), Some("1000"));
        assert_eq!(text(&copy, "x-original-user-id").as_deref(), Some("somebody"));
        assert_eq!(text(&copy, "x-parked-by").as_deref(), Some("c"));
        assert_eq!(text(&copy, "mine").as_deref(), Some("LongLongInt(7)"));
    }

    #[test]
    fn headers_that_do_not_fit_the_frame_are_left_out() {
        let mut headers = FieldTable::default();
        headers.insert("big".into(), AMQPValue::LongString("x".repeat(5_000).into()));
        let copy = parked(BasicProperties::default().with_headers(headers.clone()), 12_000);
        assert_eq!(text(&copy, "x-parked-without-headers").as_deref(), Some("Boolean(true)"));
        assert_eq!(text(&copy, "big"), None);
        assert_eq!(text(&copy, "x-aggregate-id").as_deref(), Some("7"), "it can still be unparked");
        assert!(text(&parked(BasicProperties::default().with_headers(headers), 16_384), "big").is_some());
        let nested = (0..100).fold(FieldTable::default(), |inner, _| {
            let mut outer = FieldTable::default();
            outer.insert("n".into(), AMQPValue::FieldTable(inner));
            outer
        });
        let copy = parked(BasicProperties::default().with_headers(nested), 131_072);
        assert!(text(&copy, "x-parked-without-headers").is_some());
    }
}
