//! RabbitMQ as a throwaway node or a container.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use lapin::{Connection, ConnectionProperties};
use rustix::process::Signal;
use testcontainers::{ContainerRequest, GenericImage, ImageExt};

use super::{
    account::Account,
    env,
    error::ServersError,
    options::Options,
    random,
    service::{Address, Kind, Program, UrlOf, quoted, write, write_identity},
};

/// The user of every broker that we start.
pub(crate) const USER: &str = "test";

/// The kind of server that is RabbitMQ.
#[derive(Debug, Clone, Copy)]
pub struct RabbitMq;

impl Program for RabbitMq {
    const NAME: &'static str = "RabbitMQ";
    const SLUG: &'static str = "rabbitmq";
    const READY_WITHIN: Duration = Duration::from_mins(3);

    async fn probe(url: &str) -> Result<(), String> {
        let connection =
            Connection::connect(url, ConnectionProperties::default()).await.map_err(|error| error.to_string())?;
        connection.close(200, "seen to be ready".into()).await.map_err(|error| error.to_string())
    }

    fn find() -> Result<PathBuf, String> {
        let folder = candidates()
            .into_iter()
            .find(|folder| is_real(&folder.join("rabbitmq-server")) && is_real(&folder.join("rabbitmqctl")))
            .ok_or_else(|| {
                "neither /usr/lib/rabbitmq/bin nor a folder on PATH holds `rabbitmq-server` and `rabbitmqctl`"
                    .to_owned()
            })?;
        epmd().map(|_found| folder)
    }

    fn account() -> Account {
        Account::unprivileged(&["rabbitmq"])
    }

    fn set_up(programs: &Path, directory: &Path, options: &Options) -> Result<Address, ServersError> {
        let password = random::token()?;
        let [port, tls_port, distribution, epmd_port] = random::free_ports()?;
        let epmd = epmd().map_err(|output| ServersError::Command { command: "epmd".to_owned(), output })?;
        let mut configuration =
            format!("listeners.tcp.local = 127.0.0.1:{port}\ndefault_user = {USER}\ndefault_pass = {password}\n");
        if let Some(identity) = &options.identity {
            write_identity(directory, identity)?;
            configuration.push_str(&encrypted(directory, tls_port));
        }
        write(directory, "rabbitmq.conf", &configuration)?;
        write(directory, "enabled_plugins", "[].\n")?;
        let environment = environment(distribution, epmd_port);
        let program = |name: &str| quoted(&programs.join(name).display().to_string());
        write(directory, "server.sh", &format!("{environment}exec {}\n", program("rabbitmq-server")))?;
        write(directory, "ctl.sh", &format!("{environment}exec {} \"$@\"\n", program("rabbitmqctl")))?;
        let epmd = quoted(&epmd.display().to_string());
        write(directory, "sidecar.sh", &format!("{environment}exec {epmd} -port {epmd_port} -address 127.0.0.1\n"))?;
        Ok(Address { url: url(&password, "127.0.0.1", port), tls_port: options.identity.as_ref().map(|_| tls_port) })
    }
}

impl Kind for RabbitMq {
    const URL_VARIABLE: &'static str = "AMQP_URL";
    const IMAGE_VARIABLE: &'static str = "TEST_RABBITMQ_IMAGE";
    const IMAGE: &'static str = "rabbitmq:3.10-management";
    const INNER_PORT: u16 = 5672;
    const ORDERLY: Signal = Signal::TERM;
    const ORDERLY_COMMAND: &[&str] = &["rabbitmqctl", "stop"];

    fn container(
        image: GenericImage,
        _options: &Options,
    ) -> Result<(ContainerRequest<GenericImage>, UrlOf), ServersError> {
        let password = random::token()?;
        let request =
            image.with_env_var("RABBITMQ_DEFAULT_USER", USER).with_env_var("RABBITMQ_DEFAULT_PASS", &password);
        Ok((request, Box::new(move |host, port| url(&password, host, port))))
    }
}

fn url(password: &str, host: &str, port: u16) -> String {
    format!("amqp://{USER}:{password}@{host}:{port}/%2f")
}

