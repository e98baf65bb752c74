//! The outbox in PostgreSQL: append, claim, settle, reap, operate, observe, wake.

mod append;
mod audit;
mod claim;
mod doctor;
pub mod entity;
mod holders;
mod list;
mod operations;
mod pause;
mod reaper;
mod registry;
mod repository;
mod statistics;
mod store;
pub mod wakeup;

pub use claim::{ClaimedRow, FailureRow, OutboxClaimRepository, PostgresOutboxClaimRepository, SettlementRow};
pub use doctor::{
    AutovacuumCheck, ClockCheck, IndexCheck, LaneCheck, OutboxRole, PermissionCheck, RoutingCheck, SchemaCheck,
    ServerSettingsCheck, SnapshotCheck,
};
pub use entity::{OutboxEventEntity, OutboxEventStateEntity};
pub use operations::LaneProblem;
pub use reaper::OutboxReaper;
pub use repository::OutboxEventRepository;
pub use store::OutboxStoreAdapter;
