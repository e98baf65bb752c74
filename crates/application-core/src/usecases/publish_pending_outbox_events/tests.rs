//! Unit tests of the publish use case: rules R5, R6, R13, R14, R17 and case O1, against scripted ports.

mod claiming;
mod outages;

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use time::OffsetDateTime;
use tokio::time::Instant;
use uuid::Uuid;

use super::*;
use crate::{
    outbox::{
        AggregateId, AggregateType, BreakerPolicy, ConfirmedRun, DeadHeadPolicy, EventHeaders, EventId, EventType,
        FailedOutcome, FailedRun, FailureClass, HolderName, OutboxBackoffPolicy, OutboxEvent, Payload, PublishFailure,
        Run, Sequence, Settlement,
    },
    ports::{MockMessagePublishPort, MockOutboxObserver, MockOutboxStorePort, NoObserver},
};

const LEASE: Duration = Duration::from_secs(30);
const MARGIN: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_secs(1);

/// The runtime's paused clock, and a way to let time pass without it, as a blocked thread does.
#[derive(Debug)]
struct TestClock {
    start: Instant,
    skipped: Mutex<Duration>,
}

impl TestClock {
    fn new() -> Arc<Self> {
        Arc::new(Self { start: Instant::now(), skipped: Mutex::default() })
    }

    fn skip(&self, time: Duration) {
        *self.skipped.lock().unwrap() += time;
    }
}

