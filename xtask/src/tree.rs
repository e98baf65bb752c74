//! The files of a workspace as texts to change: all of it is worked out before the first file is written.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{Error, process, workspace};

/// Why a workspace was not changed, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// Changes would be mixed with others that are not committed.
    #[error("the tree has {count} uncommitted changes, the first is `{first}`; commit them, or say --allow-dirty")]
    Dirty {
        /// How many files are changed or new.
        count: usize,
        /// The first of them, as `git status` shows it.
        first: String,
    },
    /// The folder is no git checkout, so nothing could be taken back.
    #[error(
        "git does not know this folder, so the change could not be taken back; run `git init`, or say --allow-dirty"
    )]
    NoGit,
    /// A file could not be written or removed. What came before it in the order of paths is changed: `git diff` shows it.
    #[error("cannot write {}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
}

/// The text files of a workspace, and what becomes of them.
#[derive(Debug, Default, Clone)]
pub struct Tree {
    before: BTreeMap<String, String>,
    after: BTreeMap<String, String>,
}

impl Tree {
    /// Reads every text file below `root`; files that are not UTF-8 stay out of it and are never touched.
    ///
    /// # Errors
    /// [`Error::Read`] if a file or folder cannot be read.
    pub fn read(root: &Path) -> Result<Self, Error> {
        let mut files = BTreeMap::new();
        for path in workspace::paths(root)? {
            let bytes = fs::read(root.join(&path)).map_err(|source| Error::Read { path: root.join(&path), source })?;
            if let Ok(text) = String::from_utf8(bytes) {
                files.insert(path, text);
            }
        }
        Ok(Self { before: files.clone(), after: files })
    }

    /// The files as they will be, in the order of their paths.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.after.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The text of a file as it will be.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<&str> {
        self.after.get(path).map(String::as_str)
    }

    /// Sets the text of a file, which may be new.
    pub fn set(&mut self, path: &str, text: String) {
        self.after.insert(path.to_owned(), text);
    }

    /// Removes a file, or a folder with all its files; says how many went.
    pub fn remove(&mut self, path: &str) -> usize {
        let folder = format!("{path}/");
        let count = self.after.len();
        self.after.retain(|file, _| file != path && !file.starts_with(&folder));
        count - self.after.len()
    }

    /// The files that change, are new or go.
    #[must_use]
    pub fn changed(&self) -> Vec<&str> {
        let paths: BTreeSet<&String> = self.before.keys().chain(self.after.keys()).collect();
        paths.into_iter().filter(|path| self.before.get(*path) != self.after.get(*path)).map(String::as_str).collect()
    }

    /// Writes what changes below `root`.
    ///
    /// # Errors
    /// [`TreeError::Write`] at the first file that cannot be written or removed.
    pub fn write(&self, root: &Path) -> Result<(), TreeError> {
        for path in self.changed() {
            let file = root.join(path);
            let done = match self.after.get(path) {
                Some(text) => write_file(&file, text),
                None => remove_file(root, &file),
            };
            done.map_err(|source| TreeError::Write { path: file, source })?;
        }
        Ok(())
    }
}

fn write_file(file: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(file, text)
}

/// Removes the file, and the folders that it leaves empty.
fn remove_file(root: &Path, file: &Path) -> io::Result<()> {
    fs::remove_file(file)?;
    for folder in file.ancestors().skip(1).take_while(|folder| *folder != root) {
        if fs::remove_dir(folder).is_err() {
            break;
        }
    }
    Ok(())
}

/// Refuses a tree with changes that are not committed.
///
/// # Errors
/// [`TreeError::Dirty`], or [`TreeError::NoGit`] if git does not know the folder; [`Error::Run`] without git.
pub fn require_clean(root: &Path) -> Result<(), Error> {
    let mut git = git(root, &["status", "--porcelain"]);
    let program = process::line(&git);
    let output = git.output().map_err(|source| Error::Run { program, source })?;
    if !output.status.success() {
        return Err(TreeError::NoGit.into());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    match text.lines().next() {
        None => Ok(()),
        Some(first) => Err(TreeError::Dirty { count: text.lines().count(), first: first.trim().to_owned() }.into()),
    }
}

/// A git command in the folder `root`.
#[must_use]
pub fn git(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("git");
    command.current_dir(root).args(arguments);
    command
}

#[cfg(test)]
pub(crate) mod fixture {
    use std::{fs, path::Path};

    use tempfile::TempDir;

    use crate::{process, tree::git, workspace};

    /// A folder with these files.
    pub(crate) fn planted(files: &[(&str, &str)]) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            super::write_file(&folder.path().join(path), text).unwrap();
        }
        folder
    }

    /// A copy of this workspace's own files.
    pub(crate) fn copy_of_the_workspace() -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        let root = workspace::root();
        for path in workspace::paths(&root).unwrap() {
            let to = folder.path().join(&path);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(root.join(&path), to).unwrap();
        }
        folder
    }

    /// Makes the folder a git checkout with everything committed.
    pub(crate) fn commit_all(root: &Path) {
        let identity = ["-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"];
        process::output_of(&mut git(root, &["init", "--quiet"])).unwrap();
        process::output_of(&mut git(root, &["add", "--all"])).unwrap();
        let commit = [&identity[..], &["commit", "--quiet", "--message", "all"]].concat();
        process::output_of(&mut git(root, &commit)).unwrap();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{
        Tree, TreeError,
        fixture::{commit_all, planted},
        require_clean,
    };
    use crate::Error;

    #[test]
    fn nothing_is_written_but_what_changes() {
        let folder = planted(&[("a/b/gone.rs", "x"), ("a/keep.rs", "y"), ("edit.rs", "z")]);
        let mut tree = Tree::read(folder.path()).unwrap();
        assert_eq!(tree.remove("a/b"), 1);
        tree.set("edit.rs", "new".to_owned());
        tree.set("c/made.rs", "made".to_owned());
        assert_eq!(tree.changed(), ["a/b/gone.rs", "c/made.rs", "edit.rs"]);
        tree.write(folder.path()).unwrap();
        let after = Tree::read(folder.path()).unwrap();
        let files: Vec<_> = after.files().collect();
        assert_eq!(files, [("a/keep.rs", "y"), ("c/made.rs", "made"), ("edit.rs", "new")]);
        assert!(!folder.path().join("a/b").exists());
    }

    #[test]
    fn file_that_is_no_text_is_left_alone() {
        let folder = planted(&[("a.rs", "x")]);
        fs::write(folder.path().join("b.png"), [0xff, 0xfe, 0x00]).unwrap();
        assert_eq!(Tree::read(folder.path()).unwrap().files().count(), 1);
    }

    #[test]
    fn file_that_cannot_be_written_is_named() {
        let folder = planted(&[("a", "x")]);
        let mut tree = Tree::read(folder.path()).unwrap();
        tree.set("a/b", "y".to_owned());
        let error = tree.write(folder.path()).unwrap_err();
        assert!(matches!(&error, TreeError::Write { path, .. } if path.ends_with("a/b")), "{error}");
    }

    #[test]
    fn uncommitted_changes_are_refused_and_named() {
        let folder = planted(&[("a.rs", "x")]);
        assert!(matches!(require_clean(folder.path()), Err(Error::Tree(TreeError::NoGit))));
        commit_all(folder.path());
        require_clean(folder.path()).unwrap();
        fs::write(folder.path().join("new.rs"), "y").unwrap();
        let error = require_clean(folder.path()).unwrap_err();
        let Error::Tree(TreeError::Dirty { count: 1, first }) = error else { panic!("{error}") };
        assert_eq!(first, "?? new.rs");
    }
}
