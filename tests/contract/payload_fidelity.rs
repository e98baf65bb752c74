//! A payload's bytes from the append through the real table, the relay's claim, the envelope and the real broker to what
//! a consumer reads (rule R19).

use std::collections::BTreeMap;

use adapter_inbound::amqp::{MessageFormat, decode};
use adapter_outbound::envelope::EnvelopeFormat;
use application_core::{
    outbox::{EventId, NewOutboxEvent, Payload, bounds::MAX_PAYLOAD_DEPTH},
    ports::MessagePublishPort,
};
use futures_util::future::join_all;
use proptest::{prelude::*, strategy::ValueTree};
use test_support::fixtures::Events;

use super::{outbox_message_publish_adapter::Rabbit, postgres::Postgres, random};

/// What a parser that goes through values would change.
fn chosen() -> Vec<String> {
    // One character of each of the 17 planes, and the first and last that a plane or an encoding ends with.
    let planes: String = (0..=16).filter_map(|plane| char::from_u32(plane * 0x1_0000 + 0xFFFD)).collect();
    let edges = "\u{7f}\u{80}\u{7ff}\u{800}\u{d7ff}\u{e000}\u{feff}\u{fffe}\u{ffff}\u{10000}\u{10ffff}\u{2028}";
    let deep = |open: &str, close: &str, levels: usize| format!("{}0{}", open.repeat(levels), close.repeat(levels));
    vec![
        "9223372036854775807".to_owned(),
        "[-9223372036854775808,18446744073709551615,18446744073709551616]".to_owned(),
        format!("{{\"digits\":{}}}", "1234567890".repeat(40)),
        format!("0.{}1", "0".repeat(400)),
        // A double keeps 17 digits: the last of each of these is the one that a hasty parser gets wrong.
        "[0.30000000000000004,5e-324,1.7976931348623157e308,2.2250738585072011e-308,9007199254740993.0]".to_owned(),
        "[1e400,-1e-400,1E+2,0.10,-0,-0.0,1.0,100000000000000000000000000000000.5]".to_owned(),
        r#"{"a":1,"b":2,"a":3,"":4,"a":{"a":5,"a":6}}"#.to_owned(),
        " \t\r\n{ \"z\" : [ ] ,\n\t\"a\" : { } } \n".to_owned(),
        r#""\u00e9 é \ud83d\ude00 😀 \/ / \b\f\n\r\t \" \\ \u007F \u2028""#.to_owned(),
        format!("[\"{planes}\",\"{edges}\",{{\"{planes}\":\"{edges}\"}}]"),
        deep("[", "]", MAX_PAYLOAD_DEPTH),
        deep("{\"a\":", "}", MAX_PAYLOAD_DEPTH),
        "null".to_owned(),
        "\"\"".to_owned(),
    ]
}

/// JSON text as no serializer would write it.
fn any_json() -> impl Strategy<Value = String> {
    let space = || "[ \t\r\n]{0,2}";
    let string = || {
        let part = prop_oneof![
            any::<char>().prop_map(|c| match c {
                '"' | '\\' => format!("\\{c}"),
                '\0' => "0".to_owned(),
                c if c < ' ' => format!("\\u{:04x}", u32::from(c)),
                c => c.to_string(),
            }),
            any::<char>().prop_filter("no NUL", |c| *c != '\0').prop_map(|c| {
                let mut units = [0; 2];
                c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04X}")).collect::<Vec<_>>().concat()
            }),
        ];
        prop::collection::vec(part, 0..8).prop_map(|parts| format!("\"{}\"", parts.concat()))
    };
    let leaf = prop_oneof![
        "-?(0|[1-9][0-9]{0,40})(\\.[0-9]{1,40})?([eE][+-]?[0-9]{1,4})?",
        any::<i64>().prop_map(|number| number.to_string()),
        string(),
        prop::sample::select(vec!["null", "true", "false"]).prop_map(ToOwned::to_owned),
    ];
    leaf.prop_recursive(6, 40, 5, move |inner| {
        let member = (prop_oneof![Just("\"same\"".to_owned()), string()], space(), inner.clone());
        prop_oneof![
            (prop::collection::vec(inner, 0..5), space())
                .prop_map(|(values, space)| format!("[{space}{}{space}]", values.join(&format!("{space},")))),
            (prop::collection::vec(member, 0..5), space()).prop_map(|(members, around)| {
                let members: Vec<_> =
                    members.iter().map(|(name, space, value)| format!("{name}{space}:{space}{value}")).collect();
                format!("{{{around}{}{around}}}", members.join(","))
            }),
        ]
    })
}

fn payloads() -> Vec<String> {
    let mut runner = random::runner(random::seed(), 1, 0);
    let strategy = any_json();
    let mut payloads = chosen();
    payloads.extend((0..random::cases(100)).map(|_| strategy.new_tree(&mut runner).expect("a text").current()));
    payloads
}

/// The publishers side by side, each with a queue of its own: what comes out of it, by event.
async fn through(format: EnvelopeFormat, read_as: MessageFormat, appended: &BTreeMap<EventId, String>) {
    let (postgres, rabbit) = (Postgres::fresh().await, Rabbit::start(format).await);
    let series = Events::new();
    let events: Vec<NewOutboxEvent> = appended
        .iter()
        .map(|(id, payload)| series.of(id.to_string()).id(*id).payload(payload.as_str()).build())
        .collect();
    postgres.append_all(&events).await;
    let mut read = BTreeMap::new();
    loop {
        let (token, runs) = postgres.claim().await;
        if runs.is_empty() {
            break;
        }
        let claimed: Vec<_> = runs.iter().flat_map(|run| &run.events).collect();
        for outcome in join_all(claimed.iter().map(|event| rabbit.publisher.publish(event))).await {
            outcome.expect("published");
        }
        let confirmed = super::postgres::confirmed(&runs, usize::MAX);
        postgres.store().acknowledge(token, &confirmed).await.expect("acknowledged");
    }
    for message in rabbit.messages().await {
        let message = decode(read_as, 10_000_000, &message.properties, &message.data).expect("read");
        read.insert(message.id, message.payload.as_str().to_owned());
    }
    for (id, payload) in appended {
        let is_whole_body = matches!(format, EnvelopeFormat::Raw | EnvelopeFormat::CloudEventsBinary);
        // White space around a value is part of no value: whoever reads it out of an envelope does not see it.
        let expected = if is_whole_body { payload } else { payload.trim_matches([' ', '\t', '\r', '\n']) };
        assert_eq!(read.get(id).map(String::as_str), Some(expected), "as {format:?}");
    }
    rabbit.publisher.close(std::time::Duration::from_secs(10)).await;
}

#[tokio::test]
async fn payloads_reach_the_consumer_byte_for_byte_in_every_format() {
    let taken: Vec<String> = payloads().into_iter().filter(|text| Payload::try_new(text.as_str()).is_ok()).collect();
    assert!(taken.len() > chosen().len(), "the random texts are payloads");
    for text in chosen() {
        assert!(taken.contains(&text), "refused: {text}");
    }
    let appended = taken.into_iter().zip(1..).map(|(text, n)| (test_support::fixtures::event_id(n), text)).collect();
    through(EnvelopeFormat::Json, MessageFormat::Auto, &appended).await;
    through(EnvelopeFormat::CloudEventsStructured, MessageFormat::Auto, &appended).await;
    through(EnvelopeFormat::CloudEventsBinary, MessageFormat::Auto, &appended).await;
    through(EnvelopeFormat::Raw, MessageFormat::Raw, &appended).await;
}
