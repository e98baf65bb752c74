//! Ports: what the core asks of the world, as traits. One file, one port.

mod causes;
mod clock;
mod error;
mod inbox;
mod inbox_operations;
mod leadership;
mod message_publish;
mod observer;
mod outbox_append;
mod outbox_audit;
mod outbox_doctor;
mod outbox_holders;
mod outbox_maintenance;
mod outbox_operations;
mod outbox_pause;
mod outbox_statistics;
mod outbox_store;
mod payload_cipher;
mod random;
mod readiness;
mod relay_registry;
mod unit_of_work;
mod unpark_request;
mod wakeup;

pub use causes::{causes, with_causes};
pub use clock::Clock;
pub use error::{BoxError, StoreError};
pub use inbox::{ConsumerName, FirstSeen, InboxMaintenancePort, InboxPort, InvalidConsumerName, ParkingPort};
pub use inbox_operations::InboxOperationsPort;
pub use leadership::{LeaderTerm, LeadershipPort};
pub use message_publish::{Availability, Destination, MessagePublishPort};
pub use observer::{NoObserver, OutboxObserver, OutboxSignal};
pub use outbox_append::{OutboxAppendError, OutboxAppendPort};
pub use outbox_audit::{AuditEntry, OutboxAuditPort};
pub use outbox_doctor::{Finding, LaneRepairPort, OutboxCheckPort};
pub use outbox_holders::{LeaderState, OutboxHoldersPort, RelayLeases};
pub use outbox_maintenance::{OutboxMaintenancePort, ReapReport, ReapRequest};
pub use outbox_operations::{
    BlockedAggregate, EventFilter, EventPage, OutboxEventContent, OutboxEventState, OutboxOperationsPort,
};
pub use outbox_pause::{OutboxPausePort, Pause, PauseScope};
pub use outbox_statistics::{DeadGroup, LagPercentiles, OutboxStatistics, OutboxStatisticsPort, RecentPublishing};
pub use outbox_store::OutboxStorePort;
pub use payload_cipher::{PayloadCipherError, PayloadCipherPort};
pub use random::Random;
pub use readiness::ReadinessCheck;
pub use relay_registry::{PausedDestination, RegisteredRelay, RelayRegistryPort, RelayReport};
pub use unit_of_work::UnitOfWork;
pub use unpark_request::{GiveUp, UnparkRequestError, UnparkRequestPort};
pub use wakeup::WakeupPort;

#[cfg(feature = "mocks")]
pub use mocks::*;

#[cfg(feature = "mocks")]
mod mocks {
    pub use super::{
        inbox::{MockInboxMaintenancePort, MockInboxPort, MockParkingPort},
        inbox_operations::MockInboxOperationsPort,
        leadership::MockLeadershipPort,
        message_publish::MockMessagePublishPort,
        observer::MockOutboxObserver,
        outbox_append::MockOutboxAppendPort,
        outbox_audit::MockOutboxAuditPort,
        outbox_doctor::{MockLaneRepairPort, MockOutboxCheckPort},
        outbox_holders::MockOutboxHoldersPort,
        outbox_maintenance::MockOutboxMaintenancePort,
        outbox_operations::MockOutboxOperationsPort,
        outbox_pause::MockOutboxPausePort,
        outbox_statistics::MockOutboxStatisticsPort,
        outbox_store::MockOutboxStorePort,
        payload_cipher::MockPayloadCipherPort,
        readiness::MockReadinessCheck,
        relay_registry::MockRelayRegistryPort,
        unpark_request::MockUnparkRequestPort,
        wakeup::MockWakeupPort,
    };
}
