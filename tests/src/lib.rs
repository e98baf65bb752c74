//! What the contract tests, the system tests, the demo and chaos share: processes of the binary, load, a tap on the exchange.

pub mod chaos;
pub mod demo;
pub mod lane_protocol;

mod app_process;
pub mod operated;
mod patience;
pub mod tally;
pub mod tap;
pub mod webdriver;
pub mod work_load;

pub use app_process::{AppEnvironment, AppProcess, ProcessError};
pub use patience::{TimedOut, eventually, pause};
