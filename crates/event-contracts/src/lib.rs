//! Contracts of integration events: what a service tells others, as they may rely on it.
//!
//! A context implements [`IntegrationEvent`] for each payload and lists all of them as [`EventContract`]s. From that list
//! come the JSON Schemas, the golden payloads and the `AsyncAPI` document in `docs/events` (`cargo xtask events`), and
//! the checks: [`breaks`] compares a published schema with today's type, [`complaints`] holds every field to be
//! classified, [`plaintexts`] a payload to encrypt what its schema says it does.
//!
//! # Invariants
//! - Knows no other crate of the workspace, no I/O and no runtime (`cargo xtask arch`).
//! - A version that was published is never changed in a way that its readers notice; a new version is a new type.
//!
//! # Adding an event
//! 1. In the context's `integration_events.rs`: a type that classifies every field, with its [`IntegrationEvent`].
//! 2. An [`EventContract`] of it in the context's catalogue.
//! 3. `cargo xtask events`, which writes its schema, its golden payload and its part of the `AsyncAPI` document.

mod classification;
mod compatibility;
mod contract;
mod encrypted;

pub use classification::{Classification, complaints};
pub use compatibility::breaks;
pub use contract::{EventContract, IntegrationEvent};
pub use encrypted::{Encrypted, plaintexts};
