//! Time and randomness that a test holds in its hands.

use std::{
    fmt,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use application_core::ports::{Clock, Random};
use async_trait::async_trait;
use time::{OffsetDateTime, macros::datetime};
use tokio::sync::watch;

/// A clock that stands still until a test moves it.
///
/// The time of day and the monotonic clock are set apart from each other, as on a machine whose time of day jumps.
/// A sleep ends when the monotonic clock has been moved past its end.
pub struct FakeClock {
    now: Mutex<OffsetDateTime>,
    monotonic: watch::Sender<Duration>,
}

impl FakeClock {
    /// A clock that shows this time of day, and zero on the monotonic side.
    #[must_use]
    pub fn at(now: OffsetDateTime) -> Self {
        Self { now: Mutex::new(now), monotonic: watch::Sender::new(Duration::ZERO) }
    }

    /// Lets time pass: both clocks move, and sleeps whose end is reached end.
    pub fn advance(&self, by: Duration) {
        *self.time_of_day() += by;
        self.advance_monotonic(by);
    }

    /// Moves the monotonic clock alone.
    pub fn advance_monotonic(&self, by: Duration) {
        self.monotonic.send_modify(|monotonic| *monotonic += by);
    }

    /// Sets the time of day alone, forth or back.
    pub fn set_now(&self, now: OffsetDateTime) {
        *self.time_of_day() = now;
    }

    /// How many sleeps are under way, so that a test can wait for the code to be asleep before it moves the clock.
    #[must_use]
    pub fn sleepers(&self) -> usize {
        self.monotonic.receiver_count()
    }

    fn time_of_day(&self) -> MutexGuard<'_, OffsetDateTime> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for FakeClock {
    /// Noon of the first day of 2030.
    fn default() -> Self {
        Self::at(datetime!(2030-01-01 12:00 UTC))
    }
}

impl fmt::Debug for FakeClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeClock").field("now", &self.now()).field("monotonic", &self.monotonic()).finish()
    }
}

#[async_trait]
impl Clock for FakeClock {
    fn now(&self) -> OffsetDateTime {
        *self.time_of_day()
    }

    fn monotonic(&self) -> Duration {
        *self.monotonic.borrow()
    }

    async fn sleep(&self, duration: Duration) {
        let mut monotonic = self.monotonic.subscribe();
        let end = self.monotonic().saturating_add(duration);
        // The sender lives as long as `self`: the wait ends by the clock alone.
        let _ = monotonic.wait_for(|now| *now >= end).await;
    }
}

/// Random numbers that are the same in every run; not for secrets.
///
/// Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014 (`SplitMix64`).
#[derive(Debug)]
pub struct SeededRandom(AtomicU64);

impl SeededRandom {
    /// Two generators of one seed give the same numbers.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }
}

impl Default for SeededRandom {
    fn default() -> Self {
        Self::new(1)
    }
}

impl Random for SeededRandom {
    fn next_u64(&self) -> u64 {
        const GOLDEN_GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;
        let state = self.0.fetch_add(GOLDEN_GAMMA, Ordering::Relaxed).wrapping_add(GOLDEN_GAMMA);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test]
    async fn a_sleep_ends_when_the_clock_has_been_moved_past_it_and_not_before() {
        let clock = Arc::new(FakeClock::default());
        let sleeping = Arc::clone(&clock);
        let sleep = tokio::spawn(async move { sleeping.sleep(2 * SECOND).await });
        while clock.sleepers() == 0 {
            tokio::task::yield_now().await;
        }
        clock.advance(SECOND);
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert!(!sleep.is_finished());
        clock.advance(SECOND);
        sleep.await.expect("the sleep ends");
        assert_eq!(clock.sleepers(), 0);
    }

    #[tokio::test]
    async fn a_sleep_of_no_length_ends_at_once() {
        FakeClock::default().sleep(Duration::ZERO).await;
    }

    #[test]
    fn the_time_of_day_jumps_without_the_monotonic_clock() {
        let clock = FakeClock::default();
        clock.advance(SECOND);
        clock.set_now(datetime!(2020-01-01 0:00 UTC));
        assert_eq!((clock.now(), clock.monotonic()), (datetime!(2020-01-01 0:00 UTC), SECOND));
    }

    #[test]
    fn one_seed_gives_one_series_and_another_seed_another() {
        let series = |seed| {
            let random = SeededRandom::new(seed);
            (0..3).map(|_| random.next_u64()).collect::<Vec<_>>()
        };
        // The first numbers of the published generator for the seed 0.
        assert_eq!(series(0), [0xE220_A839_7B1D_CDAF, 0x6E78_9E6A_A1B9_65F4, 0x06C4_5D18_8009_454F]);
        assert_eq!(series(7), series(7));
        assert_ne!(series(7), series(8));
    }
}
