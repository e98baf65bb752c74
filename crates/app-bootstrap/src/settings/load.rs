//! Layers of settings: defaults in the binary, then a file for the profile, then the environment.

use std::{
    collections::BTreeMap,
    fmt, fs, io,
    path::{self, Path, PathBuf},
};

use application_core::{SettingProblem, shortened};
use config::{ConfigError, File, FileFormat, Map, Source, Value, ValueKind};

use super::{
    Settings,
    unreadable::{numbers_out_of_range, unreadable_key},
    variables::Variables,
};
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

/// Those of them whose items are sections of texts; the items of the others are texts.
const LISTS_OF_SECTIONS: [&str; 2] = ["outbound.route.overrides", LIST_WITH_SECRETS];

/// The one of them whose items hold secrets.
const LIST_WITH_SECRETS: &str = "outbound.webhook.overrides";

/// Settings that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// A file that was asked for is not there, or what is there cannot be read.
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
        let profile = profile(&environment);
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
        refuse_misplaced(&mut root, "", &mut problems);
        let whole = root.clone();
        let settings = loop {
            match serde_path_to_error::deserialize::<_, Settings>(Value::new(None, ValueKind::Table(root.clone()))) {
                Ok(settings) => break settings,
                Err(error) => {
                    let problem = unreadable_key(&error, &whole);
                    // The key is left out and the rest read again, so that one run shows every problem.
                    let removed = remove(&mut root, &problem.key);
                    problems.push(problem);
                    if !removed {
                        problems.sort();
                        return Err(SettingsError::Invalid(problems));
                    }
                }
            }
        };
        // Tables have no order, and what is told has one.
        problems.sort();
        problems.extend(settings.problems());
        let problems = SettingProblem::without_follow_ons(problems);
        if problems.is_empty() { Ok(settings) } else { Err(SettingsError::Invalid(problems)) }
    }

    fn layers(&self, problems: &mut Vec<SettingProblem>) -> Result<Map<String, Value>, SettingsError> {
        let file = self.path();
        let unreadable = |reason| SettingsError::Unreadable { file: file.clone(), reason };
        let mut root = match read_file(&file).map_err(unreadable)? {
            Some(text) => File::from_str(&text, FileFormat::Toml).collect().map_err(|error| {
                let reason = numbers_out_of_range(&text).unwrap_or_else(|| without_lines(&error));
                unreadable(shortened(&reason, LONGEST_REASON))
            })?,
            None if self.file.is_some() => return Err(unreadable("there is no such file".to_owned())),
            None => Map::new(),
        };
        refuse_quoted(&mut root, "", problems);
        let mut environment = self.environment.clone();
        for (short, name) in SHORT_NAMES {
            // The more specific variable wins.
            let is_named = |(other, value): (&String, &String)| other.eq_ignore_ascii_case(name) && !value.is_empty();
            if let (Some(url), false) = (self.environment.get(short), self.environment.iter().any(is_named)) {
                environment.insert(name.to_owned(), url.clone());
            }
        }
        let mut variables = Variables::of(environment, problems);
        let lists = take_lists(&mut variables, problems);
        variables.put_into(&mut root);
        for (key, list) in lists {
            put(&mut root, key, list);
        }
        Ok(root)
    }
}

/// The profile that the environment names; an empty variable counts as none.
pub(super) fn profile(environment: &BTreeMap<String, String>) -> String {
    environment.get("APP_PROFILE").filter(|name| !name.is_empty()).cloned().unwrap_or_else(|| "local".to_owned())
}

/// The most characters that are shown of what the parser says.
const LONGEST_REASON: usize = 1_000;

/// The text of exactly this file; `None`: there is none. Otherwise why it cannot be had.
fn read_file(file: &Path) -> Result<Option<String>, String> {
    let is_missing = |error: &io::Error| matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
    match fs::metadata(file) {
        Err(error) if is_missing(&error) => return Ok(None),
        Err(error) => return Err(error.to_string()),
        Ok(found) if found.is_dir() => return Err("it is a directory".to_owned()),
        // A pipe would be waited for, and a device may have no end.
        Ok(found) if !found.is_file() => return Err("it is a pipe, a socket or a device, not a file".to_owned()),
        Ok(_) => {}
    }
    let bytes = match fs::read(file) {
        Err(error) if is_missing(&error) => return Ok(None),
        Err(error) => return Err(error.to_string()),
        Ok(bytes) => bytes,
    };
    let text = String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        format!("it is not UTF-8 from byte {valid} on")
    })?;
    Ok(Some(text.trim_start_matches('\u{feff}').to_owned()))
}

/// Puts a value at a dotted path; what stands there or on the way and is no section is replaced.
pub(super) fn put(root: &mut Map<String, Value>, path: &str, value: Value) {
    match path.split_once('.') {
        None => {
            root.insert(path.to_owned(), value);
        }
        Some((section, rest)) => {
            let inner = root.entry(section.to_owned()).or_default();
            if !matches!(inner.kind, ValueKind::Table(_)) {
                *inner = Value::new(None, ValueKind::Table(Map::new()));
            }
            if let ValueKind::Table(inner) = &mut inner.kind {
                put(inner, rest, value);
            }
        }
    }
}

