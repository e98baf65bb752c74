//! Contract: every field of every event is classified at its type, and none that is personal or secret leaves the service
//! without a reason.

use app_bootstrap::contexts::event_contracts;
use event_contracts::{Classification, EventContract, IntegrationEvent, complaints};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
}

impl IntegrationEvent for CarelessIntegrationEvent {
    const EVENT_TYPE: &'static str = "Careless";
    const SCHEMA_VERSION: u32 = 1;

    fn example() -> Self {
        let text = String::new;
        Self { order_id: 1, customer_name: text(), email: text(), address: Vec::new(), card_token: text() }
    }
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
            "email is personal, and nothing says why it may leave (x-allowed-because)",
        ]
    );
}
