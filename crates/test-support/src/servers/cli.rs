//! The command `test-servers`.

use std::{
    ffi::OsStr,
    fs,
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
    process::{ExitCode, ExitStatus},
};

use rustix::process::Signal;
use tokio::{
    process::{Child, Command},
    signal::unix::{self, SignalKind},
};

use super::{
    Durability, Options, PgBouncer, Postgres, RabbitMq, Servers, ServersError,
    account::Account,
    control_file::{ControlFile, Record},
    env, install, process,
    server::{redacted, wait_until_ready},
    service::{Kind, Program, Service},
    supervisor::Supervisor,
};

const HELP: &str = "\
PostgreSQL and RabbitMQ for tests and development.

test-servers run [--durable] [--allow-missing-broker] [--pgbouncer] -- COMMAND [ARGUMENT]...
    runs the command with DATABASE_URL, AMQP_URL and TEST_SERVERS_CONTROL set; the servers end with it
test-servers up [--durable] [--allow-missing-broker] [--state FILE]
    starts servers that stay, and prints their URLs
test-servers down [--state FILE]
    stops and removes them
test-servers status [--state FILE]
    says whether they accept connections
test-servers promtool ARGUMENT...
    runs Prometheus's tool for alert rules, which it installs as it does servers

--durable               keep PostgreSQL's forced writes on
--allow-missing-broker  go on without RabbitMQ and AMQP_URL if none can be had
--pgbouncer             put PgBouncer in transaction mode before PostgreSQL, and set PGBOUNCER_URL
--state FILE            where `up` remembers them (.dev/test-servers.json)

TEST_SERVERS=url|docker|installed|install allows one way to obtain them.
Exit status: the command's own; 64 for a wrong call, 69 if a server cannot be had, 1 if status finds one missing.
";

const STATE: &str = ".dev/test-servers.json";
const USAGE: u8 = 64;
const UNAVAILABLE: u8 = 69;
const NOT_READY: u8 = 1;
const STATUS_WITHIN: std::time::Duration = std::time::Duration::from_secs(3);

/// Runs the command with these arguments; errors are told on standard error.
pub async fn run(arguments: Vec<String>) -> ExitCode {
    let call = match Call::parse(arguments) {
        Ok(call) => call,
        Err(problem) => {
            say_error(&format!("{problem}\n\n{HELP}"));
            return ExitCode::from(USAGE);
        }
    };
    let outcome = match call.verb {
        Verb::Help => {
            say(HELP);
            Ok(0)
        }
        Verb::Run => run_command(&call).await,
        Verb::Up => up(&call).await,
        Verb::Down => down(&call.state).await,
        Verb::Status => status(&call.state).await,
        Verb::Promtool => promtool(&call).await,
    };
    outcome.map_or_else(
        |error| {
            say_error(&format!("test-servers: {}\n", error.chain()));
            ExitCode::from(if error.is_unavailable() { UNAVAILABLE } else { NOT_READY })
        },
        ExitCode::from,
    )
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Help,
    Run,
    Up,
    Down,
    Status,
    Promtool,
}

#[derive(Debug)]
struct Call {
    verb: Verb,
    options: Options,
    allow_missing_broker: bool,
    pgbouncer: bool,
    state: PathBuf,
    command: Vec<String>,
}

impl Call {
    fn parse(arguments: Vec<String>) -> Result<Self, String> {
        let mut arguments = arguments.into_iter();
        let verb = match arguments.next().as_deref() {
            None | Some("help" | "--help" | "-h") => Verb::Help,
            Some("run") => Verb::Run,
            Some("up") => Verb::Up,
            Some("down") => Verb::Down,
            Some("status") => Verb::Status,
            Some("promtool") => Verb::Promtool,
            Some(other) => return Err(format!("unknown command `{other}`")),
        };
        let mut call = Self {
            verb,
            options: Options::fast(),
            allow_missing_broker: false,
            pgbouncer: false,
            state: PathBuf::from(STATE),
            command: Vec::new(),
        };
        let starts = matches!(verb, Verb::Run | Verb::Up);
        if verb == Verb::Promtool {
            call.command.extend(arguments.by_ref());
        }
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--durable" if starts => {
                    call.options = call.options.with_durability(Durability::Durable);
                }
                "--allow-missing-broker" if starts => call.allow_missing_broker = true,
                "--pgbouncer" if verb == Verb::Run => call.pgbouncer = true,
                "--state" if verb != Verb::Run => {
                    call.state = arguments.next().ok_or("--state needs a file")?.into();
                }
                "--" if verb == Verb::Run => call.command.extend(arguments.by_ref()),
                other => return Err(format!("`{other}` means nothing here")),
            }
        }
        if verb == Verb::Run && call.command.is_empty() {
            return Err("`run` needs a command after `--`".to_owned());
        }
        Ok(call)
    }
}

