//! Under which conditions a run was made: without them no figure means anything.

use std::{collections::BTreeMap, fs, net::TcpStream, process::Command, time::Duration};

use app_bootstrap::{clock::SystemClock, settings::RelaySettings};
use application_core::ports::Clock;
use serde::{Deserialize, Serialize};
use sqlx::{AssertSqlSafe, Connection, PgConnection, Row};
use time::format_description::well_known::Rfc3339;

use crate::{
    error::BenchError,
    stage::{POSTGRES_SETTINGS, changed_settings},
};

/// What stands for a version that could not be asked for.
const UNKNOWN: &str = "unknown";

/// The code, the machine, the versions and the settings of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// When the run was begun, UTC.
    pub date: String,
    /// The commit that was measured; with `-changed` behind it if files other than documents differ from it.
    #[serde(default)]
    pub commit: String,
    /// The processor's name.
    pub processor: String,
    /// Processors that may be used.
    pub cores: usize,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// The kernel.
    pub kernel: String,
    /// PostgreSQL's version.
    pub postgres: String,
    /// PostgreSQL's settings, as the server reports them.
    pub postgres_settings: Vec<(String, String)>,
    /// RabbitMQ's version.
    pub rabbitmq: String,
    /// The relay's settings where a benchmark says nothing else: the defaults, and what the environment changes.
    pub relay: String,
    /// Whether the binaries were built with optimisations.
    pub release_build: bool,
    /// Whether sizes were cut down: such figures are for trying out alone.
    pub quick: bool,
}

impl Conditions {
    pub(crate) async fn of(database_url: &str, amqp_url: Option<&str>, quick: bool) -> Result<Self, BenchError> {
        let mut connection = PgConnection::connect(database_url).await?;
        let postgres = sqlx::query("SHOW server_version").fetch_one(&mut connection).await?.try_get(0)?;
        let mut postgres_settings = Vec::new();
        let stated = ["fsync", "synchronous_commit", "full_page_writes"].into_iter();
        for name in stated.chain(POSTGRES_SETTINGS.iter().map(|(name, _)| *name)) {
            let show = format!("SELECT coalesce(current_setting('{name}', true), 'unset')");
            let value = sqlx::query(AssertSqlSafe(show)).fetch_one(&mut connection).await?.try_get(0)?;
            postgres_settings.push((name.to_owned(), value));
        }
        Ok(Self {
            date: now(),
            commit: commit().unwrap_or_else(|| UNKNOWN.to_owned()),
            processor: field("/proc/cpuinfo", "model name").unwrap_or_else(|| UNKNOWN.to_owned()),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_mib: field("/proc/meminfo", "MemTotal")
                .and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok())
                .unwrap_or(0)
                / 1_024,
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            postgres,
            postgres_settings,
            rabbitmq: amqp_url.and_then(broker_version).unwrap_or_else(|| UNKNOWN.to_owned()),
            relay: relay_defaults(),
            release_build: !cfg!(debug_assertions),
            quick,
        })
    }

    /// The conditions as lines for a reader.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let settings: Vec<_> = self.postgres_settings.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        let mut lines = vec![
            format!("{}, {} cores, {} MiB, Linux {}", self.processor, self.cores, self.memory_mib, self.kernel),
            format!("PostgreSQL {}, RabbitMQ {}, all on one host", self.postgres, self.rabbitmq),
            settings.join(", "),
            self.relay.clone(),
            format!("{} build of commit {}, begun {}", self.build(), self.commit, self.date),
        ];
        if self.quick {
            lines.push("QUICK: sizes cut down, one round; these figures say nothing".to_owned());
        }
        lines
    }

    /// What differs from others, the time apart. A broker that one of the two did not ask for its version is no
    /// difference: some benchmarks have none.
    #[must_use]
    pub fn differences(&self, others: &Self) -> Vec<String> {
        let theirs: BTreeMap<_, _> = others.facts().into_iter().collect();
        let differs = |(name, own): (String, String)| {
            let other = theirs.get(&name).map_or("not told", String::as_str);
            let is_same = own == other || name == BROKER && (own == UNKNOWN || other == UNKNOWN);
            (!is_same).then(|| format!("{name} {own} instead of {other}"))
        };
        self.facts().into_iter().filter_map(differs).collect()
    }

    /// Whether the broker was asked for its version.
    pub(crate) fn knows_the_broker(&self) -> bool {
        self.rabbitmq != UNKNOWN
    }

    fn facts(&self) -> Vec<(String, String)> {
        let own = [
            ("commit", self.commit.clone()),
            ("build", self.build().to_owned()),
            ("sizes", if self.quick { "cut down" } else { "in earnest" }.to_owned()),
            ("processor", self.processor.clone()),
            ("cores", self.cores.to_string()),
            ("memory in MiB", self.memory_mib.to_string()),
            ("kernel", self.kernel.clone()),
            ("PostgreSQL", self.postgres.clone()),
            (BROKER, self.rabbitmq.clone()),
            ("settings", self.relay.clone()),
        ];
        let own = own.into_iter().map(|(name, value)| (name.to_owned(), value));
        own.chain(self.postgres_settings.iter().cloned()).collect()
    }

    const fn build(&self) -> &'static str {
        if self.release_build { "release" } else { "DEBUG" }
    }
}

