//! The process that outlives us just long enough to tidy up.
//!
//! Every server has a shell script as its supervisor, which holds the reading end of a pipe whose writing end is ours.
//! However we end, be it by SIGKILL, the pipe closes; the script then stops the server and removes what it left.

use std::{
    ffi::OsString,
    fs::OpenOptions,
    io::{BufRead, BufReader, Write},
    os::unix::{fs::OpenOptionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use rustix::fs::OFlags;

use super::{account::Account, env, error::ServersError};

const PROCESS_SCRIPT: &str = include_str!("supervisor.sh");
const CONTAINER_SCRIPT: &str = include_str!("container.sh");
/// More than the longest that the scripts take.
const TEARDOWN: Duration = Duration::from_mins(1);

/// Holds a server; dropping it stops the server, removes its files and waits until that is done.
#[derive(Debug)]
pub(crate) struct Supervisor {
    child: Option<Child>,
    pipe: Option<ChildStdin>,
}

impl Supervisor {
    /// Starts a supervisor with a private directory of its own, which `account` can reach and remove.
    pub(crate) fn of_directory(name: &str, account: Account) -> Result<(Self, PathBuf), ServersError> {
        let mut command = Command::new("sh");
        command.args(["-c", PROCESS_SCRIPT, "test-servers", name]);
        command.args(folders());
        command.env_clear().env("PATH", env::search_path());
        // Not the caller's directory: the account may not be allowed into it.
        command.current_dir("/").stdout(Stdio::piped());
        if let Some((uid, gid)) = account.ids() {
            command.uid(uid).gid(gid);
        }
        let mut supervisor = Self::spawn(command)?;
        let directory = supervisor.announced_directory()?;
        Ok((supervisor, directory))
    }

    /// Starts a supervisor for the container of that name, which need not exist yet.
    pub(crate) fn of_container(name: &str) -> Result<Self, ServersError> {
        let mut command = Command::new("sh");
        command.args(["-c", CONTAINER_SCRIPT, "test-servers", name]);
        command.current_dir("/").stdout(Stdio::null());
        Self::spawn(command)
    }

    fn spawn(mut command: Command) -> Result<Self, ServersError> {
        // A group of its own: Ctrl-C at the terminal must reach us, not the one who tidies up after us.
        let mut child = command
            .process_group(0)
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(ServersError::io("start a supervisor (`sh`)"))?;
        let pipe = child.stdin.take();
        Ok(Self { child: Some(child), pipe })
    }

    fn announced_directory(&mut self) -> Result<PathBuf, ServersError> {
        let mut line = String::new();
        if let Some(output) = self.child.as_mut().and_then(|child| child.stdout.take()) {
            BufReader::new(output)
                .read_line(&mut line)
                .map_err(ServersError::io("read the name of a private directory"))?;
        }
        match line.trim_end() {
            "" => Err(ServersError::Command {
                command: "mktemp -d".to_owned(),
                output: format!("no private directory can be made in any of {:?}", folders()),
            }),
            directory => Ok(PathBuf::from(directory)),
        }
    }

    /// Lets go of the server: it stays until it is told to quit.
    pub(crate) fn detach(mut self) -> Result<(), ServersError> {
        if let Some(mut pipe) = self.pipe.take() {
            pipe.write_all(b"detach\n").map_err(ServersError::io("let go of a supervisor"))?;
        }
        self.child = None;
        Ok(())
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        drop(self.pipe.take());
        let Some(mut child) = self.child.take() else {
            return;
        };
        let (ended, end) = mpsc::channel();
        thread::spawn(move || {
            let status = child.wait();
            // Nobody listens any more if the time was up.
            let _unheard = ended.send(status);
        });
        if end.recv_timeout(TEARDOWN).is_err() {
            tracing::error!(within = ?TEARDOWN, "a server's supervisor did not end");
        }
    }
}

/// Says a word to the supervisor of a directory, whoever started it.
pub(crate) fn tell(directory: &Path, word: &str) -> Result<(), ServersError> {
    let path = directory.join("control");
    let action = || format!("say `{word}` through {}", path.display());
    // Without a reader the opening fails (ENXIO) instead of waiting for one for ever.
    let mut pipe = OpenOptions::new()
        .write(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(&path)
        .map_err(ServersError::io(action()))?;
    pipe.write_all(format!("{word}\n").as_bytes()).map_err(ServersError::io(action()))
}

/// Where private directories are looked for, the preferred place first.
fn folders() -> Vec<OsString> {
    env::temporary_folder().into_iter().chain(["/tmp", "/var/tmp", "/dev/shm"].map(OsString::from)).collect()
}
