//! Where a server runs: a supervised process or a container, under one set of operations.

use std::{fs, path::PathBuf, time::Duration};

use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::{
    account::Account,
    docker::docker,
    error::ServersError,
    process,
    ready::{Look, Unmet, until},
    supervisor,
};

const STOP: Duration = Duration::from_mins(1);
const LOG_LINES: usize = 20;

/// A server that we started and may stop. Any process that knows this may control it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Host {
    /// A process under a supervisor.
    Process {
        /// The supervisor's directory.
        directory: PathBuf,
        /// Whose process it is.
        account: Account,
    },
    /// A container.
    Container {
        /// Its name.
        name: String,
    },
}

impl Host {
    /// Starts the server if it does not run.
    pub(crate) async fn start(&self) -> Result<(), ServersError> {
        match self {
            Self::Process { directory, .. } => {
                // The mark of an earlier end would be taken for the end of this start.
                let _absent = fs::remove_file(directory.join("server.exit"));
                supervisor::tell(directory, "start")
            }
            Self::Container { name } => docker(&["start", name]).await.map(drop),
        }
    }

    /// Ends the server by a signal to its first process and waits until it has ended; SIGKILL goes to all processes.
    pub(crate) async fn stop(&self, signal: Signal) -> Result<(), ServersError> {
        // A stopped process would keep the signal for later.
        self.resume().await?;
        match self {
            Self::Process { .. } => {
                let Some(pid) = self.pid() else {
                    return Ok(());
                };
                if signal == Signal::KILL {
                    process::signal_tree(pid, signal)?;
                } else {
                    process::signal(pid, signal)?;
                }
            }
            Self::Container { name } => {
                if !self.is_running().await? {
                    return Ok(());
                }
                let number = signal.as_raw().to_string();
                docker(&["kill", "--signal", &number, name]).await?;
            }
        }
        self.wait_until_ended().await
    }

    /// Ends the server in order and waits until it has ended: by a signal to its process, or in a container by a command,
    /// if there is one, because a container's first process may be a wrapper that passes no signal on.
    pub(crate) async fn stop_in_order(&self, signal: Signal, command: &[&str]) -> Result<(), ServersError> {
        match self {
            Self::Container { name } if !command.is_empty() => {
                self.resume().await?;
                if !self.is_running().await? {
                    return Ok(());
                }
                let asked = docker(&[&["exec", name], command].concat()).await;
                // The command dies with the container, perhaps before it can report success.
                match asked {
                    Err(error) if self.is_running().await? => Err(error),
                    _ => self.wait_until_ended().await,
                }
            }
            _ => self.stop(signal).await,
        }
    }

    async fn wait_until_ended(&self) -> Result<(), ServersError> {
        let ended = until(STOP, async || match self.is_running().await {
            Ok(false) => Look::Done(()),
            Ok(true) => Look::NotYet("it still runs".to_owned()),
            Err(error) => Look::Never(error),
        });
        ended.await.map_err(|unmet| match unmet {
            Unmet::Never(error) => error,
            Unmet::Late(_) => ServersError::TimedOut { what: "the server's end".to_owned(), within: STOP },
        })
    }

    /// True while the server's first process lives.
    pub(crate) async fn is_running(&self) -> Result<bool, ServersError> {
        match self {
            Self::Process { .. } => Ok(self.pid().is_some()),
            Self::Container { name } => {
                let state = docker(&["inspect", "--format", "{{.State.Running}}", name]).await?;
                Ok(state == "true")
            }
        }
    }

    /// Stops every process of the server where it stands. Pausing a paused server does nothing.
    pub(crate) async fn pause(&self, server: &'static str) -> Result<(), ServersError> {
        match self {
            Self::Process { .. } => {
                let pid = self.pid().ok_or(ServersError::NotRunning { server })?;
                process::freeze(pid).await
            }
            Self::Container { name } if self.is_paused().await? => {
                tracing::debug!(container = name, "already paused");
                Ok(())
            }
            Self::Container { name } => docker(&["pause", name]).await.map(drop),
        }
    }

    /// Lets a paused server go on. Resuming a running one does nothing.
    pub(crate) async fn resume(&self) -> Result<(), ServersError> {
        match self {
            Self::Process { .. } => self.pid().map_or(Ok(()), |pid| process::signal_tree(pid, Signal::CONT)),
            Self::Container { name } if self.is_paused().await? => docker(&["unpause", name]).await.map(drop),
            Self::Container { .. } => Ok(()),
        }
    }

