//! The AMQP consumer: from a queue to the handler's effect, in the order of each aggregate.
//!
//! # Delivery
//! At least once from the broker, each effect once per consumer name (rule R21). Within an aggregate, effects follow the
//! order of the queue (rule R22), as long as the queue has a single active consumer: while a message waits for its next
//! try, later ones of its aggregate wait behind it; once it is parked, they are parked as well, in order.
//! A message that cannot be read is parked in the same way if its headers or its body still name event and aggregate;
//! otherwise it is parked alone and holds back nothing (ADR 12).
//!
//! # Several handlers
//! Each is a consumer of its own, with an inbox, tries and parked aggregates under its name. A message goes to those that
//! listen to it, one after the other; one that nobody listens to is acknowledged and leaves no record.
//!
//! # Whose fault a failure is
//! [`retry`] says how a database that is away is told from a message that cannot be handled.
//!
//! # What the client library cannot read
//! The library reads properties before this module sees them, and two kinds of messages stop it there:
//! - A short string that is not UTF-8 ends the connection. The message stays in its queue, and nothing behind it is
//!   consumed until somebody removes it; readiness says `failed to parse`
//!   (test `a_message_that_the_client_library_cannot_read_stays_in_its_queue_and_readiness_says_so`).
//! - Headers nested more than about a thousand levels deep (a hundred in a debug build) overflow the stack of its thread
//!   and abort the process. Where publishers are not trusted, start the process with `RUST_MIN_STACK=67108864`, which is
//!   enough for whatever fits a frame of 128 KiB in a release build.

mod connection;
mod consumer;
mod decode;
mod doctor;
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
pub use doctor::ConsumerCheck;
pub use handle::HandleMessage;
pub use observer::{ConsumerObserver, ConsumerSignal, NoConsumerObserver, ParkCause};
pub use readiness::ConsumerReadiness;
pub use settings::{ConsumerSettings, InvalidConsumerSettings, OutageSettings, RetrySettings};
pub use unpark::{AmqpUnparkAdapter, UnparkRequest, request_unpark};
