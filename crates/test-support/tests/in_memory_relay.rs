//! Relays, appenders, an operator and a reaper over the in-memory outbox, with faults: what was committed arrives.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{collections::HashMap, sync::Arc, time::Duration};

use application_core::{
    outbox::{FailureClass, HolderName, OutboxBackoffPolicy, OutboxEventStatus},
    ports::{
        Clock, EventFilter, NoObserver, OutboxAppendPort, OutboxMaintenancePort, OutboxOperationsPort, OutboxStorePort,
        Random, ReapRequest, UnitOfWork,
    },
    usecases::{PublishPendingOutboxEventsUseCase, PublishPolicy, StopSignal},
};
use futures_util::future::join_all;
use test_support::{
    checker::{DeliveryChecker, DuplicateReason},
    clock::{FakeClock, SeededRandom},
    fixtures::Events,
    in_memory::{InMemoryOutbox, Operation, RecordingPublisher, StoreErrorKind},
    operate::OperateOne,
};

const RELAYS: usize = 3;
const ROUNDS: usize = 60;
const AGGREGATES: u64 = 7;

struct World {
    clock: Arc<FakeClock>,
    outbox: InMemoryOutbox,
    publisher: RecordingPublisher,
    random: Arc<SeededRandom>,
    events: Events,
    relays: Vec<PublishPendingOutboxEventsUseCase>,
}

impl World {
    fn new(seed: u64) -> Self {
        let clock = Arc::new(FakeClock::default());
        let outbox = InMemoryOutbox::new(Arc::clone(&clock) as _);
        let publisher = RecordingPublisher::new();
        let random = Arc::new(SeededRandom::new(seed));
        let second = Duration::from_secs(1);
        let relays = (0..RELAYS)
            .map(|n| {
                let policy = PublishPolicy {
                    max_run: 3,
                    max_events: 10,
                    min_lanes: 2,
                    backoff: OutboxBackoffPolicy::try_new(second, second, second, 3).unwrap(),
                    ..PublishPolicy::of(HolderName::new(format!("relay-{n}")))
                };
                PublishPendingOutboxEventsUseCase::new(
                    Arc::new(outbox.clone()) as Arc<dyn OutboxStorePort>,
                    Arc::new(publisher.clone()),
                    Arc::clone(&clock) as Arc<dyn Clock>,
                    Arc::clone(&random) as Arc<dyn Random>,
                    Arc::new(NoObserver),
                    policy,
                )
            })
            .collect();
        Self { clock, outbox, publisher, random, events: Events::new(), relays }
    }

    fn chance(&self, one_in: u64) -> bool {
        self.random.next_u64().is_multiple_of(one_in)
    }

    /// Appends a few events of a few aggregates; some refused once, some transactions rolled back.
    async fn append(&self) {
        for _ in 0..4 {
            let unit_of_work = self.outbox.unit_of_work();
            let mut tx = unit_of_work.begin().await.unwrap();
            let events: Vec<_> =
                (0..3).map(|_| self.events.of(format!("a{}", self.random.next_u64() % AGGREGATES)).build()).collect();
            self.outbox.append(&mut tx, &events).await.unwrap();
            tokio::task::yield_now().await;
            if self.chance(5) {
                continue;
            }
            for event in &events {
                if self.chance(6) {
                    self.publisher.refuse_next(event.id(), FailureClass::Rejected);
                }
                if self.chance(10) {
                    self.publisher.refuse_next(event.id(), FailureClass::Unavailable);
                }
                if self.chance(25) {
                    self.publisher.refuse_next(event.id(), FailureClass::Poison);
                }
            }
            unit_of_work.commit(tx).await.unwrap();
        }
    }

    async fn relay(&self) {
        if self.chance(3) {
            self.outbox.fail_next_of(Operation::Renew, 1, StoreErrorKind::Unavailable);
        }
        // Not transient, so that nothing sleeps on the fake clock: the relay gives the settlement up.
        let lost = [(Operation::Acknowledge, 8), (Operation::Fail, 8), (Operation::Release, 8)];
        for (operation, one_in) in lost {
            if self.chance(one_in) {
                self.outbox.fail_next_of(operation, 1, StoreErrorKind::Refused);
            }
        }
        let stop = StopSignal::new();
        // A relay that could not settle leaves its claim to the reaper.
        let _ = join_all(self.relays.iter().map(|relay| relay.run_once(&stop))).await;
    }

    async fn keep_in_shape(&self) {
        let request = ReapRequest { max_claims: 100, dead_after_expiries: 10, skip_types: Vec::new() };
        self.outbox.reap(&request).await.unwrap();
        for blocked in self.outbox.blocked(100).await.unwrap() {
            assert!(self.outbox.requeue(blocked.head).await.unwrap());
        }
    }

    async fn is_drained(&self) -> bool {
        let open = [
            OutboxEventStatus::Pending,
            OutboxEventStatus::InFlight,
            OutboxEventStatus::Failed,
            OutboxEventStatus::Dead,
        ];
        for status in open {
            let filter = EventFilter { status: Some(status), limit: 1, ..EventFilter::default() };
            if !self.outbox.list(&filter).await.unwrap().events.is_empty() {
                return false;
            }
        }
        true
    }

    fn check(&self) -> DeliveryChecker {
        let checker = DeliveryChecker::new();
        checker.allow_duplicates(DuplicateReason::SettlementLost);
        for event in self.outbox.events() {
            checker.committed(event.aggregate_id.as_str(), event.id, event.sequence.0);
            if event.status != OutboxEventStatus::Published {
                checker.still_open(event.id, event.status);
            }
        }
        for id in self.publisher.confirmed_ids() {
            checker.delivered(id);
        }
        checker
    }
}

async fn live_through_faults(seed: u64) {
    let world = World::new(seed);
    for _ in 0..ROUNDS {
        futures_util::join!(world.append(), world.relay());
        world.clock.advance(Duration::from_secs(7));
        world.keep_in_shape().await;
    }
    for _ in 0..1_000 {
        if world.is_drained().await {
            break;
        }
        world.relay().await;
        world.clock.advance(Duration::from_secs(40));
        world.keep_in_shape().await;
    }
    let report = world.check().report();
    report.assert_clean();
    assert!(report.committed > 500, "{report}");
    assert!(!report.allowed_duplicates.is_empty(), "no settlement was ever lost\n{report}");
    let mut per_aggregate: HashMap<_, u32> = HashMap::new();
    for event in world.outbox.events() {
        *per_aggregate.entry(event.aggregate_id).or_default() += 1;
    }
    assert!(per_aggregate.values().all(|events| *events > 20));
}

#[tokio::test]
async fn what_was_committed_arrives_in_order_through_refusals_lost_settlements_and_expired_leases() {
    for seed in 0..20 {
        live_through_faults(seed).await;
    }
}
