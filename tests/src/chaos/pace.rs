//! The pace of the long form: how many kills a round needs beyond those that it has drawn.

use std::time::Duration;

/// Kills of the long form.
pub(crate) const KILLS: u64 = 200;
/// What rounds are drawn for: a few more than are owed, since kills of the last round may not happen either.
const AIM: u64 = KILLS + 10;
/// The most kills that are added to one round: a process is killed again only once it is ready, so that more of them would
/// make the round longer rather than the run faster.
const MOST: u64 = 12;

/// What a run has done so far, its preparation apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    pub(crate) rounds: u32,
    pub(crate) took: Duration,
    pub(crate) kills: u64,
}

impl Progress {
    /// How many kills to add to a round that has drawn `drawn` of them, when rounds are begun for as long as `left`. Rounds
    /// are taken to last as long as those before; the first one shows how long that is.
    pub(crate) fn more_kills(self, drawn: u64, left: Duration) -> u32 {
        let Some(round) = self.took.checked_div(self.rounds).filter(|round| !round.is_zero()) else { return 0 };
        // A tenth is kept back: kills of a process that is down already do not happen.
        let left = left.as_millis() * 9 / 10;
        let rounds_left = u64::try_from(left / round.as_millis().max(1)).unwrap_or(u64::MAX).max(1);
        let needed = AIM.saturating_sub(self.kills).div_ceil(rounds_left);
        u32::try_from(needed.saturating_sub(drawn).min(MOST)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::{AIM, Duration, KILLS, MOST, Progress};

    /// Kills after `time`, if a round lasts `round`, draws five kills and loses one of them.
    fn kills(time: Duration, round: Duration) -> u64 {
        let mut progress = Progress { rounds: 0, took: Duration::ZERO, kills: 0 };
        while progress.took < time {
            let more = progress.more_kills(5, time.saturating_sub(progress.took));
            progress.kills += 4 + u64::from(more);
            progress.rounds += 1;
            progress.took += round;
        }
        progress.kills
    }

    #[test]
    fn a_slow_machine_gets_more_kills_a_round_until_the_long_form_has_enough() {
        let time = Duration::from_mins(20);
        for seconds in [15, 20, 30, 45, 60] {
            let kills = kills(time, Duration::from_secs(seconds));
            assert!(kills >= KILLS, "{kills} kills with rounds of {seconds} s");
        }
        assert_eq!(kills(time, Duration::from_secs(15)), 4 * 80, "a fast machine keeps its plans as they are drawn");
    }

    #[test]
    fn no_round_gets_more_kills_than_it_can_hold() {
        let hopeless = Progress { rounds: 10, took: Duration::from_mins(19), kills: 0 };
        assert_eq!(u64::from(hopeless.more_kills(5, Duration::from_mins(1))), MOST);
        let enough = Progress { kills: AIM, ..hopeless };
        assert_eq!(enough.more_kills(0, Duration::from_mins(1)), 0);
    }
}
