//! What the outbox costs and how fast it is, as ratios to limits that are measured in the same run, in turn.
//!
//! Figures depend on the machine; a ratio to a part of the same work, done alone a moment before, depends on it least.
//! The limits are: P0, marking rows by primary key; P, claim and acknowledge without publishing; B0, the bare client; B, confirmed publishes
//! without a database; B1, the same with one message in flight. P0 and B0 are there to judge P and B. Every run that publishes is checked for loss,
//! repetition and order: one that was wrong fails, however fast it was.
//!
//! # Adding a benchmark
//! 1. Write `benchmarks/<name>.rs` with a function that records figures named `<name>.…` once a round.
//! 2. Add it to `BENCHMARKS` with the time that it may take.
//! 3. If something is asked of a figure, add a line to `targets.rs`; say in `docs/benchmarks.md` what it means.

mod appender;
mod benchmarks;
pub mod cli;
mod conditions;
mod error;
mod figures;
mod histogram;
mod limits;
mod plans;
mod queue;
mod relays;
mod report;
mod resources;
mod runner;
mod seed;
mod stage;
mod statements;
mod targets;
mod verdict;

pub use conditions::Conditions;
pub use error::BenchError;
pub use figures::{Spread, readable};
pub use report::{ExplainedStatement, FigureLine, Measurement, Outcome, Report, SummaryLine};
pub use runner::{Plan, Plant, run};
pub use stage::servers;
