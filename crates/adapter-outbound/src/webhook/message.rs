//! An event as a signed request.

use std::fmt;

use application_core::outbox::{
    OutboxEvent, PublishFailure,
    headers::{IDEMPOTENCY_KEY, OCCURRED_AT, SCHEMA_VERSION},
};
use http_body_util::Full;
use hyper::{
    HeaderMap, Method, Request,
    body::Bytes,
    header::{CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT},
};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use time::OffsetDateTime;

use super::{failure::poison, route::Receiver};
use crate::{
    amqp::{
        EVENT_HEADER_PREFIX, TRACE_HEADERS, X_AGGREGATE_ID, X_AGGREGATE_TYPE, X_ATTEMPT, X_EVENT_ID, X_EVENT_TYPE,
        X_IDEMPOTENCY_KEY, X_OCCURRED_AT, X_REPLAY, X_SCHEMA_VERSION, X_SEQUENCE,
    },
    envelope::{CLOUDEVENTS_PREFIX, Encoded, Envelope, rfc3339},
};

/// Header: the event's id, the same in every attempt, by which receivers recognise a redelivery.
pub const WEBHOOK_ID: &str = "webhook-id";
/// Header: when this attempt was made, in seconds since 1970.
pub const WEBHOOK_TIMESTAMP: &str = "webhook-timestamp";
/// Header: a signature for each secret, with spaces between them.
pub const WEBHOOK_SIGNATURE: &str = "webhook-signature";

/// What precedes an attribute of CloudEvents in the name of its header, by their binding for HTTP.
const ATTRIBUTE_PREFIX: &str = "ce-";
/// Who sends.
const SENDER: &str = concat!(env!("CARGO_PKG_NAME"), "/", env!("CARGO_PKG_VERSION"));
/// What a header's value does not hold as it is, by the same binding; nothing beyond ASCII does either.
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'%');

/// Turns events into requests.
#[derive(Debug, Clone)]
pub(super) struct MessageEncoder {
    envelope: Envelope,
    max_bytes: usize,
}

/// An event, ready to be signed.
pub(super) struct Message {
    id: String,
    headers: Headers,
    body: Bytes,
}

impl MessageEncoder {
    pub(super) fn new(envelope: Envelope, max_bytes: u64) -> Self {
        Self { envelope, max_bytes: usize::try_from(max_bytes).unwrap_or(usize::MAX) }
    }

    /// Writes the event down.
    ///
    /// # Errors
    /// A failure of class *poison* when it cannot be written down, has a header that HTTP cannot carry, or is too large.
    pub(super) fn encode(&self, event: &OutboxEvent) -> Result<Message, PublishFailure> {
        let Encoded { content_type, body, headers: of_format } = self.envelope.encode(event)?;
        if body.len() > self.max_bytes {
            return Err(poison(format!("the message has {} bytes; the limit is {}", body.len(), self.max_bytes)));
        }
        let mut headers = Headers::default();
        headers.0.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        headers.0.insert(USER_AGENT, HeaderValue::from_static(SENDER));
        for (name, value) in [
            (X_EVENT_ID, event.id.to_string()),
            (X_EVENT_TYPE, event.event_type.to_string()),
            (X_AGGREGATE_TYPE, event.aggregate_type.to_string()),
            (X_AGGREGATE_ID, event.aggregate_id.to_string()),
            (X_SEQUENCE, event.sequence.to_string()),
            (X_ATTEMPT, (u64::from(event.attempts) + 1).to_string()),
            (X_REPLAY, event.replays.to_string()),
            (X_SCHEMA_VERSION, event.headers.schema_version().to_string()),
            (X_IDEMPOTENCY_KEY, event.idempotency_key()),
            (X_OCCURRED_AT, rfc3339(X_OCCURRED_AT, event.occurred_at())?),
        ] {
            headers.encoded(name, &value)?;
        }
        for (name, value) in event.headers.iter() {
            match name {
                IDEMPOTENCY_KEY | OCCURRED_AT | SCHEMA_VERSION => {}
                name if TRACE_HEADERS.contains(&name) => headers.plain(name, value)?,
                name => headers.encoded(&format!("{EVENT_HEADER_PREFIX}{name}"), value)?,
            }
        }
        for (name, value) in of_format {
            match name.strip_prefix(CLOUDEVENTS_PREFIX) {
                Some(attribute) => headers.encoded(&format!("{ATTRIBUTE_PREFIX}{attribute}"), &value)?,
                None => headers.encoded(&name, &value)?,
            }
        }
        Ok(Message { id: event.id.to_string(), headers, body: body.into() })
    }
}