    async fn is_paused(&self) -> Result<bool, ServersError> {
        match self {
            Self::Process { .. } => Ok(false),
            Self::Container { name } => {
                let state = docker(&["inspect", "--format", "{{.State.Paused}}", name]).await?;
                Ok(state == "true")
            }
        }
    }

    /// Sends a signal to one process of the server, named by the number that the server itself knows it by.
    pub(crate) async fn signal_one(&self, server: &'static str, pid: i32, signal: Signal) -> Result<(), ServersError> {
        match self {
            Self::Process { .. } => {
                let root = self.pid().ok_or(ServersError::NotRunning { server })?;
                if process::tree(root).contains(&pid) {
                    process::signal(pid, signal)
                } else {
                    Err(ServersError::ForeignProcess { server, pid })
                }
            }
            Self::Container { name } => {
                let (number, pid) = (signal.as_raw().to_string(), pid.to_string());
                let script = "kill -\"$1\" \"$2\"";
                docker(&["exec", "--user", "0", name, "sh", "-c", script, "sh", &number, &pid]).await.map(drop)
            }
        }
    }

    /// What the server has logged so far.
    pub(crate) async fn log(&self) -> Result<String, ServersError> {
        match self {
            Self::Process { directory, .. } => {
                let path = directory.join("server.log");
                let bytes = fs::read(&path).map_err(ServersError::io(format!("read {}", path.display())))?;
                Ok(String::from_utf8_lossy(&bytes).into_owned())
            }
            Self::Container { name } => {
                // The engine keeps the two streams apart; a shell puts them back together.
                let output = tokio::process::Command::new("sh")
                    .args(["-c", "exec docker logs \"$1\" 2>&1", "sh", name])
                    .output()
                    .await
                    .map_err(ServersError::io("read a container's log"))?;
                Ok(String::from_utf8_lossy(&output.stdout).into_owned())
            }
        }
    }

    /// The last lines of the log, for a message.
    pub(crate) async fn log_tail(&self) -> String {
        let log = self.log().await.unwrap_or_else(|error| error.chain());
        let lines: Vec<_> = log.lines().collect();
        let first = lines.len().saturating_sub(LOG_LINES);
        lines.get(first..).unwrap_or_default().join("\n")
    }

    /// True if the server has ended since it was last started.
    pub(crate) async fn has_ended(&self) -> bool {
        match self {
            // The supervisor removes the file when it starts the server, and writes it when the server has ended.
            Self::Process { directory, .. } => directory.join("server.exit").exists(),
            Self::Container { .. } => !self.is_running().await.unwrap_or(true),
        }
    }

    /// Tells the server's supervisor, or the engine, to remove the server and all it left. One that is gone is no error.
    pub(crate) async fn remove(&self) -> Result<(), ServersError> {
        match self {
            Self::Process { directory, .. } if !directory.exists() => Ok(()),
            Self::Process { directory, .. } => {
                if supervisor::tell(directory, "quit").is_err() {
                    // No supervisor, since a restart of the machine for example.
                    return fs::remove_dir_all(directory)
                        .map_err(ServersError::io(format!("remove {}", directory.display())));
                }
                let gone = until(STOP, async || {
                    if directory.exists() {
                        Look::<(), std::convert::Infallible>::NotYet("it is still there".to_owned())
                    } else {
                        Look::Done(())
                    }
                });
                gone.await.map_err(|_late| ServersError::TimedOut {
                    what: format!("the removal of {}", directory.display()),
                    within: STOP,
                })
            }
            Self::Container { name } => {
                let filter = format!("name=^/?{name}$");
                if docker(&["ps", "--all", "--quiet", "--filter", &filter]).await?.is_empty() {
                    return Ok(());
                }
                self.resume().await?;
                docker(&["rm", "--force", "--volumes", name]).await.map(drop)
            }
        }
    }

    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Process { directory, .. } => format!("a process in {}", directory.display()),
            Self::Container { name } => format!("the container {name}"),
        }
    }

    /// The first process of the server while it lives.
    fn pid(&self) -> Option<i32> {
        match self {
            Self::Process { directory, .. } => {
                fs::read_to_string(directory.join("server.pid")).ok()?.trim_end().parse().ok()
            }
            Self::Container { .. } => None,
        }
    }
}
