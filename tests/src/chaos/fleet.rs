//! The processes under attack, each behind proxies of its own.

use std::{
    path::Path,
    process::ExitStatus,
    sync::{Mutex as StdMutex, PoisonError},
    time::{Duration, Instant},
};

use rustix::process::Signal;
use tokio::sync::Mutex;

use super::{error::ChaosError, proxy::Proxy};
use crate::{AppEnvironment, AppProcess, eventually, pause, work_load::WorkLoad};

/// Two services, which append, relay and consume, and two relays.
pub(crate) const NAMES: [&str; 4] = ["service-1", "service-2", "relay-1", "relay-2"];
/// How long a relay that says nothing keeps its events.
pub(crate) const LEASE: Duration = Duration::from_secs(5);
/// Database connections of one process, those of its pool and those of its own sessions.
pub(crate) const CONNECTIONS: i64 = 8 + 4;
/// How long a process may take to be ready, whatever happens around it.
const READY: Duration = Duration::from_mins(3);
/// How long a client tries before it calls a request unanswered.
const PATIENCE: Duration = Duration::from_mins(3);

/// All processes, and the clients that turn to the services among them.
#[derive(Debug)]
pub(crate) struct Fleet {
    members: Vec<Member>,
    pub(crate) clients: WorkLoad,
}

/// One process, or its place while it is down.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) name: &'static str,
    pub(crate) database: Proxy,
    pub(crate) broker: Proxy,
    environment: AppEnvironment,
    process: Mutex<Option<AppProcess>>,
    base: StdMutex<Option<String>>,
}

impl Fleet {
    pub(crate) async fn launch(
        logs: &Path,
        database: &str,
        broker: &str,
        extra: &[(&str, &str)],
    ) -> Result<Self, ChaosError> {
        let mut members = Vec::new();
        for name in NAMES {
            members.push(Member::new(name, logs, database, broker, extra).await?);
        }
        let fleet = Self { members, clients: WorkLoad::new(Vec::new(), PATIENCE) };
        for name in NAMES {
            fleet.start(name).await?;
        }
        Ok(fleet)
    }

    pub(crate) fn member(&self, name: &'static str) -> Result<&Member, ChaosError> {
        self.members.iter().find(|member| member.name == name).ok_or(ChaosError::NoProcess(name))
    }

    /// Starts the process, again and again as an orchestrator would, until it is ready, and sends clients to it.
    pub(crate) async fn start(&self, name: &'static str) -> Result<(), ChaosError> {
        self.member(name)?.start().await?;
        let base = |member: &Member| member.base.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.clients.turn_to(self.members.iter().filter_map(base).collect());
        Ok(())
    }

    /// Waits until all processes are ready; one that has ended by itself is an error.
    pub(crate) async fn until_ready(&self) -> Result<(), ChaosError> {
        for member in &self.members {
            if let Some(process) = member.process.lock().await.as_mut() {
                let ready = process.wait_until_ready(READY).await;
                ready.map_err(|source| ChaosError::NotBack { name: member.name, source })?;
            }
        }
        Ok(())
    }

    /// Waits until each process has published something.
    pub(crate) async fn until_all_have_published(&self) -> Result<(), ChaosError> {
        for member in &self.members {
            let published = || async { (member.published().await? > 0.0).then_some(()) };
            eventually("something published by each process", READY, published).await?;
        }
        Ok(())
    }

    /// The resident memory of each process in KiB, where the system tells it.
    pub(crate) async fn memory(&self) -> Vec<(&'static str, u64)> {
        let mut memory = Vec::new();
        for member in &self.members {
            let id = member.process.lock().await.as_ref().and_then(AppProcess::id);
            memory.extend(id.and_then(resident).map(|kib| (member.name, kib)));
        }
        memory
    }
}

impl Member {
    async fn new(
        name: &'static str,
        logs: &Path,
        database: &str,
        broker: &str,
        extra: &[(&str, &str)],
    ) -> Result<Self, ChaosError> {
        let (database, broker) = (Proxy::before(database, 5432).await?, Proxy::before(broker, 5672).await?);
        let mut environment = AppEnvironment::new(logs, &database.url()?, Some(&broker.url()?));
        for (key, value) in SETTINGS.iter().chain(extra) {
            environment = environment.with(&format!("APP__{key}"), value);
        }
        Ok(Self { name, database, broker, environment, process: Mutex::default(), base: StdMutex::default() })
    }

