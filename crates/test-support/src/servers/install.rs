//! Installing the servers by apt-get: as root at once, else with sudo after a yes at the terminal.

use std::{
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    process::Stdio,
};

use tokio::{process::Command, sync::Mutex, task};

use super::{
    Postgres, RabbitMq,
    account::is_root,
    env,
    error::{Attempts, ServersError},
    options::Options,
    service::Program,
    way::Way,
};

const SCRIPT: &str = include_str!("install.sh");

/// One installation at a time in this process, so that the second sees what the first has brought. Holds a refusal: nobody
/// is asked twice.
static INSTALLING: Mutex<Option<String>> = Mutex::const_new(None);

/// What `find` looks for, after an installation of the package if it is not there yet.
///
/// # Errors
/// [`ServersError::NoWay`] if it is not installed and cannot be installed.
pub(crate) async fn found_or_installed(
    server: &'static str,
    package: &'static str,
    find: fn() -> Result<PathBuf, String>,
    options: &Options,
) -> Result<PathBuf, ServersError> {
    let no_way = |reason: String| {
        let mut attempts = Attempts::default();
        attempts.add(Way::Install, reason);
        ServersError::NoWay { server, attempts, remedy: format!("install it: {}", command_line(&[package])) }
    };
    let absent = match find() {
        Ok(found) => return Ok(found),
        Err(absent) => absent,
    };
    match install(&[package], options).await {
        Ok(()) => find().map_err(no_way),
        Err(Obstacle::Failed(error)) => Err(error),
        Err(Obstacle::Absent(refused)) => Err(no_way(format!("{absent}; {refused}"))),
    }
}

/// Why nothing was installed.
pub(crate) enum Obstacle {
    /// What it needs is not there.
    Absent(String),
    /// It was tried and failed.
    Failed(ServersError),
}

/// Installs packages.
pub(crate) async fn install(packages: &[&str], options: &Options) -> Result<(), Obstacle> {
    let mut refusal = INSTALLING.lock().await;
    if !Path::new("/etc/debian_version").exists() || env::find_on_path("apt-get").is_none() {
        return Err(Obstacle::Absent("this is neither Debian nor Ubuntu".to_owned()));
    }
    let command = command_line(packages);
    let mut shell = if is_root() {
        options.step(&format!("installing {}: {command}", packages.join(" and ")));
        options.step("the packages will stay installed; no service is started");
        Command::new("sh")
    } else {
        if refusal.is_none() {
            *refusal = ask(options, packages, &command).await.err();
        }
        if let Some(reason) = &*refusal {
            return Err(Obstacle::Absent(reason.clone()));
        }
        let mut sudo = Command::new("sudo");
        sudo.arg("sh");
        sudo
    };
    let output = Stdio::from(io::stderr());
    let status = shell
        .args(["-c", SCRIPT, "test-servers"])
        .args(packages)
        .stdout(output)
        .status()
        .await
        .map_err(|error| Obstacle::Failed(ServersError::io("run apt-get")(error)))?;
    if status.success() {
        Ok(())
    } else {
        Err(Obstacle::Failed(ServersError::Command { command, output: status.to_string() }))
    }
}

/// `Ok` only after a yes that was typed at a terminal.
async fn ask(options: &Options, packages: &[&str], command: &str) -> Result<(), String> {
    let declined = format!("not root; the command is: {command}");
    options.step(&format!("{} missing; this installs it:\n    {command}", packages.join(" and ")));
    if !io::stdin().is_terminal() || env::find_on_path("sudo").is_none() {
        return Err(declined);
    }
    // A thread of its own: reading from a terminal cannot be cancelled.
    let answer = task::spawn_blocking(|| {
        let mut answer = String::new();
        write!(io::stderr(), "Run it now, holding back the start of services? [y/N] ")?;
        io::stdin().read_line(&mut answer)?;
        Ok::<_, io::Error>(answer)
    });
    match answer.await {
        Ok(Ok(answer)) if matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") => Ok(()),
        _ => Err(declined),
    }
}

/// Sees to it that a program besides the servers is there: Debian packages are installed for it as for servers.
///
/// # Errors
/// In words, why it cannot be had.
pub async fn require_program(program: &str, packages: &[&str]) -> Result<(), String> {
    if env::find_on_path(program).is_some() {
        return Ok(());
    }
    install(packages, &Options::new()).await.map_err(|obstacle| match obstacle {
        Obstacle::Absent(reason) => reason,
        Obstacle::Failed(error) => error.to_string(),
    })
}

/// The packages of those servers that are not installed.
pub(crate) fn missing_servers() -> Vec<&'static str> {
    let postgres = Postgres::find().is_err().then_some("postgresql");
    let rabbitmq = RabbitMq::find().is_err().then_some("rabbitmq-server");
    postgres.into_iter().chain(rabbitmq).collect()
}

pub(crate) fn command_line(packages: &[&str]) -> String {
    let sudo = if is_root() { "" } else { "sudo " };
    format!("{sudo}apt-get update && {sudo}apt-get install -y --no-install-recommends {}", packages.join(" "))
}

/// What a reader can do where no way worked.
///
/// `url_variable` is the variable that may name a server; `None` where a server that was given is not used.
pub(crate) fn remedy(url_variable: Option<&str>) -> String {
    let packages = ["postgresql", "rabbitmq-server"];
    let url = url_variable.map_or_else(String::new, |name| format!("- set {name} to a server of yours\n  "));
    format!(
        "any one of these helps:\n  \
         {url}- start a Docker engine (the `docker` command must reach it)\n  \
         - install the servers: {} (Debian, Ubuntu), brew install postgresql rabbitmq (macOS)\n  \
         - run this as root on Debian or Ubuntu: it then installs them by itself",
        command_line(&packages)
    )
}