impl Message {
    /// Signs the event for a receiver, as sent at this time.
    ///
    /// # Errors
    /// A failure of class *poison* when the event has more headers than a request can hold.
    pub(super) fn sign(self, receiver: &Receiver, at: OffsetDateTime) -> Result<Request<Full<Bytes>>, PublishFailure> {
        let Self { id, mut headers, body } = self;
        let timestamp = at.unix_timestamp().to_string();
        let signature = receiver.signer.sign(&id, &timestamp, &body);
        headers.plain(WEBHOOK_ID, &id)?;
        headers.plain(WEBHOOK_TIMESTAMP, &timestamp)?;
        headers.plain(WEBHOOK_SIGNATURE, &signature)?;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = receiver.address.uri.clone();
        *request.headers_mut() = headers.0;
        Ok(request)
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message").field("id", &self.id).field("bytes", &self.body.len()).finish_non_exhaustive()
    }
}

/// The headers of a request.
#[derive(Default)]
struct Headers(HeaderMap);

impl Headers {
    /// Adds a header whose value may be any text.
    fn encoded(&mut self, name: &str, value: &str) -> Result<(), PublishFailure> {
        self.plain(name, &utf8_percent_encode(value, ENCODED).to_string())
    }

    /// Adds a header as it is.
    fn plain(&mut self, name: &str, value: &str) -> Result<(), PublishFailure> {
        let refuse = |what: &str| poison(format!("the header {name:?} cannot be sent over HTTP: {what}"));
        let field = HeaderName::from_bytes(name.as_bytes()).map_err(|_unspecific| refuse("its name is no token"))?;
        let value = HeaderValue::from_bytes(value.as_bytes())
            .map_err(|_unspecific| refuse("its value holds a control character"))?;
        self.0.try_append(field, value).map_err(|_unspecific| refuse("there are too many"))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use application_core::outbox::{AggregateId, EventHeaders, FailureClass, Payload};
    use proptest::prelude::*;
    use time::macros::datetime;

    use super::*;
    use crate::{
        envelope::{EnvelopeFormat, EnvelopeSettings},
        testing::event,
        webhook::{WebhookSettings, route::Route},
    };

    const SECRET: &str = "whsec_dGhlIG5ld2VyIHNlY3JldCBvZiB0ZXN0cw==";

    fn encoder(format: EnvelopeFormat, max_bytes: u64) -> MessageEncoder {
        MessageEncoder::new(Envelope::new(&EnvelopeSettings { format, ..EnvelopeSettings::default() }), max_bytes)
    }

    fn with_headers(headers: &[(&str, &str)]) -> OutboxEvent {
        let mut event = event();
        let headers: BTreeMap<_, _> = headers.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        event.headers = EventHeaders::from_stored(headers);
        event
    }

    /// The event's request, its headers as text.
    fn request(format: EnvelopeFormat, event: &OutboxEvent) -> (Request<Full<Bytes>>, BTreeMap<String, String>) {
        let settings = WebhookSettings {
            url: Some("https://hooks.example.com/in?key=1".into()),
            secrets: Some(SECRET.into()),
            ..WebhookSettings::default()
        };
        let route = Route::compile(&settings, "webhook").unwrap();
        let message = encoder(format, 10_000).encode(event).unwrap();
        let request = message.sign(route.resolve(event), datetime!(2026-01-02 03:04:05.9 UTC)).unwrap();
        let text = |(name, value): (&HeaderName, &HeaderValue)| {
            (name.as_str().to_owned(), String::from_utf8(value.as_bytes().to_vec()).unwrap())
        };
        let headers = request.headers().iter().map(text).collect();
        (request, headers)
    }

    fn refused(event: &OutboxEvent) -> PublishFailure {
        encoder(EnvelopeFormat::Raw, 10_000).encode(event).unwrap_err()
    }

    #[test]
    fn a_request_carries_what_a_message_over_amqp_does_and_a_signature() {
        let mut event = with_headers(&[
            ("traceparent", "00-1-2-01"),
            ("baggage", "a=b, c=d"),
            (IDEMPOTENCY_KEY, "reserve \"42\""),
            (SCHEMA_VERSION, "3"),
            ("tenant", "acme 100%"),
        ]);
        event.attempts = 2;
        event.replays = 1;
        let (request, headers) = request(EnvelopeFormat::Raw, &event);
        assert_eq!(request.method(), Method::POST);
        assert_eq!(request.uri(), "https://hooks.example.com/in?key=1");
        let id = event.id.to_string();
        let signer = crate::webhook::signature::Signer::parse(&SECRET.into()).unwrap();
        let signature = signer.sign(&id, "1767323045", event.payload.as_str().as_bytes());
        let expected: BTreeMap<String, String> = [
            ("content-type", "application/json"),
            ("user-agent", SENDER),
            ("traceparent", "00-1-2-01"),
            ("baggage", "a=b, c=d"),
            (X_EVENT_ID, id.as_str()),
            (X_EVENT_TYPE, "WorkLogReserved"),
            (X_AGGREGATE_TYPE, "work-log"),
            (X_AGGREGATE_ID, "b7c1"),
            (X_SEQUENCE, "42"),
            (X_ATTEMPT, "3"),
            (X_REPLAY, "1"),
            (X_SCHEMA_VERSION, "3"),
            (X_IDEMPOTENCY_KEY, "reserve%20%2242%22"),
            (X_OCCURRED_AT, "2026-01-02T03:04:05.678901Z"),
            ("x-header-tenant", "acme%20100%25"),
            (WEBHOOK_ID, id.as_str()),
            (WEBHOOK_TIMESTAMP, "1767323045"),
            (WEBHOOK_SIGNATURE, signature.as_str()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
        assert_eq!(headers, expected);
    }

    #[test]
    fn attributes_of_cloudevents_are_named_as_their_binding_for_http_has_it() {
        let (_, headers) = request(EnvelopeFormat::CloudEventsBinary, &event());
        for (name, value) in [("ce-specversion", "1.0"), ("ce-type", "WorkLogReserved"), ("ce-subject", "b7c1")] {
            assert_eq!(headers.get(name).map(String::as_str), Some(value), "{name}");
        }
        assert!(!headers.keys().any(|name| name.starts_with("cloudevents_")), "{headers:?}");
    }

    #[test]
    fn an_event_cannot_forge_the_publishers_headers() {
        let event = with_headers(&[(X_EVENT_ID, "forged"), (WEBHOOK_ID, "forged"), ("Host", "elsewhere")]);
        let (request, headers) = request(EnvelopeFormat::Json, &event);
        assert_eq!(headers.get(X_EVENT_ID), Some(&event.id.to_string()));
        assert_eq!(request.headers().get_all(WEBHOOK_ID).iter().count(), 1);
        assert_eq!(headers.get("x-header-host").map(String::as_str), Some("elsewhere"));
        assert!(!headers.contains_key("host"), "{headers:?}");
    }

    #[test]
    fn a_body_over_the_limit_is_poison_before_it_is_sent() {
        let mut event = event();
        event.payload = Payload::from_stored(format!("\"{}\"", "x".repeat(98)));
        assert!(encoder(EnvelopeFormat::Raw, 100).encode(&event).is_ok());
        let failure = encoder(EnvelopeFormat::Raw, 99).encode(&event).unwrap_err();
        assert_eq!(failure.class(), FailureClass::Poison);
        assert_eq!(failure.reason(), "the message has 100 bytes; the limit is 99");
    }

    #[test]
    fn a_header_that_http_cannot_carry_is_poison_and_named_without_its_value() {
        for (name, value, what) in [
            ("tenant id", "hush", "the header \"x-header-tenant id\" cannot be sent over HTTP: its name is no token"),
            (
                "traceparent",
                "hush\r\nhost: elsewhere",
                "the header \"traceparent\" cannot be sent over HTTP: its value holds a control character",
            ),
        ] {
            let failure = refused(&with_headers(&[(name, value)]));
            assert_eq!((failure.class(), failure.reason()), (FailureClass::Poison, what));
        }
        let names: Vec<String> = (0..40_000).map(|n| format!("h{n}")).collect();
        let many: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
        let failure = refused(&with_headers(&many));
        assert_eq!(failure.class(), FailureClass::Poison);
        assert!(failure.reason().ends_with("there are too many"), "{failure}");
    }

    proptest! {
        #[test]
        fn whatever_names_and_values_an_event_has_a_receiver_decodes_them(
            id in any::<String>(), value in any::<String>(),
        ) {
            let mut event = with_headers(&[("tenant", &value)]);
            event.aggregate_id = AggregateId::from_stored(id.clone());
            let (_, headers) = request(EnvelopeFormat::Json, &event);
            for (name, wanted) in [(X_AGGREGATE_ID, id), ("x-header-tenant", value)] {
                let sent = headers.get(name).unwrap();
                prop_assert!(sent.bytes().all(|byte| byte.is_ascii_graphic()), "{sent}");
                prop_assert_eq!(percent_encoding::percent_decode_str(sent).decode_utf8().unwrap(), wanted);
            }
        }
    }
}
