//! Layers of settings: defaults in the binary, then a file for the profile, then the environment.

use std::{
    collections::BTreeMap,
    fmt,
    path::{self, Path, PathBuf},
};

use application_core::SettingProblem;
use config::{Config, ConfigError, Environment, File, FileFormat, Map, Value, ValueKind};

use super::{Settings, unreadable::unreadable_key};
use crate::words::counted;

/// The prefix of the environment variables that are settings: `APP__OUTBOX__PUBLISHER=stdout`.
pub const ENVIRONMENT_PREFIX: &str = "APP";

/// Variables that others set by custom, and the settings that they stand for.
const SHORT_NAMES: [(&str, &str); 3] = [
    ("DATABASE_URL", "APP__DATABASE__URL"),
    ("AMQP_URL", "APP__OUTBOUND__AMQP__URL"),
    ("AMQP_URL", "APP__CONSUMER__URL"),
];

/// The settings that are lists. In the environment they are written as in a file: `["a", "b"]`.
pub(super) const LISTS: [&str; 4] =
    ["outbox.dead_head.skip", "outbound.route.overrides", "outbound.amqp.topology.binding_keys", LIST_WITH_SECRETS];

/// The one of them whose items hold secrets.
const LIST_WITH_SECRETS: &str = "outbound.webhook.overrides";

/// Settings that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A file that was asked for is not there, or no layer of it can be read.
    #[error("the settings cannot be read from {}: {reason}", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why, without the line at fault, which may hold a secret.
        reason: String,
    },
    /// Every problem, all at once.
    #[error("{}", AllProblems(.0))]
    Invalid(Vec<SettingProblem>),
}

struct AllProblems<'a>(&'a [SettingProblem]);

impl fmt::Display for AllProblems<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in the settings", counted(self.0.len() as u64, "problem"))?;
        self.0.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

/// The one file in which settings were looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingsFile {
    /// The profile that named it; none: it was asked for by its own name.
    pub profile: Option<String>,
    /// Its absolute path.
    pub path: PathBuf,
    /// Whether it is there.
    pub found: bool,
}

impl SettingsFile {
    /// Logs where the settings come from: a wrong profile or working directory leaves a file out without an error.
    pub fn log(&self) {
        let (profile, file) = (self.profile.as_deref(), self.path.display());
        if self.found {
            tracing::info!(profile, %file, "settings are read from a file and the environment");
        } else {
            tracing::info!(profile, %file, "there is no settings file: defaults and the environment count");
        }
    }
}

impl fmt::Display for SettingsFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Quoted, for a comment of the settings must stay on its line.
        if let Some(profile) = &self.profile {
            write!(f, "profile {profile:?}, ")?;
        }
        let found = if self.found { "read" } else { "looked for and missing" };
        write!(f, "file {:?} ({found})", self.path.to_string_lossy())
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
    /// Variables of ours whose value is no text: refused, because leaving one out could leave a secret out.
    pub not_text: Vec<String>,
}

impl Sources {
    /// The process's own: `APP_PROFILE` (default `local`) names `config/<profile>.toml`; `file` replaces that file.
    #[must_use]
    pub fn of_process(file: Option<PathBuf>) -> Self {
        let (mut environment, mut not_text) = (BTreeMap::new(), Vec::new());
        for (name, value) in std::env::vars_os() {
            // A name that is no text is none of ours.
            let Ok(name) = name.into_string() else { continue };
            match value.into_string() {
                Ok(value) => {
                    environment.insert(name, value);
                }
                Err(_)
                    if name.starts_with(ENVIRONMENT_PREFIX) || SHORT_NAMES.iter().any(|(short, _)| *short == name) =>
                {
                    not_text.push(name);
                }
                Err(_) => {}
            }
        }
        let profile = environment.get("APP_PROFILE").cloned().unwrap_or_else(|| "local".to_owned());
        Self { file, directory: PathBuf::from("config"), profile, environment, not_text }
    }

    /// The file that [`Self::load`] reads if it is there.
    #[must_use]
    pub fn settings_file(&self) -> SettingsFile {
        let path = self.path();
        let profile = self.file.is_none().then(|| self.profile.clone());
        SettingsFile { profile, found: path.is_file(), path: path::absolute(&path).unwrap_or(path) }
    }

    fn path(&self) -> PathBuf {
        self.file.clone().unwrap_or_else(|| self.directory.join(format!("{}.toml", self.profile)))
    }

