//! Arguments that the core checks: the parser of the command line names the argument and shows the value beside its words.

use application_core::{
    outbox::{AggregateId, AggregateType, InvalidEvent},
    ports::{ConsumerName, InvalidConsumerName},
};

pub(super) fn aggregate_type(text: &str) -> Result<AggregateType, InvalidEvent> {
    AggregateType::try_new(text)
}

pub(super) fn aggregate_id(text: &str) -> Result<AggregateId, InvalidEvent> {
    AggregateId::try_new(text)
}

pub(super) fn consumer_name(text: &str) -> Result<ConsumerName, InvalidConsumerName> {
    ConsumerName::try_new(text)
}
