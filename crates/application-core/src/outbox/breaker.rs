//! One circuit breaker per destination: whole destinations fail, and that is no event's fault (rule R5).

use std::time::Duration;

use super::failure::FailureClass;

/// When a destination pauses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerPolicy {
    /// Failures in a row, without a confirm between, that count as the destination's own failure; 1 or more.
    pub failures_in_a_row: u32,
    /// The first pause; doubled at each failed probe.
    pub first_pause: Duration,
    /// The longest pause.
    pub longest_pause: Duration,
}

impl Default for BreakerPolicy {
    /// Three failures in a row; pauses from 1 s to 30 s.
    fn default() -> Self {
        Self { failures_in_a_row: 3, first_pause: Duration::from_secs(1), longest_pause: Duration::from_secs(30) }
    }
}

/// What a breaker lets through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState {
    /// Everything.
    Closed,
    /// Nothing until the pause has passed.
    Open {
        /// How much of the pause is left.
        remaining: Duration,
    },
    /// One run, as a probe.
    HalfOpen,
}

/// The breaker of one destination. Times are monotonic, as [`crate::ports::Clock::monotonic`] counts them.
#[derive(Debug, Clone, Default)]
pub struct Breaker {
    failures: u32,
    pause: Duration,
    open_until: Option<Duration>,
}

/// What one batch did at one destination.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BatchOutcome {
    /// Messages that were confirmed.
    pub confirmed: u32,
    /// Messages that were refused or returned.
    pub refused: u32,
    /// Messages that failed because the destination could not be reached.
    pub unavailable: u32,
}

impl BatchOutcome {
    /// Counts one failure; poison says nothing about the destination.
    pub fn count(&mut self, class: FailureClass) {
        match class {
            FailureClass::Unavailable => self.unavailable += 1,
            FailureClass::Rejected | FailureClass::Unroutable => self.refused += 1,
            FailureClass::Poison => {}
        }
    }
}

/// Whose fault the refusals of a batch are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The messages': each is charged one attempt.
    Messages,
    /// The destination's: nothing is charged, its lanes wait for the pause.
    Destination {
        /// How long the destination pauses.
        pause: Duration,
    },
}

impl Breaker {
    /// What may be sent now.
    #[must_use]
    pub fn state(&self, now: Duration) -> BreakerState {
        match self.open_until {
            None => BreakerState::Closed,
            Some(until) if now < until => BreakerState::Open { remaining: until.saturating_sub(now) },
            Some(_) => BreakerState::HalfOpen,
        }
    }

    /// Takes in a batch and judges its refusals.
    pub fn judge(&mut self, batch: BatchOutcome, now: Duration, policy: &BreakerPolicy) -> Verdict {
        if batch.confirmed > 0 {
            // A destination that takes messages works, even if its connection broke later in the batch.
            self.failures = 0;
            self.pause = Duration::ZERO;
            self.open_until = None;
            if batch.unavailable == 0 {
                return Verdict::Messages;
            }
        }
        self.failures = self.failures.saturating_add(batch.refused);
        if batch.unavailable == 0 && batch.refused == 0 {
            return Verdict::Messages;
        }
        if batch.unavailable == 0 && self.failures < policy.failures_in_a_row && self.open_until.is_none() {
            return Verdict::Messages;
        }
        self.pause = match self.pause {
            Duration::ZERO => policy.first_pause,
            pause => pause.saturating_mul(2).min(policy.longest_pause),
        };
        self.open_until = Some(now + self.pause);
        Verdict::Destination { pause: self.pause }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: BreakerPolicy = BreakerPolicy {
        failures_in_a_row: 3,
        first_pause: Duration::from_secs(1),
        longest_pause: Duration::from_secs(4),
    };
    const NOW: Duration = Duration::from_secs(100);

    fn refused(n: u32) -> BatchOutcome {
        BatchOutcome { refused: n, ..BatchOutcome::default() }
    }

    #[test]
    fn a_lone_failing_event_is_charged_fewer_times_than_would_kill_it() {
        let mut breaker = Breaker::default();
        let charged = (0..100)
            .filter(|i| {
                let now = NOW + Duration::from_secs(60 * i);
                breaker.judge(refused(1), now, &POLICY) == Verdict::Messages
            })
            .count();
        assert_eq!(charged, 2, "three attempts would make it DEAD");
    }

    #[test]
    fn many_refusals_without_a_confirm_are_the_destinations_fault_at_once() {
        let mut breaker = Breaker::default();
        let pause = POLICY.first_pause;
        assert_eq!(breaker.judge(refused(500), NOW, &POLICY), Verdict::Destination { pause });
        assert_eq!(breaker.state(NOW), BreakerState::Open { remaining: pause });
        assert_eq!(breaker.state(NOW + pause), BreakerState::HalfOpen);
    }

    #[test]
    fn refusals_among_confirms_are_the_messages_fault() {
        let mut breaker = Breaker::default();
        let batch = BatchOutcome { confirmed: 1, refused: 400, unavailable: 0 };
        assert_eq!(breaker.judge(batch, NOW, &POLICY), Verdict::Messages);
        assert_eq!(breaker.state(NOW), BreakerState::Closed);
    }

    #[test]
    fn pauses_grow_to_the_longest_and_a_confirm_ends_them() {
        let mut breaker = Breaker::default();
        let down = BatchOutcome { unavailable: 1, ..BatchOutcome::default() };
        let pauses: Vec<_> = (0..4).map(|_| breaker.judge(down, NOW, &POLICY)).collect();
        let pause = |s| Verdict::Destination { pause: Duration::from_secs(s) };
        assert_eq!(pauses, [pause(1), pause(2), pause(4), pause(4)]);
        let up = BatchOutcome { confirmed: 1, ..BatchOutcome::default() };
        assert_eq!(breaker.judge(up, NOW, &POLICY), Verdict::Messages);
        assert_eq!(breaker.state(NOW), BreakerState::Closed);
    }

    #[test]
    fn a_connection_lost_after_some_confirms_charges_nobody() {
        let mut breaker = Breaker::default();
        let batch = BatchOutcome { confirmed: 10, refused: 1, unavailable: 5 };
        assert_eq!(breaker.judge(batch, NOW, &POLICY), Verdict::Destination { pause: POLICY.first_pause });
    }
}
