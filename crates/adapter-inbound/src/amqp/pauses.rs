//! Growing pauses with jitter, for whatever is away.

use std::time::Duration;

use application_core::ports::{Clock, Random};
use tokio_util::sync::CancellationToken;

use super::settings::OutageSettings;

/// The pauses of one outage.
#[derive(Debug, Clone)]
pub(super) struct Pauses {
    settings: OutageSettings,
    next: Duration,
}

impl Pauses {
    pub(super) fn new(settings: &OutageSettings) -> Self {
        Self { settings: settings.clone(), next: settings.first_pause }
    }

    pub(super) const fn reset(&mut self) {
        self.next = self.settings.first_pause;
    }

    /// Draws a pause from the upper half, and doubles the next one.
    pub(super) fn draw(&mut self, random: &dyn Random) -> Duration {
        let pause = self.next;
        self.next = pause.saturating_mul(2).min(self.settings.longest_pause);
        pause / 2 + (pause / 2).mul_f64(random.next_unit())
    }
}

/// Waits; `None` when the end was asked for meanwhile.
pub(super) async fn sleep(clock: &dyn Clock, duration: Duration, closing: &CancellationToken) -> Option<()> {
    closing.run_until_cancelled(clock.sleep(duration)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Lowest;

    impl Random for Lowest {
        fn next_u64(&self) -> u64 {
            0
        }
    }

    #[test]
    fn pauses_double_up_to_the_longest_and_never_fall_below_half() {
        let settings =
            OutageSettings { first_pause: Duration::from_millis(100), longest_pause: Duration::from_millis(300) };
        let mut pauses = Pauses::new(&settings);
        let drawn: Vec<_> = (0..4).map(|_| pauses.draw(&Lowest).as_millis()).collect();
        assert_eq!(drawn, [50, 100, 150, 150]);
        pauses.reset();
        assert_eq!(pauses.draw(&Lowest).as_millis(), 50);
    }
}
