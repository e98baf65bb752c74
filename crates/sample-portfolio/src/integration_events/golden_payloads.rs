//! Golden files: one per event and schema version, in `tests/golden/`. They are never edited, only added.

use std::{collections::BTreeSet, fs, path::PathBuf};

use application_core::outbox::{EventHeaders, headers};

use super::{
    CATALOGUE, IntegrationEvent, WorkLogCancelledIntegrationEvent, WorkLogCompletedIntegrationEvent,
    WorkLogReservedIntegrationEvent, WorkLogStartedIntegrationEvent,
    examples::{TRACEPARENT, outbox_events},
};

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn golden(event_type: &str, version: u32) -> String {
    let path = directory().join(format!("{event_type}.v{version}.json"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Reads one file as today's type. A version that needs a type of its own gets an arm of its own.
fn decode(event_type: &str, version: u32) {
    fn as_today<E: IntegrationEvent>(text: &str) {
        serde_json::from_str::<E>(text).unwrap_or_else(|error| panic!("{}: {error}", E::EVENT_TYPE));
    }
    let text = golden(event_type, version);
    match event_type {
        WorkLogReservedIntegrationEvent::EVENT_TYPE => as_today::<WorkLogReservedIntegrationEvent>(&text),
        WorkLogStartedIntegrationEvent::EVENT_TYPE => as_today::<WorkLogStartedIntegrationEvent>(&text),
        WorkLogCompletedIntegrationEvent::EVENT_TYPE => as_today::<WorkLogCompletedIntegrationEvent>(&text),
        WorkLogCancelledIntegrationEvent::EVENT_TYPE => as_today::<WorkLogCancelledIntegrationEvent>(&text),
        other => panic!("{other} is not decoded by this test"),
    }
}

#[test]
fn every_event_is_encoded_as_the_golden_file_of_its_version() {
    for (event, description) in outbox_events().iter().zip(CATALOGUE) {
        let expected = golden(description.event_type, description.schema_version);
        assert_eq!(event.payload().as_str(), expected.trim_end(), "{}", description.event_type);
    }
}

#[test]
fn every_version_ever_sent_still_decodes() {
    for description in CATALOGUE {
        for version in 1..=description.schema_version {
            decode(description.event_type, version);
        }
    }
}

#[test]
fn there_is_a_golden_file_for_each_version_and_no_other() {
    let expected: BTreeSet<String> = CATALOGUE
        .iter()
        .flat_map(|event| (1..=event.schema_version).map(|version| format!("{}.v{version}.json", event.event_type)))
        .collect();
    let found: BTreeSet<String> = fs::read_dir(directory())
        .expect("the directory of golden files")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn an_added_field_does_not_keep_an_old_consumer_from_reading() {
    let text = golden(WorkLogReservedIntegrationEvent::EVENT_TYPE, 1).replacen('{', r#"{"addedLater":true,"#, 1);
    serde_json::from_str::<WorkLogReservedIntegrationEvent>(&text).expect("unknown fields are passed over");
}

#[test]
fn headers_carry_schema_version_time_and_trace_and_the_work_log_is_the_aggregate() {
    for (event, description) in outbox_events().iter().zip(CATALOGUE) {
        let sent: &EventHeaders = event.headers();
        assert_eq!(sent.get(headers::SCHEMA_VERSION), Some(&*description.schema_version.to_string()));
        assert_eq!(sent.get(headers::OCCURRED_AT), Some("2026-03-01T12:00:00.25Z"));
        assert_eq!(sent.get(headers::TRACEPARENT), Some(TRACEPARENT));
        assert_eq!(event.aggregate_type().as_str(), "work-log");
        assert_eq!(event.aggregate_id().as_str(), "0190b2c3-0000-7000-8000-000000000001");
    }
}