/// Obtains the servers and writes down how to control them.
async fn provision(call: &Call, file: &mut ControlFile) -> Result<Servers, ServersError> {
    let servers = Servers::new(call.options.clone());
    let (postgres, rabbitmq) = tokio::join!(servers.postgres(), servers.rabbitmq());
    file.add(postgres?);
    match rabbitmq {
        Ok(server) => file.add(server),
        Err(error) if call.allow_missing_broker && error.is_unavailable() => {
            call.options.step(&format!("going on without {}: {error}", RabbitMq::NAME));
            file.add_missing::<RabbitMq>(error.to_string());
        }
        Err(error) => return Err(error),
    }
    Ok(servers)
}

/// The servers and, if it is asked for, the pooler before PostgreSQL.
async fn provision_run(call: &Call, file: &mut ControlFile) -> Result<(Option<PgBouncer>, Servers), ServersError> {
    let servers = provision(call, file).await?;
    if !call.pgbouncer {
        return Ok((None, servers));
    }
    let pooler = PgBouncer::before(servers.postgres().await?.url(), &call.options).await?;
    call.options.step(&pooler.describe());
    Ok((Some(pooler), servers))
}

async fn run_command(call: &Call) -> Result<u8, ServersError> {
    let mut signals = Signals::listen()?;
    let mut file = ControlFile::default();
    let (pooler, servers) = tokio::select! {
        provisioned = provision_run(call, &mut file) => provisioned?,
        signal = signals.next() => return Ok(status_of(signal)),
    };
    let (_folder, directory) = Supervisor::of_directory("run", Account::SELF)?;
    let path = directory.join("control.json");
    file.write(&path)?;
    let mut command = command(call, &file, &path);
    if let Some(pooler) = &pooler {
        command.env(env::PGBOUNCER_URL, pooler.url());
    }
    let mut child = command.spawn().map_err(ServersError::io(format!("run {}", call.command.join(" "))))?;
    let status = loop {
        tokio::select! {
            status = child.wait() => break status.map_err(ServersError::io("wait for the command"))?,
            signal = signals.next() => pass_on(signal, &child)?,
        }
    };
    drop((pooler, servers));
    Ok(code(status))
}

fn command(call: &Call, file: &ControlFile, path: &Path) -> Command {
    let (program, arguments) =
        call.command.split_first().map_or(("", &[][..]), |(program, rest)| (program.as_str(), rest));
    let mut command = Command::new(program);
    command.args(arguments).env(env::CONTROL, path);
    set_or_remove(&mut command, Postgres::URL_VARIABLE, file.record::<Postgres>());
    set_or_remove(&mut command, RabbitMq::URL_VARIABLE, file.record::<RabbitMq>());
    command
}

fn set_or_remove(command: &mut Command, name: &str, record: Option<&Record>) {
    match record {
        Some(record) => command.env(name, OsStr::new(&record.url)),
        None => command.env_remove(name),
    };
}

/// Ctrl-C at a terminal has reached the command as well; every other signal reached only us.
fn pass_on(signal: Signal, child: &Child) -> Result<(), ServersError> {
    if signal == Signal::INT && io::stdin().is_terminal() {
        return Ok(());
    }
    match child.id().and_then(|pid| i32::try_from(pid).ok()) {
        Some(pid) => process::signal(pid, signal),
        None => Ok(()),
    }
}

fn code(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt;
    let number = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    number.and_then(|number| u8::try_from(number).ok()).unwrap_or(NOT_READY)
}

fn status_of(signal: Signal) -> u8 {
    u8::try_from(128 + signal.as_raw()).unwrap_or(NOT_READY)
}

/// The signals that ask a command to end.
struct Signals([(unix::Signal, Signal); 3]);

