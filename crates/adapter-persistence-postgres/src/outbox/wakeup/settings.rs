//! Settings of the wake-up.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use application_core::{SettingProblem, setting_duration::readable};

use crate::settings::check_duration;

/// How processes wake each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WakeupSettings {
    /// The channel of NOTIFY and LISTEN: 1 to 63 bytes, lower-case letters, digits and underscores.
    pub channel: String,
    /// The shortest time between two NOTIFYs of this process; 1 ms to 1 min.
    #[serde(with = "crate::setting_duration")]
    pub notify_interval: Duration,
    /// How often a silent LISTEN connection is asked whether it still lives; 100 ms to 10 min. A connection that was
    /// dropped silently is noticed within twice this time.
    #[serde(with = "crate::setting_duration")]
    pub keepalive: Duration,
    /// The wait before the second try to connect; doubled up to `longest_pause`; 10 ms to 1 min.
    #[serde(with = "crate::setting_duration")]
    pub first_pause: Duration,
    /// The longest wait between tries to connect; `first_pause` to 10 min.
    #[serde(with = "crate::setting_duration")]
    pub longest_pause: Duration,
}

impl Default for WakeupSettings {
    fn default() -> Self {
        Self {
            channel: "outbox_wakeup".to_owned(),
            notify_interval: Duration::from_millis(20),
            keepalive: Duration::from_secs(10),
            first_pause: Duration::from_millis(100),
            longest_pause: Duration::from_secs(10),
        }
    }
}

impl WakeupSettings {
    /// Every problem of the settings; none: they can be used.
    #[must_use]
    pub fn problems(&self) -> Vec<SettingProblem> {
        let mut problems = Vec::new();
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if self.channel.is_empty() || self.channel.len() > 63 || !self.channel.chars().all(plain) {
            problems.push(SettingProblem::new(
                "channel",
                format!("{:?}", self.channel),
                "1 to 63 lower-case letters, digits and underscores are needed",
            ));
        }
        let millis = Duration::from_millis;
        let (minute, minutes) = (Duration::from_mins(1), Duration::from_mins(10));
        check_duration(&mut problems, "notify_interval", self.notify_interval, millis(1), minute);
        check_duration(&mut problems, "keepalive", self.keepalive, millis(100), minutes);
        check_duration(&mut problems, "first_pause", self.first_pause, millis(10), minute);
        check_duration(&mut problems, "longest_pause", self.longest_pause, millis(10), minutes);
        if self.longest_pause < self.first_pause && (millis(10)..=minutes).contains(&self.longest_pause) {
            let bound = format!("it must be {} (first_pause) to {}", readable(self.first_pause), readable(minutes));
            let problem = SettingProblem::new("longest_pause", readable(self.longest_pause), bound);
            problems.push(problem.bounded_by("first_pause"));
        }
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid_and_a_bad_channel_is_refused() {
        assert_eq!(WakeupSettings::default().problems(), []);
        for channel in ["", "with\"quote", "Upper", &"x".repeat(64)] {
            let bad = WakeupSettings { channel: channel.to_owned(), ..WakeupSettings::default() };
            assert_eq!(bad.problems().len(), 1, "{channel}");
        }
    }
}
