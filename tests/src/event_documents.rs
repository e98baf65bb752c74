//! The documents in `docs/events`: a JSON Schema and a golden payload of each version of each event, and one AsyncAPI
//! document, all from the list of events. `cargo xtask events` writes them, `--check` compares.

mod asyncapi;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use event_contracts::{EventContract, breaks, complaints, plaintexts};
use serde_json::Value;

pub use asyncapi::{ASYNCAPI, describe};

/// Where the documents are, from the workspace's root.
pub const FOLDER: &str = "docs/events";

/// Why the documents could not be compared or written.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// A file or folder cannot be read or written.
    #[error("{} cannot be read or written", .path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// An event has no JSON form.
    #[error("the example of {stem} has no JSON form")]
    Example {
        /// Which version of which event.
        stem: String,
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// An event cannot be described as it would be sent.
    #[error("{stem} cannot be described: {reason}")]
    Undescribed {
        /// Which version of which event.
        stem: String,
        /// Why.
        reason: String,
    },
}

/// What is wrong with the documents.
#[derive(Debug, Default)]
pub struct Findings {
    /// What somebody has to decide upon, a line each.
    pub broken: Vec<String>,
    /// Files that are not as the list of events says, with the text that they should have.
    pub stale: BTreeMap<String, String>,
    /// How many versions of events were looked at.
    pub looked_at: usize,
}

/// Compares the documents below `folder` with the list of events.
///
/// # Errors
/// [`DocumentError`].
pub fn compare(folder: &Path, contracts: &[EventContract]) -> Result<Findings, DocumentError> {
    let mut findings = Findings { looked_at: contracts.len(), ..Findings::default() };
    findings.versions(contracts);
    for contract in contracts {
        findings.schema(folder, contract)?;
        findings.golden(folder, contract)?;
    }
    findings.left_over(folder, contracts)?;
    if !contracts.is_empty() {
        findings.expect(folder, ASYNCAPI.to_owned(), pretty(&describe(contracts)?))?;
    }
    Ok(findings)
}

/// Writes what is stale, unless something is broken.
///
/// # Errors
/// [`DocumentError::File`].
pub fn write(folder: &Path, findings: &Findings) -> Result<(), DocumentError> {
    for (name, text) in findings.stale.iter().filter(|_| findings.broken.is_empty()) {
        let path = folder.join(name);
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent)
            .and_then(|()| fs::write(&path, text))
            .map_err(|source| DocumentError::File { path: path.clone(), source })?;
    }
    Ok(())
}

impl Findings {
    /// Versions count up from 1, and each is there once.
    fn versions(&mut self, contracts: &[EventContract]) {
        let mut versions: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for contract in contracts {
            versions.entry(contract.event_type).or_default().push(contract.schema_version);
        }
        for (event_type, mut listed) in versions {
            listed.sort_unstable();
            if listed.iter().zip(1..).any(|(listed, expected)| *listed != expected) {
                self.broken.push(format!("{event_type} has the versions {listed:?}: they count up from 1, each once"));
            }
        }
    }

    fn schema(&mut self, folder: &Path, contract: &EventContract) -> Result<(), DocumentError> {
        let (stem, derived) = (contract.stem(), contract.schema());
        self.broken.extend(complaints(&derived).into_iter().map(|complaint| format!("{stem}: {complaint}")));
        let name = schema_file(&stem);
        match read(folder, &name)?.map(|text| serde_json::from_str::<Value>(&text)) {
            Some(Ok(published)) => {
                let (event_type, next) = (contract.event_type, contract.schema_version + 1);
                let broken = breaks(&published, &derived).into_iter();
                self.broken.extend(broken.map(|change| {
                    format!(
                        "{stem} is published, and {change}: keep its type as it was and add a version, a type with \
                         EVENT_TYPE {event_type} and SCHEMA_VERSION {next}"
                    )
                }));
            }
            Some(Err(error)) => self.broken.push(format!("{name} is no JSON: {error}")),
            None => {}
        }
        self.expect(folder, name, pretty(&derived))
    }

    fn golden(&mut self, folder: &Path, contract: &EventContract) -> Result<(), DocumentError> {
        let (stem, name) = (contract.stem(), golden_file(&contract.stem()));
        let failed = |source| DocumentError::Example { stem: stem.clone(), source };
        let example = contract.example().map_err(failed)?;
        self.plaintexts(contract, "the example", &serde_json::from_str(&example).map_err(failed)?);
        let Some(golden) = read(folder, &name)? else {
            self.stale.insert(name, format!("{example}\n"));
            return Ok(());
        };
        let sent = serde_json::from_str::<Value>(&golden);
        if let Ok(sent) = &sent {
            self.plaintexts(contract, &name, sent);
        }
        match (sent, contract.read_again(&golden)) {
            (Ok(sent), Ok(read)) if holds(&sent, &read) => {}
            (Ok(_), Ok(_)) => self.broken.push(format!("{name} loses a field or a value when {stem} reads it")),
            (_, Err(error)) | (Err(error), _) => {
                self.broken.push(format!("{name} was sent once and is not read as {stem} any more: {error}"));
            }
        }
        Ok(())
    }

    /// What is marked as encrypted is a ciphertext in every payload that is shown.
    fn plaintexts(&mut self, contract: &EventContract, what: &str, payload: &Value) {
        let found = plaintexts(&contract.schema(), payload).into_iter();
        self.broken.extend(found.map(|plaintext| format!("{}: {what}: {plaintext}", contract.stem())));
    }

    /// Nothing that was published goes.
    fn left_over(&mut self, folder: &Path, contracts: &[EventContract]) -> Result<(), DocumentError> {
        let stems = contracts.iter().map(EventContract::stem);
        let expected: BTreeSet<String> = stems.flat_map(|stem| [schema_file(&stem), golden_file(&stem)]).collect();
        for kind in ["schemas", "golden"] {
            let path = folder.join(kind);
            let failed = |source| DocumentError::File { path: path.clone(), source };
            let entries = match fs::read_dir(&path) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed(error)),
            };
            for entry in entries {
                let name = format!("{kind}/{}", entry.map_err(failed)?.file_name().to_string_lossy());
                if !expected.contains(&name) {
                    self.broken.push(format!(
                        "{name} is of no listed event: a version that was published stays in the list of its context"
                    ));
                }
            }
        }
        self.broken.sort();
        Ok(())
    }

    fn expect(&mut self, folder: &Path, name: String, text: String) -> Result<(), DocumentError> {
        if read(folder, &name)?.as_ref() != Some(&text) {
            self.stale.insert(name, text);
        }
        Ok(())
    }
}

/// Where the schema of a version is, below [`FOLDER`].
fn schema_file(stem: &str) -> String {
    format!("schemas/{stem}.json")
}

/// Where the golden payload of a version is, below [`FOLDER`].
fn golden_file(stem: &str) -> String {
    format!("golden/{stem}.json")
}

fn read(folder: &Path, name: &str) -> Result<Option<String>, DocumentError> {
    let path = folder.join(name);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(DocumentError::File { path, source }),
    }
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

/// Whether all that was sent is still there after reading and writing; a field may have been added.
fn holds(sent: &Value, read: &Value) -> bool {
    match (sent, read) {
        (Value::Object(sent), Value::Object(read)) => {
            sent.iter().all(|(name, value)| read.get(name).is_some_and(|read| holds(value, read)))
        }
        (Value::Array(sent), Value::Array(read)) => {
            sent.len() == read.len() && sent.iter().zip(read).all(|(sent, read)| holds(sent, read))
        }
        (sent, read) => sent == read,
    }
}