    /// Reads all layers.
    ///
    /// # Errors
    /// [`SettingsError`]; [`SettingsError::Invalid`] lists every problem at once, unknown keys included.
    pub fn load(&self) -> Result<Settings, SettingsError> {
        let not_text = self.not_text.iter();
        let mut problems: Vec<_> =
            not_text.map(|name| SettingProblem::new(name, "no text", "it must be UTF-8")).collect();
        let mut root = self.layers(&mut problems)?;
        refuse_arrays(&mut root, "", &mut problems);
        let settings = loop {
            match serde_path_to_error::deserialize::<_, Settings>(Value::new(None, ValueKind::Table(root.clone()))) {
                Ok(settings) => break settings,
                Err(error) => {
                    let problem = unreadable_key(&error, &root);
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

    fn layers(&self, problems: &mut Vec<SettingProblem>) -> Result<Map<String, Value>, SettingsError> {
        let (file, required) = (self.path(), self.file.is_some());
        let unreadable =
            |error: ConfigError| SettingsError::Unreadable { file: file.clone(), reason: without_lines(&error) };
        let mut environment: Map<String, String> = self.environment.clone().into_iter().collect();
        for (url, key) in SHORT_NAMES {
            // The more specific variable wins.
            let named = environment.get(key).is_some_and(|value| !value.is_empty());
            if let (Some(url), false) = (self.environment.get(url), named) {
                environment.insert(key.to_owned(), url.clone());
            }
        }
        let lists = take_lists(&mut environment, problems);
        let mut builder = Config::builder().add_source(file_source(&file, required));
        let environment = Environment::with_prefix(ENVIRONMENT_PREFIX)
            .prefix_separator("__")
            .separator("__")
            .ignore_empty(true)
            .source(Some(environment));
        builder = builder.add_source(environment);
        for (key, list) in lists {
            builder = builder.set_override(key, list).map_err(unreadable)?;
        }
        let config = builder.build().map_err(unreadable)?;
        config.cache.into_table().map_err(unreadable)
    }
}

/// Takes the lists out of the environment, whose other values are read as plain text.
fn take_lists(environment: &mut Map<String, String>, problems: &mut Vec<SettingProblem>) -> Vec<(&'static str, Value)> {
    let mut lists = Vec::new();
    for key in LISTS {
        let variable = format!("{ENVIRONMENT_PREFIX}__{}", key.replace('.', "__"));
        let Some(name) = environment.keys().find(|name| name.eq_ignore_ascii_case(&variable)).cloned() else {
            continue;
        };
        let text = environment.remove(&name).unwrap_or_default();
        if text.is_empty() {
            continue;
        }
        match text.parse::<toml::Value>() {
            Ok(list @ toml::Value::Array(_)) => match list.try_into() {
                Ok(list) => lists.push((key, list)),
                Err(error) => problems.push(no_list(key, &text, &error)),
            },
            Ok(other) => problems.push(no_list(key, &text, &format!("it is of type {}", other.type_str()))),
            Err(error) => problems.push(no_list(key, &text, &error.message())),
        }
    }
    lists
}

fn no_list(key: &str, text: &str, why: &dyn fmt::Display) -> SettingProblem {
    if key == LIST_WITH_SECRETS {
        return SettingProblem::new(key, "a text that is not shown here", "it must be a list as in a file, [{…}, {…}]");
    }
    SettingProblem::new(key, format!("{text:?}"), format!("it must be a list as in a file, [\"a\", \"b\"]: {why}"))
}

/// Leaves out arrays where no list is expected: derived code would take their items for the fields of a section, by place.
fn refuse_arrays(table: &mut Map<String, Value>, path: &str, problems: &mut Vec<SettingProblem>) {
    let mut refused = Vec::new();
    for (name, value) in table.iter_mut() {
        let key = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let is_list = LISTS.contains(&key.as_str());
        match &mut value.kind {
            ValueKind::Table(inner) => refuse_arrays(inner, &key, problems),
            ValueKind::Array(items)
                if !is_list || items.iter().any(|item| matches!(item.kind, ValueKind::Array(_))) =>
            {
                let bound = if is_list { "its items must not be lists" } else { "it must not be a list" };
                problems.push(SettingProblem::new(key, "a list", bound));
                refused.push(name.clone());
            }
            _ => {}
        }
    }
    for name in refused {
        table.remove(&name);
    }
}

fn file_source(file: &Path, required: bool) -> File<config::FileSourceFile, FileFormat> {
    File::new(&file.to_string_lossy(), FileFormat::Toml).required(required)
}

/// The parser's words without the excerpt of the file that it draws with bars.
fn without_lines(error: &ConfigError) -> String {
    let text = error.to_string();
    text.lines().filter(|line| !line.contains('|')).map(str::trim).collect::<Vec<_>>().join(" ")
}

/// Takes the value at a dotted path out of the tree; `false`: there is none, so nothing more can be learnt.
fn remove(root: &mut Map<String, Value>, path: &str) -> bool {
    match path.split_once(['.', '[']) {
        None => root.remove(path).is_some(),
        Some((table, rest)) => match root.get_mut(table).map(|value| &mut value.kind) {
            Some(ValueKind::Table(inner)) => remove(inner, rest),
            _ => root.remove(table).is_some(),
        },
    }
}
