//! Decode tests: every form, every fallback, and whatever else may come.

use std::sync::LazyLock;

use application_core::outbox::{EventField, InvalidEvent};
use lapin::types::{AMQPValue, FieldArray, FieldTable, ShortString};
use proptest::prelude::*;
use test_support::corpus;
use time::macros::datetime;

use super::*;

const ID: &str = "0198c5a0-0000-7000-8000-000000000001";
const BOUND: usize = 100_000;

fn envelope(change: impl FnOnce(String) -> String) -> Vec<u8> {
    let text = format!(
        r#"{{"envelopeVersion":1,"eventId":"{ID}","idempotencyKey":"key","eventType":"WorkLogReserved",
        "aggregateType":"work-log","aggregateId":"42","sequence":7,"occurredAt":"2026-01-02T03:04:05.678Z",
        "schemaVersion":2,"payload":{{"b":1,"a":12345678901234567890.12345678901234567890,"a":null}}}}"#
    );
    change(text).into_bytes()
}

fn read(properties: &BasicProperties, body: &[u8]) -> Result<InboundMessage, DecodeError> {
    decode(MessageFormat::Auto, BOUND, properties, body)
}

fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

fn with(headers: impl IntoIterator<Item = (&'static str, AMQPValue)>) -> BasicProperties {
    let mut table = FieldTable::default();
    for (name, value) in headers {
        table.insert(name.into(), value);
    }
    BasicProperties::default().with_headers(table)
}

fn raw_headers() -> Vec<(&'static str, AMQPValue)> {
    vec![
        ("x-event-id", text(ID)),
        ("x-event-type", text("WorkLogReserved")),
        ("x-aggregate-type", text("work-log")),
        ("x-aggregate-id", text("42")),
        ("x-sequence", AMQPValue::LongLongInt(7)),
        ("x-attempt", AMQPValue::LongLongInt(1)),
        ("x-replay", AMQPValue::LongLongInt(0)),
        ("x-schema-version", AMQPValue::LongLongInt(2)),
        ("x-idempotency-key", text("key")),
        ("x-occurred-at", text("2026-01-02T03:04:05.678Z")),
    ]
}

fn assert_expected(message: &InboundMessage) {
    assert_eq!(message.id.to_string(), ID);
    assert_eq!(message.event_type.as_str(), "WorkLogReserved");
    assert_eq!(message.aggregate_type.as_str(), "work-log");
    assert_eq!(message.aggregate_id.as_str(), "42");
    assert_eq!(message.sequence, Sequence(7));
    assert_eq!(message.schema_version, 2);
    assert_eq!(message.idempotency_key, "key");
    assert_eq!(message.occurred_at, datetime!(2026-01-02 03:04:05.678 UTC));
    assert!(!message.replay);
}

#[test]
fn an_envelope_is_read_and_its_payloads_bytes_are_kept() {
    let message = read(&BasicProperties::default(), &envelope(|text| text)).unwrap();
    assert_expected(&message);
    let payload = r#"{"b":1,"a":12345678901234567890.12345678901234567890,"a":null}"#;
    assert_eq!(message.payload.as_str(), payload);
    assert_eq!(decode(MessageFormat::Envelope, BOUND, &BasicProperties::default(), &envelope(|t| t)), Ok(message));
}

#[test]
fn unknown_fields_are_passed_over_and_of_repeated_ones_the_last_counts() {
    let body = envelope(|text| {
        let text = text.replacen('{', r#"{"sequence":1,"later":{"eventId":[]},"later":3,"event\u0049d":"no","#, 1);
        text.replace(r#""aggregateId":"42""#, r#""aggregate\u0049d":"41","aggregateId":"4\u0032""#)
    });
    assert_expected(&read(&BasicProperties::default(), &body).unwrap());
}

#[test]
fn what_an_envelope_lacks_is_taken_from_headers_then_from_defaults() {
    let body = envelope(|text| {
        text.replace(r#""idempotencyKey":"key","#, r#""idempotencyKey":null,"#)
            .replace(r#""occurredAt":"2026-01-02T03:04:05.678Z","#, "")
            .replace("\"schemaVersion\":2,", "")
    });
    let headers = [("x-idempotency-key", text("other")), ("x-replay", AMQPValue::LongLongInt(2))];
    let message = read(&with(headers).with_timestamp(1_000), &body).unwrap();
    assert_eq!((message.idempotency_key.as_str(), message.schema_version, message.replay), ("other", 1, true));
    assert_eq!(message.occurred_at.unix_timestamp(), 1_000);
    let message = read(&with([]).with_timestamp(1_000), &body).unwrap();
    assert_eq!(message.idempotency_key, ID);
}

#[test]
fn a_raw_payload_is_described_by_its_headers() {
    for format in [MessageFormat::Auto, MessageFormat::Raw] {
        let message = decode(format, BOUND, &with(raw_headers()), b"[1.0, 2]").unwrap();
        assert_expected(&message);
        assert_eq!(message.payload.as_str(), "[1.0, 2]");
    }
    let bare = raw_headers().into_iter().filter(|(name, _)| !["x-event-id", "x-event-type"].contains(name));
    let properties = with(bare).with_message_id(ID.into()).with_type("WorkLogReserved".into());
    assert_expected(&read(&properties, b"null").unwrap());
}

#[test]
fn cloud_events_are_read_structured_and_binary() {
    let attributes = [
        ("specversion", "1.0"),
        ("id", ID),
        ("source", "/outbox"),
        ("type", "WorkLogReserved"),
        ("subject", "not this"),
        ("partitionkey", "42"),
        ("time", "2026-01-02T03:04:05.678Z"),
        ("sequence", "7"),
        ("aggregatetype", "work-log"),
        ("idempotencykey", "key"),
        ("schemaversion", "2"),
    ];
    let data = r#"{"n":1.50}"#;
    let fields: Vec<_> = attributes.iter().map(|(name, value)| format!("{name:?}:{value:?}")).collect();
    let structured = format!(r#"{{{},"data":{data}}}"#, fields.join(","));
    let content_type = "Application/CloudEvents+JSON; charset=utf-8";
    let properties = BasicProperties::default().with_content_type(content_type.into());
    let message = read(&properties, structured.as_bytes()).unwrap();
    assert_expected(&message);
    assert_eq!(message.payload.as_str(), data);

    for prefix in ["cloudEvents_", "cloudEvents:", "ce-"] {
        let mut table = FieldTable::default();
        for (name, value) in attributes {
            table.insert(ShortString::from(format!("{prefix}{name}")), text(value));
        }
        let properties = BasicProperties::default().with_headers(table);
        let message = read(&properties, data.as_bytes()).unwrap();
        assert_expected(&message);
        assert_eq!(message.payload.as_str(), data);
    }
}

#[test]
fn headers_of_the_event_reach_the_handler_without_the_publishers_prefix() {
    let mut headers = raw_headers();
    headers.extend([
        ("traceparent", text("00-aa-bb-01")),
        ("x-header-tenant", text("t1")),
        ("x-header-x-parked-by", text("its own")),
        ("tenant", text("forged")),
        ("other", text("o")),
        ("x-parked-reason", text("earlier")),
        ("control", text("a\nb")),
        ("bytes", AMQPValue::LongString(vec![0xFF].into())),
        ("huge", text(&"x".repeat(20_000))),
        ("CC", text("elsewhere")),
    ]);
    let message = read(&with(headers), b"{}").unwrap();
    let carried: Vec<_> = message.headers.iter().collect();
    let expected = [("other", "o"), ("tenant", "t1"), ("traceparent", "00-aa-bb-01"), ("x-parked-by", "its own")];
    assert_eq!(carried, expected);
}

#[test]
fn what_cannot_be_read_is_named() {
    let invalid = |field: &str, expected, actual: &str| DecodeError::Invalid {
        field: field.to_owned(),
        expected,
        actual: actual.to_owned(),
    };
    let whole = "a whole number of 64 bits";
    let replaced = |from: &'static str, to: &'static str| envelope(move |text| text.replace(from, to));
    for (body, error) in [
        (replaced("\"sequence\":7", "\"sequence\":1.5"), invalid("sequence", whole, "1.5")),
        (
            replaced("\"sequence\":7", "\"sequence\":9223372036854775808"),
            invalid("sequence", whole, "9223372036854775808"),
        ),
        (replaced("\"sequence\":7", "\"sequence\":[7]"), invalid("sequence", "a string or a number", "[7]")),
        (replaced(ID, "nobody"), invalid("eventId", "a UUID", "nobody")),
        (
            replaced("2026-01-02T", "2026-13-02T"),
            invalid("occurredAt", "a time as in RFC 3339", "2026-13-02T03:04:05.678Z"),
        ),
        (
            replaced("\"schemaVersion\":2", "\"schemaVersion\":0"),
            invalid("schemaVersion", "a whole number from 1", "0"),
        ),
        (replaced("\"key\"", "\"\""), invalid("idempotencyKey", "1 to 16,384 bytes without control characters", "")),
        (replaced("\"envelopeVersion\":1", "\"envelopeVersion\":2"), DecodeError::unsupported("envelopeVersion", "2")),
        (replaced("\"payload\"", "\"pay\""), DecodeError::Missing { field: "payload" }),
        (replaced("\"eventType\"", "\"type\""), DecodeError::Missing { field: "eventType" }),
        (
            replaced("\"work-log\"", "\"\""),
            DecodeError::Bound { source: InvalidEvent::Empty { field: EventField::AggregateType } },
        ),
        (replaced("\"envelopeVersion\"", "\"version\""), DecodeError::UnknownFormat),
        (b"\"secret\"".to_vec(), DecodeError::NotAnObject { category: "data", line: 1, column: 8 }),
        (b"{\"a\":1} x".to_vec(), DecodeError::NotAnObject { category: "syntax", line: 1, column: 9 }),
        (vec![b'{', 0xC3], DecodeError::NotText { offset: 1 }),
        (vec![b' '; BOUND + 1], DecodeError::TooLarge { bound: BOUND, actual: BOUND + 1 }),
    ] {
        assert_eq!(read(&BasicProperties::default(), &body), Err(error));
    }
}

#[test]
fn a_body_in_an_unknown_encoding_is_refused() {
    let properties = BasicProperties::default().with_content_encoding("gzip".into());
    assert_eq!(read(&properties, &envelope(|t| t)), Err(DecodeError::unsupported("content-encoding", "gzip")));
    assert!(read(&BasicProperties::default().with_content_encoding("UTF-8".into()), &envelope(|t| t)).is_ok());
}

#[test]
fn errors_repeat_no_payload_and_no_long_value() {
    let body = envelope(|text| text.replace("\"b\":1", "\"b\":secret"));
    let error = read(&BasicProperties::default(), &body).unwrap_err();
    assert!(!error.to_string().contains("secret"), "{error}");
    let error = read(&BasicProperties::default(), &envelope(|text| text.replace(ID, &"9".repeat(50_000)))).unwrap_err();
    assert!(error.to_string().len() < 200, "{error}");
}

#[test]
fn deep_nesting_is_an_error_and_no_overflow() {
    let nested = |depth: usize| {
        envelope(move |text| {
            let at = text.rfind("\"payload\":").unwrap() + "\"payload\":".len();
            format!("{}{}{}}}", &text[..at], "[".repeat(depth), "]".repeat(depth))
        })
    };
    assert!(read(&BasicProperties::default(), &nested(100)).is_ok());
    assert!(matches!(read(&BasicProperties::default(), &nested(40_000)), Err(DecodeError::Bound { .. })));
    let body = format!("{{\"envelopeVersion\":{}{}}}", "[".repeat(40_000), "]".repeat(40_000));
    assert!(matches!(read(&BasicProperties::default(), body.as_bytes()), Err(DecodeError::Invalid { .. })));
}

fn any_value() -> impl Strategy<Value = AMQPValue> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(AMQPValue::Boolean),
        any::<i8>().prop_map(AMQPValue::ShortShortInt),
        any::<u32>().prop_map(AMQPValue::LongUInt),
        any::<i64>().prop_map(AMQPValue::LongLongInt),
        any::<f64>().prop_map(AMQPValue::Double),
        any::<u64>().prop_map(AMQPValue::Timestamp),
        any::<Vec<u8>>().prop_map(|bytes| AMQPValue::LongString(bytes.into())),
        any::<Vec<u8>>().prop_map(|bytes| AMQPValue::ByteArray(bytes.into())),
        "[ -~]{0,40}".prop_map(|text| AMQPValue::LongString(text.into())),
        Just(text(ID)),
        Just(text("1.0")),
        Just(AMQPValue::Void),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4)
                .prop_map(|values| AMQPValue::FieldArray(FieldArray::from(values))),
            proptest::collection::btree_map("[a-z]{0,5}", inner, 0..4).prop_map(|map| {
                let mut table = FieldTable::default();
                for (name, value) in map {
                    table.insert(name.into(), value);
                }
                AMQPValue::FieldTable(table)
            }),
        ]
    })
}

fn any_properties() -> impl Strategy<Value = BasicProperties> {
    let name = prop_oneof![
        proptest::sample::select(raw_headers().iter().map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>()),
        proptest::sample::select(CLOUD_EVENTS_FIELDS).prop_map(|name| format!("cloudEvents_{name}")),
        proptest::sample::select(vec!["traceparent", "CC", "x-header-a"]).prop_map(ToOwned::to_owned),
        "\\PC{0,10}",
    ];
    let headers = proptest::collection::btree_map(name, any_value(), 0..14);
    let content_type = proptest::option::of(proptest::sample::select(vec![
        "application/json",
        "application/cloudevents+json",
        "",
        ";",
    ]));
    (headers, content_type, any::<Option<u64>>()).prop_map(|(headers, content_type, timestamp)| {
        let mut table = FieldTable::default();
        for (name, value) in headers {
            table.insert(ShortString::from(name), value);
        }
        let mut properties = BasicProperties::default().with_headers(table);
        if let Some(content_type) = content_type {
            properties = properties.with_content_type(content_type.into());
        }
        if let Some(timestamp) = timestamp {
            properties = properties.with_timestamp(timestamp);
        }
        properties
    })
}

fn any_json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<i64>().prop_map(|number| number.to_string()),
        any::<f32>().prop_map(|number| format!("{number:e}")),
        "\\PC{0,20}".prop_map(|text| serde_json::to_string(&text).unwrap()),
        Just(format!("{ID:?}")),
        Just(r#""\ud800""#.to_owned()),
        Just(r#""2026-01-02T03:04:05Z""#.to_owned()),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(|values| format!("[{}]", values.join(","))),
            proptest::collection::vec((proptest::sample::select(ENVELOPE_FIELDS), inner), 0..12).prop_map(|fields| {
                let fields: Vec<_> = fields.iter().map(|(name, value)| format!("{name:?}:{value}")).collect();
                format!("{{{}}}", fields.join(","))
            }),
        ]
    })
}

