//! The lane protocol as a small model: what the SQL functions of `migrations/outbox` do to lanes, claims and events.
//!
//! [`Outbox`] is the database: one method for each SQL function, named after it. [`World`] puts appenders, relays that
//! crash or hear no answer, a broker, a clock, a reaper and an operator around it. [`explore`] visits every state that
//! some order of their steps leads to, and checks in each that no event is lost, that no two relays hold a living lease
//! on a lane, that a repeated settlement changes nothing that the first one settled, that events are first published in
//! the order of their commits, and that from there everything can still be delivered.
//! `tests/contract/lane_protocol.rs` drives the real SQL at random and compares it with the same [`Outbox`].
//!
//! What the model leaves out, because it decides nothing about lanes: payloads and the bounds of a claim in lanes, events
//! and bytes, `outbox_claim_overdue` (it differs in what it waits for), `outbox_due_floor` (where a poll begins to look), paused types,
//! repair, and the inbox. A call of a function is one step: what several transactions could see between the statements
//! of one call is what the locks of lanes and claim rows exclude, and only the random test meets real locks.
//!
//! The search is written here, because it is shorter than what it would take to use a crate for it: stateright brings a
//! web server, a thread pool and an actor runtime, and its notion of progress (`eventually`) looks at one path at a time
//! and overlooks cycles. What is needed is breadth first search, the way back to the start, and a walk back from the
//! states where all is delivered.

#![expect(clippy::indexing_slicing, reason = "an index that is out of bounds is a wrong model, and fails its test")]

mod outbox;
mod search;
#[cfg(test)]
mod tests;
mod world;

pub use outbox::{
    Claim, Due, Event, FailedOutcome, Flaw, Lane, Lease, Leases, Outbox, ReapReport, Rules, Settlement, Stored,
};
pub use search::{Explored, Finding, explore};
pub use world::{Budget, Report, Scenario, Step, World};
