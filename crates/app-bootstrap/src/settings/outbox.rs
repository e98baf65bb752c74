//! Settings of the relay and of what keeps the outbox in shape.

use std::{collections::HashMap, time::Duration};

use adapter_persistence_postgres::WakeupSettings;
use application_core::{
    SettingProblem,
    outbox::{
        AggregateType, BreakerPolicy, DeadHeadPolicy, HolderName, InvalidBackoff, OnPublish, OutboxBackoffPolicy,
    },
    ports::ReapRequest,
    setting_duration::readable,
    usecases::{CleanUpPolicy, PublishPolicy},
};
use serde::{Deserialize, Serialize};

use super::service::between;
use crate::scheduler::{MaintenanceSchedule, RelaySchedule};

/// The relay and what keeps the outbox in shape.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OutboxSettings {
    /// Claiming and publishing.
    pub relay: RelaySettings,
    /// When a failed event is tried again.
    pub retry: RetrySettings,
    /// When a whole destination pauses.
    pub breaker: BreakerSettings,
    /// What a DEAD head does to its aggregate.
    pub dead_head: DeadHeadSettings,
    /// Returning expired leases.
    pub reaper: ReaperSettings,
    /// Keeping and removing history.
    pub retention: RetentionSettings,
    /// Electing the leader of maintenance.
    pub leader: LeaderSettings,
    /// Taking figures.
    pub statistics: StatisticsSettings,
    /// Telling other processes about new events.
    pub wakeup: CrossProcessWakeup,
}

/// Claiming and publishing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RelaySettings {
    /// Workers side by side; 1 to 64.
    pub workers: usize,
    /// How long a claim is held without renewal; at least three times the publisher's confirm time-out, up to 1 h.
    #[serde(with = "crate::setting_duration")]
    pub lease: Duration,
    /// The most events of a claim; 1 to 10,000.
    pub max_events: u32,
    /// The fewest lanes that a claim asks for, so that one hot aggregate starves nobody; 1 to `max_events`.
    pub min_lanes: u32,
    /// The most events of one aggregate in a claim; 1 to `max_events`. With pipelining it may be the whole claim.
    pub max_run: u32,
    /// The most payload bytes of a claim, and so of a worker's memory; 1 MiB to 1 GiB.
    pub max_bytes: u64,
    /// The most aggregates that are published at once by one worker; 1 to 10,000.
    pub window: usize,
    /// How often lanes are looked for that appenders hold nearly always; 10 ms to 1 min.
    #[serde(with = "crate::setting_duration")]
    pub overdue_check: Duration,
    /// The first wait when nothing is due; 1 ms or more.
    #[serde(with = "crate::setting_duration")]
    pub shortest_poll: Duration,
    /// The longest wait when nothing is due, which bounds the latency when every wake-up is lost; up to 1 min.
    #[serde(with = "crate::setting_duration")]
    pub longest_poll: Duration,
    /// The longest wait when the database or the broker cannot be reached; up to 5 min.
    #[serde(with = "crate::setting_duration")]
    pub longest_retry: Duration,
    /// How often the relay says in the database that it is there; one that misses three reports counts as gone. 100 ms to
    /// 1 min.
    #[serde(with = "crate::setting_duration")]
    pub report_every: Duration,
    /// Sends the events of one aggregate without waiting for each other's confirm: faster for a hot aggregate, and out
    /// of order when one of them is refused.
    pub pipelining_may_reorder_within_aggregate: bool,
}

impl Default for RelaySettings {
    fn default() -> Self {
        let policy = PublishPolicy::of(HolderName::new(""));
        Self {
            workers: 8,
            lease: policy.lease,
            max_events: policy.max_events,
            min_lanes: policy.min_lanes,
            max_run: policy.max_run,
            max_bytes: policy.max_bytes,
            window: policy.window,
            overdue_check: policy.overdue_check,
            shortest_poll: Duration::from_millis(50),
            longest_poll: Duration::from_secs(6),
            longest_retry: Duration::from_secs(5),
            report_every: Duration::from_secs(10),
            pipelining_may_reorder_within_aggregate: false,
        }
    }
}

/// When a failed event is tried again (ADR 5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetrySettings {
    /// After how many failed deliveries an event is DEAD; 1 or more.
    pub max_attempts: u32,
    /// The shortest wait; above zero.
    #[serde(with = "crate::setting_duration")]
    pub floor: Duration,
    /// The longest wait after the first failure; doubled at each further one. At least `floor`.
    #[serde(with = "crate::setting_duration")]
    pub base: Duration,
    /// The longest wait; `base` to 7 days.
    #[serde(with = "crate::setting_duration")]
    pub cap: Duration,
}

