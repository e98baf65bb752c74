//! The consumer's settings and their bounds.

use std::{path::PathBuf, time::Duration};

use application_core::{
    SettingProblem, hides_credentials,
    outbox::{OutboxBackoffPolicy, bounds::MAX_PAYLOAD_BYTES},
    setting_duration::readable,
};
use lapin::uri::AMQPUri;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize, Serializer};

use super::decode::MessageFormat;

/// What an envelope adds to a payload at most: names, identifiers and an idempotency key.
const ENVELOPE_ALLOWANCE: usize = 64 * 1024;

/// One consumer of one queue.
///
/// The queue should be declared with `x-single-active-consumer`: the order of rule R22 holds for one consumer at a time.
/// On brokers from version 4 on, quorum queues drop a message that was requeued more often than `x-delivery-limit`
/// (default 20); give the work queue and the parking queue a limit of -1 there.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConsumerSettings {
    /// Whether this process consumes at all.
    pub enabled: bool,
    /// The broker, as an AMQP URI; `amqps` verifies the server's certificate and name.
    #[serde(serialize_with = "redacted")]
    pub url: SecretString,
    /// Certificates (PEM) that are trusted besides the system's, for `amqps`.
    pub ca_certificates: Option<PathBuf>,
    /// The name that the broker shows; the name under which messages are recorded belongs to the handler.
    pub name: String,
    /// The queue to consume; it must exist. 1 to 255 bytes.
    pub queue: String,
    /// The queue for messages that cannot be handled; it must exist. 1 to 255 bytes.
    pub parking_queue: String,
    /// The most messages delivered and not yet acknowledged; 1 to 1,000.
    pub prefetch: u16,
    /// The most messages handled at the same moment; 1 to `prefetch`.
    pub concurrency: u16,
    /// How a message is read.
    pub format: MessageFormat,
    /// The largest body that is read, in bytes; 1,024 to 16 MiB.
    pub max_body_bytes: usize,
    /// How long one try of a handler may take before it is dropped and rolled back; 100 ms to 10 min.
    #[serde(with = "crate::setting_duration")]
    pub handler_timeout: Duration,
    /// Gives up the order of an aggregate's effects: nothing waits for an earlier message that fails or is parked.
    pub unordered: bool,
    /// When a message that could not be handled is tried again.
    pub retry: RetrySettings,
    /// How long to pause while the broker or the database cannot be reached.
    pub outage: OutageSettings,
    /// How long to wait for a connection; 100 ms to 5 min.
    #[serde(with = "crate::setting_duration")]
    pub connect_timeout: Duration,
    /// How long to wait for the confirm of a parked message; 100 ms to 5 min.
    #[serde(with = "crate::setting_duration")]
    pub confirm_timeout: Duration,
    /// The heartbeat offered to the broker, in whole seconds; 1 s to 10 min.
    #[serde(with = "crate::setting_duration")]
    pub heartbeat: Duration,
    /// How long running handlers may take to end when the consumer stops or loses its connection; up to 10 min.
    #[serde(with = "crate::setting_duration")]
    pub grace: Duration,
}

impl Default for ConsumerSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            url: SecretString::from("amqp://guest:guest@localhost:5672/%2f"),
            ca_certificates: None,
            name: "app".to_owned(),
            queue: "app.events".to_owned(),
            parking_queue: "app.events.parking".to_owned(),
            prefetch: 64,
            concurrency: 8,
            format: MessageFormat::Auto,
            max_body_bytes: MAX_PAYLOAD_BYTES + ENVELOPE_ALLOWANCE,
            handler_timeout: Duration::from_mins(1),
            unordered: false,
            retry: RetrySettings::default(),
            outage: OutageSettings::default(),
            connect_timeout: Duration::from_secs(10),
            confirm_timeout: Duration::from_secs(10),
            heartbeat: Duration::from_secs(10),
            grace: Duration::from_secs(20),
        }
    }
}

/// Tries of one message: exponential with full jitter, like the relay's own backoff.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetrySettings {
    /// How often a message is tried before it is parked; 1 to 100.
    pub tries: u32,
    /// The shortest wait; above zero.
    #[serde(with = "crate::setting_duration")]
    pub floor: Duration,
    /// The longest wait after the first try; doubled at each further one. At least `floor`.
    #[serde(with = "crate::setting_duration")]
    pub base: Duration,
    /// The longest wait after any try; at least `base`.
    #[serde(with = "crate::setting_duration")]
    pub cap: Duration,
}

