//! A process of the binary `app`, with real signals.

use std::{
    collections::BTreeMap,
    fs::File,
    io,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use test_support::servers::free_ports;
use tokio::process::{Child, Command};

use crate::patience::{TimedOut, eventually};

/// A process that could not be run.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The binary is missing beside this one.
    #[error("{} is missing: build it first, `cargo xtask test` does", .0.display())]
    NotBuilt(PathBuf),
    /// It could not be started or watched.
    #[error("the process could not be run")]
    Io(#[from] io::Error),
    /// It did not do in time what it should.
    #[error(transparent)]
    TimedOut(#[from] TimedOut),
    /// It ended early.
    #[error("the process ended with {status}, its log ends with:\n{log}")]
    Ended {
        /// How.
        status: ExitStatus,
        /// The end of its log.
        log: String,
    },
}

/// The environment in which processes run: servers, and settings of the test's own.
#[derive(Debug, Clone, Default)]
pub struct AppEnvironment {
    variables: BTreeMap<String, String>,
    directory: PathBuf,
    stdout: Option<PathBuf>,
}

impl AppEnvironment {
    /// Processes that log into `directory` and use these servers; without a broker they publish to stdout.
    #[must_use]
    pub fn new(directory: &Path, database_url: &str, amqp_url: Option<&str>) -> Self {
        let environment = Self { variables: BTreeMap::new(), directory: directory.to_owned(), stdout: None };
        let environment = environment
            .with("DATABASE_URL", database_url)
            .with("APP__LOGS__FILTER", "info")
            .with("APP_PROFILE", "none");
        match amqp_url {
            Some(url) => environment.with("AMQP_URL", url),
            None => environment.with("APP__OUTBOUND__PUBLISHER", "stdout").with("APP__CONSUMER__ENABLED", "false"),
        }
    }

    /// Adds a variable.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Lets start-up declare the exchange, the work queue and the parking queue.
    #[must_use]
    pub fn with_topology(self) -> Self {
        self.with("APP__OUTBOUND__AMQP__TOPOLOGY__DECLARE", "true")
            .with("APP__OUTBOUND__AMQP__TOPOLOGY__QUEUE", "app.events")
            .with("APP__OUTBOUND__AMQP__TOPOLOGY__PARKING_QUEUE", "app.events.parking")
    }

    /// Lets start-up declare an exchange and queues of these names, publishes to the one and consumes from the others.
    #[must_use]
    pub fn with_topology_named(self, exchange: &str, queue: &str, parking_queue: &str) -> Self {
        self.with("APP__OUTBOUND__ROUTE__EXCHANGE", exchange)
            .with("APP__OUTBOUND__AMQP__TOPOLOGY__DECLARE", "true")
            .with("APP__OUTBOUND__AMQP__TOPOLOGY__QUEUE", queue)
            .with("APP__OUTBOUND__AMQP__TOPOLOGY__PARKING_QUEUE", parking_queue)
            .with("APP__CONSUMER__QUEUE", queue)
            .with("APP__CONSUMER__PARKING_QUEUE", parking_queue)
    }

    /// Appends what processes write to standard output to this file; all processes may share it.
    #[must_use]
    pub fn with_stdout_to(mut self, file: &Path) -> Self {
        self.stdout = Some(file.to_owned());
        self
    }

    fn command(&self, name: &str, arguments: &[&str]) -> Result<(Command, PathBuf), ProcessError> {
        let log = self.directory.join(format!("{name}.log"));
        let appending = |path: &Path| File::options().create(true).append(true).open(path);
        let output = appending(&log)?;
        let stdout = match &self.stdout {
            Some(path) => appending(path)?,
            None => output.try_clone()?,
        };
        let mut command = Command::new(binary()?);
        command
            .args(arguments)
            .env_clear()
            .envs(&self.variables)
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(output)
            .kill_on_drop(true);
        Ok((command, log))
    }

    /// Runs a command to its end and returns its exit status and what it wrote.
    ///
    /// # Errors
    /// [`ProcessError`].
    pub async fn run(&self, arguments: &[&str]) -> Result<(ExitStatus, String), ProcessError> {
        let output = Command::new(binary()?)
            .args(arguments)
            .env_clear()
            .envs(&self.variables)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await?;
        let text = [output.stdout, output.stderr].concat();
        Ok((output.status, String::from_utf8_lossy(&text).into_owned()))
    }

    /// Starts `app serve` on free ports and waits until it is ready.
    ///
    /// # Errors
    /// [`ProcessError`].
    pub async fn serve(&self, name: &str) -> Result<AppProcess, ProcessError> {
        self.start(name, "serve").await
    }

    /// Starts `app relay` on free ports and waits until it is ready.
    ///
    /// # Errors
    /// [`ProcessError`].
    pub async fn relay(&self, name: &str) -> Result<AppProcess, ProcessError> {
        self.start(name, "relay").await
    }

    async fn start(&self, name: &str, command: &str) -> Result<AppProcess, ProcessError> {
        let [http, operations, ops] =
            free_ports().map_err(io::Error::other)?.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let environment = self
            .clone()
            .with("APP__HTTP__LISTEN", &http.to_string())
            .with("APP__OPERATIONS__HEALTH_LISTEN", &operations.to_string())
            .with("APP__OPERATIONS__OPS_LISTEN", &ops.to_string())
            .with("APP__SERVICE__INSTANCE", name);
        let mut process = environment.spawn(name, &[command], http, operations)?;
        process.ops = Some(ops);
        process.wait_until_ready(Duration::from_mins(1)).await?;
        Ok(process)
    }

    /// Starts `app` with the given arguments and does not wait for anything.
    ///
    /// # Errors
    /// [`ProcessError`].
    pub fn spawn(
        &self,
        name: &str,
        arguments: &[&str],
        http: SocketAddr,
        operations: SocketAddr,
    ) -> Result<AppProcess, ProcessError> {
        let (mut command, log) = self.command(name, arguments)?;
        Ok(AppProcess { child: command.spawn()?, http, operations, ops: None, log })
    }
}

/// A running process; dropping it kills it.
#[derive(Debug)]
pub struct AppProcess {
    child: Child,
    http: SocketAddr,
    operations: SocketAddr,
    ops: Option<SocketAddr>,
    log: PathBuf,
}

impl AppProcess {
    /// The URL of a path of the service's HTTP.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.http)
    }

    /// The URL of a path below `/ops`; empty for a process that was started without a listener for it.
    #[must_use]
    pub fn ops_url(&self, path: &str) -> String {
        self.ops.map(|ops| format!("http://{ops}{path}")).unwrap_or_default()
    }

    /// The URL of a path of the operations HTTP: health and metrics.
    #[must_use]
    pub fn operations_url(&self, path: &str) -> String {
        format!("http://{}{path}", self.operations)
    }

    /// Its process id; `None` once its end was seen.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// What it has logged so far.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until `/readyz` answers 200.
    ///
    /// # Errors
    /// [`ProcessError::Ended`] with the end of the log; [`ProcessError::TimedOut`].
    pub async fn wait_until_ready(&mut self, within: Duration) -> Result<(), ProcessError> {
        let url = self.operations_url("/readyz");
        let client = reqwest::Client::new();
        let begun = std::time::Instant::now();
        loop {
            if let Some(status) = self.child.try_wait()? {
                let log = self.log();
                let end: Vec<_> = log.lines().rev().take(12).collect();
                return Err(ProcessError::Ended { status, log: end.into_iter().rev().collect::<Vec<_>>().join("\n") });
            }
            let left = within.saturating_sub(begun.elapsed());
            let look = eventually("readiness", left.min(Duration::from_millis(200)), || async {
                client.get(&url).send().await.ok().filter(|answer| answer.status().is_success()).map(drop)
            });
            match look.await {
                Ok(()) => return Ok(()),
                Err(late) if left.is_zero() => return Err(late.into()),
                Err(_) => {}
            }
        }
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// [`ProcessError::Io`] when the process is gone.
    pub fn signal(&self, signal: Signal) -> Result<(), ProcessError> {
        let pid = self.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let pid = pid.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        Ok(kill_process(pid, signal).map_err(io::Error::from)?)
    }

    /// Kills it and waits for its end.
    ///
    /// # Errors
    /// [`ProcessError::Io`].
    pub async fn kill(&mut self) -> Result<(), ProcessError> {
        Ok(self.child.kill().await?)
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// [`ProcessError::TimedOut`].
    pub async fn ended(&mut self, within: Duration) -> Result<ExitStatus, ProcessError> {
        let ended = tokio::time::timeout(within, self.child.wait()).await;
        Ok(ended.map_err(|_elapsed| TimedOut::new("the end of the process", within))??)
    }
}

/// The binary beside the running one, which cargo builds with the same features.
fn binary() -> Result<PathBuf, ProcessError> {
    let here = std::env::current_exe()?;
    let directories = here.ancestors().skip(1).take(2);
    directories
        .map(|directory| directory.join("app"))
        .find(|path| path.is_file())
        .ok_or_else(|| ProcessError::NotBuilt(here.with_file_name("app")))
}