impl Default for RetrySettings {
    fn default() -> Self {
        Self {
            max_attempts: 3,
            floor: Duration::from_secs(1),
            base: Duration::from_secs(5),
            cap: Duration::from_mins(5),
        }
    }
}

impl RetrySettings {
    fn policy(&self) -> Result<OutboxBackoffPolicy, InvalidBackoff> {
        OutboxBackoffPolicy::try_new(self.floor, self.base, self.cap, self.max_attempts)
    }
}

/// When a whole destination pauses (ADR 6).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BreakerSettings {
    /// Refusals in a row without a confirm between that count as the destination's fault; 1 to `retry.max_attempts`.
    pub failures_in_a_row: u32,
    /// The first pause; above zero.
    #[serde(with = "crate::setting_duration")]
    pub first_pause: Duration,
    /// The longest pause; `first_pause` to 1 h.
    #[serde(with = "crate::setting_duration")]
    pub longest_pause: Duration,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        let policy = BreakerPolicy::default();
        Self {
            failures_in_a_row: policy.failures_in_a_row,
            first_pause: policy.first_pause,
            longest_pause: policy.longest_pause,
        }
    }
}

/// What a DEAD head does to its aggregate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DeadHeadSettings {
    /// Aggregate types that go on without a DEAD event; all others wait for an operator.
    pub skip: Vec<String>,
}

impl DeadHeadSettings {
    fn types(&self) -> impl Iterator<Item = AggregateType> {
        self.skip.iter().map(AggregateType::from_stored)
    }
}

/// Returning expired leases.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ReaperSettings {
    /// How often to look; 100 ms to 10 min.
    #[serde(with = "crate::setting_duration")]
    pub every: Duration,
    /// The most claims of one call; 1 to 10,000.
    pub max_claims: u32,
    /// After how many expiries in a row the head of a lane goes DEAD; 2 to 1,000.
    pub dead_after_expiries: u32,
}

impl Default for ReaperSettings {
    fn default() -> Self {
        Self { every: Duration::from_secs(5), max_claims: 100, dead_after_expiries: 10 }
    }
}

/// Keeping and removing history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetentionSettings {
    /// What becomes of an event when it is published: `keep` or `delete`. `published` is for what is kept.
    pub on_publish: OnPublish,
    /// How long a published event is kept; 1 min or more.
    #[serde(with = "crate::setting_duration")]
    pub published: Duration,
    /// How long a consumer remembers a handled message; at least `published`, because what is kept can be replayed.
    #[serde(with = "crate::setting_duration")]
    pub inbox: Duration,
    /// How often history is cleaned; 1 s to 1 day.
    #[serde(with = "crate::setting_duration")]
    pub every: Duration,
    /// The most rows of one transaction; 1 to 100,000.
    pub batch: u32,
}

impl Default for RetentionSettings {
    fn default() -> Self {
        Self {
            on_publish: OnPublish::Keep,
            published: Duration::from_hours(30 * 24),
            inbox: Duration::from_hours(31 * 24),
            every: Duration::from_mins(1),
            batch: 1_000,
        }
    }
}

/// Electing the leader of maintenance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LeaderSettings {
    /// How long a term is held without renewal; 3 s to 10 min.
    #[serde(with = "crate::setting_duration")]
    pub lease: Duration,
}

impl Default for LeaderSettings {
    fn default() -> Self {
        Self { lease: Duration::from_secs(30) }
    }
}

/// Taking figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StatisticsSettings {
    /// How often; 1 s to 1 h.
    #[serde(with = "crate::setting_duration")]
    pub every: Duration,
}

impl Default for StatisticsSettings {
    fn default() -> Self {
        Self { every: Duration::from_secs(15) }
    }
}

/// Telling other processes about new events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CrossProcessWakeup {
    /// Whether commits are announced to relays in other processes, and theirs are listened to.
    pub enabled: bool,
    /// The channel and its connections.
    pub notify: WakeupSettings,
}

impl Default for CrossProcessWakeup {
    fn default() -> Self {
        Self { enabled: true, notify: WakeupSettings::default() }
    }
}

