//! `rename`: gives a clone of the template a name of its own.
//!
//! What carries the name is a table in `rename/table.rs`. The packages keep their names: they say what a crate is for (ADR 17).

#[cfg(test)]
mod cargo_generate;
mod name;
mod table;
#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, path::Path};

pub(crate) use name::KEYWORDS;
pub use name::{Name, NameError};
pub use table::{How, KEPT, RENAMED, Renamed, UNTOUCHED};

use crate::{
    Error,
    command::Command,
    output, process,
    tree::{self, Tree},
    workspace,
};

/// The command `rename`.
pub const COMMAND: Command = Command {
    name: "rename",
    arguments: "NAME [--allow-dirty]",
    summary: "gives the program, variables, database, exchange, queues and documents a name of your own",
    run: |arguments| {
        let root = workspace::root();
        let options = Options::parse(arguments)?;
        if !options.allow_dirty {
            tree::require_clean(&root)?;
        }
        let changed = rename(&root, &options.name)?;
        process::output_of(process::cargo(&root).args(["fmt", "--all"]))?;
        output::say(&format!("renamed to {}: {changed} files changed; next: cargo xtask check", options.name));
        Ok(0)
    },
};

/// The file that says what a clone comes from. A workspace that has it was renamed.
pub const VERSION_FILE: &str = ".template-version";

/// Why a workspace was not renamed. Nothing is written then.
#[derive(Debug, thiserror::Error)]
pub enum RenameError {
    /// The name cannot be used.
    #[error(transparent)]
    Name(#[from] NameError),
    /// It was renamed before, and the template's names are gone.
    #[error("this workspace was renamed before; {VERSION_FILE} says what it is called")]
    AlreadyRenamed,
    /// The table has a name that no file has.
    #[error("no file has `{old}` ({what}): this is no clone of the template, or the table of names is out of date")]
    NotFound {
        /// The name.
        old: &'static str,
        /// What it would name.
        what: &'static str,
    },
    /// The table misses places.
    #[error("the template's name would be left at {}", .0.join(", "))]
    Left(Vec<String>),
}

#[derive(Debug, PartialEq, Eq)]
struct Options {
    name: String,
    allow_dirty: bool,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self, Error> {
        let (flags, names): (Vec<_>, Vec<_>) = arguments.iter().partition(|argument| argument.starts_with('-'));
        let unknown = |argument: &str| Error::UnknownArgument {
            command: "rename",
            argument: argument.to_owned(),
            expected: "one NAME, --allow-dirty",
        };
        if let Some(flag) = flags.iter().find(|flag| **flag != "--allow-dirty") {
            return Err(unknown(flag));
        }
        match names.as_slice() {
            [name] => Ok(Self { name: (*name).clone(), allow_dirty: !flags.is_empty() }),
            [] => Err(Error::MissingArgument { command: "rename", expected: "one NAME, --allow-dirty" }),
            [_, second, ..] => Err(unknown(second)),
        }
    }
}

/// Renames the workspace at `root` and says how many files changed.
///
/// # Errors
/// [`RenameError`], with nothing written; what [`Tree`] says of files.
pub fn rename(root: &Path, name: &str) -> Result<usize, Error> {
    let mut tree = Tree::read(root)?;
    if tree.text(VERSION_FILE).is_some() {
        return Err(RenameError::AlreadyRenamed.into());
    }
    let name = Name::try_new(name, &taken(&tree)).map_err(RenameError::from)?;
    apply(&mut tree, &name)?;
    let left = leftovers(&tree);
    if !left.is_empty() {
        return Err(RenameError::Left(left).into());
    }
    let version = version_file(&tree, root, &name);
    tree.set(VERSION_FILE, version);
    tree.write(root)?;
    Ok(tree.changed().len())
}

/// Every name of the table, replaced where it counts; each must be somewhere.
fn apply(tree: &mut Tree, name: &Name) -> Result<(), RenameError> {
    match rename_tree(tree, name).first() {
        None => Ok(()),
        Some(row) => Err(RenameError::NotFound { old: row.old, what: row.what }),
    }
}

/// Replaces every name of the table where it counts, and gives the lines of the table that were nowhere.
pub(crate) fn rename_tree(tree: &mut Tree, name: &Name) -> Vec<&'static Renamed> {
    let mut nowhere = Vec::new();
    for row in RENAMED {
        let new = (row.new)(name);
        let mut found = 0;
        let files: Vec<(String, String)> = tree
            .files()
            .filter(|(path, _)| is_touched(path) && row.file.is_none_or(|file| file == *path))
            .filter(|(_, text)| text.contains(row.old))
            .map(|(path, text)| (path.to_owned(), text.to_owned()))
            .collect();
        for (path, text) in files {
            let (replaced, count) = replace(&text, row, &new);
            found += count;
            tree.set(&path, replaced);
        }
        if found == 0 {
            nowhere.push(row);
        }
    }
    nowhere
}

