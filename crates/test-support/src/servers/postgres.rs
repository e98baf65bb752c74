//! PostgreSQL as a throwaway cluster or a container.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::process::Signal;
use sqlx::{Connection, PgConnection};
use testcontainers::{ContainerRequest, GenericImage, ImageExt};

use super::{
    account::Account,
    env,
    error::ServersError,
    options::Options,
    random,
    service::{Address, Kind, Program, UrlOf, quoted, write, write_identity},
};

/// The server refuses a key that others may read, and takes whom these lines of `pg_hba.conf` let in alone.
const ENCRYPTED: &str = "umask 077\n  cat key.pem >data/key.pem || exit\n  \
     echo 'hostssl all all 127.0.0.1/32 scram-sha-256' >data/pg_hba.conf\n  ";

/// The kind of server that is PostgreSQL.
#[derive(Debug, Clone, Copy)]
pub struct Postgres;

impl Program for Postgres {
    const NAME: &'static str = "PostgreSQL";
    const SLUG: &'static str = "postgres";
    const READY_WITHIN: Duration = Duration::from_secs(90);

    async fn probe(url: &str) -> Result<(), String> {
        let connection = PgConnection::connect(url).await.map_err(|error| error.to_string())?;
        connection.close().await.map_err(|error| error.to_string())
    }

    fn find() -> Result<PathBuf, String> {
        candidates()
            .into_iter()
            .find(|folder| folder.join("postgres").is_file() && folder.join("initdb").is_file())
            .ok_or_else(|| {
                "no folder on PATH and none of /usr/lib/postgresql/*/bin holds `postgres` and `initdb`".to_owned()
            })
    }

    fn account() -> Account {
        Account::unprivileged(&["postgres"])
    }

    fn set_up(programs: &Path, directory: &Path, options: &Options) -> Result<Address, ServersError> {
        let password = random::token()?;
        let [port] = random::free_ports()?;
        let mut settings = format!(
            "listen_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = ''\nlog_line_prefix = '%m [%p] '\n"
        );
        for (name, value) in options.all_postgres_settings() {
            settings.extend([name, " = '", &value.replace('\'', "''"), "'\n"]);
        }
        if let Some(identity) = &options.identity {
            write_identity(directory, identity)?;
            // A path that is not absolute is one within the data.
            settings.push_str(
                "ssl = on\nssl_cert_file = '../certificate.pem'\nssl_key_file = 'key.pem'\n\
                 ssl_ca_file = '../authority.pem'\n",
            );
        }
        write(directory, "password", &password)?;
        write(directory, "settings.conf", &settings)?;
        // The shared memory of a PostgreSQL that gets a SIGKILL would stay behind.
        write(directory, "soft-quit", "data/postmaster.pid")?;
        let script = format!(
            "PATH={}:$PATH HOME=$PWD LANG=C.UTF-8\nexport PATH HOME LANG\n\
             if [ ! -f data/PG_VERSION ]; then\n  \
             initdb --pgdata=data --username=postgres --pwfile=password --auth=scram-sha-256 \
             --encoding=UTF8 --locale=C --no-sync || exit\n  \
             {encrypted}cat settings.conf >>data/postgresql.conf\n\
             fi\n\
             exec postgres -D \"$PWD/data\"\n",
            quoted(&programs.display().to_string()),
            encrypted = if options.identity.is_some() { ENCRYPTED } else { "" },
        );
        write(directory, "server.sh", &script)?;
        Ok(Address { url: url(&password, "127.0.0.1", port), tls_port: options.identity.as_ref().map(|_| port) })
    }
}

impl Kind for Postgres {
    const URL_VARIABLE: &'static str = "DATABASE_URL";
    const IMAGE_VARIABLE: &'static str = "TEST_POSTGRES_IMAGE";
    const IMAGE: &'static str = "postgres:15-alpine";
    const INNER_PORT: u16 = 5432;
    /// The "fast" shutdown: clients are disconnected, a checkpoint is written.
    const ORDERLY: Signal = Signal::INT;
    const ORDERLY_COMMAND: &[&str] = &[];

    fn container(
        image: GenericImage,
        options: &Options,
    ) -> Result<(ContainerRequest<GenericImage>, UrlOf), ServersError> {
        let password = random::token()?;
        let mut command = vec!["postgres".to_owned()];
        for (name, value) in options.all_postgres_settings() {
            command.extend(["-c".to_owned(), format!("{name}={value}")]);
        }
        let request = image.with_env_var("POSTGRES_PASSWORD", &password).with_cmd(command);
        Ok((request, Box::new(move |host, port| url(&password, host, port))))
    }
}

fn url(password: &str, host: &str, port: u16) -> String {
    format!("postgres://postgres:{password}@{host}:{port}/postgres")
}

/// Folders that may hold the programs: those on `PATH`, then Debian's, the newest version first, then others' homes.
fn candidates() -> Vec<PathBuf> {
    let mut debian: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    debian.sort();
    let on_path =
        env::find_on_path("postgres").and_then(|program| Some(fs::canonicalize(program).ok()?.parent()?.to_owned()));
    on_path
        .into_iter()
        .chain(debian.into_iter().rev().map(|(_version, folder)| folder))
        .chain(["/usr/pgsql/bin", "/opt/homebrew/bin", "/usr/local/bin"].map(PathBuf::from))
        .collect()
}