impl RetrySettings {
    /// The longest time that the waits of all tries of one delivery may take together, those of all handlers that listen to
    /// it: the broker closes a channel whose delivery stays without an acknowledgement for 30 minutes, and others wait behind
    /// this one. The tries themselves come on top, each up to `handler_timeout`.
    pub const LONGEST_SPAN: Duration = Duration::from_mins(10);

    fn longest_span(&self, policy: &OutboxBackoffPolicy) -> Duration {
        (1..self.tries).map(|failed| policy.ceiling(failed)).fold(Duration::ZERO, Duration::saturating_add)
    }
}

impl Default for RetrySettings {
    fn default() -> Self {
        Self { tries: 5, floor: Duration::from_millis(200), base: Duration::from_secs(1), cap: Duration::from_secs(30) }
    }
}

/// Pauses while something that the consumer needs is away: doubled from one to the next, each drawn from its upper half.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OutageSettings {
    /// The first pause; above zero.
    #[serde(with = "crate::setting_duration")]
    pub first_pause: Duration,
    /// The longest pause; `first_pause` to 10 min.
    #[serde(with = "crate::setting_duration")]
    pub longest_pause: Duration,
}

impl Default for OutageSettings {
    fn default() -> Self {
        Self { first_pause: Duration::from_millis(500), longest_pause: Duration::from_secs(30) }
    }
}

/// Consumer settings that cannot work; every problem at once.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the consumer's settings cannot work: {}", .problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct InvalidConsumerSettings {
    /// What is wrong; at least one.
    pub problems: Vec<SettingProblem>,
}

impl ConsumerSettings {
    /// Everything that is wrong with the settings; none: they can work with one handler.
    #[must_use]
    pub fn problems(&self) -> Vec<SettingProblem> {
        self.problems_with(1)
    }

    /// Everything that is wrong with the settings for as many handlers, each of which may use up its tries on a delivery.
    pub(super) fn problems_with(&self, handlers: usize) -> Vec<SettingProblem> {
        let mut problems = Vec::new();
        if let Err(reason) = self.uri() {
            problems.push(SettingProblem::new("url", "unreadable", format!("it must be an AMQP URI {reason}")));
        }
        for (key, text) in [("name", &self.name), ("queue", &self.queue), ("parking_queue", &self.parking_queue)] {
            let bound = if key == "name" { 100 } else { 255 };
            if text.is_empty() || text.len() > bound || text.chars().any(char::is_control) {
                let bound = format!("it must be 1 to {bound} bytes without control characters");
                problems.push(SettingProblem::new(key, format!("{text:?}"), bound));
            }
        }
        if self.queue == self.parking_queue {
            let bound = "it must be another queue than `queue`";
            problems.push(SettingProblem::new("parking_queue", format!("{:?}", self.parking_queue), bound));
        }
        number(&mut problems, "prefetch", self.prefetch.into(), 1, 1_000);
        number(&mut problems, "concurrency", self.concurrency.into(), 1, 1_000);
        if (self.prefetch.saturating_add(1)..=1_000).contains(&self.concurrency) {
            let bound = format!("it must be 1 to {} (prefetch)", self.prefetch);
            problems.push(SettingProblem::new("concurrency", self.concurrency, bound).bounded_by("prefetch"));
        }
        number(&mut problems, "max_body_bytes", self.max_body_bytes as u64, 1_024, 16 * 1024 * 1024);
        let (shortest, longest) = (Duration::from_millis(100), Duration::from_mins(5));
        time(&mut problems, "connect_timeout", self.connect_timeout, shortest, longest);
        time(&mut problems, "confirm_timeout", self.confirm_timeout, shortest, longest);
        time(&mut problems, "handler_timeout", self.handler_timeout, shortest, Duration::from_mins(10));
        time(&mut problems, "heartbeat", self.heartbeat, Duration::from_secs(1), Duration::from_mins(10));
        time(&mut problems, "grace", self.grace, Duration::ZERO, Duration::from_mins(10));
        self.retry_problems(&mut problems, handlers);
        self.outage_problems(&mut problems);
        problems
    }

