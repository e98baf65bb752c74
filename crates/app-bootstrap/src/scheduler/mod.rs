//! Loops that call the use cases again and again until the process stops.

mod leader;
mod periodic;
mod relay;
mod report;

pub use leader::{MaintenanceLeader, MaintenanceSchedule, OutboxLeaderElectionToken};
pub use periodic::Periodic;
pub use relay::{OutboxRelayScheduler, RelayEnd, RelaySchedule};
pub use report::RelayReporter;
