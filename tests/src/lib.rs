//! What the contract tests, the system tests, the demo and chaos share: processes of the binary, load, a tap on the exchange.
//!
//! # Adding a test
//! 1. Of one crate: beside its code, or in its `tests`. Of several that meet on real servers: a module of `contract`. Of
//!    the binary as it runs: a module of `system`.
//! 2. Name it as a sentence, and see it fail once.
//! 3. Wait for a condition with a deadline ([`eventually`]); never for a time.

pub mod chaos;
pub mod demo;
pub mod event_documents;
pub mod lane_protocol;

// Their links lead from where the pages are, which only the tests do not mind.
#[cfg(doctest)]
pub mod pages;

mod app_process;
pub mod consumed;
pub mod operated;
mod patience;
pub mod settings_page;
pub mod tally;
pub mod tap;
pub mod webdriver;
pub mod work_load;

pub use app_process::{AppEnvironment, AppProcess, ProcessError};
pub use patience::{TimedOut, eventually, pause};
