//! Inbound adapters: the AMQP consumer and the operations HTTP.
//!
//! # Invariants
//! - A message is acknowledged only after its effect is committed, or after the broker confirmed its copy in the parking
//!   queue and its aggregate is marked as parked.
//! - Whatever bytes and properties a message has, it is handled or parked; none ends the consumer
//!   (test `any_message_decodes_or_is_refused_with_a_typed_error`).
//! - `/ops` answers nobody but this machine unless a bearer token is set
//!   (test `operations_without_a_token_refuse_to_listen_beyond_loopback`).
//!
//! # Adding an inbound adapter
//! 1. Make a module here, with its settings in `settings.rs` and a `problems()` that names every wrong value.
//! 2. Let it call a use case of the core through a trait that hides the transaction's type ([`amqp::HandleMessage`]).
//! 3. Give it a [`application_core::ports::ReadinessCheck`] and an observer of its own.
//! 4. Wire it in `app-bootstrap/src/wiring.rs`.

pub mod amqp;
pub mod http;

/// How durations of settings are read and written.
mod setting_duration {
    pub(crate) use application_core::setting_duration::serialize;
    pub(crate) use humantime_serde::deserialize;
}