impl OutboxSettings {
    /// The policy of the publish use case; checked settings only.
    ///
    /// # Errors
    /// [`InvalidBackoff`], which the settings' check reports beforehand.
    pub fn publish_policy(&self, holder: HolderName, send_margin: Duration) -> Result<PublishPolicy, InvalidBackoff> {
        let relay = &self.relay;
        Ok(PublishPolicy {
            lease: relay.lease,
            send_margin,
            max_events: relay.max_events,
            min_lanes: relay.min_lanes,
            max_run: relay.max_run,
            max_bytes: relay.max_bytes,
            overdue_check: relay.overdue_check,
            window: relay.window,
            backoff: self.retry.policy()?,
            breaker: BreakerPolicy {
                failures_in_a_row: self.breaker.failures_in_a_row,
                first_pause: self.breaker.first_pause,
                longest_pause: self.breaker.longest_pause,
            },
            dead_head: DeadHeadPolicy::Block,
            dead_head_of: self.dead_head.types().map(|kind| (kind, DeadHeadPolicy::Skip)).collect::<HashMap<_, _>>(),
            pipelining_may_reorder_within_aggregate: relay.pipelining_may_reorder_within_aggregate,
            ..PublishPolicy::of(holder)
        })
    }

    /// When the relay's workers run.
    #[must_use]
    pub fn relay_schedule(&self) -> RelaySchedule {
        let relay = &self.relay;
        RelaySchedule {
            workers: relay.workers,
            shortest_poll: relay.shortest_poll,
            longest_poll: relay.longest_poll,
            longest_retry: relay.longest_retry,
            busy_from: usize::try_from(relay.max_events / 2).unwrap_or(usize::MAX).max(1),
        }
    }

    /// How expired leases are returned.
    #[must_use]
    pub fn reap_request(&self) -> ReapRequest {
        ReapRequest {
            max_claims: self.reaper.max_claims,
            dead_after_expiries: self.reaper.dead_after_expiries,
            skip_types: self.dead_head.types().collect(),
        }
    }

    /// How history is removed.
    #[must_use]
    pub const fn clean_up_policy(&self) -> CleanUpPolicy {
        let RetentionSettings { published, inbox, batch, .. } = self.retention;
        CleanUpPolicy { published, inbox, batch }
    }

    /// When the leader works.
    #[must_use]
    pub const fn maintenance_schedule(&self) -> MaintenanceSchedule {
        MaintenanceSchedule { lease: self.leader.lease, clean_up_every: self.retention.every }
    }

    pub(super) fn problems(&self) -> Vec<SettingProblem> {
        let mut problems = Vec::new();
        self.relay.check(&mut problems);
        let retry = &self.retry;
        number(&mut problems, "retry.max_attempts", retry.max_attempts.into(), 1, u32::MAX.into());
        let waits = OutboxBackoffPolicy::problems(retry.floor, retry.base, retry.cap);
        problems.extend(waits.into_iter().map(|problem| problem.within("retry")));
        let breaker = &self.breaker;
        let (failures, attempts) = (u64::from(breaker.failures_in_a_row), u64::from(retry.max_attempts));
        number_up_to(&mut problems, "breaker.failures_in_a_row", failures, 1, ("retry.max_attempts", attempts));
        let (millisecond, hour) = (Duration::from_millis(1), Duration::from_hours(1));
        problems.extend(between("breaker.first_pause", breaker.first_pause, millisecond, hour));
        let first_pause = ("breaker.first_pause", breaker.first_pause);
        problems.extend(from("breaker.longest_pause", breaker.longest_pause, first_pause, hour));
        for kind in &self.dead_head.skip {
            if let Err(error) = AggregateType::try_new(kind.as_str()) {
                problems.push(SettingProblem::new("dead_head.skip", format!("{kind:?}"), error.to_string()));
            }
        }
        let second = Duration::from_secs(1);
        problems.extend(between(
            "reaper.every",
            self.reaper.every,
            Duration::from_millis(100),
            Duration::from_mins(10),
        ));
        number(&mut problems, "reaper.max_claims", self.reaper.max_claims.into(), 1, 10_000);
        number(&mut problems, "reaper.dead_after_expiries", self.reaper.dead_after_expiries.into(), 2, 1_000);
        let retention = &self.retention;
        let longest = Duration::from_hours(24 * 3_650);
        problems.extend(between("retention.published", retention.published, Duration::from_mins(1), longest));
        problems.extend(from(
            "retention.inbox",
            retention.inbox,
            ("retention.published", retention.published),
            longest,
        ));
        problems.extend(between("retention.every", retention.every, second, Duration::from_hours(24)));
        number(&mut problems, "retention.batch", retention.batch.into(), 1, 100_000);
        problems.extend(between("leader.lease", self.leader.lease, second * 3, Duration::from_mins(10)));
        let notify = self.wakeup.notify.problems().into_iter();
        problems.extend(notify.map(|problem| problem.within("wakeup.notify")));
        problems.extend(between("statistics.every", self.statistics.every, second, hour));
        problems
    }
}

