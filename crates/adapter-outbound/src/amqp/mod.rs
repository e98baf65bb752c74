//! RabbitMQ, through AMQP 0-9-1.

mod channel;
mod connection;
mod doctor;
mod endpoint;
mod failure;
mod in_flight;
mod message;
mod publisher;
mod returns;
mod settings;
mod topology;

pub(crate) use self::message::TRACE_HEADERS;
pub use self::{
    doctor::BrokerCheck,
    message::{
        EVENT_HEADER_PREFIX, X_AGGREGATE_ID, X_AGGREGATE_TYPE, X_ATTEMPT, X_EVENT_ID, X_EVENT_TYPE, X_IDEMPOTENCY_KEY,
        X_OCCURRED_AT, X_REPLAY, X_SCHEMA_VERSION, X_SEQUENCE,
    },
    publisher::OutboxMessagePublishAdapter,
    settings::{AmqpSettings, TopologySettings},
    topology::{TopologyError, TopologyProblem},
};

/// What a log filter should begin with: the client logs, as dumps and more than once, the errors that it returns as well.
/// A later directive such as `lapin=debug` overrides it.
pub const QUIET_DIRECTIVE: &str = "lapin=off";

/// What a log filter must contain: the client logs returned messages with their content.
pub const LOG_DIRECTIVE: &str = "lapin::returned_messages=off";
