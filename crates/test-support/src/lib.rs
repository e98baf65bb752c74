//! Test support for this workspace and its clones: an outbox in memory, contract suites, a checker of deliveries,
//! throw-away servers, and clocks that a test holds in its hands.
//!
//! # Invariants
//! - The outbox in memory passes the contract suites that the PostgreSQL adapter passes (`tests/in_memory_contract.rs`).
//! - Servers are provisioned in [`servers`] alone, and nothing of them stays behind
//!   (test `kill_of_the_owner_removes_servers_and_directories`).
//! - No test of a use case needs a server or the machine's clock.
//!
//! # Adding a port
//! 1. Write its contract suite in `contracts/<role>.rs`, and name each case in the macro in `contracts/suites.rs`.
//! 2. Answer it from memory in `in_memory/`, and run the suite in `tests/in_memory_contract.rs`.
//! 3. Run the same suite in the tests of the adapter.

pub mod checker;
pub mod clock;
pub mod contracts;
pub mod corpus;
pub mod documents;
pub mod fixtures;
pub mod in_memory;
pub mod operate;
pub mod servers;
pub mod tls;
pub mod webhook;
