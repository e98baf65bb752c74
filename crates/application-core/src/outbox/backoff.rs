//! When a failed event is tried again.

use std::time::Duration;

use crate::{SettingProblem, ports::Random, setting_duration::readable};

/// Exponential backoff with full jitter, a floor and a cap (rule R4).
///
/// The wait after failure `n` is drawn evenly from `floor..=min(cap, base * 2^(n-1))`. Full jitter spreads retries that
/// failed together; the floor keeps a draw near zero from burning all attempts in one hiccup.
/// With the defaults, three attempts span at least 2 s and at most 15 s: [`OutboxBackoffPolicy::shortest_span`].
///
/// Source: Marc Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutboxBackoffPolicy {
    floor: Duration,
    base: Duration,
    cap: Duration,
    max_attempts: u32,
}

/// Backoff settings that cannot work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidBackoff {
    /// A value that must not be zero is zero.
    #[error("{setting} is zero")]
    Zero {
        /// The setting.
        setting: &'static str,
    },
    /// A value is under the one it must reach.
    #[error("{setting} is {actual:?}, at least {bound:?} ({bound_setting}) is needed")]
    Below {
        /// The setting.
        setting: &'static str,
        /// Its value.
        actual: Duration,
        /// The setting that bounds it.
        bound_setting: &'static str,
        /// That setting's value.
        bound: Duration,
    },
    /// A value is over what can be stored and added to a time.
    #[error("{setting} is {actual:?}, at most {bound:?} is allowed")]
    Above {
        /// The setting.
        setting: &'static str,
        /// Its value.
        actual: Duration,
        /// The most allowed.
        bound: Duration,
    },
}

impl OutboxBackoffPolicy {
    /// The longest cap: beyond a week an event is an operator's matter.
    pub const LONGEST_CAP: Duration = Duration::from_hours(7 * 24);

    /// Checks the settings: `0 < floor <= base <= cap <= 7 days` and at least one attempt.
    ///
    /// # Errors
    /// [`InvalidBackoff`] names the setting, its value and the bound.
    pub fn try_new(floor: Duration, base: Duration, cap: Duration, max_attempts: u32) -> Result<Self, InvalidBackoff> {
        if floor.is_zero() {
            return Err(InvalidBackoff::Zero { setting: "floor" });
        }
        if max_attempts == 0 {
            return Err(InvalidBackoff::Zero { setting: "max_attempts" });
        }
        if base < floor {
            let (setting, bound_setting) = ("base", "floor");
            return Err(InvalidBackoff::Below { setting, actual: base, bound_setting, bound: floor });
        }
        if cap < base {
            let (setting, bound_setting) = ("cap", "base");
            return Err(InvalidBackoff::Below { setting, actual: cap, bound_setting, bound: base });
        }
        if cap > Self::LONGEST_CAP {
            return Err(InvalidBackoff::Above { setting: "cap", actual: cap, bound: Self::LONGEST_CAP });
        }
        Ok(Self { floor, base, cap, max_attempts })
    }

    /// Everything that [`Self::try_new`] would refuse, by the keys `floor`, `base` and `cap`; the attempts are the
    /// caller's to check, who calls them by a name of its own.
    #[must_use]
    pub fn problems(floor: Duration, base: Duration, cap: Duration) -> Vec<SettingProblem> {
        let longest = Self::LONGEST_CAP;
        let mut problems = Vec::new();
        if floor.is_zero() || floor > longest {
            let bound = format!("it must be above 0s, up to {}", readable(longest));
            problems.push(SettingProblem::new("floor", readable(floor), bound));
        }
        let mut at_least = |key: &str, value: Duration, (by, least): (&str, Duration)| {
            if value > longest {
                let bound = format!("it must be at most {}", readable(longest));
                problems.push(SettingProblem::new(key, readable(value), bound));
            } else if value < least {
                let bound = format!("it must be {} ({by}) to {}", readable(least), readable(longest));
                problems.push(SettingProblem::new(key, readable(value), bound).bounded_by(by));
            }
        };
        at_least("base", base, ("floor", floor));
        // A base below the floor makes no bound: it is to become the floor at least.
        at_least("cap", cap, if base < floor { ("floor", floor) } else { ("base", base) });
        problems
    }

    /// After how many failed deliveries an event is DEAD.
    #[must_use]
    pub const fn max_attempts(&self) -> u32 {
        self.max_attempts
    }

    /// The wait after the given number of failed deliveries (1 or more).
    #[must_use]
    pub fn delay(&self, failed_attempts: u32, random: &dyn Random) -> Duration {
        let room = self.ceiling(failed_attempts).saturating_sub(self.floor);
        self.floor + room.mul_f64(random.next_unit())
    }

    /// The longest wait after the given number of failed deliveries.
    #[must_use]
    pub fn ceiling(&self, failed_attempts: u32) -> Duration {
        let doublings = failed_attempts.saturating_sub(1).min(31);
        self.base.saturating_mul(1 << doublings).min(self.cap)
    }

