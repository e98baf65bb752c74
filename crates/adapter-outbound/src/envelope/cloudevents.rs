//! CloudEvents 1.0, structured and binary.
//!
//! CloudEvents has a binding for AMQP 1.0 only. For AMQP 0-9-1 we keep its rules where they carry over: attributes
//! become headers named `cloudEvents_<attribute>`, `datacontenttype` becomes the message's content type. The webhook
//! publisher names them `ce-<attribute>`, as the binding for HTTP has it.
//! Extensions: `partitionkey` (the aggregate's id), `sequence` (text, as that extension wants), `aggregatetype`,
//! `aggregateid`, `idempotencykey`, `schemaversion`, and `traceparent` and `tracestate` where the event has them.

use application_core::outbox::{OutboxEvent, headers::TRACEPARENT};
use serde::Serialize;

use super::{EncodeError, Encoded, checked_payload, object_with_raw_member, rfc3339};

/// The prefix of attributes in headers.
pub(crate) const HEADER_PREFIX: &str = "cloudEvents_";

/// An encoder for one source.
#[derive(Debug, Clone)]
pub(super) struct CloudEvents {
    source: String,
}

/// The attributes in the order in which they are written.
#[derive(Debug, Serialize)]
struct Attributes<'a> {
    specversion: &'static str,
    id: String,
    source: &'a str,
    r#type: &'a str,
    subject: &'a str,
    time: String,
    datacontenttype: &'static str,
    partitionkey: &'a str,
    sequence: String,
    aggregatetype: &'a str,
    aggregateid: &'a str,
    idempotencykey: String,
    schemaversion: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    traceparent: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tracestate: Option<&'a str>,
}

impl CloudEvents {
    pub(super) fn new(source: &str) -> Self {
        Self { source: source.to_owned() }
    }

    /// One JSON document; the payload is its member `data`.
    pub(super) fn structured(&self, event: &OutboxEvent) -> Result<Encoded, EncodeError> {
        let payload = checked_payload(event)?;
        let body = object_with_raw_member(&self.attributes(event)?, "data", payload)?;
        Ok(Encoded { content_type: "application/cloudevents+json", body, headers: Vec::new() })
    }

    /// The payload is the body; attributes are headers.
    pub(super) fn binary(&self, event: &OutboxEvent) -> Result<Encoded, EncodeError> {
        let payload = checked_payload(event)?;
        let attributes = self.attributes(event)?;
        let content_type = attributes.datacontenttype;
        Ok(Encoded { content_type, body: payload.as_bytes().to_vec(), headers: attributes.into_headers() })
    }

    fn attributes<'a>(&'a self, event: &'a OutboxEvent) -> Result<Attributes<'a>, EncodeError> {
        Ok(Attributes {
            specversion: "1.0",
            id: event.id.to_string(),
            source: &self.source,
            r#type: event.event_type.as_str(),
            subject: event.aggregate_id.as_str(),
            time: rfc3339("time", event.occurred_at())?,
            datacontenttype: "application/json",
            partitionkey: event.aggregate_id.as_str(),
            sequence: event.sequence.to_string(),
            aggregatetype: event.aggregate_type.as_str(),
            aggregateid: event.aggregate_id.as_str(),
            idempotencykey: event.idempotency_key(),
            schemaversion: event.headers.schema_version(),
            traceparent: event.headers.get(TRACEPARENT),
            tracestate: event.headers.get("tracestate"),
        })
    }
}

impl Attributes<'_> {
    fn into_headers(self) -> Vec<(String, String)> {
        let all = [
            ("specversion", Some(self.specversion.to_owned())),
            ("id", Some(self.id)),
            ("source", Some(self.source.to_owned())),
            ("type", Some(self.r#type.to_owned())),
            ("subject", Some(self.subject.to_owned())),
            ("time", Some(self.time)),
            ("partitionkey", Some(self.partitionkey.to_owned())),
            ("sequence", Some(self.sequence)),
            ("aggregatetype", Some(self.aggregatetype.to_owned())),
            ("aggregateid", Some(self.aggregateid.to_owned())),
            ("idempotencykey", Some(self.idempotencykey)),
            ("schemaversion", Some(self.schemaversion.to_string())),
            ("traceparent", self.traceparent.map(ToOwned::to_owned)),
            ("tracestate", self.tracestate.map(ToOwned::to_owned)),
        ];
        all.into_iter().filter_map(|(name, value)| Some((format!("{HEADER_PREFIX}{name}"), value?))).collect()
    }
}