impl RelaySettings {
    fn check(&self, problems: &mut Vec<SettingProblem>) {
        let most = u64::from(self.max_events);
        let key = |name: &str| format!("relay.{name}");
        number(problems, &key("workers"), self.workers as u64, 1, 64);
        number(problems, &key("max_events"), most, 1, 10_000);
        let max_events = ("relay.max_events", most);
        number_up_to(problems, &key("min_lanes"), self.min_lanes.into(), 1, max_events);
        number_up_to(problems, &key("max_run"), self.max_run.into(), 1, max_events);
        number(problems, &key("max_bytes"), self.max_bytes, 1 << 20, 1 << 30);
        number(problems, &key("window"), self.window as u64, 1, 10_000);
        let (second, hour) = (Duration::from_secs(1), Duration::from_hours(1));
        problems.extend(between(&key("lease"), self.lease, second, hour));
        let (millisecond, minute) = (Duration::from_millis(1), Duration::from_mins(1));
        problems.extend(between(&key("overdue_check"), self.overdue_check, Duration::from_millis(10), minute));
        problems.extend(between(&key("longest_poll"), self.longest_poll, millisecond, minute));
        let longest = ("relay.longest_poll", self.longest_poll);
        problems.extend(up_to(&key("shortest_poll"), self.shortest_poll, millisecond, longest));
        let shortest = ("relay.shortest_poll", self.shortest_poll);
        problems.extend(from(&key("longest_retry"), self.longest_retry, shortest, Duration::from_mins(5)));
        problems.extend(between(&key("report_every"), self.report_every, Duration::from_millis(100), minute));
    }
}

/// A number from `least` to what another setting says.
fn number_up_to(problems: &mut Vec<SettingProblem>, key: &str, value: u64, least: u64, (by, most): (&str, u64)) {
    if value < least {
        problems.push(SettingProblem::new(key, value, format!("it must be at least {least}")));
    } else if value > most {
        let bound = format!("it must be {least} to {most} ({by})");
        problems.push(SettingProblem::new(key, value, bound).bounded_by(by));
    }
}

/// A duration from `least` to what another setting says.
fn up_to(key: &str, value: Duration, least: Duration, (by, most): (&str, Duration)) -> Option<SettingProblem> {
    if value < least {
        Some(SettingProblem::new(key, readable(value), format!("it must be at least {}", readable(least))))
    } else if value > most {
        let bound = format!("it must be {} to {} ({by})", readable(least), readable(most));
        Some(SettingProblem::new(key, readable(value), bound).bounded_by(by))
    } else {
        None
    }
}

/// A duration from what another setting says to `most`.
fn from(key: &str, value: Duration, (by, least): (&str, Duration), most: Duration) -> Option<SettingProblem> {
    if value > most {
        Some(SettingProblem::new(key, readable(value), format!("it must be at most {}", readable(most))))
    } else if value < least {
        let bound = format!("it must be {} ({by}) to {}", readable(least), readable(most));
        Some(SettingProblem::new(key, readable(value), bound).bounded_by(by))
    } else {
        None
    }
}

fn number(problems: &mut Vec<SettingProblem>, key: &str, value: u64, least: u64, most: u64) {
    if !(least..=most).contains(&value) {
        problems.push(SettingProblem::new(key, value, format!("it must be {least} to {most}")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_have_no_problem() {
        assert_eq!(OutboxSettings::default().problems(), []);
    }

    #[test]
    fn a_lone_event_could_die_if_the_breaker_were_slower_than_its_attempts() {
        let settings = OutboxSettings {
            breaker: BreakerSettings { failures_in_a_row: 4, ..BreakerSettings::default() },
            ..OutboxSettings::default()
        };
        let problems = settings.problems();
        let problem = SettingProblem::new("breaker.failures_in_a_row", 4, "it must be 1 to 3 (retry.max_attempts)");
        assert_eq!(problems, [problem.bounded_by("retry.max_attempts")]);
    }

    #[test]
    fn bounds_of_the_wakeup_are_checked_with_the_outboxs() {
        let mut settings = OutboxSettings::default();
        settings.wakeup.notify.channel = "Not A Channel".to_owned();
        let problems = settings.problems();
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].key, "wakeup.notify.channel");
    }

    #[test]
    fn an_inbox_that_forgets_before_the_outbox_is_refused() {
        let retention = RetentionSettings { inbox: Duration::from_hours(1), ..RetentionSettings::default() };
        let problems = OutboxSettings { retention, ..OutboxSettings::default() }.problems();
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].key, "retention.inbox");
    }
}
