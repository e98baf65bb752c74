//! PgBouncer in transaction mode before a PostgreSQL server.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use sqlx::{Connection, PgConnection};
use url::Url;

use super::{
    account::Account,
    env,
    error::ServersError,
    host::Host,
    install,
    options::Options,
    provision::launch,
    random,
    service::{Address, Program, quoted, write},
    supervisor::Supervisor,
};

/// A pooler before a PostgreSQL server. Dropping it stops and removes it.
///
/// It comes from installed binaries, or from installation by apt-get as root; there is no container of it, because a
/// container could not reach a server that listens on this machine alone.
#[derive(Debug)]
pub struct PgBouncer {
    url: String,
    host: Host,
    _supervisor: Supervisor,
}

impl PgBouncer {
    /// Starts a pooler that leads every database name to the server at `url`, with the credentials in it.
    ///
    /// # Errors
    /// [`ServersError::NoWay`] if `pgbouncer` is not installed and cannot be installed.
    pub async fn before(url: &str, options: &Options) -> Result<Self, ServersError> {
        let programs = install::found_or_installed(Pooler::NAME, "pgbouncer", Pooler::find, options).await?;
        let mut options = options.clone();
        options.upstream = Some(url.to_owned());
        let (address, host, supervisor) = launch::<Pooler>(&programs, &options).await?;
        Ok(Self { url: address.url, host, _supervisor: supervisor })
    }

    /// The URL of the pooler, with the path and the credentials of the server's own.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn describe(&self) -> String {
        format!("{}: {}", Pooler::NAME, self.host.describe())
    }
}

#[derive(Debug)]
struct Pooler;

impl Program for Pooler {
    const NAME: &'static str = "PgBouncer";
    const SLUG: &'static str = "pgbouncer";
    const READY_WITHIN: Duration = Duration::from_secs(30);

    async fn probe(url: &str) -> Result<(), String> {
        let connection = PgConnection::connect(url).await.map_err(|error| error.to_string())?;
        connection.close().await.map_err(|error| error.to_string())
    }

    fn find() -> Result<PathBuf, String> {
        let debian = Some(PathBuf::from("/usr/sbin/pgbouncer")).filter(|program| program.is_file());
        let program = env::find_on_path("pgbouncer").or(debian);
        program
            .and_then(|program| Some(program.parent()?.to_owned()))
            .ok_or_else(|| "neither PATH nor /usr/sbin holds `pgbouncer`".to_owned())
    }

    fn account() -> Account {
        Account::unprivileged(&["postgres"])
    }

    fn set_up(programs: &Path, directory: &Path, options: &Options) -> Result<Address, ServersError> {
        let unreadable = |_error| ServersError::Setting {
            name: "DATABASE_URL",
            value: "(not shown)".to_owned(),
            expected: "a URL such as postgres://user:password@host:5432/postgres",
        };
        let mut url = Url::parse(options.upstream.as_deref().unwrap_or_default()).map_err(unreadable)?;
        let [port] = random::free_ports()?;
        let (host, upstream) = (url.host_str().unwrap_or("127.0.0.1"), url.port().unwrap_or(5432));
        // `extra_float_digits` is what the driver sends at start; docs/settings.md names it to operators as well.
        let configuration = format!(
            "[databases]\n* = host={host} port={upstream}\n\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
             unix_socket_dir =\npool_mode = transaction\nauth_type = scram-sha-256\nauth_file = users.txt\n\
             ignore_startup_parameters = extra_float_digits\nmax_client_conn = 2000\ndefault_pool_size = 10\n\
             server_idle_timeout = 5\n"
        );
        write(directory, "pooler.ini", &configuration)?;
        let word = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let users = format!("{} {}\n", word(url.username()), word(url.password().unwrap_or_default()));
        write(directory, "users.txt", &users)?;
        let program = quoted(&programs.join("pgbouncer").display().to_string());
        write(directory, "server.sh", &format!("exec {program} pooler.ini\n"))?;
        // Neither part can fail for a URL that has a host.
        let _unchanged = (url.set_host(Some("127.0.0.1")), url.set_port(Some(port)));
        Ok(Address { url: url.into(), tls_port: None })
    }
}
