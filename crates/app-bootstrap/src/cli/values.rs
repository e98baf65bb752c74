//! Arguments that the core checks: the parser of the command line names the argument and shows the value beside its words.

use std::time::Duration;

use application_core::{
    outbox::{AggregateId, AggregateType, EventType, InvalidEvent},
    ports::{ConsumerName, InvalidConsumerName},
};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

pub(super) fn aggregate_type(text: &str) -> Result<AggregateType, InvalidEvent> {
    AggregateType::try_new(text)
}

pub(super) fn aggregate_id(text: &str) -> Result<AggregateId, InvalidEvent> {
    AggregateId::try_new(text)
}

pub(super) fn event_type(text: &str) -> Result<EventType, InvalidEvent> {
    EventType::try_new(text)
}

/// A text that is no age.
#[derive(Debug, thiserror::Error)]
#[error("it must be an age such as 90s, 2h or 7d ({0})")]
pub(super) struct InvalidAge(humantime_serde::re::humantime::DurationError);

pub(super) fn age(text: &str) -> Result<Duration, InvalidAge> {
    humantime_serde::re::humantime::parse_duration(text).map_err(InvalidAge)
}

/// A text that is no time.
#[derive(Debug, thiserror::Error)]
#[error("it must be a time such as 2026-01-02T03:04:05Z ({0})")]
pub(super) struct InvalidTime(time::error::Parse);

pub(super) fn time(text: &str) -> Result<OffsetDateTime, InvalidTime> {
    OffsetDateTime::parse(text, &Rfc3339).map_err(InvalidTime)
}

pub(super) fn consumer_name(text: &str) -> Result<ConsumerName, InvalidConsumerName> {
    ConsumerName::try_new(text)
}
