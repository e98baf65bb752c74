//! Durations as they are written in settings, so that what is shown can be pasted back.

use std::time::Duration;

use serde::Serializer;

/// From days down: a month or a year would be no whole number of days.
const UNITS: [(u128, &str); 7] = [
    (86_400_000_000_000, "d"),
    (3_600_000_000_000, "h"),
    (60_000_000_000, "m"),
    (1_000_000_000, "s"),
    (1_000_000, "ms"),
    (1_000, "us"),
    (1, "ns"),
];

/// The duration in whole units, the largest first: `30d`, `1m 30s`, `250ms`, `0s`.
#[must_use]
pub fn readable(duration: Duration) -> String {
    let mut left = duration.as_nanos();
    let mut parts = Vec::new();
    for (nanos, unit) in UNITS {
        if left >= nanos {
            parts.push(format!("{}{unit}", left / nanos));
            left %= nanos;
        }
    }
    if parts.is_empty() { "0s".to_owned() } else { parts.join(" ") }
}

/// Writes a duration of settings as [`readable`] does, for `serde(serialize_with)`.
///
/// # Errors
/// Those of the serializer.
pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&readable(*duration))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_written_in_whole_units_up_to_days() {
        for (duration, text) in [
            (Duration::ZERO, "0s"),
            (Duration::from_hours(31 * 24), "31d"),
            (Duration::from_hours(24 * 3_650), "3650d"),
            (Duration::from_hours(36), "1d 12h"),
            (Duration::from_secs(90), "1m 30s"),
            (Duration::from_millis(1_500), "1s 500ms"),
            (Duration::new(0, 2_003), "2us 3ns"),
        ] {
            assert_eq!(readable(duration), text);
        }
        assert!(readable(Duration::MAX).starts_with("213503982334601d"));
    }
}