    /// The shortest time from the first delivery to the last: every draw at the floor.
    #[must_use]
    pub fn shortest_span(&self) -> Duration {
        self.floor.saturating_mul(self.max_attempts.saturating_sub(1))
    }
}

impl Default for OutboxBackoffPolicy {
    /// Floor 1 s, base 5 s, cap 5 min, three attempts.
    fn default() -> Self {
        Self {
            floor: Duration::from_secs(1),
            base: Duration::from_secs(5),
            cap: Duration::from_mins(5),
            max_attempts: 3,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    struct Fixed(u64);
    impl Random for Fixed {
        fn next_u64(&self) -> u64 {
            self.0
        }
    }

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn every_problem_is_told_with_key_bound_and_value_and_no_follow_on() {
        let told = |floor, base, cap| {
            let problems = OutboxBackoffPolicy::problems(seconds(floor), seconds(base), seconds(cap));
            let told = SettingProblem::without_follow_ons(problems);
            told.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(told(1, 5, 300), Vec::<String>::new());
        assert_eq!(
            told(0, 5, 700_000),
            ["floor is 0s, but it must be above 0s, up to 7d", "cap is 8d 2h 26m 40s, but it must be at most 7d"]
        );
        assert_eq!(
            told(60, 1, 2),
            ["base is 1s, but it must be 1m (floor) to 7d", "cap is 2s, but it must be 1m (floor) to 7d"]
        );
        assert_eq!(told(1, 5, 2), ["cap is 2s, but it must be 5s (base) to 7d"]);
        assert_eq!(told(700_000, 5, 300), ["floor is 8d 2h 26m 40s, but it must be above 0s, up to 7d"]);
    }

    proptest! {
        #[test]
        fn problems_are_none_where_and_only_where_the_policy_can_be_had(
            floor in 0_u64..9, base in 0_u64..9, cap in 0_u64..9, days in any::<bool>(),
        ) {
            let unit = |n: u64| if days { Duration::from_hours(n * 24) } else { seconds(n) };
            let problems = OutboxBackoffPolicy::problems(unit(floor), unit(base), unit(cap));
            let policy = OutboxBackoffPolicy::try_new(unit(floor), unit(base), unit(cap), 1);
            prop_assert_eq!(problems.is_empty(), policy.is_ok(), "{:?} {:?}", problems, policy);
            prop_assert_eq!(SettingProblem::without_follow_ons(problems.clone()).is_empty(), problems.is_empty());
        }
    }

    #[test]
    fn the_default_is_valid_and_spans_two_to_fifteen_seconds_over_three_attempts() {
        let default = OutboxBackoffPolicy::default();
        assert_eq!(OutboxBackoffPolicy::try_new(seconds(1), seconds(5), seconds(300), 3), Ok(default));
        assert_eq!(default.shortest_span(), seconds(2));
        assert_eq!(default.ceiling(1) + default.ceiling(2), seconds(15));
    }

    #[test]
    fn zero_disordered_and_overlong_settings_are_refused_with_the_setting_named() {
        let (zero, one, two) = (Duration::ZERO, seconds(1), seconds(2));
        let refuse = |floor, base, cap, n| {
            OutboxBackoffPolicy::try_new(floor, base, cap, n).expect_err("should be refused").to_string()
        };
        assert_eq!(refuse(zero, one, two, 3), "floor is zero");
        assert_eq!(refuse(one, one, two, 0), "max_attempts is zero");
        assert_eq!(refuse(two, one, two, 3), "base is 1s, at least 2s (floor) is needed");
        assert_eq!(refuse(one, two, one, 3), "cap is 1s, at least 2s (base) is needed");
        assert!(refuse(one, one, Duration::MAX, 3).starts_with("cap is "));
    }

    proptest! {
        #[test]
        fn every_delay_lies_between_floor_and_ceiling_for_any_attempt_and_draw(
            floor in 1_u64..10_000, base_more in 0_u64..10_000_000, cap_more in 0_u64..500_000_000,
            attempts in any::<u32>(), draw in any::<u64>(),
        ) {
            let floor = Duration::from_millis(floor);
            let base = floor + Duration::from_millis(base_more);
            let cap = (base + Duration::from_millis(cap_more)).min(OutboxBackoffPolicy::LONGEST_CAP).max(base);
            let policy = OutboxBackoffPolicy::try_new(floor, base, cap, 3).expect("valid");
            let delay = policy.delay(attempts, &Fixed(draw));
            prop_assert!(floor <= delay && delay <= policy.ceiling(attempts));
            prop_assert!(policy.ceiling(attempts) <= cap);
            prop_assert!(policy.ceiling(attempts) <= policy.ceiling(attempts.saturating_add(1)));
        }
    }

    #[test]
    fn jitter_reaches_from_the_floor_to_the_ceiling() {
        let policy = OutboxBackoffPolicy::default();
        assert_eq!(policy.delay(2, &Fixed(0)), seconds(1));
        assert!(policy.delay(2, &Fixed(u64::MAX)) > Duration::from_millis(9_999));
    }
}
