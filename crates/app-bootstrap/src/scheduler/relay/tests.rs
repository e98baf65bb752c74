//! When the relay's workers look for work.

use std::{
    collections::BTreeMap,
    pin::pin,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use application_core::{
    outbox::{
        ClaimRequest, ClaimScope, ConfirmedRun, FailedRun, HolderName, LeaseToken, OutboxEvent, PublishFailure, Run,
        Settlement,
    },
    ports::{
        Availability, DeadGroup, Destination, MessagePublishPort, NoObserver, OutboxStatistics, OutboxStatisticsPort,
        OutboxStorePort, RecentPublishing, WakeupPort,
    },
    usecases::PublishPolicy,
};
use async_trait::async_trait;
use tokio::time::{Instant, timeout};

use super::*;
use crate::clock::SystemClock;

const HOUR: Duration = Duration::from_hours(1);

/// An outbox with nothing to do, which remembers when it was asked.
#[derive(Default)]
struct EmptyOutbox {
    claims: Mutex<Vec<Instant>>,
    claimed: tokio::sync::Notify,
    down: AtomicBool,
}

impl EmptyOutbox {
    fn claims(&self) -> Vec<Instant> {
        self.claims.lock().unwrap().clone()
    }

    async fn until_claimed(&self, times: usize) {
        loop {
            let claimed = self.claimed.notified();
            if self.claims().len() >= times {
                return;
            }
            claimed.await;
        }
    }

    /// The waits between claims.
    fn waits(&self) -> Vec<Duration> {
        self.claims().windows(2).map(|pair| pair[1] - pair[0]).collect()
    }
}

#[async_trait]
impl OutboxStorePort for EmptyOutbox {
    async fn claim(&self, request: &ClaimRequest) -> Result<Vec<Run>, StoreError> {
        if request.scope == ClaimScope::Due {
            self.claims.lock().unwrap().push(Instant::now());
            self.claimed.notify_waiters();
        }
        if self.down.load(Ordering::Relaxed) {
            return Err(StoreError::Timeout { limit: Duration::from_secs(1) });
        }
        Ok(Vec::new())
    }

    async fn acknowledge(&self, _: LeaseToken, _: &[ConfirmedRun]) -> Result<Settlement, StoreError> {
        Ok(Settlement::default())
    }

    async fn fail(&self, _: LeaseToken, _: &[FailedRun]) -> Result<Settlement, StoreError> {
        Ok(Settlement::default())
    }

    async fn release(&self, _: LeaseToken, _: &[ConfirmedRun], _: Duration) -> Result<Settlement, StoreError> {
        Ok(Settlement::default())
    }

    async fn renew(&self, _: LeaseToken, _: Duration) -> Result<bool, StoreError> {
        Ok(true)
    }
}

#[async_trait]
impl OutboxStatisticsPort for EmptyOutbox {
    async fn statistics(&self) -> Result<OutboxStatistics, StoreError> {
        Ok(OutboxStatistics::default())
    }

    async fn dead_groups(&self) -> Result<Vec<DeadGroup>, StoreError> {
        Ok(Vec::new())
    }

    async fn recent_publishing(&self) -> Result<RecentPublishing, StoreError> {
        Ok(RecentPublishing::default())
    }
}

/// A publisher that says whether it can be used.
struct Broker(Availability);

#[async_trait]
impl MessagePublishPort for Broker {
    fn availability(&self) -> Availability {
        self.0.clone()
    }

    fn destination(&self, _: &OutboxEvent) -> Result<Destination, PublishFailure> {
        Ok(Destination::new("events"))
    }

    async fn publish(&self, _: &OutboxEvent) -> Result<(), PublishFailure> {
        Ok(())
    }
}

/// Numbers far from each other, the same in every run.
struct Numbers(AtomicU64);

impl Random for Numbers {
    fn next_u64(&self) -> u64 {
        self.0.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed)
    }
}

