//! The webhook publisher against receivers on this machine.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod answers;
mod connections;
mod signatures;
mod stage;
mod tls;