fn is_touched(path: &str) -> bool {
    !UNTOUCHED.iter().any(|kept| path.strip_prefix(kept).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

fn replace(text: &str, row: &Renamed, new: &str) -> (String, usize) {
    let (mut replaced, mut rest_from, mut count) = (String::with_capacity(text.len()), 0, 0);
    for (at, old) in text.match_indices(row.old) {
        let (before, after) = (&text[..at], &text[at + old.len()..]);
        if counts(row.how, before, after) {
            replaced.push_str(&text[rest_from..at]);
            replaced.push_str(new);
            rest_from = at + old.len();
            count += 1;
        }
    }
    replaced.push_str(&text[rest_from..]);
    (replaced, count)
}

fn counts(how: How, before: &str, after: &str) -> bool {
    let (last, next) = (before.chars().next_back(), after.chars().next());
    let is_mark = |c: Option<char>| matches!(c, Some('"' | '`' | '\\'));
    match how {
        How::Word => stands_alone(before, after) && !matches!(last, Some('/' | '.')),
        How::Quoted => is_mark(last) && is_mark(next),
        How::Prefix => {
            let goes_on = ["__", "_PROFILE"].iter().any(|end| after.starts_with(end));
            !is_part(last) && (goes_on || !is_part(next))
        }
        How::Text => !is_part(next),
    }
}

fn stands_alone(before: &str, after: &str) -> bool {
    !is_part(before.chars().next_back()) && !is_part(after.chars().next())
}

fn is_part(c: Option<char>) -> bool {
    c.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '-'))
}

/// Where an old name still stands, as `path:line`. Stricter than the table: a word counts behind `/` and `.` as well.
fn leftovers(tree: &Tree) -> Vec<String> {
    let mut left = Vec::new();
    for (path, text) in tree.files().filter(|(path, _)| is_touched(path)) {
        for (index, line) in text.lines().enumerate() {
            let line = KEPT.iter().fold(line.to_owned(), |line, (kept, _)| line.replace(kept, "migrations"));
            let is_left = |row: &Renamed| {
                let here = row.file.is_none_or(|file| file == path);
                here && line.match_indices(row.old).any(|(at, old)| {
                    let (before, after) = (&line[..at], &line[at + old.len()..]);
                    counts(row.how, before, after) || row.how == How::Word && stands_alone(before, after)
                })
            };
            if RENAMED.iter().any(is_left) {
                left.push(format!("{path}:{}", index + 1));
            }
        }
    }
    left
}

/// The names that other things have: packages of the lock file, and programs of the workspace.
pub(crate) fn taken(tree: &Tree) -> BTreeSet<String> {
    let manifests = tree.files().filter(|(path, _)| path.ends_with("Cargo.toml") || *path == "Cargo.lock");
    let names = manifests.flat_map(|(_, text)| text.lines()).filter_map(|line| line.strip_prefix("name = "));
    names.map(|name| name.trim_matches('"').to_owned()).collect()
}

fn version_file(tree: &Tree, root: &Path, name: &Name) -> String {
    let manifest = tree.text("Cargo.toml").unwrap_or_default();
    let version = manifest.lines().find_map(|line| line.strip_prefix("version = ")).unwrap_or("\"unknown\"");
    let mut git = tree::git(root, &["rev-parse", "HEAD"]);
    let commit = git.output().ok().filter(|output| output.status.success());
    let commit = commit.map(|output| format!("commit = \"{}\"\n", String::from_utf8_lossy(&output.stdout).trim()));
    format!(
        "# What this workspace was made from; written by `cargo xtask rename`.\n\
         template = \"outbox-workspace\"\nversion = {version}\n{}name = \"{}\"\n",
        commit.unwrap_or_default(),
        name.kebab()
    )
}
