//! The AMQP consumer: from a queue to the handler's effect, in the order of each aggregate.
//!
//! # Delivery
//! At least once from the broker, each effect once per consumer name (rule R21). Within an aggregate, effects follow the
//! order of the queue (rule R22), as long as the queue has a single active consumer: while a message waits for its next
//! try, later ones of its aggregate wait behind it; once it is parked, they are parked as well, in order.
//!
//! # Whose fault a failure is
//! [`retry`] says how a database that is away is told from a message that cannot be handled.

mod connection;
mod consumer;
mod decode;
mod handle;
mod lanes;
mod observer;
mod park;
mod pauses;
mod readiness;
pub mod retry;
mod session;
mod settings;
mod store;
mod unpark;
mod work;

pub use connection::AmqpError;
pub use consumer::{AmqpConsumer, ConsumerParts};
pub use decode::{CLOUD_EVENTS_VERSION, DecodeError, ENVELOPE_VERSION, MessageFormat, decode};
pub use handle::HandleMessage;
pub use observer::{ConsumerObserver, ConsumerSignal, NoConsumerObserver, ParkCause};
pub use readiness::ConsumerReadiness;
pub use settings::{ConsumerSettings, InvalidConsumerSettings, OutageSettings, RetrySettings};
pub use unpark::{UnparkRequest, request_unpark};
