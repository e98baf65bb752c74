//! Random numbers that a seed repeats (`SplitMix64`).

use std::{ops::Range, time::Duration};

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// A stream of numbers for one round: it does not depend on what earlier rounds have drawn.
#[derive(Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64, round: u32) -> Self {
        let mixed = Self(seed).next();
        Self(mixed ^ Self(u64::from(round)).next())
    }

    /// Another stream for the same round: what it draws changes nothing of the first one.
    pub(crate) fn beside(seed: u64, round: u32) -> Self {
        Self(Self::new(seed, round).0.rotate_left(32))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number within the range; its start if the range is empty.
    pub(crate) fn within(&mut self, range: Range<u64>) -> u64 {
        range.start + self.next() % range.end.saturating_sub(range.start).max(1)
    }

    /// A duration of whole milliseconds.
    pub(crate) fn millis(&mut self, range: Range<u64>) -> Duration {
        Duration::from_millis(self.within(range))
    }

    /// The first or one of the others.
    pub(crate) fn pick<T: Copy>(&mut self, first: T, others: &[T]) -> T {
        let at = usize::try_from(self.within(0..others.len() as u64 + 1)).unwrap_or_default();
        at.checked_sub(1).and_then(|at| others.get(at)).copied().unwrap_or(first)
    }
}

#[cfg(test)]
mod tests {
    use super::Dice;

    #[test]
    fn the_same_seed_and_round_draw_the_same_and_others_do_not() {
        let draw = |seed, round| {
            let mut dice = Dice::new(seed, round);
            [0; 4].map(|_| dice.within(0..1_000_000))
        };
        assert_eq!(draw(42, 7), draw(42, 7));
        assert_ne!(draw(42, 7), draw(42, 8));
        assert_ne!(draw(42, 7), draw(43, 7));
        assert!(draw(1, 1).iter().all(|number| *number < 1_000_000));
    }
}
