//! The core of a service with a transactional outbox: types, rules, ports and use cases, without I/O.
//!
//! A domain change and the event that tells others about it are committed in one transaction; a relay delivers the event
//! at least once, in order per aggregate, however the parts crash. This crate says how; adapters do it.
//!
//! # Invariants
//! - No I/O crate: no database, broker, HTTP or settings crate and no async runtime (`cargo xtask arch`).
//! - The five statuses and their transitions exist once: [`outbox::TRANSITIONS`]
//!   (test `outbox_status_registry_contract`).
//! - Nothing here reads a clock or draws a random number but through a port (`clippy.toml`).
//!
//! # Adding a port
//! 1. Write the trait in `ports/<role>.rs`: at most seven methods, what an adapter MUST do in words, an error type that
//!    answers `is_transient()`; export it in `ports/mod.rs`, with its mock.
//! 2. Write its contract suite in `test-support/src/contracts/<role>.rs`.
//! 3. Implement it in one adapter, in the file of the same name, and run the suite against it in `tests/contract/`.
//! 4. Wire it in `app-bootstrap/src/wiring.rs`.

pub mod inbox;
mod json_object;
pub mod outbox;
pub mod ports;
pub mod setting_duration;
mod setting_problem;
pub mod usecases;

pub use json_object::JsonObject;
pub use setting_problem::{SettingProblem, hides_credentials, shortened};
