//! The development commands of the workspace: `cargo xtask` lists them.
//!
//! Every command lives in a file of its own, and every rule that a command checks has a test that plants a violation.
//!
//! # Adding a command
//! 1. Write `src/<name>.rs` with `pub const COMMAND: Command`.
//! 2. Add it to `COMMANDS` in `src/command.rs`.
//!
//! # Adding a rule
//! 1. Write it as a function from what was read to a [`Report`]: no printing, no process, so that a test can feed it.
//! 2. Count what the rule looked at, so that a rule which sees nothing fails.
//! 3. Plant a violation in a unit test beside it.

pub mod arch;
pub mod bench;
pub mod binaries;
pub mod chaos;
pub mod check;
pub mod check_template;
pub mod command;
pub mod demo;
pub mod dev;
pub mod error;
pub mod events;
pub mod markdown;
pub mod migrate;
pub mod names;
pub mod new;
pub mod output;
pub mod process;
pub mod remove_sample;
pub mod rename;
pub mod report;
pub mod rust_source;
pub mod settings;
pub mod template_diff;
pub mod test;
pub mod tidy;
pub mod tree;
pub mod workspace;

pub use command::run;
pub use error::Error;
pub use report::Report;