impl Signals {
    fn listen() -> Result<Self, ServersError> {
        let listen = |kind, signal| {
            let stream = unix::signal(kind).map_err(ServersError::io("listen for signals"))?;
            Ok::<_, ServersError>((stream, signal))
        };
        Ok(Self([
            listen(SignalKind::interrupt(), Signal::INT)?,
            listen(SignalKind::terminate(), Signal::TERM)?,
            listen(SignalKind::hangup(), Signal::HUP)?,
        ]))
    }

    async fn next(&mut self) -> Signal {
        let [(interrupt, int), (terminate, term), (hangup, hup)] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => *int,
            _ = terminate.recv() => *term,
            _ = hangup.recv() => *hup,
        }
    }
}

async fn up(call: &Call) -> Result<u8, ServersError> {
    if call.state.exists() {
        let file = ControlFile::read(&call.state)?;
        if all_ready(&file).await {
            print_urls(&file);
            return Ok(0);
        }
        say_error("the servers of an earlier `up` do not answer; run `test-servers down` first\n");
        return Ok(NOT_READY);
    }
    let mut signals = Signals::listen()?;
    let mut file = ControlFile::default();
    let mut servers = tokio::select! {
        servers = provision(call, &mut file) => servers?,
        signal = signals.next() => return Ok(status_of(signal)),
    };
    if let Some(folder) = call.state.parent() {
        fs::create_dir_all(folder).map_err(ServersError::io(format!("make {}", folder.display())))?;
    }
    // Written before the servers are let go: what is not written down could not be taken down.
    file.write(&call.state)?;
    servers.detach()?;
    print_urls(&file);
    Ok(0)
}

async fn down(state: &Path) -> Result<u8, ServersError> {
    if !state.exists() {
        say("no servers are up\n");
        return Ok(0);
    }
    for record in ControlFile::read(state)?.records() {
        if let Some(host) = &record.host {
            host.remove().await?;
            say(&format!("removed {}\n", host.describe()));
        }
    }
    fs::remove_file(state).map_err(ServersError::io(format!("remove {}", state.display())))?;
    Ok(0)
}

async fn status(state: &Path) -> Result<u8, ServersError> {
    if !state.exists() {
        say("no servers are up\n");
        return Ok(NOT_READY);
    }
    let file = ControlFile::read(state)?;
    let ready = all_ready(&file).await;
    Ok(if ready { 0 } else { NOT_READY })
}

async fn promtool(call: &Call) -> Result<u8, ServersError> {
    let find = || env::find_on_path("promtool").ok_or_else(|| "PATH does not hold `promtool`".to_owned());
    let program = install::found_or_installed("Prometheus", "prometheus", find, &call.options).await?;
    let status = Command::new(program).args(&call.command).status().await.map_err(ServersError::io("run promtool"))?;
    Ok(code(status))
}

async fn all_ready(file: &ControlFile) -> bool {
    let (postgres, rabbitmq) = tokio::join!(is_ready::<Postgres>(file), is_ready::<RabbitMq>(file));
    postgres && rabbitmq
}

/// Says how the server is; one that the run goes without counts as ready.
async fn is_ready<S: Service>(file: &ControlFile) -> bool {
    let Some(record) = file.record::<S>() else {
        say_error(&format!("{}: none\n", S::NAME));
        return true;
    };
    let seen = wait_until_ready::<S>(&record.url, record.host.as_ref(), STATUS_WITHIN).await;
    let state = match &seen {
        Ok(()) => "accepts connections".to_owned(),
        Err(error) => error.chain(),
    };
    say_error(&format!("{} at {}: {state}\n", S::NAME, redacted(&record.url)));
    seen.is_ok()
}

fn print_urls(file: &ControlFile) {
    let urls =
        [(Postgres::URL_VARIABLE, file.record::<Postgres>()), (RabbitMq::URL_VARIABLE, file.record::<RabbitMq>())];
    for (name, record) in urls {
        if let Some(record) = record {
            say(&format!("export {name}={}\n", record.url));
        }
    }
}

fn say(text: &str) {
    // A closed pipe is the reader's choice.
    let _unheard = io::stdout().write_all(text.as_bytes());
}

fn say_error(text: &str) {
    let _unheard = io::stderr().write_all(text.as_bytes());
}
