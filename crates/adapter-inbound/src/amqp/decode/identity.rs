//! Which event a delivery carries, as far as that can be told when the rest of it cannot be read.

use application_core::{
    inbox::InboundMessage,
    outbox::{AggregateId, AggregateType, EventId},
};
use lapin::BasicProperties;

use super::{fields::Fields, headers::Headers};

/// Where the identity stands: the name in headers, in an envelope and in a `CloudEvent`.
const EVENT: [&str; 3] = ["x-event-id", "eventId", "id"];
const AGGREGATE_TYPE: [&str; 3] = ["x-aggregate-type", "aggregateType", "aggregatetype"];
const AGGREGATE_ID: [&str; 3] = ["x-aggregate-id", "aggregateId", "aggregateid"];
const IN_BODY: &[&str] =
    &["eventId", "id", "aggregateType", "aggregatetype", "aggregateId", "aggregateid", "partitionkey", "subject"];

/// An event and its aggregate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::amqp) struct Identity {
    pub(in crate::amqp) event: EventId,
    pub(in crate::amqp) aggregate_type: AggregateType,
    pub(in crate::amqp) aggregate_id: AggregateId,
}

impl From<&InboundMessage> for Identity {
    fn from(message: &InboundMessage) -> Self {
        Self {
            event: message.id,
            aggregate_type: message.aggregate_type.clone(),
            aggregate_id: message.aggregate_id.clone(),
        }
    }
}

impl Identity {
    /// Looks in the headers first, where the publisher of this workspace puts it, then in the body's fields if it is short
    /// enough to be read; `None`: one of the three is named nowhere, or breaks a bound.
    pub(in crate::amqp) fn of(max_body_bytes: usize, properties: &BasicProperties, body: &[u8]) -> Option<Self> {
        let headers = Headers::new(properties);
        let text = (body.len() <= max_body_bytes).then(|| std::str::from_utf8(body).ok()).flatten();
        let fields = text.and_then(|text| Fields::read(text, IN_BODY).ok());
        let field = |name| fields.as_ref()?.text(name).ok().flatten();
        let attribute = |name| headers.cloud_event_attribute(name).ok().flatten();
        let in_headers =
            |[header, _, name]: [&'static str; 3]| headers.text(header).ok().flatten().or_else(|| attribute(name));
        let in_body = |[_, envelope, name]: [&'static str; 3]| field(envelope).or_else(|| field(name));
        let event = in_headers(EVENT).or_else(|| headers.message_id()).or_else(|| in_body(EVENT))?;
        let aggregate_type = in_headers(AGGREGATE_TYPE).or_else(|| in_body(AGGREGATE_TYPE))?;
        let aggregate_id = in_headers(AGGREGATE_ID).or_else(|| in_body(AGGREGATE_ID));
        let stand_in = |name| attribute(name).or_else(|| field(name));
        let aggregate_id = aggregate_id.or_else(|| stand_in("partitionkey")).or_else(|| stand_in("subject"))?;
        Some(Self {
            event: event.parse().ok()?,
            aggregate_type: AggregateType::try_new(aggregate_type).ok()?,
            aggregate_id: AggregateId::try_new(aggregate_id).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use lapin::types::{AMQPValue, FieldTable};

    use super::*;

    const ID: &str = "0198c5a0-0000-7000-8000-000000000001";

    fn properties(headers: &[(&str, &str)]) -> BasicProperties {
        let mut table = FieldTable::default();
        for (name, value) in headers {
            table.insert((*name).into(), AMQPValue::LongString((*value).into()));
        }
        BasicProperties::default().with_headers(table)
    }

    fn found(properties: &BasicProperties, body: &str) -> Option<(String, String, String)> {
        let Identity { event, aggregate_type, aggregate_id } = Identity::of(1_000, properties, body.as_bytes())?;
        Some((event.to_string(), aggregate_type.to_string(), aggregate_id.to_string()))
    }

    #[test]
    fn an_identity_is_found_in_headers_envelopes_and_cloud_events() {
        let expected = Some((ID.to_owned(), "t".to_owned(), "7".to_owned()));
        let ours = properties(&[("x-event-id", ID), ("x-aggregate-type", "t"), ("x-aggregate-id", "7")]);
        assert_eq!(found(&ours, "no JSON"), expected);
        assert_eq!(found(&ours, &"x".repeat(2_000)), expected);
        let by_message_id =
            properties(&[("x-aggregate-type", "t"), ("x-aggregate-id", "7")]).with_message_id(ID.into());
        assert_eq!(found(&by_message_id, ""), expected);
        let binary =
            properties(&[("cloudEvents:id", ID), ("cloudEvents:aggregatetype", "t"), ("cloudEvents:subject", "7")]);
        assert_eq!(found(&binary, ""), expected);
        let envelope = format!(r#"{{"envelopeVersion":9,"eventId":"{ID}","aggregateType":"t","aggregateId":7}}"#);
        assert_eq!(found(&properties(&[]), &envelope), expected);
        let structured = format!(r#"{{"id":"{ID}","aggregatetype":"t","partitionkey":"7","subject":"8"}}"#);
        assert_eq!(found(&properties(&[]), &structured), expected);
    }

    #[test]
    fn without_event_or_aggregate_there_is_no_identity() {
        let (kind, id) = (("x-aggregate-type", "t"), ("x-aggregate-id", "7"));
        for headers in [
            &[kind, id][..],
            &[("x-event-id", ID), kind],
            &[("x-event-id", ID), id],
            &[("x-event-id", "none"), kind, id],
            &[("x-event-id", ID), ("x-aggregate-type", ""), id],
        ] {
            assert_eq!(found(&properties(headers), "{}"), None, "{headers:?}");
        }
        let long =
            format!(r#"{{"eventId":"{ID}","aggregateType":"t","aggregateId":"7","pad":"{}"}}"#, "x".repeat(1_000));
        assert_eq!(found(&properties(&[]), &long), None, "a body over the limit is not read");
    }
}
