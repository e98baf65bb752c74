//! The sample domain: work logs of a portfolio, from a domain change to the event that tells others.
//!
//! # Invariants
//! - `domain` ← `application` ← `adapter`. `domain` and `application`, with [`ports`] and [`integration_events`] between
//!   them, know `application-core` and nothing that does I/O (`cargo xtask arch`).
//! - Only `adapter` may use a database, HTTP or the persistence crate, of which it takes the transaction type alone.
//!
//! # The way of a command
//! HTTP → driving port → use case → one transaction: the aggregate is stored, its events are recorded and appended at
//! the commit → the relay is woken. Others learn of it at least once, in order per work log.
//!
//! # Adding a use case
//! 1. `domain/`: the transition and its event, with a property test.
//! 2. `integration_events.rs`: the payload, each field classified, an entry in the catalogue, a golden file.
//! 3. `application/<verb>_<noun>.rs`: a driving port, the use case behind it, tests with mocks.
//! 4. `ports.rs` and `adapter/postgres/`: only if the store must learn something new; a migration in `migrations/app/`.
//! 5. `adapter/http/`: a route; `adapter/mod.rs`: one line of wiring.

pub mod adapter;
pub mod application;
pub mod domain;
pub mod integration_events;
pub mod ports;
