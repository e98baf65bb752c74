//! Assertions on an outbox in memory, which show what is there when they fail.

use std::fmt::Write;

use application_core::outbox::OutboxEventStatus;

use super::{InMemoryOutbox, RecordedEvent};

/// Asserts that exactly one event of this type and aggregate was committed, and returns it.
///
/// # Panics
/// When there is none, or more than one; the message lists what the outbox holds.
#[track_caller]
#[expect(clippy::must_use_candidate, reason = "the assertion alone is often what a test wants")]
pub fn assert_outbox_contains(outbox: &InMemoryOutbox, event_type: &str, aggregate: (&str, &str)) -> RecordedEvent {
    let events = outbox.events();
    let mut found = matching(&events, event_type, aggregate);
    assert!(
        found.len() == 1,
        "the outbox should hold one {event_type} of {}/{}, it holds {} of them{}",
        aggregate.0,
        aggregate.1,
        found.len(),
        listing(&events)
    );
    found.remove(0)
}

/// Asserts that no event of this type and aggregate was committed.
///
/// # Panics
/// When there is one; the message lists what the outbox holds.
#[track_caller]
pub fn assert_outbox_lacks(outbox: &InMemoryOutbox, event_type: &str, aggregate: (&str, &str)) {
    let events = outbox.events();
    assert!(
        matching(&events, event_type, aggregate).is_empty(),
        "the outbox should hold no {event_type} of {}/{}{}",
        aggregate.0,
        aggregate.1,
        listing(&events)
    );
}

/// Asserts that no event was committed at all.
///
/// # Panics
/// When there is one; the message lists what the outbox holds.
#[track_caller]
pub fn assert_outbox_is_empty(outbox: &InMemoryOutbox) {
    let events = outbox.events();
    assert!(events.is_empty(), "the outbox should be empty{}", listing(&events));
}

/// Asserts that every event was published: none is pending, in flight, failed or dead.
///
/// # Panics
/// When there is one; the message lists what the outbox holds.
#[track_caller]
pub fn assert_nothing_open(outbox: &InMemoryOutbox) {
    let events = outbox.events();
    let open = events.iter().filter(|event| event.status != OutboxEventStatus::Published).count();
    assert!(open == 0, "every event should be published, {open} are not{}", listing(&events));
}

fn matching(events: &[RecordedEvent], event_type: &str, aggregate: (&str, &str)) -> Vec<RecordedEvent> {
    events
        .iter()
        .filter(|event| event.event_type.as_str() == event_type)
        .filter(|event| (event.aggregate_type.as_str(), event.aggregate_id.as_str()) == aggregate)
        .cloned()
        .collect()
}

/// What the outbox holds, one event a line, without payloads.
fn listing(events: &[RecordedEvent]) -> String {
    const MOST: usize = 20;
    if events.is_empty() {
        return "; it is empty".to_owned();
    }
    let mut text = format!("; it holds {}:", events.len());
    for event in events.iter().take(MOST) {
        let RecordedEvent { sequence, event_type, aggregate_type, aggregate_id, status, id, .. } = event;
        // Writing to a string cannot fail.
        let _ = write!(text, "\n  {sequence} {event_type} of {aggregate_type}/{aggregate_id} {status} {id}");
    }
    if events.len() > MOST {
        text.push_str("\n  …");
    }
    text
}