    /// The backoff of a message's tries.
    pub(crate) fn backoff(&self) -> Result<OutboxBackoffPolicy, SettingProblem> {
        let RetrySettings { tries, floor, base, cap } = self.retry;
        OutboxBackoffPolicy::try_new(floor, base, cap, tries)
            .map_err(|error| SettingProblem::new("retry", "contradictory", format!("it must be consistent: {error}")))
    }

    /// The broker's address; the heartbeat is the settings' unless the URI carries one.
    pub(crate) fn uri(&self) -> Result<AMQPUri, String> {
        // The parser's own words may repeat the URI, and with it the password.
        let mut uri: AMQPUri = self.url.expose_secret().parse().map_err(|_may_hold_the_password: String| {
            "such as amqp://user:password@host:5672/vhost, with names percent-encoded".to_owned()
        })?;
        let heartbeat = u16::try_from(self.heartbeat.as_secs()).unwrap_or(u16::MAX);
        uri.query.heartbeat.get_or_insert(heartbeat);
        Ok(uri)
    }

    fn retry_problems(&self, problems: &mut Vec<SettingProblem>, handlers: usize) {
        let RetrySettings { tries, floor, base, cap } = self.retry;
        let mut found = Vec::new();
        number(&mut found, "tries", tries.into(), 1, 100);
        found.extend(OutboxBackoffPolicy::problems(floor, base, cap));
        let policy = self.backoff().ok().filter(|_| found.is_empty());
        let span = policy.map_or(Duration::ZERO, |policy| self.retry.longest_span(&policy));
        problems.extend(found.into_iter().map(|problem| problem.within("retry")));
        let together = span.saturating_mul(u32::try_from(handlers).unwrap_or(u32::MAX));
        if together > RetrySettings::LONGEST_SPAN {
            let (each, all) = if handlers > 1 {
                (format!(" for each of {handlers} handlers"), " of all handlers")
            } else {
                (String::new(), "")
            };
            let longest = readable(RetrySettings::LONGEST_SPAN);
            let bound = format!("the waits of all tries{all} together must stay within {longest}");
            problems.push(SettingProblem::new("retry", format!("{} long{each}", readable(span)), bound));
        }
    }

    fn outage_problems(&self, problems: &mut Vec<SettingProblem>) {
        let OutageSettings { first_pause, longest_pause } = self.outage;
        let longest = Duration::from_mins(10);
        let least = Duration::from_millis(1);
        time(problems, "outage.first_pause", first_pause, least, longest);
        time(problems, "outage.longest_pause", longest_pause, least, longest);
        if longest_pause < first_pause && (least..=longest).contains(&longest_pause) {
            let bound = format!("it must be {} (outage.first_pause) to {}", readable(first_pause), readable(longest));
            let problem = SettingProblem::new("outage.longest_pause", readable(longest_pause), bound);
            problems.push(problem.bounded_by("outage.first_pause"));
        }
    }
}

fn number(problems: &mut Vec<SettingProblem>, key: &'static str, value: u64, least: u64, most: u64) {
    if !(least..=most).contains(&value) {
        problems.push(SettingProblem::new(key, value.to_string(), format!("it must be {least} to {most}")));
    }
}

fn time(problems: &mut Vec<SettingProblem>, key: &'static str, value: Duration, least: Duration, most: Duration) {
    if !(least..=most).contains(&value) {
        let bound = format!("it must be {} to {}", readable(least), readable(most));
        problems.push(SettingProblem::new(key, readable(value), bound));
    }
}

