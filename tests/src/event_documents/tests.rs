//! The documents of planted events: what is written, what is stale, what is broken.

use std::{fs, path::Path};

use event_contracts::{Classification, Encrypted, EventContract, IntegrationEvent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{ASYNCAPI, Findings, compare, describe, write};

macro_rules! event {
    ($name:ident, $version:literal, {$($field:ident: $kind:ty = $example:expr),*}) => {
        #[derive(Serialize, Deserialize, JsonSchema)]
        struct $name {
            $(#[schemars(extend("x-classification" = Classification::None))] $field: $kind),*
        }

        impl IntegrationEvent for $name {
            const EVENT_TYPE: &'static str = "OrderPlaced";
            const SCHEMA_VERSION: u32 = $version;

            fn example() -> Self {
                Self { $($field: $example),* }
            }
        }
    };
}

event!(Placed, 1, { id: u32 = 7, note: String = "n".to_owned() });
event!(Added, 1, { id: u32 = 7, note: String = "n".to_owned(), more: Option<u32> = None });
event!(Removed, 1, { id: u32 = 7 });
event!(Required, 1, { id: u32 = 7, note: String = "n".to_owned(), more: u32 = 1 });
event!(Retyped, 1, { id: String = "7".to_owned(), note: String = "n".to_owned() });
event!(Second, 2, { id: String = "7".to_owned() });
event!(Third, 3, { id: u32 = 7 });

#[derive(Serialize, Deserialize, JsonSchema)]
struct Bare {
    owner: String,
}

impl IntegrationEvent for Bare {
    const EVENT_TYPE: &'static str = "OwnerChanged";
    const SCHEMA_VERSION: u32 = 1;

    fn example() -> Self {
        Self { owner: "o".to_owned() }
    }
}

/// Says that it encrypts, and does not.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Plain {
    #[schemars(with = "Encrypted", extend("x-classification" = Classification::Personal))]
    owner: String,
}

impl IntegrationEvent for Plain {
    const EVENT_TYPE: &'static str = "OwnerChanged";
    const SCHEMA_VERSION: u32 = 1;

    fn example() -> Self {
        Self { owner: "o".to_owned() }
    }
}

const fn of<E: IntegrationEvent>() -> EventContract {
    EventContract::of::<E>("order")
}

fn published() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let findings = compare(folder.path(), &[of::<Placed>()]).expect("compared");
    write(folder.path(), &findings).expect("written");
    folder
}

fn against(folder: &Path, contracts: &[EventContract]) -> Findings {
    compare(folder, contracts).expect("compared")
}

fn stale(findings: &Findings) -> Vec<&str> {
    findings.stale.keys().map(String::as_str).collect()
}

#[test]
fn what_was_written_is_as_it_should_be_and_a_changed_file_is_stale() {
    let folder = published();
    let findings = against(folder.path(), &[of::<Placed>()]);
    assert_eq!((findings.broken.len(), findings.stale.len(), findings.looked_at), (0, 0, 1), "{findings:?}");
    fs::write(folder.path().join(ASYNCAPI), "{}").expect("written");
    assert_eq!(stale(&against(folder.path(), &[of::<Placed>()])), [ASYNCAPI]);
}

#[test]
fn a_field_that_is_not_required_may_be_added_to_a_published_version() {
    let folder = published();
    let findings = against(folder.path(), &[of::<Added>()]);
    assert_eq!(findings.broken, [""; 0]);
    assert_eq!(stale(&findings), ["asyncapi.json", "schemas/OrderPlaced.v1.json"]);
}

#[test]
fn a_breaking_change_asks_for_a_version_and_is_not_written() {
    let cure = "keep its type as it was and add a version, a type with EVENT_TYPE OrderPlaced and SCHEMA_VERSION 2";
    for (contract, change) in [
        (of::<Removed>(), "note is gone"),
        (of::<Required>(), "more is new and required"),
        (of::<Retyped>(), "id: `type` was `\"integer\"` and is `\"string\"`"),
    ] {
        let folder = published();
        let findings = against(folder.path(), &[contract]);
        let wanted = format!("OrderPlaced.v1 is published, and {change}: {cure}");
        assert!(findings.broken.contains(&wanted), "{:?} lacks {wanted}", findings.broken);
        write(folder.path(), &findings).expect("nothing to do");
        assert_eq!(against(folder.path(), &[of::<Placed>()]).stale.len(), 0, "nothing was written");
    }
}

