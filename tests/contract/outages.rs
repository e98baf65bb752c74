//! Outages of the broker at the default settings, as long as real ones, in a time that only the test moves.

use std::{sync::Arc, time::Duration};

use app_bootstrap::settings::Settings;
use application_core::{
    outbox::{FailureClass, HolderName, OutboxEventStatus},
    ports::{
        Clock, Destination, EventFilter, NoObserver, OutboxAppendPort, OutboxMaintenancePort, OutboxOperationsPort,
        OutboxStorePort, Random, UnitOfWork,
    },
    usecases::{PublishOutcome, PublishPendingOutboxEventsUseCase, StopSignal},
};
use test_support::{
    checker::DeliveryChecker,
    clock::{FakeClock, SeededRandom},
    fixtures::Events,
    in_memory::{InMemoryOutbox, RecordingPublisher},
};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);
/// A lane waits for the longest pause of the relay that released it, and then perhaps for that of the other one.
const LONGEST_PAUSES: Duration = Duration::from_secs(2 * 30 + 1);

/// Two relays over one outbox; an aggregate's type is the destination of its events.
struct World {
    settings: Settings,
    clock: Arc<FakeClock>,
    outbox: InMemoryOutbox,
    publisher: RecordingPublisher,
    relays: Vec<PublishPendingOutboxEventsUseCase>,
    events: Events,
}

impl World {
    fn new() -> Self {
        let settings = Settings::default();
        let clock = Arc::new(FakeClock::default());
        let outbox = InMemoryOutbox::new(Arc::clone(&clock) as _);
        let publisher = RecordingPublisher::new();
        let random = Arc::new(SeededRandom::new(1));
        let relay = |name: &str| {
            let policy = settings.outbox.publish_policy(HolderName::new(name), settings.confirm_timeout());
            PublishPendingOutboxEventsUseCase::new(
                Arc::new(outbox.clone()) as Arc<dyn OutboxStorePort>,
                Arc::new(publisher.clone()),
                Arc::clone(&clock) as Arc<dyn Clock>,
                Arc::clone(&random) as Arc<dyn Random>,
                Arc::new(NoObserver),
                policy.expect("the defaults are valid"),
            )
        };
        let relays = vec![relay("relay-1"), relay("relay-2")];
        Self { settings, clock, outbox, publisher, relays, events: Events::new() }
    }

    /// One event of each of so many aggregates of a type.
    async fn append(&self, aggregate_type: &str, aggregates: usize) {
        let event = |n: usize| self.events.of(format!("{aggregate_type}-{n}")).aggregate_type(aggregate_type).build();
        let events: Vec<_> = (0..aggregates).map(event).collect();
        let unit_of_work = self.outbox.unit_of_work();
        let mut tx = unit_of_work.begin().await.expect("begun");
        self.outbox.append(&mut tx, &events).await.expect("appended");
        unit_of_work.commit(tx).await.expect("committed");
    }

    /// Lets time pass second by second, in each of which the relays work until they find nothing and the reaper looks.
    async fn pass(&self, time: Duration) {
        for _ in 0..time.as_secs() {
            for relay in &self.relays {
                until_idle(relay).await;
            }
            self.outbox.reap(&self.settings.outbox.reap_request()).await.expect("reaped");
            self.clock.advance(SECOND);
        }
    }

    /// How many of the open events are DEAD, and how many were ever charged with a failure.
    async fn harmed(&self) -> (usize, usize) {
        let mut harmed = (0, 0);
        for status in OutboxEventStatus::STORED {
            let filter = EventFilter { status: Some(status), limit: 1_000, ..EventFilter::default() };
            let events = self.outbox.list(&filter).await.expect("read").events;
            assert!(events.len() < 1_000, "a page holds them all");
            harmed.0 += usize::from(status == OutboxEventStatus::Dead) * events.len();
            harmed.1 += events.iter().filter(|event| event.attempts > 0).count();
        }
        harmed
    }

    fn assert_delivered_in_order_and_once(&self) {
        let checker = DeliveryChecker::new();
        for event in self.outbox.events() {
            checker.committed(event.aggregate_id.as_str(), event.id, event.sequence.0);
            if event.status != OutboxEventStatus::Published {
                checker.still_open(event.id, event.status);
            }
        }
        for id in self.publisher.confirmed_ids() {
            checker.delivered(id);
        }
        checker.report().assert_clean();
    }
}

async fn until_idle(relay: &PublishPendingOutboxEventsUseCase) {
    let mut rounds = 0;
    while let PublishOutcome::Worked { .. } = relay.run_once(&StopSignal::new()).await.expect("a round") {
        rounds += 1;
        assert!(rounds < 100, "the relay finds no rest within one moment");
    }
}

/// Case B59, at its worst: the connection comes and goes, so that relays claim and try again and again.
#[tokio::test]
async fn half_an_hour_without_a_broker_at_the_defaults_charges_no_event_and_everything_flows_afterwards() {
    const AGGREGATES: usize = 10;
    let world = World::new();
    let broker = Destination::new("order");
    world.publisher.break_destination(&broker, FailureClass::Unavailable);
    for _ in 0..30 {
        world.append("order", AGGREGATES).await;
        world.pass(MINUTE).await;
        assert_eq!(world.harmed().await, (0, 0));
    }
    assert!(!world.publisher.sent().is_empty() && world.publisher.confirmed_ids().is_empty());
    world.publisher.heal_destination(&broker);
    world.pass(LONGEST_PAUSES).await;
    assert_eq!(world.publisher.confirmed_ids().len(), 30 * AGGREGATES);
    world.assert_delivered_in_order_and_once();
}

/// Case B60: a full queue rejects, an exchange without a queue returns, one that is gone or forbidden closes the channel.
#[tokio::test]
async fn a_destination_that_takes_nothing_for_minutes_makes_no_event_dead_and_others_flow_meanwhile() {
    const EACH_TIME: usize = 5;
    for class in [FailureClass::Rejected, FailureClass::Unroutable, FailureClass::Unavailable] {
        // A lone event is the one that two relays could charge to its death before either of them has seen enough.
        for waiting in [1, 20] {
            let world = World::new();
            let closed = Destination::new("closed");
            world.publisher.break_destination(&closed, class);
            world.append("closed", waiting).await;
            for round in 1..=30 {
                world.append("open", EACH_TIME).await;
                world.pass(10 * SECOND).await;
                assert_eq!(world.publisher.confirmed_ids().len(), round * EACH_TIME, "{class}, {waiting} waiting");
                assert_eq!(world.harmed().await.0, 0, "{class}, {waiting} waiting");
            }
            world.publisher.heal_destination(&closed);
            world.pass(LONGEST_PAUSES).await;
            world.assert_delivered_in_order_and_once();
        }
    }
}
