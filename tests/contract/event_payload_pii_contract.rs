//! Contract: every field of every event is classified at its type, and none that is personal or secret leaves the service
//! readable without a reason.

use std::collections::BTreeMap;

use app_bootstrap::{contexts::event_contracts, outbox_config::OutboxConfig, settings::Settings};
use application_core::{
    inbox::InboundMessage,
    outbox::{Ciphertext, EventHeaders, NewOutboxEvent, Sequence},
    usecases::PersonalFields,
};
use event_contracts::{Classification, Encrypted, EventContract, IntegrationEvent, complaints, plaintexts};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use test_support::fixtures;
use time::OffsetDateTime;

/// What a careless author would send.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct CarelessIntegrationEvent {
    #[schemars(extend("x-classification" = Classification::None))]
    order_id: u32,
    customer_name: String,
    #[schemars(extend("x-classification" = Classification::Personal))]
    email: String,
    #[schemars(extend(
        "x-classification" = Classification::Personal,
        "x-allowed-because" = "the carrier needs it; deleted there after delivery"
    ))]
    address: Vec<String>,
    #[schemars(extend("x-classification" = Classification::Secret))]
    card_token: String,
    #[schemars(extend("x-classification" = Classification::Personal, "x-encrypted" = true))]
    phone: String,
}

impl IntegrationEvent for CarelessIntegrationEvent {
    const EVENT_TYPE: &'static str = "Careless";
    const SCHEMA_VERSION: u32 = 1;

    fn example() -> Self {
        let text = String::new;
        Self {
            order_id: 1,
            customer_name: text(),
            email: text(),
            address: Vec::new(),
            card_token: text(),
            phone: text(),
        }
    }
}

/// What a careful author sends: who it is, for those who have the key.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct CustomerRegisteredIntegrationEvent {
    #[schemars(extend("x-classification" = Classification::None))]
    customer_id: u32,
    /// The e-mail address, a text.
    #[schemars(with = "Encrypted", extend("x-classification" = Classification::Personal))]
    email: Ciphertext,
    /// The lines of the postal address, a list of texts.
    #[schemars(with = "Option<Encrypted>", extend("x-classification" = Classification::Personal))]
    address: Option<Ciphertext>,
}

impl IntegrationEvent for CustomerRegisteredIntegrationEvent {
    const EVENT_TYPE: &'static str = "CustomerRegistered";
    const SCHEMA_VERSION: u32 = 1;

    fn example() -> Self {
        Self { customer_id: 1, email: Ciphertext::new(Encrypted::EXAMPLE), address: None }
    }
}

const CUSTOMER_REGISTERED: EventContract = EventContract::of::<CustomerRegisteredIntegrationEvent>("customer");
const EMAIL: &str = "ada@example.org";
const ADDRESS: [&str; 2] = ["12 Analytical Row", "London"];

/// The event of one customer, its personal fields encrypted under the active key of these settings.
fn registered(settings: &Settings) -> NewOutboxEvent {
    let (id, aggregate, cipher) = (fixtures::event_id(1), ("customer", "1"), OutboxConfig::payload_cipher(settings));
    let personal = PersonalFields::of_event(&*cipher, id, aggregate);
    let payload = CustomerRegisteredIntegrationEvent {
        customer_id: 1,
        email: personal.encrypt("email", EMAIL).expect("encrypted"),
        address: Some(personal.encrypt("address", &ADDRESS).expect("encrypted")),
    };
    let event_type = CustomerRegisteredIntegrationEvent::EVENT_TYPE;
    NewOutboxEvent::draft(id, aggregate, event_type, &payload).build().expect("valid")
}

fn arrived(event: &NewOutboxEvent) -> InboundMessage {
    InboundMessage {
        id: event.id(),
        event_type: event.event_type().clone(),
        aggregate_type: event.aggregate_type().clone(),
        aggregate_id: event.aggregate_id().clone(),
        sequence: Sequence(1),
        schema_version: 1,
        idempotency_key: event.id().to_string(),
        occurred_at: OffsetDateTime::UNIX_EPOCH,
        replay: false,
        payload: event.payload().clone(),
        headers: EventHeaders::from_stored(BTreeMap::new()),
    }
}

fn settings(text: &str) -> Settings {
    let settings: Settings = toml::from_str(text).expect("settings");
    assert_eq!(settings.problems(), []);
    settings
}

/// Two keys, the first of them active.
fn key_ring() -> Settings {
    settings(
        "[encryption]\nactive_key = \"2026_07\"\n[encryption.keys]\n\
         2026_07 = \"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\"\n\
         2026_01 = \"//////////////////////////////////////////8=\"\n",
    )
}

