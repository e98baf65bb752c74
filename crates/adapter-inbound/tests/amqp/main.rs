//! The consumer against a real broker, with an inbox in memory.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod broker;
mod effects;
mod faults;
mod handlers;
mod order;
mod parking;
mod raw_frames;
mod stop;
mod tls;
mod unparking;
mod world;
