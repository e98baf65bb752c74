//! The way out: how personal fields are encrypted, how events are written down, where they go, and the publishers that take
//! them there.
//!
//! # Invariants
//! - Knows the core alone; no other adapter (`cargo xtask arch`).
//! - `publish` answers `Ok` only for a message that the broker has confirmed and not returned, or that a receiver of
//!   webhooks has answered with success.
//! - The payload's bytes are never parsed into values on their way.
//! - Payloads, keys and credentials appear in no log line and no `Debug` text of this crate.
//!
//! # Logs of the AMQP client
//! lapin 4 logs a returned message with its whole content, as a warning of the target `lapin::returned_messages`. A log
//! filter must leave that target out; [`amqp::LOG_DIRECTIVE`] does it. Its other lines repeat what this crate logs in its
//! own words; [`amqp::QUIET_DIRECTIVE`] leaves them out unless they are asked for.
//!
//! # Adding a publisher
//! 1. Implement [`application_core::ports::MessagePublishPort`] in a file of its own here.
//! 2. Add it to the test that an event ends in the same state whoever published it
//!    (`tests/contract/outbox_message_publish_adapter.rs`).
//! 3. Add it to [`settings::PublisherKind`], and wire it in `app-bootstrap`.

pub mod amqp;
pub mod cipher;
pub mod disabled;
pub mod envelope;
pub mod route;
pub mod settings;
mod setup;
pub mod stdout;
#[cfg(test)]
mod testing;
pub mod webhook;

pub use self::{
    amqp::OutboxMessagePublishAdapter,
    cipher::{EncryptionSettings, JwePayloadCipher},
    disabled::DisabledOutboxMessagePublisher,
    envelope::OutboxEnvelopeJson,
    settings::{OutboundSettings, PublisherKind},
    setup::OutboundSetupError,
    stdout::StdoutOutboxMessagePublisher,
    webhook::WebhookOutboxMessagePublisher,
};

/// How durations of settings are read and written.
mod setting_duration {
    pub(crate) use application_core::setting_duration::serialize;
    pub(crate) use humantime_serde::deserialize;
}
