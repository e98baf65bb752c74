//! What the mapping appends is what the golden payloads in `docs/events` promise; `cargo xtask events --check` holds that
//! every version decodes.

use std::{fs, path::PathBuf};

use application_core::outbox::{EventHeaders, headers};
use event_contracts::IntegrationEvent;

use super::{
    CATALOGUE, WorkLogReservedIntegrationEvent,
    examples::{TRACEPARENT, outbox_events},
};

fn golden(stem: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("../../docs/events/golden/{stem}.json"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_event_is_encoded_as_the_golden_payload_of_its_version() {
    let events = outbox_events();
    assert_eq!(events.len(), CATALOGUE.len(), "an example of each event");
    for (event, contract) in events.iter().zip(CATALOGUE) {
        assert_eq!(event.event_type().as_str(), contract.event_type);
        assert_eq!(event.payload().as_str(), golden(&contract.stem()).trim_end(), "{}", contract.event_type);
    }
}

#[test]
fn an_added_field_does_not_keep_an_old_consumer_from_reading() {
    let text = golden("WorkLogReserved.v1").replacen('{', r#"{"addedLater":true,"#, 1);
    let read = serde_json::from_str::<WorkLogReservedIntegrationEvent>(&text).expect("unknown fields are passed over");
    assert_eq!(read, WorkLogReservedIntegrationEvent::example());
}

#[test]
fn headers_carry_schema_version_time_and_trace_and_the_work_log_is_the_aggregate() {
    for (event, contract) in outbox_events().iter().zip(CATALOGUE) {
        let sent: &EventHeaders = event.headers();
        assert_eq!(sent.get(headers::SCHEMA_VERSION), Some(&*contract.schema_version.to_string()));
        assert_eq!(sent.get(headers::OCCURRED_AT), Some("2026-03-01T12:00:00.25Z"));
        assert_eq!(sent.get(headers::TRACEPARENT), Some(TRACEPARENT));
        assert_eq!(event.aggregate_type().as_str(), contract.aggregate_type);
        assert_eq!(event.aggregate_id().as_str(), "0190b2c3-0000-7000-8000-000000000001");
    }
}
