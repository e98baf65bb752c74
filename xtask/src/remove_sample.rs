//! `remove-sample`: takes the sample out of a clone, with its migrations, its registration, its tests and what the
//! documents say of them.
//!
//! Files are deleted, lists lose an entry, blocks between the marks `sample-only: begin` and `sample-only: end` go, and
//! the tables of the documents lose the rows and names that nothing stands behind any more.

mod documents;
mod table;
#[cfg(test)]
mod tests;

use std::path::Path;

use table::{EDITS, FILES, LISTS, SAMPLE};

use crate::{
    Error,
    command::Command,
    names::Index,
    output, process,
    tree::{self, Tree},
    workspace::{self, SourceFile},
};

/// The command `remove-sample`.
pub const COMMAND: Command = Command {
    name: "remove-sample",
    arguments: "[--allow-dirty]",
    summary: "takes the sample out: its crate, migrations, registration, tests, and what the documents say of them",
    run: |arguments| {
        let root = workspace::root();
        match arguments {
            [] => tree::require_clean(&root)?,
            [flag] if flag == "--allow-dirty" => {}
            [argument, ..] => {
                return Err(Error::UnknownArgument {
                    command: "remove-sample",
                    argument: argument.clone(),
                    expected: "--allow-dirty",
                });
            }
        }
        let changed = remove_sample(&root)?;
        process::output_of(process::cargo(&root).args(["fmt", "--all"]))?;
        output::say(&format!("removed the sample: {changed} files changed or gone; next: cargo xtask check"));
        Ok(0)
    },
};

const BEGIN: &str = "sample-only: begin";
const END: &str = "sample-only: end";

/// Why the sample was not removed. Nothing is written then.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RemoveSampleError {
    /// It is not there.
    #[error("there is no sample: {SAMPLE} does not exist")]
    NoSample,
    /// A place that knew the sample has changed.
    #[error(
        "{file} does not hold what is to be taken out: `{what}`; take the sample out by hand there, then here again"
    )]
    Unknown {
        /// The file.
        file: &'static str,
        /// What should be in it.
        what: &'static str,
    },
    /// A mark has no counterpart.
    #[error("{file} has a mark `{BEGIN}` or `{END}` without the other one")]
    Mark {
        /// The file.
        file: String,
    },
}

/// Removes the sample from the workspace at `root` and says how many files changed or went.
///
/// # Errors
/// [`RemoveSampleError`], with nothing written; what [`Tree`] says of files.
pub fn remove_sample(root: &Path) -> Result<usize, Error> {
    let mut tree = Tree::read(root)?;
    if tree.text(&format!("{SAMPLE}/Cargo.toml")).is_none() {
        return Err(RemoveSampleError::NoSample.into());
    }
    let before = index(&tree);
    for path in FILES {
        if tree.remove(path) == 0 {
            return Err(RemoveSampleError::Unknown { file: path, what: "the file itself" }.into());
        }
    }
    take_out_blocks(&mut tree)?;
    for (file, old, new) in EDITS {
        let text = tree.text(file).filter(|text| text.matches(old).count() == 1);
        let text = text.ok_or(RemoveSampleError::Unknown { file, what: old })?.replace(old, new);
        tree.set(file, text);
    }
    for (file, item) in LISTS {
        let text = tree.text(file).and_then(|text| without_item(text, item));
        tree.set(file, text.ok_or(RemoveSampleError::Unknown { file, what: item })?);
    }
    // The folder stays, for the macro that embeds what is in it.
    tree.set("migrations/app/.gitkeep", String::new());
    take_out_of_lock(&mut tree);
    documents::take_out(&mut tree, &before);
    tree.write(root)?;
    Ok(tree.changed().len())
}

fn index(tree: &Tree) -> Index {
    let extensions = ["rs", "sql", "md", "toml", "json", "yml", "yaml", "sh"];
    let files = tree.files().filter(|(path, _)| workspace::ends_in(path.as_ref(), &extensions));
    Index::new(files.map(|(path, text)| SourceFile { path: path.to_owned(), text: text.to_owned() }).collect())
}

fn take_out_blocks(tree: &mut Tree) -> Result<(), RemoveSampleError> {
    let marked: Vec<(String, String)> = tree
        .files()
        .filter(|(path, text)| !path.starts_with("xtask/src/remove_sample") && text.contains("sample-only: "))
        .map(|(path, text)| (path.to_owned(), text.to_owned()))
        .collect();
    for (path, text) in marked {
        let text = without_blocks(&text).ok_or_else(|| RemoveSampleError::Mark { file: path.clone() })?;
        tree.set(&path, text);
    }
    Ok(())
}

/// The text without the marked blocks; `None` if a mark has no counterpart.
fn without_blocks(text: &str) -> Option<String> {
    let (mut kept, mut inside) = (String::new(), false);
    for line in text.split_inclusive('\n') {
        let (begins, ends) = (line.contains(BEGIN), line.contains(END));
        if begins && inside || ends && !inside {
            return None;
        }
        if !inside && !begins {
            kept.push_str(line);
        }
        inside = (inside || begins) && !ends;
    }
    (!inside).then_some(kept)
}

/// The text without an entry of a list; `None` if it does not hold the entry once.
fn without_item(text: &str, item: &str) -> Option<String> {
    if text.matches(item).count() != 1 {
        return None;
    }
    let forms = [format!(", {item}"), format!("{item}, "), item.to_owned()];
    forms.iter().find(|form| text.contains(*form)).map(|form| text.replace(form, ""))
}

/// Cargo would do the same, but not where it is told to leave the file as it is.
fn take_out_of_lock(tree: &mut Tree) {
    let Some(lock) = tree.text("Cargo.lock") else { return };
    let packages = lock.split("\n\n").filter(|package| !package.contains("\nname = \"sample-portfolio\"\n"));
    let packages: Vec<String> = packages.map(|package| package.replace("\n \"sample-portfolio\",", "")).collect();
    let text = packages.join("\n\n");
    tree.set("Cargo.lock", text);
}