/// The part of the configuration that opens a port for TLS; clients need no certificate.
fn encrypted(directory: &Path, port: u16) -> String {
    let directory = directory.display();
    format!(
        "listeners.ssl.local = 127.0.0.1:{port}\nssl_options.cacertfile = {directory}/authority.pem\n\
         ssl_options.certfile = {directory}/certificate.pem\nssl_options.keyfile = {directory}/key.pem\n\
         ssl_options.verify = verify_none\nssl_options.fail_if_no_peer_cert = false\n"
    )
}

/// The part of the scripts that keeps a node away from every other one on the machine.
///
/// The names are RabbitMQ's, except `RUNNING_UNDER_SYSTEMD`: with it `rabbitmq-server` becomes the Erlang machine
/// instead of its parent, so that signals need not be passed on.
fn environment(distribution: u16, epmd_port: u16) -> String {
    format!(
        "HOME=$PWD LANG=C.UTF-8\n\
         ERL_EPMD_PORT={epmd_port} ERL_EPMD_ADDRESS=127.0.0.1\n\
         RABBITMQ_NODENAME=rabbit@localhost RABBITMQ_DIST_PORT={distribution}\n\
         RABBITMQ_CTL_DIST_PORT_MIN=0 RABBITMQ_CTL_DIST_PORT_MAX=0\n\
         RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS='-kernel inet_dist_use_interface {{127,0,0,1}}'\n\
         RABBITMQ_CONFIG_FILE=$PWD/rabbitmq.conf RABBITMQ_ADVANCED_CONFIG_FILE=$PWD/advanced.config\n\
         RABBITMQ_CONF_ENV_FILE=$PWD/rabbitmq-env.conf RABBITMQ_ENABLED_PLUGINS_FILE=$PWD/enabled_plugins\n\
         RABBITMQ_GENERATED_CONFIG_DIR=$PWD/config RABBITMQ_MNESIA_BASE=$PWD/mnesia\n\
         RABBITMQ_LOG_BASE=$PWD/log RABBITMQ_LOGS=- RUNNING_UNDER_SYSTEMD=true\n\
         export HOME LANG ERL_EPMD_PORT ERL_EPMD_ADDRESS RABBITMQ_NODENAME RABBITMQ_DIST_PORT\n\
         export RABBITMQ_CTL_DIST_PORT_MIN RABBITMQ_CTL_DIST_PORT_MAX RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS\n\
         export RABBITMQ_CONFIG_FILE RABBITMQ_ADVANCED_CONFIG_FILE RABBITMQ_CONF_ENV_FILE RABBITMQ_ENABLED_PLUGINS_FILE\n\
         export RABBITMQ_GENERATED_CONFIG_DIR RABBITMQ_MNESIA_BASE RABBITMQ_LOG_BASE RABBITMQ_LOGS RUNNING_UNDER_SYSTEMD\n"
    )
}

/// Folders that may hold the programs; Debian's own first, because its `sbin` holds only a wrapper.
fn candidates() -> Vec<PathBuf> {
    let on_path = env::find_on_path("rabbitmq-server").and_then(|program| Some(program.parent()?.to_owned()));
    [PathBuf::from("/usr/lib/rabbitmq/bin")]
        .into_iter()
        .chain(on_path)
        .chain(["/opt/homebrew/sbin", "/usr/local/sbin"].map(PathBuf::from))
        .collect()
}

/// False for the wrapper of the packages, which refuses every user but root and rabbitmq.
fn is_real(program: &Path) -> bool {
    fs::canonicalize(program).is_ok_and(|target| !target.ends_with("rabbitmq-script-wrapper"))
}

/// Erlang's port mapper, which a node would otherwise start by itself and leave behind.
fn epmd() -> Result<PathBuf, String> {
    let of_erlang = ["/usr/lib/erlang", "/usr/lib64/erlang", "/usr/local/lib/erlang", "/opt/homebrew/lib/erlang"]
        .iter()
        .flat_map(|home| fs::read_dir(home).into_iter().flatten().flatten())
        .map(|entry| entry.path().join("bin/epmd"))
        .find(|path| path.is_file());
    env::find_on_path("epmd").or(of_erlang).ok_or_else(|| "RabbitMQ is there, but not Erlang's `epmd`".to_owned())
}
