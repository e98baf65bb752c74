//! Faults on purpose: one API for a process and a container.

use std::marker::PhantomData;

use rustix::process::Signal;
use tokio::process::Command;

use super::{
    Postgres, RabbitMq, docker::docker, error::ServersError, host::Host, server::wait_until_ready, service::Service,
};

/// How a server is stopped before it starts again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// In order: PostgreSQL disconnects its clients and writes a checkpoint.
    Graceful,
    /// At once: PostgreSQL will have to recover from its log.
    Immediate,
}

/// Stops, starts and pauses one server, whose port stays the same.
///
/// Every operation returns once its effect is seen: after a start the server has accepted a connection, after a stop its
/// process has ended, after a pause all of its processes stand still. A server that is shared with other tests is
/// disturbed for them too: faults belong on [`private`](super::private) servers.
///
/// # Cancellation
/// An operation dropped halfway leaves the server in whatever state it had reached; `start` and `resume` repair it.
#[derive(Debug, Clone)]
pub struct ServerControl<S> {
    host: Host,
    url: String,
    kind: PhantomData<S>,
}

impl<S: Service> ServerControl<S> {
    pub(crate) fn new(host: Host, url: String) -> Self {
        Self { host, url, kind: PhantomData }
    }

    /// Starts the server and waits until it accepts a connection. A server that runs is only waited for.
    ///
    /// # Errors
    /// [`ServersError::EndedAtStart`] with the end of its log, or [`ServersError::NotReady`].
    pub async fn start(&self) -> Result<(), ServersError> {
        self.host.start().await?;
        self.wait_until_ready().await
    }

    /// Waits until the server accepts a connection.
    ///
    /// # Errors
    /// As [`ServerControl::start`].
    pub async fn wait_until_ready(&self) -> Result<(), ServersError> {
        wait_until_ready::<S>(&self.url, Some(&self.host), S::READY_WITHIN).await
    }

    /// Ends the server in order and leaves it down. A server that is down stays so.
    ///
    /// # Errors
    /// [`ServersError::TimedOut`] if it does not end.
    pub async fn stop(&self) -> Result<(), ServersError> {
        self.host.stop_in_order(S::ORDERLY, S::ORDERLY_COMMAND).await
    }

    /// Stops every process of the server where it stands: connections stay open and say nothing.
    ///
    /// # Errors
    /// [`ServersError::NotRunning`], or [`ServersError::TimedOut`] if a process goes on.
    pub async fn pause(&self) -> Result<(), ServersError> {
        self.host.pause(S::NAME).await
    }

    /// Lets a paused server go on.
    ///
    /// # Errors
    /// Only if a signal or command cannot be sent.
    pub async fn resume(&self) -> Result<(), ServersError> {
        self.host.resume().await
    }

    /// True while the server's first process lives, paused or not.
    ///
    /// # Errors
    /// Only if the engine does not answer.
    pub async fn is_running(&self) -> Result<bool, ServersError> {
        self.host.is_running().await
    }

    /// All that the server has logged since it was set up.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub async fn log(&self) -> Result<String, ServersError> {
        self.host.log().await
    }
}

impl ServerControl<Postgres> {
    /// Stops the server as asked and starts it again.
    ///
    /// # Errors
    /// As [`ServerControl::stop`] and [`ServerControl::start`].
    pub async fn restart(&self, stop: Stop) -> Result<(), ServersError> {
        match stop {
            Stop::Graceful => self.stop().await?,
            Stop::Immediate => self.stop_immediate().await?,
        }
        self.start().await
    }

    /// Ends the server without a checkpoint, as a crash would, and leaves it down.
    ///
    /// # Errors
    /// [`ServersError::TimedOut`] if it does not end.
    pub async fn stop_immediate(&self) -> Result<(), ServersError> {
        self.host.stop(Signal::QUIT).await
    }

    /// Stops one backend where it stands: its session keeps its locks and says nothing. `pid` is `pg_backend_pid()`.
    ///
    /// # Errors
    /// [`ServersError::ForeignProcess`] if the process is not the server's.
    pub async fn stop_backend(&self, pid: i32) -> Result<(), ServersError> {
        self.host.signal_one("PostgreSQL", pid, Signal::STOP).await
    }

    /// Lets a stopped backend go on.
    ///
    /// # Errors
    /// As [`ServerControl::stop_backend`].
    pub async fn resume_backend(&self, pid: i32) -> Result<(), ServersError> {
        self.host.signal_one("PostgreSQL", pid, Signal::CONT).await
    }
}

impl ServerControl<RabbitMq> {
    /// Stops the node in order and starts it again.
    ///
    /// # Errors
    /// As [`ServerControl::stop`] and [`ServerControl::start`].
    pub async fn restart(&self) -> Result<(), ServersError> {
        self.stop().await?;
        self.start().await
    }

    /// Kills every process of the node and leaves it down.
    ///
    /// # Errors
    /// [`ServersError::TimedOut`] if it does not end.
    pub async fn kill(&self) -> Result<(), ServersError> {
        self.host.stop(Signal::KILL).await
    }

    /// Runs `rabbitmqctl` on the node; its output. Takes a second or more, for the tool starts an Erlang machine.
    ///
    /// # Errors
    /// [`ServersError::Command`] with the tool's output if it fails.
    pub async fn ctl(&self, arguments: &[&str]) -> Result<String, ServersError> {
        let (directory, account) = match &self.host {
            Host::Container { name } => {
                let command = ["exec", name, "rabbitmqctl"];
                return docker(&[&command, arguments].concat()).await;
            }
            Host::Process { directory, account } => (directory, account),
        };
        let mut command = Command::new("sh");
        command.arg("./ctl.sh").args(arguments).current_dir(directory).kill_on_drop(true);
        command.env_clear().env("PATH", super::env::search_path());
        if let Some((uid, gid)) = account.ids() {
            command.uid(uid).gid(gid);
        }
        let output = command.output().await.map_err(ServersError::io("run rabbitmqctl"))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned());
        }
        let said = [output.stdout, output.stderr].concat();
        Err(ServersError::Command {
            command: format!("rabbitmqctl {}", arguments.join(" ")),
            output: String::from_utf8_lossy(&said).trim_end().to_owned(),
        })
    }
}
