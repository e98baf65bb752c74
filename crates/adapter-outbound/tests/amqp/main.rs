//! The AMQP publisher against a real broker.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod faults;
mod proxy;
mod publishing;
mod stage;
mod tls;
mod topology;