const fn schedule(workers: usize, shortest: Duration, longest: Duration) -> RelaySchedule {
    RelaySchedule { workers, shortest_poll: shortest, longest_poll: longest, longest_retry: longest, busy_from: 10 }
}

fn relay(
    outbox: &Arc<EmptyOutbox>,
    availability: Availability,
    wakeup: &RelayWakeup,
    schedule: RelaySchedule,
) -> Arc<OutboxRelayScheduler> {
    relay_with(Numbers(AtomicU64::new(1)), outbox, availability, wakeup, schedule)
}

fn relay_with(
    numbers: Numbers,
    outbox: &Arc<EmptyOutbox>,
    availability: Availability,
    wakeup: &RelayWakeup,
    schedule: RelaySchedule,
) -> Arc<OutboxRelayScheduler> {
    let random: Arc<dyn Random> = Arc::new(numbers);
    let policy = PublishPolicy::of(HolderName::new("relay"));
    let use_case = PublishPendingOutboxEventsUseCase::new(
        Arc::clone(outbox) as _,
        Arc::new(Broker(availability)),
        Arc::new(SystemClock::new()),
        Arc::clone(&random),
        Arc::new(NoObserver),
        policy,
    );
    let statistics = Arc::new(ObserveOutboxUseCase::new(Arc::clone(outbox) as _, Arc::new(NoObserver)));
    Arc::new(OutboxRelayScheduler::new(Arc::new(use_case), statistics, wakeup.clone(), random, schedule))
}

fn assert_doubles_with_jitter(waits: &[Duration], shortest: Duration, longest: Duration) {
    let mut expected = shortest;
    for wait in waits {
        let (least, most) = (expected.mul_f64(0.75), expected.mul_f64(1.25) + Duration::from_millis(2));
        assert!((least..=most).contains(wait), "{wait:?} is not {expected:?} with jitter, in {waits:?}");
        expected = (expected * 2).min(longest);
    }
    let at_the_longest = &waits[waits.len() - 10..];
    assert!(at_the_longest.iter().any(|wait| *wait != at_the_longest[0]), "no jitter: {waits:?}");
}

#[tokio::test(start_paused = true)]
async fn an_idle_relay_polls_ever_less_often_and_through_one_worker_alone() {
    let outbox = Arc::new(EmptyOutbox::default());
    let (shortest, longest) = (Duration::from_millis(50), Duration::from_secs(3));
    let relay = relay(&outbox, Availability::Available, &RelayWakeup::local(), schedule(3, shortest, longest));
    let begun = Instant::now();
    timeout(Duration::from_mins(2), relay.run(CancellationToken::new())).await.expect_err("it runs on");
    let claims = outbox.claims();
    assert_eq!(claims.iter().filter(|at| **at == begun).count(), 3, "each worker looks when it starts");
    assert_doubles_with_jitter(&outbox.waits()[2..], shortest, longest);
}

/// Case S64.
#[tokio::test(start_paused = true)]
async fn twenty_relays_started_at_the_same_instant_do_not_poll_in_step() {
    const RELAYS: u64 = 20;
    let outbox = Arc::new(EmptyOutbox::default());
    let schedule = schedule(1, Duration::from_millis(50), Duration::from_secs(3));
    let begun = Instant::now();
    for n in 1..=RELAYS {
        // Each process has randomness of its own.
        let numbers = Numbers(AtomicU64::new(n.wrapping_mul(0xD1B5_4A32_D192_ED03)));
        let relay = relay_with(numbers, &outbox, Availability::Available, &RelayWakeup::local(), schedule);
        tokio::spawn(relay.run(CancellationToken::new()));
    }
    timeout(Duration::from_mins(1), std::future::pending::<()>()).await.expect_err("a minute passes");
    let mut polls: BTreeMap<Instant, u64> = BTreeMap::new();
    for at in outbox.claims() {
        *polls.entry(at).or_default() += 1;
    }
    assert_eq!(polls.remove(&begun), Some(RELAYS), "all look when they start");
    assert!(polls.len() > 200, "{} moments", polls.len());
    let most = polls.values().max().unwrap();
    assert!(*most <= RELAYS / 4, "{most} of {RELAYS} relays poll at one moment");
}

