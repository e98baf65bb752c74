//! Contract: every field of every event is classified, and none that is personal or secret leaves the service.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{CATALOGUE, Classification, examples::outbox_events};

type Fields = [(&'static str, Classification)];

/// Says what is wrong with a payload; nothing, if its fields are those classified and all may leave.
fn complaints(fields: &Fields, payload: &Value) -> Vec<String> {
    let classified: BTreeSet<&str> = fields.iter().map(|(name, _)| *name).collect();
    let Some(object) = payload.as_object() else {
        return vec!["the payload is no object".to_owned()];
    };
    let mut complaints = Vec::new();
    for (name, value) in object {
        if !classified.contains(name.as_str()) {
            complaints.push(format!("{name} is not classified"));
        }
        if value.is_object() || value.is_array() {
            complaints.push(format!("{name} is nested: what it holds cannot be classified"));
        }
    }
    for (name, classification) in fields {
        if !object.contains_key(*name) {
            complaints.push(format!("{name} is classified but not in the payload"));
        }
        match classification {
            Classification::None | Classification::Personal { allowed_because: Some(_) } => {}
            Classification::Personal { allowed_because: None } => complaints.push(format!("{name} is personal")),
            Classification::Secret => complaints.push(format!("{name} is secret")),
        }
    }
    complaints
}

#[test]
fn every_field_of_every_event_is_classified_and_may_leave() {
    let events = outbox_events();
    assert_eq!(events.len(), CATALOGUE.len(), "an example of each event");
    for (event, description) in events.iter().zip(CATALOGUE) {
        assert_eq!(event.event_type().as_str(), description.event_type);
        let payload = serde_json::from_str(event.payload().as_str()).expect("JSON");
        assert_eq!(complaints(description.fields, &payload), [""; 0], "{}", description.event_type);
    }
}

#[test]
fn an_unclassified_a_missing_and_a_nested_field_are_complained_of() {
    let fields = [("id", Classification::None), ("gone", Classification::None)];
    assert_eq!(
        complaints(&fields, &json!({"id": 1, "owner": {"name": "Ada"}})),
        [
            "owner is not classified",
            "owner is nested: what it holds cannot be classified",
            "gone is classified but not in the payload"
        ]
    );
}

#[test]
fn personal_needs_a_reason_and_secret_is_never_allowed() {
    let payload = json!({"name": "Ada"});
    let name = |classification| complaints(&[("name", classification)], &payload);
    assert_eq!(name(Classification::Personal { allowed_because: None }), ["name is personal"]);
    assert_eq!(name(Classification::Personal { allowed_because: Some("consent, see the register") }), [""; 0]);
    assert_eq!(name(Classification::Secret), ["name is secret"]);
}
