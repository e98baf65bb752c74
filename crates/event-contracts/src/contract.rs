//! An integration event, and what is known of it without its type.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// One version of a payload that leaves the service.
///
/// The first version's type MUST stay as it was published when a second one is added, with a name of its own.
pub trait IntegrationEvent: Serialize + DeserializeOwned + JsonSchema {
    /// The event's type, as consumers know it.
    const EVENT_TYPE: &'static str;
    /// The version of the payload's schema, from 1.
    const SCHEMA_VERSION: u32;

    /// A payload for documents. It becomes the golden payload of a new version and MUST hold nobody's data.
    fn example() -> Self;
}

/// An entry of a context's list of events.
#[derive(Debug, Clone, Copy)]
pub struct EventContract {
    /// The type of the aggregate whose lane keeps the order of these events.
    pub aggregate_type: &'static str,
    /// The event's type.
    pub event_type: &'static str,
    /// The version of the payload's schema, from 1.
    pub schema_version: u32,
    schema: fn() -> Value,
    example: fn() -> serde_json::Result<String>,
    read_again: fn(&str) -> serde_json::Result<Value>,
}

impl EventContract {
    /// The contract of a payload's type.
    #[must_use]
    pub const fn of<E: IntegrationEvent>(aggregate_type: &'static str) -> Self {
        Self {
            aggregate_type,
            event_type: E::EVENT_TYPE,
            schema_version: E::SCHEMA_VERSION,
            schema: schema_of::<E>,
            example: example_of::<E>,
            read_again: read_again::<E>,
        }
    }

    /// The JSON Schema (draft 2020-12) of every payload of this version, the oldest one included: what a reader finds for
    /// certain is required, everything else is not. Types of fields stand where they are used.
    #[must_use]
    pub fn schema(&self) -> Value {
        (self.schema)()
    }

    /// The example as it would be appended.
    ///
    /// # Errors
    /// When it has no JSON form.
    pub fn example(&self) -> serde_json::Result<String> {
        (self.example)()
    }

    /// Reads a payload as this version's type and writes it again.
    ///
    /// # Errors
    /// When it is no payload of this version.
    pub fn read_again(&self, payload: &str) -> serde_json::Result<Value> {
        (self.read_again)(payload)
    }

    /// How files of this version are called, without their ending: `OrderPlaced.v1`.
    #[must_use]
    pub fn stem(&self) -> String {
        format!("{}.v{}", self.event_type, self.schema_version)
    }
}

fn schema_of<E: IntegrationEvent>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<E>().to_value()
}

fn example_of<E: IntegrationEvent>() -> serde_json::Result<String> {
    serde_json::to_string(&E::example())
}

fn read_again<E: IntegrationEvent>(payload: &str) -> serde_json::Result<Value> {
    serde_json::to_value(serde_json::from_str::<E>(payload)?)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;
    use crate::Classification;

    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "camelCase")]
    struct Line {
        #[schemars(extend("x-classification" = Classification::None))]
        amount_cents: u32,
    }

    /// An order was placed.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "camelCase")]
    struct Placed {
        #[schemars(extend("x-classification" = Classification::None))]
        line: Line,
        #[schemars(extend("x-classification" = Classification::None))]
        note: Option<String>,
    }

    impl IntegrationEvent for Placed {
        const EVENT_TYPE: &'static str = "OrderPlaced";
        const SCHEMA_VERSION: u32 = 1;

        fn example() -> Self {
            Self { line: Line { amount_cents: 5 }, note: None }
        }
    }

    const PLACED: EventContract = EventContract::of::<Placed>("order");

    #[test]
    fn a_schema_names_fields_as_they_are_sent_with_their_class_and_nothing_elsewhere() {
        let schema = PLACED.schema();
        assert_eq!(schema["required"], json!(["line"]));
        let amount = &schema["properties"]["line"]["properties"]["amountCents"];
        assert_eq!((&amount["type"], &amount["x-classification"]), (&json!("integer"), &json!("none")));
        assert_eq!(schema["description"], "An order was placed.");
        assert!(!schema.to_string().contains("$ref"), "{schema}");
    }

    #[test]
    fn an_example_is_written_and_read_again_and_another_payload_is_not() {
        let example = PLACED.example().expect("JSON");
        assert_eq!(PLACED.read_again(&example).expect("its own")["line"], json!({"amountCents": 5}));
        assert!(PLACED.read_again(r#"{"note":"no line"}"#).is_err());
        assert_eq!(PLACED.stem(), "OrderPlaced.v1");
    }
}