const BROKER: &str = "RabbitMQ";

/// The commit of this repository; `None` outside of one. Documents change with each report and are no part of what is
/// measured.
fn commit() -> Option<String> {
    let git = |arguments: &[&str]| {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let output = Command::new("git").args(["-C", root]).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    let changed = git(&["status", "--porcelain", "--", ".", ":!docs", ":!*.md"])?;
    Some(if changed.is_empty() { commit } else { format!("{commit}-changed") })
}

fn relay_defaults() -> String {
    let RelaySettings { workers, max_events, min_lanes, max_run, window, lease, .. } = RelaySettings::default();
    let defaults = format!(
        "relay: {workers} workers, claims of {max_events} events, at least {min_lanes} lanes and runs of {max_run}, \
         window {window}, lease {lease:?}"
    );
    changed_settings().iter().fold(defaults, |line, (name, value)| format!("{line}, {name}={value}"))
}

/// The time of day, UTC, to the second.
pub(crate) fn now() -> String {
    let now = SystemClock::new().now();
    now.replace_nanosecond(0).unwrap_or(now).format(&Rfc3339).unwrap_or_default()
}

fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_once(':').map(|(_, value)| value.trim().to_owned())
}

/// The version that the broker tells in its first frame, before anybody has logged in.
fn broker_version(amqp_url: &str) -> Option<String> {
    use std::io::{Read, Write};
    let url = url::Url::parse(amqp_url).ok()?;
    let address = (url.host_str()?, url.port().unwrap_or(5_672));
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(2))).ok()?;
    stream.write_all(b"AMQP\0\0\x09\x01").ok()?;
    // Kind and channel, then the length of what follows.
    let mut head = [0; 7];
    stream.read_exact(&mut head).ok()?;
    let length = u32::from_be_bytes(head[3..].try_into().ok()?);
    let mut frame = Vec::new();
    stream.take(length.into()).read_to_end(&mut frame).ok()?;
    version_in(&frame)
}

/// The long string that follows the key `version` in a table of server properties.
fn version_in(frame: &[u8]) -> Option<String> {
    const KEY: &[u8] = b"\x07versionS";
    let after = frame.windows(KEY.len()).position(|window| window == KEY)? + KEY.len();
    let length = frame.get(after..after + 4)?.iter().fold(0, |sum, byte| sum * 256 + usize::from(*byte));
    String::from_utf8(frame.get(after + 4..after + 4 + length)?.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_brokers_version_is_found_among_its_properties() {
        let frame = b"\x01..\x07productS\0\0\0\x08RabbitMQ\x07versionS\0\0\0\x063.10.8\xce";
        assert_eq!(version_in(frame).as_deref(), Some("3.10.8"));
        assert_eq!(version_in(b"\x07versionS\0\0\0\x09short"), None);
    }

    #[test]
    fn conditions_differ_by_everything_but_the_time_and_a_broker_that_was_not_asked() {
        let settings = vec![("fsync".to_owned(), "on".to_owned())];
        let one = Conditions {
            commit: "a".to_owned(),
            rabbitmq: "3.10.8".to_owned(),
            postgres_settings: settings,
            ..Conditions::default()
        };
        let later = Conditions { date: "later".to_owned(), rabbitmq: UNKNOWN.to_owned(), ..one.clone() };
        assert_eq!(later.differences(&one), Vec::<String>::new());
        assert_eq!(one.differences(&later), Vec::<String>::new());
        let settings = vec![("fsync".to_owned(), "off".to_owned())];
        let other = Conditions { commit: "b".to_owned(), postgres_settings: settings, ..one.clone() };
        assert_eq!(other.differences(&one), ["commit b instead of a", "fsync off instead of on"]);
        let broker = Conditions { rabbitmq: "4.1.0".to_owned(), ..one.clone() };
        assert_eq!(broker.differences(&one), ["RabbitMQ 4.1.0 instead of 3.10.8"]);
    }

    #[test]
    fn quick_and_debug_figures_say_so() {
        let lines = Conditions { quick: true, ..Conditions::default() }.lines().join("\n");
        assert!(lines.contains("DEBUG") && lines.contains("QUICK"), "{lines}");
    }
}
