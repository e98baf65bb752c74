//! How the relay publishes.

use std::{collections::HashMap, time::Duration};

use crate::outbox::{AggregateType, BreakerPolicy, DeadHeadPolicy, HolderName, OutboxBackoffPolicy};

/// The relay's settings, as the core needs them; the bootstrap checks them at start.
#[derive(Debug, Clone, PartialEq)]
pub struct PublishPolicy {
    /// Who claims, for operators.
    pub holder: HolderName,
    /// How long a claim is held; a run that takes longer is renewed at half time.
    pub lease: Duration,
    /// How long before the end of the lease the last send may begin: at least the publisher's confirm time-out.
    pub send_margin: Duration,
    /// The most events of a claim; 1 or more.
    pub max_events: u32,
    /// The fewest lanes a claim asks for, so that one hot aggregate starves nobody; 1 or more.
    pub min_lanes: u32,
    /// The most events of one lane in a claim; 1 or more. With pipelining it may be the whole claim.
    pub max_run: u32,
    /// The most payload bytes of a claim.
    pub max_bytes: u64,
    /// How often lanes are looked for that appenders hold nearly always.
    pub overdue_check: Duration,
    /// The most lanes that are published at once; 1 or more.
    pub window: usize,
    /// When a failed event is tried again, and how often.
    pub backoff: OutboxBackoffPolicy,
    /// When a destination pauses.
    pub breaker: BreakerPolicy,
    /// What a DEAD head does to its aggregate, where the type has no entry in `dead_head_of`.
    pub dead_head: DeadHeadPolicy,
    /// What a DEAD head does to an aggregate of these types.
    pub dead_head_of: HashMap<AggregateType, DeadHeadPolicy>,
    /// Sends the events of one aggregate without waiting for each other: faster for a hot aggregate, and out of order
    /// when one of them is refused (rule R17).
    pub pipelining_may_reorder_within_aggregate: bool,
}

impl PublishPolicy {
    /// Starting values for a holder: lease 30 s, 500 events a claim, runs of 200, 8 MiB, 64 aggregates at once.
    #[must_use]
    pub fn of(holder: HolderName) -> Self {
        Self {
            holder,
            lease: Duration::from_secs(30),
            send_margin: Duration::from_secs(10),
            max_events: 500,
            min_lanes: 20,
            max_run: 200,
            max_bytes: 8 * 1024 * 1024,
            overdue_check: Duration::from_millis(250),
            window: 64,
            backoff: OutboxBackoffPolicy::default(),
            breaker: BreakerPolicy::default(),
            dead_head: DeadHeadPolicy::default(),
            dead_head_of: HashMap::new(),
            pipelining_may_reorder_within_aggregate: false,
        }
    }

    /// What a DEAD head does to an aggregate of this type (rule R13).
    #[must_use]
    pub fn dead_head(&self, aggregate_type: &AggregateType) -> DeadHeadPolicy {
        self.dead_head_of.get(aggregate_type).copied().unwrap_or(self.dead_head)
    }
}
