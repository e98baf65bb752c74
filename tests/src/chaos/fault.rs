//! Faults: what may happen to processes, servers and the network between them.
//!
//! # Adding a fault
//! 1. Add a variant to the group it belongs to, with its words, its kind and what it does.
//! 2. Let the group's `draw` draw it.

pub(crate) mod network;
pub(crate) mod postgres;
pub(crate) mod processes;
pub(crate) mod rabbitmq;

use std::fmt;

use test_support::checker::DuplicateReason;

pub(crate) use self::{
    network::NetworkFault, postgres::PostgresFault, processes::ProcessFault, rabbitmq::RabbitMqFault,
};
use super::{error::ChaosError, stage::Stage};

/// What a fault is done to. Faults of one target come one after the other, those of different targets at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Process(&'static str),
    Leader,
    Postgres,
    RabbitMq,
    Network,
}

/// One fault with all that was drawn for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Process(ProcessFault),
    Postgres(PostgresFault),
    RabbitMq(RabbitMqFault),
    Network(NetworkFault),
}

impl Fault {
    pub(crate) const fn target(&self) -> Target {
        match self {
            Self::Process(fault) => fault.target(),
            Self::Postgres(_) => Target::Postgres,
            Self::RabbitMq(_) => Target::RabbitMq,
            Self::Network(_) => Target::Network,
        }
    }

    /// What it is called in tables.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Process(fault) => fault.kind(),
            Self::Postgres(fault) => fault.kind(),
            Self::RabbitMq(fault) => fault.kind(),
            Self::Network(fault) => fault.kind(),
        }
    }

    /// Why an event may be published again because of it.
    pub(crate) const fn allows(&self) -> DuplicateReason {
        match self {
            Self::Process(ProcessFault::Stop { .. }) => DuplicateReason::LeaseExpired,
            Self::Process(_) => DuplicateReason::RelayKilled,
            Self::Postgres(_) => DuplicateReason::SettlementLost,
            Self::Network(fault) if fault.is_to_the_database() => DuplicateReason::SettlementLost,
            Self::RabbitMq(_) | Self::Network(_) => DuplicateReason::ConfirmLost,
        }
    }

    /// Lets it happen, and repairs what does not repair itself.
    pub(crate) async fn happen(&self, stage: &Stage) -> Result<(), ChaosError> {
        match self {
            Self::Process(fault) => fault.happen(stage).await,
            Self::Postgres(fault) => fault.happen(stage).await,
            Self::RabbitMq(fault) => fault.happen(stage).await,
            Self::Network(fault) => fault.happen(stage).await,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(fault) => fault.fmt(f),
            Self::Postgres(fault) => fault.fmt(f),
            Self::RabbitMq(fault) => fault.fmt(f),
            Self::Network(fault) => fault.fmt(f),
        }
    }
}