#[test]
fn a_second_version_beside_the_first_is_written_and_one_without_it_is_broken() {
    let folder = published();
    let both = against(folder.path(), &[of::<Placed>(), of::<Second>()]);
    assert_eq!(both.broken, [""; 0]);
    assert_eq!(stale(&both), ["asyncapi.json", "golden/OrderPlaced.v2.json", "schemas/OrderPlaced.v2.json"]);
    assert_eq!(
        against(folder.path(), &[of::<Second>()]).broken,
        [
            "OrderPlaced has the versions [2]: they count up from 1, each once",
            "golden/OrderPlaced.v1.json is of no listed event: a version that was published stays in the list of its context",
            "schemas/OrderPlaced.v1.json is of no listed event: a version that was published stays in the list of its context",
        ]
    );
    for wrong in [&[of::<Placed>(), of::<Third>()][..], &[of::<Placed>(), of::<Placed>()]] {
        let broken = against(folder.path(), wrong).broken;
        assert!(broken[0].starts_with("OrderPlaced has the versions [1, "), "{broken:?}");
    }
}

#[test]
fn a_golden_payload_that_is_not_read_or_loses_something_is_broken() {
    let folder = published();
    let golden = folder.path().join("golden/OrderPlaced.v1.json");
    fs::write(&golden, r#"{"id":7}"#).expect("written");
    let broken = against(folder.path(), &[of::<Placed>()]).broken;
    assert!(broken[0].starts_with("golden/OrderPlaced.v1.json was sent once and is not read"), "{broken:?}");
    fs::write(&golden, r#"{"id":7,"note":"n","dropped":[1]}"#).expect("written");
    let broken = against(folder.path(), &[of::<Placed>()]).broken;
    assert_eq!(broken, ["golden/OrderPlaced.v1.json loses a field or a value when OrderPlaced.v1 reads it"]);
}

#[test]
fn an_unclassified_field_is_broken() {
    let folder = tempfile::tempdir().expect("a folder");
    let broken = against(folder.path(), &[of::<Bare>()]).broken;
    assert_eq!(broken, ["OwnerChanged.v1: owner is not classified (x-classification)"]);
}

#[test]
fn an_example_or_a_golden_payload_with_a_plaintext_under_the_mark_is_broken() {
    let folder = tempfile::tempdir().expect("a folder");
    let plaintext = |what: &str| format!("OwnerChanged.v1: {what}: owner is marked x-encrypted and is no ciphertext");
    assert_eq!(against(folder.path(), &[of::<Plain>()]).broken, [plaintext("the example")]);
    let golden = folder.path().join("golden");
    fs::create_dir(&golden).expect("made");
    fs::write(golden.join("OwnerChanged.v1.json"), r#"{"owner":"o"}"#).expect("written");
    assert_eq!(
        against(folder.path(), &[of::<Plain>()]).broken,
        [plaintext("golden/OwnerChanged.v1.json"), plaintext("the example")]
    );
    fs::write(golden.join("OwnerChanged.v1.json"), json!({"owner": Encrypted::EXAMPLE}).to_string()).expect("written");
    assert_eq!(against(folder.path(), &[of::<Plain>()]).broken, [plaintext("the example")]);
}

#[test]
fn a_service_without_events_has_no_documents() {
    let folder = tempfile::tempdir().expect("a folder");
    let findings = against(folder.path(), &[]);
    assert!(findings.broken.is_empty() && findings.stale.is_empty(), "{findings:?}");
}

#[test]
fn a_channel_has_the_route_of_the_defaults_and_a_message_for_each_version() {
    let document = describe(&[of::<Placed>(), of::<Second>()]).expect("described");
    let channel = &document["channels"]["OrderPlaced"];
    assert_eq!(channel["address"], "order.OrderPlaced");
    let amqp = &channel["bindings"]["amqp"];
    let default = adapter_outbound::route::RouteSettings::default().exchange;
    assert_eq!((&amqp["is"], &amqp["exchange"]["name"]), (&json!("routingKey"), &json!(default)));
    let messages: Vec<&String> = channel["messages"].as_object().expect("messages").keys().collect();
    assert_eq!(messages, ["OrderPlaced.v1", "OrderPlaced.v2"]);
    for reference in references(&document) {
        let found = reference.strip_prefix('#').map(|pointer| document.pointer(pointer));
        assert!(reference.starts_with("schemas/OrderPlaced.v") || matches!(found, Some(Some(_))), "{reference}");
    }
}

/// The described envelope has the fields of the one that is sent.
#[test]
fn the_described_envelope_is_the_one_that_is_sent() {
    let document = describe(&[of::<Placed>()]).expect("described");
    let message = &document["components"]["messages"]["OrderPlaced.v1"];
    let keys = |value: &Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    let sent = &message["examples"][0]["payload"];
    assert_eq!(keys(&message["payload"]["properties"]), keys(sent));
    for (name, field) in message["payload"]["properties"].as_object().expect("fields") {
        assert!(field.get("const").is_none_or(|value| *value == sent[name]), "{name} is {}", sent[name]);
    }
}

fn references(value: &Value) -> Vec<&str> {
    match value {
        Value::Object(object) => object
            .iter()
            .flat_map(|(key, value)| match value.as_str() {
                Some(text) if key == "$ref" => vec![text],
                _ => references(value),
            })
            .collect(),
        Value::Array(items) => items.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}
