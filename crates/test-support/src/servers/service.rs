//! What differs between the kinds of server.

use std::{
    fmt::Debug,
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::process::Signal;
use testcontainers::{ContainerRequest, GenericImage};

use super::{account::Account, error::ServersError, options::Options};
use crate::tls::Identity;

/// A kind of server: [`Postgres`](super::Postgres) or [`RabbitMq`](super::RabbitMq).
#[expect(private_bounds, reason = "the set of kinds is closed")]
pub trait Service: Kind {}

impl<K: Kind> Service for K {}

/// What installed programs make a throwaway process of.
pub(crate) trait Program: Debug + Send + Sync + Sized + 'static {
    /// The server's name for people.
    const NAME: &'static str;
    /// The server's name in paths and container names.
    const SLUG: &'static str;
    /// How long the server may take to accept connections.
    const READY_WITHIN: Duration;

    /// Connects once and disconnects.
    fn probe(url: &str) -> impl Future<Output = Result<(), String>> + Send;

    /// The folder with the server's programs, or where it was looked for.
    fn find() -> Result<PathBuf, String>;

    /// The user for the server's processes.
    fn account() -> Account;

    /// Writes into the directory what its supervisor is to start; where the server will listen.
    fn set_up(programs: &Path, directory: &Path, options: &Options) -> Result<Address, ServersError>;
}

/// Where a server that was set up will listen.
pub(crate) struct Address {
    /// The URL with the credentials of an administrator.
    pub(crate) url: String,
    /// The port at which it speaks TLS, if it does.
    pub(crate) tls_port: Option<u16>,
}

pub(crate) trait Kind: Program {
    /// The environment variable that names a server of the caller's.
    const URL_VARIABLE: &'static str;
    /// The environment variable that names another image.
    const IMAGE_VARIABLE: &'static str;
    /// The image if that variable is not set.
    const IMAGE: &'static str;
    /// The port inside a container.
    const INNER_PORT: u16;
    /// What asks the first process for an orderly end that does not wait for clients.
    const ORDERLY: Signal;
    /// What asks for the same inside a container, where the signal may not reach the server.
    const ORDERLY_COMMAND: &[&str];

    /// Adds credentials and settings to a container; a function from host and port to the server's URL.
    fn container(
        image: GenericImage,
        options: &Options,
    ) -> Result<(ContainerRequest<GenericImage>, UrlOf), ServersError>;
}

pub(crate) type UrlOf = Box<dyn Fn(&str, u16) -> String + Send>;

/// Writes a file into a server's directory.
pub(crate) fn write(directory: &Path, name: &str, text: &str) -> Result<(), ServersError> {
    let path = directory.join(name);
    std::fs::write(&path, text).map_err(ServersError::io(format!("write {}", path.display())))?;
    // Readable for the server's user; the directory lets nobody else in.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(&path, mode).map_err(ServersError::io(format!("open {} for reading", path.display())))
}

/// Writes what a server that speaks TLS needs: `authority.pem`, `certificate.pem` and `key.pem`.
pub(crate) fn write_identity(directory: &Path, identity: &Identity) -> Result<(), ServersError> {
    write(directory, "authority.pem", &identity.authority)?;
    write(directory, "certificate.pem", &identity.certificate)?;
    write(directory, "key.pem", &identity.key)
}

/// Quotes a word for the shell.
pub(crate) fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}