fn any_body() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        any::<Vec<u8>>(),
        any_json().prop_map(String::into_bytes),
        // A valid envelope with one byte changed.
        (any::<proptest::sample::Index>(), any::<u8>()).prop_map(|(at, byte)| {
            let mut body = envelope(|text| text);
            let at = at.index(body.len());
            body[at] = byte;
            body
        }),
        any::<proptest::sample::Index>().prop_map(|at| {
            let mut body = envelope(|text| text);
            body.truncate(at.index(body.len()));
            body
        }),
    ]
}

fn any_format() -> impl Strategy<Value = MessageFormat> {
    proptest::sample::select(vec![
        MessageFormat::Auto,
        MessageFormat::Envelope,
        MessageFormat::CloudEvents,
        MessageFormat::Raw,
    ])
}

static KNOWN: LazyLock<Vec<Vec<u8>>> =
    LazyLock::new(|| corpus::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/messages")));

/// Whatever is let through keeps the bounds of an event; whatever is refused is refused in few words.
fn taken_or_refused(format: MessageFormat, properties: &BasicProperties, body: &[u8]) -> Result<(), TestCaseError> {
    match decode(format, BOUND, properties, body) {
        Ok(message) => {
            prop_assert!(AggregateType::try_new(message.aggregate_type.as_str()).is_ok());
            prop_assert!(AggregateId::try_new(message.aggregate_id.as_str()).is_ok());
            prop_assert!(EventType::try_new(message.event_type.as_str()).is_ok());
            prop_assert!(Payload::try_new(message.payload.as_str()).is_ok());
            prop_assert!(message.schema_version > 0);
            prop_assert!(!message.idempotency_key.is_empty());
            let headers = message.headers.iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
            prop_assert!(application_core::outbox::EventHeaders::try_new(headers).is_ok());
        }
        Err(error) => prop_assert!(error.to_string().len() < 500, "{error}"),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_message_decodes_or_is_refused_with_a_typed_error(
        format in any_format(), properties in any_properties(), body in any_body()
    ) {
        taken_or_refused(format, &properties, &body)?;
    }

    #[test]
    fn any_edit_of_a_known_message_decodes_or_is_refused_with_a_typed_error(
        format in any_format(), properties in any_properties(), begin in any::<usize>(),
        edits in proptest::collection::vec(any::<corpus::Edit>(), 0..6)
    ) {
        taken_or_refused(format, &properties, &corpus::edited(&KNOWN, begin, &edits))?;
    }

    #[test]
    fn a_payload_comes_out_of_an_envelope_byte_for_byte(payload in any_json()) {
        let body = envelope(|text| {
            let at = text.rfind("\"payload\":").unwrap();
            format!("{}\"payload\":{payload}}}", &text[..at])
        });
        if Payload::try_new(payload.as_str()).is_ok() {
            let message = read(&BasicProperties::default(), &body).unwrap();
            prop_assert_eq!(message.payload.as_str(), payload);
        }
    }
}
