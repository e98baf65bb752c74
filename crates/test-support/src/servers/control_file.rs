//! The file that tells other processes how to control a set of servers.

use std::{collections::BTreeMap, fs, io::Write, os::unix::fs::OpenOptionsExt, path::Path};

use serde::{Deserialize, Serialize};

use super::{env, error::ServersError, host::Host, server::Server, service::Service};

/// What a run knows of its servers. It holds their passwords and is readable for its owner only.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct ControlFile {
    servers: BTreeMap<String, Record>,
    /// Kinds that the run goes without, and why.
    missing: BTreeMap<String, String>,
}

/// One server in the file.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) url: String,
    /// `None` if it was given by its URL.
    pub(crate) host: Option<Host>,
}

impl ControlFile {
    /// The file of the run that surrounds this process, if there is one.
    pub(crate) fn from_environment() -> Result<Option<Self>, ServersError> {
        env::text(env::CONTROL).map(|path| Self::read(Path::new(&path))).transpose()
    }

    pub(crate) fn read(path: &Path) -> Result<Self, ServersError> {
        let text = fs::read_to_string(path).map_err(ServersError::io(format!("read {}", path.display())))?;
        serde_json::from_str(&text)
            .map_err(|source| ServersError::ControlFile { path: path.display().to_string(), source })
    }

    pub(crate) fn write(&self, path: &Path) -> Result<(), ServersError> {
        let text = serde_json::to_string_pretty(self)
            .map_err(|source| ServersError::ControlFile { path: path.display().to_string(), source })?;
        let failed = || ServersError::io(format!("write {}", path.display()));
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path).map_err(failed())?;
        file.write_all(text.as_bytes()).map_err(failed())
    }

    pub(crate) fn record<S: Service>(&self) -> Option<&Record> {
        self.servers.get(S::SLUG)
    }

    pub(crate) fn records(&self) -> impl Iterator<Item = &Record> {
        self.servers.values()
    }

    pub(crate) fn missing<S: Service>(&self) -> Option<&str> {
        self.missing.get(S::SLUG).map(String::as_str)
    }

    pub(crate) fn add<S: Service>(&mut self, server: &Server<S>) {
        let record = Record { url: server.url().to_owned(), host: server.host().cloned() };
        self.servers.insert(S::SLUG.to_owned(), record);
    }

    pub(crate) fn add_missing<S: Service>(&mut self, reason: String) {
        self.missing.insert(S::SLUG.to_owned(), reason);
    }
}