#[async_trait]
impl Clock for TestClock {
    fn now(&self) -> OffsetDateTime {
        OffsetDateTime::UNIX_EPOCH + self.monotonic()
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed() + *self.skipped.lock().unwrap()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// Counts up, so that tokens differ, in the low bits, so that every unit draw is close to zero.
#[derive(Debug, Default)]
struct Counting(Mutex<u64>);

impl Random for Counting {
    fn next_u64(&self) -> u64 {
        let mut last = self.0.lock().unwrap();
        *last += 1;
        *last
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    Sent(EventId),
    Answered(EventId),
}

/// A broker that confirms after a millisecond, unless it was told otherwise. An aggregate's type is its destination.
#[derive(Debug, Default)]
struct Broker {
    refusals: Mutex<HashMap<EventId, VecDeque<FailureClass>>>,
    slow: Mutex<HashMap<EventId, Duration>>,
    moments: Mutex<Vec<Moment>>,
    stop_at: Mutex<Option<(EventId, StopSignal)>>,
}

impl Broker {
    fn refuse(self: &Arc<Self>, event: &OutboxEvent, class: FailureClass) -> Arc<Self> {
        self.refusals.lock().unwrap().entry(event.id).or_default().push_back(class);
        Arc::clone(self)
    }

    fn delay(self: &Arc<Self>, event: &OutboxEvent, time: Duration) -> Arc<Self> {
        self.slow.lock().unwrap().insert(event.id, time);
        Arc::clone(self)
    }

    fn stop_while_sending(self: &Arc<Self>, event: &OutboxEvent, stop: &StopSignal) -> Arc<Self> {
        *self.stop_at.lock().unwrap() = Some((event.id, stop.clone()));
        Arc::clone(self)
    }

    fn moments(&self) -> Vec<Moment> {
        self.moments.lock().unwrap().clone()
    }

    fn sent(&self) -> Vec<EventId> {
        self.moments().into_iter().filter_map(|m| if let Moment::Sent(id) = m { Some(id) } else { None }).collect()
    }
}

#[async_trait]
impl MessagePublishPort for Broker {
    fn availability(&self) -> Availability {
        Availability::Available
    }

    fn destination(&self, event: &OutboxEvent) -> Result<Destination, PublishFailure> {
        Ok(Destination::new(event.aggregate_type.as_str()))
    }

    async fn publish(&self, event: &OutboxEvent) -> Result<(), PublishFailure> {
        self.moments.lock().unwrap().push(Moment::Sent(event.id));
        let stop = self.stop_at.lock().unwrap().take_if(|(id, _)| *id == event.id);
        if let Some((_, stop)) = stop {
            stop.set();
        }
        let time = self.slow.lock().unwrap().get(&event.id).copied().unwrap_or(Duration::from_millis(1));
        tokio::time::sleep(time).await;
        self.moments.lock().unwrap().push(Moment::Answered(event.id));
        match self.refusals.lock().unwrap().get_mut(&event.id).and_then(VecDeque::pop_front) {
            Some(class) => Err(PublishFailure::new(class, "says the broker")),
            None => Ok(()),
        }
    }
}

fn event(aggregate_type: &str, lane: i64, nth: i64) -> OutboxEvent {
    let number = lane * 1_000 + nth;
    OutboxEvent {
        id: EventId::new(Uuid::from_u128(number.unsigned_abs().into())),
        sequence: Sequence(number),
        aggregate_type: AggregateType::try_new(aggregate_type).unwrap(),
        aggregate_id: AggregateId::try_new(format!("aggregate-{lane}")).unwrap(),
        event_type: EventType::try_new("Happened").unwrap(),
        payload: Payload::try_new("{}").unwrap(),
        headers: EventHeaders::default(),
        attempts: 0,
        replays: 0,
        created_at: OffsetDateTime::UNIX_EPOCH,
        age_at_claim: Duration::from_secs(5),
    }
}

/// A run of `events` events of the aggregate type `orders`, which is also their destination.
fn run(lane: i64, events: i64) -> Run {
    run_of("orders", lane, events)
}

fn run_of(aggregate_type: &str, lane: i64, events: i64) -> Run {
    Run { lane: LaneId(lane), events: (1..=events).map(|nth| event(aggregate_type, lane, nth)).collect() }
}

fn attempted(mut run: Run, attempts: u32) -> Run {
    run.events[0].attempts = attempts;
    run
}

/// The first `confirmed` events of a run as a settlement names them.
fn start_of(run: &Run, confirmed: usize) -> ConfirmedRun {
    ConfirmedRun { lane: run.lane, confirmed: run.events[..confirmed].iter().map(|event| event.id).collect() }
}

fn sorted<T: Clone>(runs: &[T], lane: impl Fn(&T) -> LaneId) -> Vec<T> {
    let mut runs = runs.to_vec();
    runs.sort_by_key(lane);
    runs
}

fn all_done(runs: usize) -> Settlement {
    Settlement { freed: runs.try_into().unwrap(), ..Settlement::default() }
}

fn refused_by_database() -> StoreError {
    StoreError::Refused { source: "a constraint".into() }
}

fn database_gone() -> StoreError {
    StoreError::Unavailable { source: "connection reset".into() }
}

/// A store that hands out the runs in one claim, and expects nothing else yet.
fn store_with(runs: &[Run]) -> MockOutboxStorePort {
    let runs = runs.to_vec();
    let mut store = MockOutboxStorePort::new();
    store.expect_claim().times(1).return_once(|_| Ok(runs));
    store
}

fn expect_acknowledge(store: &mut MockOutboxStorePort, expected: Vec<ConfirmedRun>) {
    store
        .expect_acknowledge()
        .withf(move |_, runs| sorted(runs, |run| run.lane) == expected)
        .times(1)
        .returning(|_, runs| Ok(all_done(runs.len())));
}

fn expect_release(store: &mut MockOutboxStorePort, expected: Vec<ConfirmedRun>, delay: Duration) {
    store
        .expect_release()
        .withf(move |_, runs, wait| sorted(runs, |run| run.lane) == expected && *wait == delay)
        .times(1)
        .returning(|_, runs, _| Ok(all_done(runs.len())));
}

fn expect_fail(store: &mut MockOutboxStorePort, expected: Vec<FailedRun>) {
    store
        .expect_fail()
        .withf(move |_, runs| sorted(runs, |run| run.run.lane) == expected)
        .times(1)
        .returning(|_, runs| Ok(all_done(runs.len())));
}

fn failed(run: &Run, confirmed: usize, outcome: FailedOutcome, class: FailureClass) -> FailedRun {
    FailedRun {
        run: start_of(run, confirmed),
        failed: run.events[confirmed].id,
        outcome,
        error: format!("{class}: says the broker"),
    }
}

/// The wait after a failure: the draws of [`Counting`] are near zero, so it is the backoff's floor.
fn retry() -> FailedOutcome {
    FailedOutcome::Retry { after: PAUSE }
}

fn policy() -> PublishPolicy {
    PublishPolicy {
        lease: LEASE,
        send_margin: MARGIN,
        breaker: BreakerPolicy { failures_in_a_row: 3, first_pause: PAUSE, longest_pause: 8 * PAUSE },
        backoff: OutboxBackoffPolicy::try_new(PAUSE, PAUSE, PAUSE, 3).unwrap(),
        ..PublishPolicy::of(HolderName::new("relay-1"))
    }
}

fn relay(
    store: MockOutboxStorePort,
    publisher: Arc<impl MessagePublishPort + 'static>,
    policy: PublishPolicy,
) -> PublishPendingOutboxEventsUseCase {
    observed_relay(store, publisher, policy, TestClock::new(), Arc::new(NoObserver))
}

fn observed_relay(
    store: MockOutboxStorePort,
    publisher: Arc<impl MessagePublishPort + 'static>,
    policy: PublishPolicy,
    clock: Arc<TestClock>,
    observer: Arc<dyn OutboxObserver>,
) -> PublishPendingOutboxEventsUseCase {
    PublishPendingOutboxEventsUseCase::new(
        Arc::new(store),
        publisher,
        clock,
        Arc::new(Counting::default()),
        observer,
        policy,
    )
}

async fn round(relay: &PublishPendingOutboxEventsUseCase) -> PublishOutcome {
    relay.run_once(&StopSignal::new()).await.expect("the round should succeed")
}

fn worked(claimed: usize, confirmed: usize) -> PublishOutcome {
    PublishOutcome::Worked { claimed, confirmed, postponed: 0 }
}

mod sending {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn events_of_a_run_are_sent_one_after_the_other() {
        let run = run(1, 3);
        let mut store = store_with(std::slice::from_ref(&run));
        expect_acknowledge(&mut store, vec![start_of(&run, 3)]);
        let broker = Arc::new(Broker::default());
        assert_eq!(round(&relay(store, Arc::clone(&broker), policy())).await, worked(3, 3));
        let expected: Vec<_> =
            run.events.iter().flat_map(|event| [Moment::Sent(event.id), Moment::Answered(event.id)]).collect();
        assert_eq!(broker.moments(), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_behind_a_refused_event_is_sent_and_only_the_confirmed_start_is_settled() {
        let (refused, other) = (run(1, 3), run(2, 1));
        let mut store = store_with(&[refused.clone(), other.clone()]);
        expect_acknowledge(&mut store, vec![start_of(&other, 1)]);
        expect_fail(&mut store, vec![failed(&refused, 1, retry(), FailureClass::Unroutable)]);
        let broker = Arc::new(Broker::default()).refuse(&refused.events[1], FailureClass::Unroutable);
        assert_eq!(round(&relay(store, Arc::clone(&broker), policy())).await, worked(4, 2));
        assert!(!broker.sent().contains(&refused.events[2].id), "it would overtake the one before it");
    }

    #[tokio::test(start_paused = true)]
    async fn different_runs_overlap() {
        let runs = [run(1, 1), run(2, 1), run(3, 1)];
        let mut store = store_with(&runs);
        expect_acknowledge(&mut store, runs.iter().map(|run| start_of(run, 1)).collect());
        let broker = Arc::new(Broker::default());
        round(&relay(store, Arc::clone(&broker), policy())).await;
        assert!(broker.moments()[..3].iter().all(|moment| matches!(moment, Moment::Sent(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_runs_overlap_than_the_window_holds() {
        let runs = [run(1, 1), run(2, 1), run(3, 1)];
        let mut store = store_with(&runs);
        expect_acknowledge(&mut store, runs.iter().map(|run| start_of(run, 1)).collect());
        let broker = Arc::new(Broker::default());
        round(&relay(store, Arc::clone(&broker), PublishPolicy { window: 2, ..policy() })).await;
        assert!(matches!(broker.moments()[..3], [Moment::Sent(_), Moment::Sent(_), Moment::Answered(_)]));
    }

    #[tokio::test(start_paused = true)]
    async fn pipelining_sends_a_run_at_once_and_acknowledges_its_confirmed_start_alone() {
        let (whole, partial) = (run(1, 3), run(2, 3));
        let mut store = store_with(&[whole.clone(), partial.clone()]);
        expect_acknowledge(&mut store, vec![start_of(&whole, 3)]);
        expect_fail(&mut store, vec![failed(&partial, 1, retry(), FailureClass::Rejected)]);
        let broker = Arc::new(Broker::default()).refuse(&partial.events[1], FailureClass::Rejected);
        let policy = PublishPolicy { pipelining_may_reorder_within_aggregate: true, ..policy() };
        assert_eq!(round(&relay(store, Arc::clone(&broker), policy)).await, worked(6, 4));
        assert_eq!(broker.sent().len(), 6);
        assert!(broker.moments()[..6].iter().all(|moment| matches!(moment, Moment::Sent(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_claimed_while_nothing_can_be_published() {
        let reason = "blocked by the broker".to_owned();
        for (availability, outcome) in [
            (Availability::Unavailable { reason: reason.clone() }, PublishOutcome::Unavailable { reason }),
            (Availability::Disabled, PublishOutcome::Disabled),
        ] {
            let mut publisher = MockMessagePublishPort::new();
            publisher.expect_availability().times(1).return_const(availability);
            let mut store = MockOutboxStorePort::new();
            store.expect_claim().never();
            let relay = relay(store, Arc::new(publisher), policy());
            assert_eq!(round(&relay).await, outcome);
            let told: Vec<_> = relay.paused().into_iter().map(|paused| (paused.destination, paused.reason)).collect();
            match outcome {
                PublishOutcome::Unavailable { reason } => assert_eq!(told, [(None, reason)]),
                _ => assert_eq!(told, []),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_round_without_due_events_settles_nothing() {
        let store = store_with(&[]);
        assert_eq!(round(&relay(store, Arc::new(Broker::default()), policy())).await, PublishOutcome::Idle);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_signal_ends_a_run_after_the_send_in_flight_and_gives_the_rest_back() {
        let (stopped, behind) = (run(1, 3), run(2, 2));
        let mut store = store_with(&[stopped.clone(), behind.clone()]);
        expect_release(&mut store, vec![start_of(&stopped, 2), start_of(&behind, 0)], Duration::ZERO);
        let stop = StopSignal::new();
        let broker = Arc::new(Broker::default()).stop_while_sending(&stopped.events[1], &stop);
        let relay = relay(store, Arc::clone(&broker), PublishPolicy { window: 1, ..policy() });
        assert_eq!(relay.run_once(&stop).await.unwrap(), worked(5, 2));
        assert_eq!(broker.sent().len(), 2);
    }
}

mod failing {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_refusal_among_confirms_is_charged_to_the_event_whatever_the_class() {
        for class in [FailureClass::Rejected, FailureClass::Unroutable] {
            let (refused, good) = (run(1, 2), run(2, 1));
            let mut store = store_with(&[refused.clone(), good.clone()]);
            expect_acknowledge(&mut store, vec![start_of(&good, 1)]);
            expect_fail(&mut store, vec![failed(&refused, 0, retry(), class)]);
            let broker = Arc::new(Broker::default()).refuse(&refused.events[0], class);
            assert_eq!(round(&relay(store, broker, policy())).await, worked(3, 1));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_destination_that_refuses_everything_is_paused_and_no_event_is_charged() {
        let refused = [run(1, 2), run(2, 1), run(3, 1)];
        let elsewhere = run_of("invoices", 4, 1);
        let broker = Arc::new(Broker::default());
        for run in &refused {
            broker.refuse(&run.events[0], FailureClass::Rejected);
        }
        let mut store = store_with(&[&refused[..], std::slice::from_ref(&elsewhere)].concat());
        expect_acknowledge(&mut store, vec![start_of(&elsewhere, 1)]);
        expect_release(&mut store, refused.iter().map(|run| start_of(run, 0)).collect(), PAUSE);
        assert_eq!(round(&relay(store, broker, policy())).await, worked(5, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn an_unavailable_destination_charges_nobody_and_is_sent_nothing_more() {
        let (down, behind, elsewhere) = (run(1, 2), run(2, 1), run_of("invoices", 3, 1));
        let mut store = store_with(&[down.clone(), behind.clone(), elsewhere.clone()]);
        expect_acknowledge(&mut store, vec![start_of(&elsewhere, 1)]);
        expect_release(&mut store, vec![start_of(&down, 0), start_of(&behind, 0)], PAUSE);
        let broker = Arc::new(Broker::default()).refuse(&down.events[0], FailureClass::Unavailable);
        let policy = PublishPolicy { window: 1, ..policy() };
        assert_eq!(round(&relay(store, Arc::clone(&broker), policy)).await, worked(4, 1));
        assert_eq!(broker.sent(), [down.events[0].id, elsewhere.events[0].id]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_paused_destination_gets_one_probe_after_its_pause_and_the_pause_grows_while_probes_fail() {
        let runs = [run(1, 1), run(2, 1)];
        let clock = TestClock::new();
        let broker = Arc::new(Broker::default());
        broker.refuse(&runs[0].events[0], FailureClass::Unavailable);
        broker.refuse(&runs[1].events[0], FailureClass::Unavailable);
        broker.refuse(&runs[0].events[0], FailureClass::Unavailable);
        let delays = Arc::new(Mutex::new(Vec::new()));
        let mut store = MockOutboxStorePort::new();
        let handed_out = runs.to_vec();
        store.expect_claim().times(4).returning(move |_| Ok(handed_out.clone()));
        let log = Arc::clone(&delays);
        store.expect_release().returning(move |_, runs, delay| {
            log.lock().unwrap().push((runs.len(), delay));
            Ok(all_done(runs.len()))
        });
        expect_acknowledge(&mut store, runs.iter().map(|run| start_of(run, 1)).collect());
        let policy = PublishPolicy { window: 1, ..policy() };
        let relay = observed_relay(store, Arc::clone(&broker) as _, policy, Arc::clone(&clock), Arc::new(NoObserver));
        round_with_sends(&relay, &broker, 1).await;
        clock.skip(Duration::from_millis(900));
        round_with_sends(&relay, &broker, 0).await;
        clock.skip(Duration::from_millis(100));
        // The probe: either has a refusal to come.
        round_with_sends(&relay, &broker, 1).await;
        clock.skip(2 * PAUSE);
        broker.refusals.lock().unwrap().clear();
        round_with_sends(&relay, &broker, 2).await;
        let delays = delays.lock().unwrap();
        assert_eq!(*delays, [(2, PAUSE), (2, Duration::from_millis(100)), (2, 2 * PAUSE)]);
    }

    async fn round_with_sends(relay: &PublishPendingOutboxEventsUseCase, broker: &Broker, sends: usize) {
        let before = broker.sent().len();
        round(relay).await;
        assert_eq!(broker.sent().len() - before, sends);
    }

    #[tokio::test(start_paused = true)]
    async fn what_waited_for_a_probe_that_succeeds_is_due_at_once() {
        let runs = [run(1, 1), run(2, 1)];
        let broker = Arc::new(Broker::default());
        let mut store = MockOutboxStorePort::new();
        let handed_out = runs.to_vec();
        store.expect_claim().times(2).returning(move |_| Ok(handed_out.clone()));
        for run in &runs {
            broker.refuse(&run.events[0], FailureClass::Unavailable);
        }
        expect_release(&mut store, runs.iter().map(|run| start_of(run, 0)).collect(), PAUSE);
        // The run that the probe is taken from is drawn.
        expect_acknowledge(&mut store, vec![start_of(&runs[1], 1)]);
        expect_release(&mut store, vec![start_of(&runs[0], 0)], Duration::ZERO);
        let clock = TestClock::new();
        let relay = observed_relay(store, broker, policy(), Arc::clone(&clock), Arc::new(NoObserver));
        assert_eq!(round(&relay).await, worked(2, 0));
        clock.skip(PAUSE);
        assert_eq!(round(&relay).await, worked(2, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn poison_dies_at_its_first_attempt_by_the_policy_of_its_type() {
        for (policy_of_type, outcome) in
            [(DeadHeadPolicy::Block, FailedOutcome::Block), (DeadHeadPolicy::Skip, FailedOutcome::Skip)]
        {
            let poisoned = run(1, 2);
            let mut store = store_with(std::slice::from_ref(&poisoned));
            expect_fail(&mut store, vec![failed(&poisoned, 0, outcome, FailureClass::Poison)]);
            let broker = Arc::new(Broker::default()).refuse(&poisoned.events[0], FailureClass::Poison);
            let dead_head_of = HashMap::from([(AggregateType::try_new("orders").unwrap(), policy_of_type)]);
            round(&relay(store, broker, PublishPolicy { dead_head_of, ..policy() })).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_that_no_route_takes_dies_without_being_sent() {
        let unrouted = run(1, 1);
        let mut publisher = MockMessagePublishPort::new();
        publisher.expect_availability().return_const(Availability::Available);
        publisher.expect_destination().returning(|_| Err(PublishFailure::new(FailureClass::Poison, "says the broker")));
        publisher.expect_publish().never();
        let mut store = store_with(std::slice::from_ref(&unrouted));
        expect_fail(&mut store, vec![failed(&unrouted, 0, FailedOutcome::Block, FailureClass::Poison)]);
        round(&relay(store, Arc::new(publisher), policy())).await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_attempt_makes_an_event_dead_and_no_earlier_one_does() {
        let runs = [attempted(run(1, 1), 1), attempted(run(2, 1), 2), run(3, 1)];
        let broker = Arc::new(Broker::default());
        broker.refuse(&runs[0].events[0], FailureClass::Rejected);
        broker.refuse(&runs[1].events[0], FailureClass::Rejected);
        let mut store = store_with(&runs);
        expect_acknowledge(&mut store, vec![start_of(&runs[2], 1)]);
        let expected = vec![
            failed(&runs[0], 0, retry(), FailureClass::Rejected),
            failed(&runs[1], 0, FailedOutcome::Block, FailureClass::Rejected),
        ];
        expect_fail(&mut store, expected);
        let mut observer = MockOutboxObserver::new();
        let died = OutboxSignal::Died { class: FailureClass::Rejected, events: 1 };
        observer.expect_observe().withf(move |signal| *signal == died).times(1).return_const(());
        observer.expect_observe().withf(|signal| !matches!(signal, OutboxSignal::Died { .. })).return_const(());
        round(&observed_relay(store, broker, policy(), TestClock::new(), Arc::new(observer))).await;
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_dies_of_refusals_only_beside_others_that_are_confirmed() {
        for class in [FailureClass::Rejected, FailureClass::Unroutable] {
            // Two attempts were charged by other processes; this one has seen nothing yet.
            let (last, elsewhere) = (attempted(run(1, 2), 2), run_of("invoices", 2, 1));
            let mut store = store_with(&[last.clone(), elsewhere.clone()]);
            expect_acknowledge(&mut store, vec![start_of(&elsewhere, 1)]);
            expect_release(&mut store, vec![start_of(&last, 0)], PAUSE);
            let broker = Arc::new(Broker::default()).refuse(&last.events[0], class);
            assert_eq!(round(&relay(store, broker, policy())).await, worked(3, 1));

            let beside = run(3, 1);
            let mut store = store_with(&[last.clone(), beside.clone()]);
            expect_acknowledge(&mut store, vec![start_of(&beside, 1)]);
            expect_fail(&mut store, vec![failed(&last, 0, FailedOutcome::Block, class)]);
            let broker = Arc::new(Broker::default()).refuse(&last.events[0], class);
            assert_eq!(round(&relay(store, broker, policy())).await, worked(3, 1));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_that_is_refused_each_time_is_not_the_probe_each_time() {
        let (refused, good) = (run(1, 1), run(2, 1));
        let broker = Arc::new(Broker::default());
        for _ in 0..10 {
            broker.refuse(&refused.events[0], FailureClass::Unroutable);
        }
        broker.refuse(&good.events[0], FailureClass::Unavailable);
        let mut store = MockOutboxStorePort::new();
        let handed_out = vec![refused.clone(), good.clone()];
        store.expect_claim().returning(move |_| Ok(handed_out.clone()));
        store.expect_release().returning(|_, runs, _| Ok(all_done(runs.len())));
        store.expect_fail().returning(|_, runs| Ok(all_done(runs.len())));
        expect_acknowledge(&mut store, vec![start_of(&good, 1)]);
        let clock = TestClock::new();
        let relay = observed_relay(store, Arc::clone(&broker) as _, policy(), Arc::clone(&clock), Arc::new(NoObserver));
        let mut rounds = 0;
        while round(&relay).await != worked(2, 1) {
            rounds += 1;
            assert!(rounds < 10, "the good event was never the probe: {:?}", broker.sent());
            clock.skip(8 * PAUSE);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_breaker_that_opens_and_closes_is_reported_once_each_time() {
        let down = run(1, 1);
        let mut store = MockOutboxStorePort::new();
        let handed_out = down.clone();
        store.expect_claim().times(2).returning(move |_| Ok(vec![handed_out.clone()]));
        expect_release(&mut store, vec![start_of(&down, 0)], PAUSE);
        expect_acknowledge(&mut store, vec![start_of(&down, 1)]);
        let changes = Arc::new(Mutex::new(Vec::new()));
        let mut observer = MockOutboxObserver::new();
        let log = Arc::clone(&changes);
        observer.expect_observe().returning(move |signal| {
            if let OutboxSignal::BreakerChanged { destination, open } = signal {
                log.lock().unwrap().push((destination.to_string(), *open));
            }
        });
        let broker = Arc::new(Broker::default()).refuse(&down.events[0], FailureClass::Unavailable);
        let clock = TestClock::new();
        let relay = observed_relay(store, broker, policy(), Arc::clone(&clock), Arc::new(observer));
        round(&relay).await;
        clock.skip(PAUSE);
        let paused = relay.paused();
        let told: Vec<_> =
            paused.iter().map(|p| (p.destination.as_ref().map(Destination::as_str), &*p.reason)).collect();
        assert_eq!(told, [(Some("orders"), "unavailable: says the broker")]);
        assert!(paused[0].paused_for >= PAUSE, "{paused:?}");
        round(&relay).await;
        assert_eq!(relay.paused(), []);
        assert_eq!(*changes.lock().unwrap(), [("orders".to_owned(), true), ("orders".to_owned(), false)]);
    }
}

mod leasing {
    use super::*;

    /// Every event takes so long that a run of ten outlasts several leases.
    const SLOW: Duration = Duration::from_secs(9);

    fn slow_broker(run: &Run) -> Arc<Broker> {
        let broker = Arc::new(Broker::default());
        for event in &run.events {
            broker.delay(event, SLOW);
        }
        broker
    }

    #[tokio::test(start_paused = true)]
    async fn the_lease_is_renewed_at_half_time_even_inside_one_long_run() {
        let long = run(1, 10);
        let mut store = store_with(std::slice::from_ref(&long));
        let clock = TestClock::new();
        let renewals = Arc::new(Mutex::new(Vec::new()));
        let (calls, seen) = (Arc::clone(&renewals), Arc::clone(&clock));
        store.expect_renew().returning(move |_, lease| {
            calls.lock().unwrap().push((seen.monotonic().as_secs(), lease));
            Ok(true)
        });
        expect_acknowledge(&mut store, vec![start_of(&long, 10)]);
        let relay = observed_relay(store, slow_broker(&long), policy(), clock, Arc::new(NoObserver));
        assert_eq!(round(&relay).await, worked(10, 10));
        let halves = [15, 30, 45, 60, 75].map(|second| (second, LEASE));
        assert_eq!(*renewals.lock().unwrap(), halves);
    }

    #[tokio::test(start_paused = true)]
    async fn a_round_that_ends_before_half_time_renews_nothing() {
        let short = run(1, 1);
        let mut store = store_with(std::slice::from_ref(&short));
        store.expect_renew().never();
        expect_acknowledge(&mut store, vec![start_of(&short, 1)]);
        assert_eq!(round(&relay(store, slow_broker(&short), policy())).await, worked(1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_sent_within_the_margin_before_the_lease_ends() {
        let long = run(1, 10);
        let mut store = store_with(std::slice::from_ref(&long));
        store.expect_renew().returning(|_, _| Err(database_gone()));
        // Sends begin at 0, 9 and 18 s; the next would begin at 27 s, and the last moment is 20 s.
        expect_release(&mut store, vec![start_of(&long, 3)], Duration::ZERO);
        assert_eq!(round(&relay(store, slow_broker(&long), policy())).await, worked(10, 3));
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_that_failed_is_tried_again_and_saves_the_rest() {
        let long = run(1, 4);
        let mut store = store_with(std::slice::from_ref(&long));
        store.expect_renew().times(1).return_once(|_, _| Err(database_gone()));
        store.expect_renew().returning(|_, _| Ok(true));
        expect_acknowledge(&mut store, vec![start_of(&long, 4)]);
        assert_eq!(round(&relay(store, slow_broker(&long), policy())).await, worked(4, 4));
    }

    #[tokio::test(start_paused = true)]
    async fn the_deadline_counts_from_before_the_claim_was_sent() {
        let late = run(1, 1);
        let clock = TestClock::new();
        let mut store = MockOutboxStorePort::new();
        let (handed_out, seen) = (late.clone(), Arc::clone(&clock));
        store.expect_claim().times(1).return_once(move |_| {
            seen.skip(LEASE.saturating_sub(MARGIN));
            Ok(vec![handed_out])
        });
        store.expect_renew().returning(|_, _| Err(database_gone()));
        expect_release(&mut store, vec![start_of(&late, 0)], Duration::ZERO);
        let relay = observed_relay(store, Arc::new(Broker::default()), policy(), clock, Arc::new(NoObserver));
        assert_eq!(round(&relay).await, worked(1, 0));
    }

    /// Case L22: time passes and no timer fires, as when the threads of the runtime stand still.
    #[tokio::test(start_paused = true)]
    async fn threads_that_stand_still_until_the_lease_may_be_over_send_nothing_more() {
        let run = run(1, 3);
        let mut store = store_with(std::slice::from_ref(&run));
        expect_release(&mut store, vec![start_of(&run, 1)], Duration::ZERO);
        let clock = TestClock::new();
        let still = Arc::clone(&clock);
        let mut publisher = MockMessagePublishPort::new();
        publisher.expect_availability().return_const(Availability::Available);
        publisher.expect_destination().returning(|_| Ok(Destination::new("orders")));
        publisher.expect_publish().times(1).returning(move |_| {
            still.skip(LEASE.saturating_sub(MARGIN));
            Ok(())
        });
        let relay = observed_relay(store, Arc::new(publisher), policy(), clock, Arc::new(NoObserver));
        assert_eq!(round(&relay).await, worked(3, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_claim_that_is_gone_is_sent_no_further() {
        let long = run(1, 4);
        let mut store = store_with(std::slice::from_ref(&long));
        store.expect_renew().times(1).return_once(|_, _| Ok(false));
        let expected = start_of(&long, 2);
        store
            .expect_release()
            .withf(move |_, runs, _| runs == [expected.clone()])
            .times(1)
            .return_once(|_, _, _| Ok(Settlement { stale: true, ..Settlement::default() }));
        let broker = slow_broker(&long);
        assert_eq!(round(&relay(store, Arc::clone(&broker), policy())).await, worked(4, 2));
        assert_eq!(broker.sent().len(), 2, "the second was in flight when the renewal was refused");
    }
}

mod settling {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_settlement_after_the_lease_is_counted_as_stale() {
        let late = run(1, 1);
        let mut store = store_with(std::slice::from_ref(&late));
        store.expect_acknowledge().times(1).return_once(|_, _| Ok(Settlement { stale: true, ..Settlement::default() }));
        let mut observer = MockOutboxObserver::new();
        observer.expect_observe().withf(|signal| *signal == OutboxSignal::Stale { runs: 1 }).times(1).return_const(());
        observer.expect_observe().withf(|signal| matches!(signal, OutboxSignal::Settled { .. })).never();
        observer.expect_observe().return_const(());
        let broker = Arc::new(Broker::default());
        round(&observed_relay(store, broker, policy(), TestClock::new(), Arc::new(observer))).await;
    }

    /// One event that is refused for the last time, its failure answered like this: how often it was told DEAD.
    async fn deaths_told(answer: Result<Settlement, StoreError>) -> usize {
        let last = attempted(run(1, 1), 2);
        let mut store = store_with(&[last.clone(), run(2, 1)]);
        store.expect_acknowledge().returning(|_, _| Ok(Settlement::default()));
        let told = Arc::new(Mutex::new(0));
        let before_the_answer = Arc::clone(&told);
        store.expect_fail().times(1).return_once(move |_, _| {
            assert_eq!(*before_the_answer.lock().unwrap(), 0, "nothing is told before the store has answered");
            answer
        });
        let mut observer = MockOutboxObserver::new();
        let counted = Arc::clone(&told);
        observer.expect_observe().returning(move |signal| {
            if let OutboxSignal::Died { events, .. } = signal {
                *counted.lock().unwrap() += events;
            }
        });
        let broker = Arc::new(Broker::default()).refuse(&last.events[0], FailureClass::Rejected);
        let relay = observed_relay(store, broker, policy(), TestClock::new(), Arc::new(observer));
        let _answered_or_refused = relay.run_once(&StopSignal::new()).await;
        *told.lock().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_is_told_dead_only_when_the_store_has_accepted_it() {
        assert_eq!(deaths_told(Ok(Settlement { events: 1, freed: 1, ..Settlement::default() })).await, 1);
        assert_eq!(deaths_told(Ok(Settlement { stale: true, ..Settlement::default() })).await, 0);
        assert_eq!(deaths_told(Err(StoreError::Refused { source: "no".into() })).await, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_settlement_is_written_again_after_transient_errors() {
        let one = run(1, 1);
        let mut store = store_with(std::slice::from_ref(&one));
        store.expect_acknowledge().times(3).returning(|_, _| Err(database_gone()));
        expect_acknowledge(&mut store, vec![start_of(&one, 1)]);
        assert_eq!(round(&relay(store, Arc::new(Broker::default()), policy())).await, worked(1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_settlement_is_given_up_when_the_lease_ends() {
        let one = run(1, 1);
        let mut store = store_with(std::slice::from_ref(&one));
        store.expect_acknowledge().times(2..).returning(|_, _| Err(database_gone()));
        let clock = TestClock::new();
        let broker = Arc::new(Broker::default());
        let relay = observed_relay(store, broker, policy(), Arc::clone(&clock) as _, Arc::new(NoObserver));
        let error = relay.run_once(&StopSignal::new()).await.expect_err("never written");
        assert!(error.is_transient());
        assert!(clock.monotonic() < LEASE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_settlement_that_the_database_refuses_is_not_repeated_and_does_not_keep_others_from_being_written() {
        let (good, refused, pausing) = (run(1, 1), run(2, 1), run_of("invoices", 3, 1));
        let mut store = store_with(&[good.clone(), refused.clone(), pausing.clone()]);
        store.expect_acknowledge().times(1).return_once(|_, _| Err(refused_by_database()));
        expect_fail(&mut store, vec![failed(&refused, 0, retry(), FailureClass::Rejected)]);
        expect_release(&mut store, vec![start_of(&pausing, 0)], PAUSE);
        let broker = Arc::new(Broker::default());
        broker.refuse(&refused.events[0], FailureClass::Rejected);
        broker.refuse(&pausing.events[0], FailureClass::Unavailable);
        let error = relay(store, broker, policy()).run_once(&StopSignal::new()).await;
        assert!(matches!(error, Err(StoreError::Refused { .. })));
    }

    #[tokio::test(start_paused = true)]
    async fn every_settlement_of_a_claim_carries_its_token() {
        let runs = [run(1, 1), run(2, 1), run_of("invoices", 3, 1)];
        let tokens = Arc::new(Mutex::new(Vec::new()));
        let log = |tokens: &Arc<Mutex<Vec<LeaseToken>>>, token| tokens.lock().unwrap().push(token);
        let mut store = MockOutboxStorePort::new();
        let (seen, handed_out) = (Arc::clone(&tokens), runs.to_vec());
        store.expect_claim().times(1).return_once(move |request| {
            log(&seen, request.token);
            Ok(handed_out)
        });
        let seen = Arc::clone(&tokens);
        store.expect_acknowledge().times(1).return_once(move |token, _| {
            log(&seen, token);
            Ok(all_done(1))
        });
        let seen = Arc::clone(&tokens);
        store.expect_fail().times(1).return_once(move |token, _| {
            log(&seen, token);
            Ok(all_done(1))
        });
        let seen = Arc::clone(&tokens);
        store.expect_release().times(1).return_once(move |token, _, _| {
            log(&seen, token);
            Ok(all_done(1))
        });
        let broker = Arc::new(Broker::default());
        broker.refuse(&runs[1].events[0], FailureClass::Rejected);
        broker.refuse(&runs[2].events[0], FailureClass::Unavailable);
        round(&relay(store, broker, policy())).await;
        let tokens = tokens.lock().unwrap();
        assert_eq!(*tokens, vec![tokens[0]; 4]);
    }

    #[tokio::test(start_paused = true)]
    async fn postponed_lanes_are_freed_by_the_next_round_and_kept_while_the_database_is_away() {
        let held = run(1, 1);
        let mut store = MockOutboxStorePort::new();
        let handed_out = held.clone();
        store.expect_claim().times(1).return_once(|_| Ok(vec![handed_out]));
        store.expect_claim().returning(|_| Ok(Vec::new()));
        let confirmed = start_of(&held, 1);
        store
            .expect_acknowledge()
            .withf(move |_, runs| runs == [confirmed.clone()])
            .times(1)
            .return_once(|_, _| Ok(Settlement { events: 1, postponed: vec![LaneId(1)], ..Settlement::default() }));
        let freeing = start_of(&held, 0);
        let mut answers = VecDeque::from([
            Err(database_gone()),
            Ok(Settlement { postponed: vec![LaneId(1)], ..Settlement::default() }),
            Ok(all_done(1)),
        ]);
        store
            .expect_acknowledge()
            .withf(move |_, runs| runs == [freeing.clone()])
            .times(3)
            .returning(move |_, _| answers.pop_front().expect("three tries"));
        let relay = relay(store, Arc::new(Broker::default()), policy());
        assert_eq!(round(&relay).await, PublishOutcome::Worked { claimed: 1, confirmed: 1, postponed: 1 });
        for _ in 0..5 {
            assert_eq!(round(&relay).await, PublishOutcome::Idle);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn postponed_lanes_that_the_reaper_returned_are_forgotten() {
        let held = run(1, 1);
        let mut store = MockOutboxStorePort::new();
        let handed_out = held.clone();
        store.expect_claim().times(1).return_once(|_| Ok(vec![handed_out]));
        store
            .expect_acknowledge()
            .times(1)
            .return_once(|_, _| Ok(Settlement { events: 1, postponed: vec![LaneId(1)], ..Settlement::default() }));
        store.expect_acknowledge().times(1).return_once(|_, _| Ok(Settlement { stale: true, ..Settlement::default() }));
        let relay = relay(store, Arc::new(Broker::default()), policy());
        round(&relay).await;
        relay.free_postponed().await;
        relay.free_postponed().await;
    }

    #[tokio::test(start_paused = true)]
    async fn lag_counts_from_storing_to_confirm_and_a_replay_is_no_lag() {
        let mut replayed = run(2, 1);
        replayed.events[0].replays = 1;
        let runs = [run(1, 1), replayed];
        let mut store = store_with(&runs);
        expect_acknowledge(&mut store, runs.iter().map(|run| start_of(run, 1)).collect());
        let lags = Arc::new(Mutex::new(Vec::new()));
        let mut observer = MockOutboxObserver::new();
        let log = Arc::clone(&lags);
        observer.expect_observe().returning(move |signal| {
            if let OutboxSignal::Confirmed { took, lag } = signal {
                log.lock().unwrap().push((*took, *lag));
            }
        });
        let broker = Arc::new(Broker::default()).delay(&runs[0].events[0], Duration::from_secs(2));
        let relay = observed_relay(store, broker, policy(), TestClock::new(), Arc::new(observer));
        round(&relay).await;
        // Five seconds old when claimed, two seconds until the confirm.
        let (quick, slow) = (Duration::from_millis(1), Duration::from_secs(2));
        assert_eq!(*lags.lock().unwrap(), [(quick, None), (slow, Some(Duration::from_secs(7)))]);
    }
}