#[tokio::test(start_paused = true)]
async fn a_wake_up_ends_the_wait() {
    let outbox = Arc::new(EmptyOutbox::default());
    let wakeup = RelayWakeup::local();
    let relay = relay(&outbox, Availability::Available, &wakeup, schedule(1, HOUR, HOUR));
    let cancel = CancellationToken::new();
    let running = tokio::spawn(relay.run(cancel.clone()));
    let begun = Instant::now();
    outbox.until_claimed(1).await;
    wakeup.wake();
    outbox.until_claimed(2).await;
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    cancel.cancel();
    running.await.unwrap();
    assert_eq!(outbox.claims().len(), 2);
    assert!(begun.elapsed() < Duration::from_secs(1), "a stop ends the wait as well");
}

#[tokio::test(start_paused = true)]
async fn a_wake_up_that_comes_while_the_relay_works_is_not_missed() {
    let outbox = Arc::new(EmptyOutbox::default());
    let wakeup = RelayWakeup::local();
    wakeup.wake();
    let relay = relay(&outbox, Availability::Available, &wakeup, schedule(1, HOUR, HOUR));
    timeout(Duration::from_secs(1), relay.run(CancellationToken::new())).await.expect_err("it runs on");
    assert_eq!(outbox.claims().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn after_failures_the_relay_pauses_ever_longer_and_recovers() {
    let outbox = Arc::new(EmptyOutbox::default());
    outbox.down.store(true, Ordering::Relaxed);
    let (shortest, longest) = (Duration::from_millis(50), Duration::from_secs(2));
    let relay = relay(&outbox, Availability::Available, &RelayWakeup::local(), schedule(1, shortest, longest));
    let mut running = pin!(relay.run(CancellationToken::new()));
    timeout(Duration::from_mins(1), &mut running).await.expect_err("it runs on");
    assert_doubles_with_jitter(&outbox.waits(), shortest, longest);
    outbox.down.store(false, Ordering::Relaxed);
    let before = outbox.claims().len();
    timeout(longest * 2, &mut running).await.expect_err("it runs on");
    assert!(outbox.claims().len() > before + 2, "it polls from the shortest wait again");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_claimed_while_nothing_can_be_published() {
    for availability in [Availability::Disabled, Availability::Unavailable { reason: "down".to_owned() }] {
        let outbox = Arc::new(EmptyOutbox::default());
        let schedule = schedule(2, Duration::from_millis(50), HOUR);
        let relay = relay(&outbox, availability, &RelayWakeup::local(), schedule);
        timeout(Duration::from_mins(1), relay.run(CancellationToken::new())).await.expect_err("it runs on");
        assert_eq!(outbox.claims(), []);
    }
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_drains_ends_when_nothing_is_due_or_when_it_is_stopped() {
    let outbox = Arc::new(EmptyOutbox::default());
    let wakeup = RelayWakeup::local();
    let drains = relay(&outbox, Availability::Available, &wakeup, schedule(2, HOUR, HOUR));
    assert_eq!(drains.run_until_drained(CancellationToken::new()).await, RelayEnd::Drained);
    let down = Arc::new(EmptyOutbox::default());
    down.down.store(true, Ordering::Relaxed);
    let stopped = relay(&down, Availability::Available, &wakeup, schedule(2, HOUR, HOUR));
    let cancel = CancellationToken::new();
    let running = tokio::spawn(stopped.run_until_drained(cancel.clone()));
    down.until_claimed(1).await;
    cancel.cancel();
    assert_eq!(running.await.unwrap(), RelayEnd::Stopped);
}