#[test]
fn every_field_of_every_event_is_classified_and_may_leave() {
    for contract in event_contracts() {
        assert_eq!(complaints(&contract.schema()), [""; 0], "{}", contract.stem());
    }
}

#[test]
fn an_unclassified_a_personal_and_a_secret_field_are_complained_of() {
    assert_eq!(
        complaints(&EventContract::of::<CarelessIntegrationEvent>("order").schema()),
        [
            "cardToken is secret",
            "customerName is not classified (x-classification)",
            "email is personal: neither encrypted (x-encrypted) nor allowed with a reason (x-allowed-because)",
            "phone is marked x-encrypted, but its schema is not that of `Encrypted`",
        ]
    );
}

#[test]
fn an_encrypted_field_may_leave_without_a_reason_and_its_schema_says_so() {
    let schema = CUSTOMER_REGISTERED.schema();
    assert_eq!(complaints(&schema), [""; 0]);
    assert_eq!(schema.pointer("/properties/email/x-encrypted"), Some(&Value::Bool(true)));
    assert_eq!(schema.pointer("/properties/email/description"), Some(&"The e-mail address, a text.".into()));
    assert_eq!(schema.get("required"), Some(&serde_json::json!(["customerId", "email"])));
}

#[test]
fn a_field_that_is_marked_encrypted_is_ciphertext_in_the_payload() {
    let (schema, event) = (CUSTOMER_REGISTERED.schema(), registered(&key_ring()));
    let mut payload: Value = serde_json::from_str(event.payload().as_str()).expect("JSON");
    assert_eq!(plaintexts(&schema, &payload), [""; 0]);
    assert!(jsonschema::is_valid(&schema, &payload), "{payload}");
    for part in [EMAIL, "Analytical", "London"] {
        assert!(!event.payload().as_str().contains(part), "{part}");
    }
    if let Some(email) = payload.pointer_mut("/email") {
        *email = EMAIL.into();
    }
    assert_eq!(plaintexts(&schema, &payload), ["email is marked x-encrypted and is no ciphertext"]);
    assert!(!jsonschema::is_valid(&schema, &payload), "{payload}");
}

#[test]
fn a_consumer_with_the_key_reads_what_was_encrypted_and_one_without_it_reads_the_rest() {
    let message = arrived(&registered(&key_ring()));
    let event: CustomerRegisteredIntegrationEvent = serde_json::from_str(message.payload.as_str()).expect("readable");
    let cipher = OutboxConfig::payload_cipher(&key_ring());
    let personal = PersonalFields::of_message(&*cipher, &message);
    assert_eq!(personal.decrypt::<String>("email", &event.email).expect("decrypted"), EMAIL);
    let address = event.address.expect("an address");
    assert_eq!(personal.decrypt::<Vec<String>>("address", &address).expect("decrypted"), ADDRESS);

    // The key was deleted, here and everywhere.
    let without = settings("[encryption.keys]\n2026_01 = \"//////////////////////////////////////////8=\"\n");
    let cipher = OutboxConfig::payload_cipher(&without);
    let personal = PersonalFields::of_message(&*cipher, &message);
    assert!(personal.decrypt::<String>("email", &event.email).expect_err("no key").is_unknown_key());
    assert_eq!(event.customer_id, 1);
}

#[test]
fn a_ciphertext_that_is_copied_into_another_event_is_not_decrypted() {
    let event = registered(&key_ring());
    let read: CustomerRegisteredIntegrationEvent = serde_json::from_str(event.payload().as_str()).expect("readable");
    let cipher = OutboxConfig::payload_cipher(&key_ring());
    let (here, elsewhere) = (arrived(&event), InboundMessage { id: fixtures::event_id(2), ..arrived(&event) });
    let decrypted =
        |message, field| PersonalFields::of_message(&*cipher, message).decrypt::<String>(field, &read.email);
    assert_eq!(decrypted(&here, "email").expect("in its place"), EMAIL);
    assert!(decrypted(&elsewhere, "email").is_err(), "in another event");
    assert!(decrypted(&here, "phone").is_err(), "in another field");
}

#[test]
fn without_a_key_an_event_with_personal_fields_is_not_made() {
    let cipher = OutboxConfig::payload_cipher(&Settings::default());
    let personal = PersonalFields::of_event(&*cipher, fixtures::event_id(1), ("customer", "1"));
    assert!(personal.encrypt("email", EMAIL).is_err());
}