/// The section whose keys are names of the operator's, whose bounds are its own to check.
const NAMED_BY_OPERATORS: &str = "encryption.keys";

/// Leaves out names with a dot or a bracket, which a file can hold in quotes: they would look like other keys.
fn refuse_quoted(table: &mut Map<String, Value>, path: &str, problems: &mut Vec<SettingProblem>) {
    let is_quoted = |name: &String| name.contains(['.', '[', ']']) && path != NAMED_BY_OPERATORS;
    for name in table.keys().filter(|name| is_quoted(name)) {
        let bound = "there is no such key: dots between the names of sections stand outside of quotes";
        problems.push(SettingProblem::new(within(path, &format!("{name:?}")), "set", bound));
    }
    table.retain(|name, _| !is_quoted(name));
    for (name, value) in table.iter_mut() {
        if let ValueKind::Table(inner) = &mut value.kind {
            refuse_quoted(inner, &within(path, name), problems);
        }
    }
}

pub(super) fn within(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// Takes the lists out of the environment, whose other values are read as plain text.
fn take_lists(variables: &mut Variables, problems: &mut Vec<SettingProblem>) -> Vec<(&'static str, Value)> {
    let mut lists = Vec::new();
    for key in LISTS {
        let Some(text) = variables.take(key) else { continue };
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
/// Leaves out lists with items of another type as well, which would be read as texts.
fn refuse_misplaced(table: &mut Map<String, Value>, path: &str, problems: &mut Vec<SettingProblem>) {
    let mut refused = Vec::new();
    for (name, value) in table.iter_mut() {
        let (key, before) = (within(path, name), problems.len());
        match &mut value.kind {
            ValueKind::Table(inner) => {
                refuse_misplaced(inner, &key, problems);
                continue;
            }
            ValueKind::Array(items) if LISTS.contains(&key.as_str()) => check_items(&key, items, problems),
            ValueKind::Array(_) => problems.push(SettingProblem::new(key, "a list", "it must not be a list")),
            _ => {}
        }
        if problems.len() > before {
            refused.push(name.clone());
        }
    }
    for name in refused {
        table.remove(&name);
    }
}

/// Names every item of a list that is not of the list's type, by its place.
fn check_items(key: &str, items: &[Value], problems: &mut Vec<SettingProblem>) {
    let mut refuse = |key: String, met: &Value, bound: &str| problems.push(SettingProblem::new(key, kind(met), bound));
    for (at, item) in items.iter().enumerate() {
        match &item.kind {
            ValueKind::Table(fields) if LISTS_OF_SECTIONS.contains(&key) => {
                for (name, value) in fields {
                    // A secret may be a number as well.
                    if !matches!(value.kind, ValueKind::String(_)) && is_plain(value) {
                        refuse(format!("{key}[{at}].{name}"), value, "it must be a text in quotes");
                    }
                }
            }
            ValueKind::String(_) if !LISTS_OF_SECTIONS.contains(&key) => {}
            _ if LISTS_OF_SECTIONS.contains(&key) => {
                refuse(format!("{key}[{at}]"), item, "it must be a section as in a file, {key = \"value\"}");
            }
            _ => refuse(format!("{key}[{at}]"), item, "it must be a text in quotes"),
        }
    }
}

/// Whether a value is one that would be read as a text without being one.
fn is_plain(value: &Value) -> bool {
    !matches!(value.kind, ValueKind::Table(_) | ValueKind::Array(_))
}

/// What was met, without the value, which may be a secret.
fn kind(value: &Value) -> &'static str {
    match value.kind {
        ValueKind::String(_) => "a text",
        ValueKind::Table(_) => "a section",
        ValueKind::Array(_) => "a list",
        ValueKind::Boolean(_) => "true or false",
        ValueKind::Nil => "empty",
        _ => "a number",
    }
}

/// The parser's words without the excerpt of the file that it draws with bars.
fn without_lines(error: &ConfigError) -> String {
    let text = error.to_string();
    text.lines().filter(|line| !line.contains('|')).map(str::trim).collect::<Vec<_>>().join(" ")
}

/// Takes the value at a dotted path out of the tree; `false`: there is none, so nothing more can be learnt.
fn remove(root: &mut Map<String, Value>, path: &str) -> bool {
    if root.remove(path).is_some() {
        return true;
    }
    match path.split_once(['.', '[']) {
        None => root.remove(path).is_some(),
        Some((table, rest)) => match root.get_mut(table).map(|value| &mut value.kind) {
            Some(ValueKind::Table(inner)) => remove(inner, rest),
            _ => root.remove(table).is_some(),
        },
    }
}
