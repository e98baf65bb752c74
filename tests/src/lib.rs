//! What the contract tests, the system tests and the demo share: processes of the binary, and a patient look.

mod app_process;
mod patience;

pub use app_process::{AppEnvironment, AppProcess, ProcessError};
pub use patience::{TimedOut, eventually};
