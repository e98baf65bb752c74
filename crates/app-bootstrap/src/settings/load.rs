//! Layers of settings: defaults in the binary, then a file for the profile, then the environment.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

use application_core::SettingProblem;
use config::{Config, ConfigError, Environment, File, FileFormat, Map, Value, ValueKind};

use super::Settings;

/// The prefix of the environment variables that are settings: `APP__OUTBOX__PUBLISHER=stdout`.
pub const ENVIRONMENT_PREFIX: &str = "APP";

/// Variables that others set by custom, and the settings that they stand for.
const SHORT_NAMES: [(&str, &str); 3] = [
    ("DATABASE_URL", "APP__DATABASE__URL"),
    ("AMQP_URL", "APP__OUTBOUND__AMQP__URL"),
    ("AMQP_URL", "APP__CONSUMER__URL"),
];

/// Settings that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A file that was asked for is not there, or no layer of it can be read.
    #[error("the settings cannot be read from {}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        #[source]
        source: Box<ConfigError>,
    },
    /// Every problem, all at once.
    #[error("{}", AllProblems(.0))]
    Invalid(Vec<SettingProblem>),
}

struct AllProblems<'a>(&'a [SettingProblem]);

impl fmt::Display for AllProblems<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.0.len() == 1 { "problem" } else { "problems" };
        write!(f, "{} {plural} in the settings", self.0.len())?;
        self.0.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

/// Where settings come from.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// A file that must exist.
    pub file: Option<PathBuf>,
    /// The directory of the profiles' files.
    pub directory: PathBuf,
    /// The profile; its file may be missing.
    pub profile: String,
    /// The environment.
    pub environment: BTreeMap<String, String>,
}

impl Sources {
    /// The process's own: `APP_PROFILE` (default `local`) names `config/<profile>.toml`; `file` replaces that file.
    #[must_use]
    pub fn of_process(file: Option<PathBuf>) -> Self {
        let environment: BTreeMap<_, _> =
            std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?))).collect();
        let profile = environment.get("APP_PROFILE").cloned().unwrap_or_else(|| "local".to_owned());
        Self { file, directory: PathBuf::from("config"), profile, environment }
    }

    /// Reads all layers.
    ///
    /// # Errors
    /// [`SettingsError`]; [`SettingsError::Invalid`] lists every problem at once, unknown keys included.
    pub fn load(&self) -> Result<Settings, SettingsError> {
        let mut problems = Vec::new();
        let mut root = self.layers()?;
        let settings = loop {
            match serde_path_to_error::deserialize::<_, Settings>(Value::new(None, ValueKind::Table(root.clone()))) {
                Ok(settings) => break settings,
                Err(error) => {
                    let problem = unreadable_key(&error);
                    // The key is left out and the rest read again, so that one run shows every problem.
                    let removed = remove(&mut root, &problem.key);
                    problems.push(problem);
                    if !removed {
                        return Err(SettingsError::Invalid(problems));
                    }
                }
            }
        };
        problems.extend(settings.problems());
        if problems.is_empty() { Ok(settings) } else { Err(SettingsError::Invalid(problems)) }
    }

    fn layers(&self) -> Result<Map<String, Value>, SettingsError> {
        let (file, required) = match &self.file {
            Some(file) => (file.clone(), true),
            None => (self.directory.join(format!("{}.toml", self.profile)), false),
        };
        let unreadable = |source| SettingsError::Unreadable { file: file.clone(), source: Box::new(source) };
        let mut environment: Map<String, String> = self.environment.clone().into_iter().collect();
        for (url, key) in SHORT_NAMES {
            // The more specific variable wins.
            if let (Some(url), false) = (self.environment.get(url), environment.contains_key(key)) {
                environment.insert(key.to_owned(), url.clone());
            }
        }
        let builder = Config::builder().add_source(file_source(&file, required));
        let environment = Environment::with_prefix(ENVIRONMENT_PREFIX)
            .prefix_separator("__")
            .separator("__")
            .ignore_empty(true)
            .source(Some(environment));
        let config = builder.add_source(environment).build().map_err(unreadable)?;
        config.cache.into_table().map_err(unreadable)
    }
}

fn file_source(file: &Path, required: bool) -> File<config::FileSourceFile, FileFormat> {
    File::new(&file.to_string_lossy(), FileFormat::Toml).required(required)
}

fn unreadable_key(error: &serde_path_to_error::Error<ConfigError>) -> SettingProblem {
    SettingProblem::new(error.path().to_string(), "set", format!("it cannot be read: {}", error.inner()))
}

/// Takes the value at a dotted path out of the tree; `false`: there is none, so nothing more can be learnt.
fn remove(root: &mut Map<String, Value>, path: &str) -> bool {
    match path.split_once('.') {
        None => root.remove(path).is_some(),
        Some((table, rest)) => match root.get_mut(table).map(|value| &mut value.kind) {
            Some(ValueKind::Table(inner)) => remove(inner, rest),
            _ => root.remove(table).is_some(),
        },
    }
}