/// Everything in the URL but its address is a secret.
fn redacted<S: Serializer>(url: &SecretString, serializer: S) -> Result<S::Ok, S::Error> {
    let shown = match url.expose_secret().parse::<AMQPUri>() {
        _ if hides_credentials(url.expose_secret()) => "***".to_owned(),
        Ok(uri) => format!("{}://***@{}:{}/{}", uri.scheme, uri.authority.host, uri.authority.port, uri.vhost),
        Err(_) => "***".to_owned(),
    };
    serializer.serialize_str(&shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_have_no_problem() {
        assert_eq!(ConsumerSettings::default().problems(), []);
    }

    #[test]
    fn every_problem_is_reported_at_once() {
        let settings = ConsumerSettings {
            url: SecretString::from("http://user:hunter2@somewhere"),
            name: String::new(),
            queue: "q".repeat(256),
            parking_queue: "q".repeat(256),
            prefetch: 0,
            concurrency: 0,
            max_body_bytes: 1,
            connect_timeout: Duration::ZERO,
            confirm_timeout: Duration::from_hours(1),
            handler_timeout: Duration::ZERO,
            heartbeat: Duration::ZERO,
            grace: Duration::from_hours(1),
            retry: RetrySettings {
                tries: 0,
                floor: Duration::ZERO,
                cap: Duration::from_hours(24 * 8),
                ..RetrySettings::default()
            },
            outage: OutageSettings { first_pause: Duration::ZERO, longest_pause: Duration::from_hours(1) },
            ..ConsumerSettings::default()
        };
        let problems = settings.problems();
        let keys: Vec<_> = problems.iter().map(|problem| problem.key.as_str()).collect();
        assert_eq!(
            keys,
            [
                "url",
                "name",
                "queue",
                "parking_queue",
                "parking_queue",
                "prefetch",
                "concurrency",
                "max_body_bytes",
                "connect_timeout",
                "confirm_timeout",
                "handler_timeout",
                "heartbeat",
                "grace",
                "retry.tries",
                "retry.floor",
                "retry.cap",
                "outage.first_pause",
                "outage.longest_pause",
            ]
        );
        let text = InvalidConsumerSettings { problems }.to_string();
        assert!(!text.contains("hunter2") && !text.contains("somewhere"), "{text}");
    }

    #[test]
    fn what_another_setting_bounds_is_told_with_that_setting() {
        let settings = ConsumerSettings {
            prefetch: 4,
            concurrency: 5,
            retry: RetrySettings { floor: Duration::from_secs(3), ..RetrySettings::default() },
            outage: OutageSettings { first_pause: Duration::from_secs(40), ..OutageSettings::default() },
            ..ConsumerSettings::default()
        };
        let told: Vec<_> = settings.problems().iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "concurrency is 5, but it must be 1 to 4 (prefetch)",
                "retry.base is 1s, but it must be 3s (floor) to 7d",
                "outage.longest_pause is 30s, but it must be 40s (outage.first_pause) to 10m",
            ]
        );
        let refused = ConsumerSettings { prefetch: 0, ..settings };
        let keys = SettingProblem::without_follow_ons(refused.problems()).into_iter().map(|problem| problem.key);
        assert_eq!(keys.collect::<Vec<_>>(), ["prefetch", "retry.base", "outage.longest_pause"]);
    }

    #[test]
    fn tries_that_outlast_the_brokers_patience_are_refused() {
        let minute = Duration::from_mins(1);
        let retry = RetrySettings { tries: 12, floor: minute, base: minute, cap: minute };
        let problems = ConsumerSettings { retry, ..ConsumerSettings::default() }.problems();
        assert_eq!(problems.len(), 1);
        assert_eq!(
            problems[0].to_string(),
            "retry is 11m long, but the waits of all tries together must stay within 10m"
        );
    }

    #[test]
    fn unknown_keys_are_refused_and_durations_are_readable() {
        let read = |text: &str| serde_json::from_str::<ConsumerSettings>(text);
        let settings = read(r#"{"grace":"3s","retry":{"cap":"1m"},"format":"cloud-events"}"#).unwrap();
        assert_eq!((settings.grace, settings.retry.cap), (Duration::from_secs(3), Duration::from_mins(1)));
        assert!(read(r#"{"prefech":3}"#).unwrap_err().to_string().contains("prefech"));
    }

    #[test]
    fn debug_shows_no_password() {
        let settings = ConsumerSettings { url: "amqp://u:hunter2@h/".into(), ..ConsumerSettings::default() };
        assert!(!format!("{settings:?}").contains("hunter2"));
    }

    #[test]
    fn a_url_that_its_password_breaks_up_is_not_shown_in_parts() {
        for url in ["amqp://u:4711#hunter2@h/v", "amqp://u:4711?hunter2@h/v", "amqp://u:4711/hunter2@h/v"] {
            let settings = ConsumerSettings { url: url.into(), ..ConsumerSettings::default() };
            let told = format!("{settings:?} {:?} {}", settings.problems(), serde_json::to_string(&settings).unwrap());
            assert!(!told.contains("hunter2") && !told.contains("4711"), "{told}");
        }
    }
}