    async fn start(&self) -> Result<(), ChaosError> {
        let begun = Instant::now();
        loop {
            let serves = self.name.starts_with("service");
            let started =
                if serves { self.environment.serve(self.name).await } else { self.environment.relay(self.name).await };
            match started {
                Ok(process) => {
                    let base = serves.then(|| process.url(""));
                    *self.base.lock().unwrap_or_else(PoisonError::into_inner) = base;
                    *self.process.lock().await = Some(process);
                    return Ok(());
                }
                Err(source) if begun.elapsed() > READY => {
                    return Err(ChaosError::NotBack { name: self.name, source });
                }
                // It started into another fault and ended with an error.
                Err(_) => pause().await,
            }
        }
    }

    /// How much this process has published since its start.
    async fn published(&self) -> Option<f64> {
        let url = self.process.lock().await.as_ref()?.operations_url("/metrics");
        let page = reqwest::get(url).await.ok()?.text().await.ok()?;
        let lines = page.lines().filter(|line| line.starts_with("outbox_published_total"));
        Some(lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
    }

    /// A process that is down hears nothing.
    pub(crate) async fn signal(&self, signal: Signal) -> Result<(), ChaosError> {
        match self.process.lock().await.as_ref() {
            Some(process) => Ok(process.signal(signal)?),
            None => Ok(()),
        }
    }

    /// False if it was down already.
    pub(crate) async fn kill(&self) -> Result<bool, ChaosError> {
        match self.process.lock().await.take() {
            Some(mut process) => {
                process.kill().await?;
                Ok(true)
            }
            None => Ok(false),
        }
    }

    /// How it ended; nothing if it was down already.
    pub(crate) async fn terminate(&self, within: Duration) -> Result<Option<ExitStatus>, ChaosError> {
        match self.process.lock().await.take() {
            Some(mut process) => {
                process.signal(Signal::TERM)?;
                Ok(Some(process.ended(within).await?))
            }
            None => Ok(None),
        }
    }
}

/// Shorter times than the defaults, so that many rounds fit into an hour. What a promise rests upon stays as it is:
/// `outbox.retry.max_attempts` and `consumer.retry.tries` above all.
const SETTINGS: &[(&str, &str)] = &[
    ("SERVICE__GRACE", "10s"),
    ("DATABASE__POOL__MAX_CONNECTIONS", "8"),
    ("DATABASE__STATEMENT_TIMEOUT", "2s"),
    ("DATABASE__TRANSACTION_STATEMENT_TIMEOUT", "3s"),
    ("DATABASE__LOCK_TIMEOUT", "1s"),
    ("DATABASE__IDLE_IN_TRANSACTION_TIMEOUT", "5s"),
    ("OUTBOX__RELAY__LEASE", "5s"),
    ("OUTBOX__REAPER__EVERY", "1s"),
    ("OUTBOX__STATISTICS__EVERY", "5s"),
    ("OUTBOX__LEADER__LEASE", "3s"),
    ("OUTBOX__RETENTION__EVERY", "1s"),
    ("OUTBOX__RETENTION__BATCH", "20"),
    ("OUTBOX__RETRY__FLOOR", "200ms"),
    ("OUTBOX__RETRY__BASE", "1s"),
    ("OUTBOX__RETRY__CAP", "2s"),
    ("OUTBOX__BREAKER__LONGEST_PAUSE", "2s"),
    ("OUTBOX__WAKEUP__NOTIFY__KEEPALIVE", "2s"),
    ("OUTBOX__WAKEUP__NOTIFY__LONGEST_PAUSE", "1s"),
    ("OUTBOUND__AMQP__CONFIRM_TIMEOUT", "1500ms"),
    ("OUTBOUND__AMQP__RECONNECT_LONGEST_PAUSE", "1s"),
    ("OUTBOUND__AMQP__HEARTBEAT", "3s"),
    ("CONSUMER__HEARTBEAT", "3s"),
    ("CONSUMER__OUTAGE__LONGEST_PAUSE", "1s"),
    ("CONSUMER__GRACE", "5s"),
];

fn resident(id: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}
