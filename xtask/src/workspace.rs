//! Where the workspace is, and which of its files a check reads.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::Error;

/// Folders that hold nothing a person wrote. In a linked worktree `.git` is a file, which leads to another checkout's.
const SKIPPED: &[&str] = &["target", ".git", ".dev", "node_modules"];

/// A text file of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// Its path from the workspace's root, with `/` between the parts.
    pub path: String,
    /// Its text.
    pub text: String,
}

impl SourceFile {
    /// Whether all of it is test code: a file `tests.rs`, or one in a folder `tests`.
    #[must_use]
    pub fn is_test(&self) -> bool {
        let mut parts: Vec<&str> = self.path.split('/').collect();
        let name = parts.pop().unwrap_or_default();
        name == "tests.rs" || parts.contains(&"tests")
    }
}

/// The root of the workspace.
#[must_use]
pub fn root() -> PathBuf {
    // The one of the run comes first: checkouts that share a target folder also share this program.
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
        .map(PathBuf::from)
        .filter(|folder| folder.ends_with("xtask"))
        .unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    manifest.parent().map_or(manifest.clone(), Path::to_path_buf)
}

/// All files under the root whose name ends in one of these extensions (without the dot), sorted by path.
///
/// # Errors
/// [`Error::Read`] if a folder or file cannot be read, or a file is not UTF-8.
pub fn files(root: &Path, extensions: &[&str]) -> Result<Vec<SourceFile>, Error> {
    let wanted = |path: &Path| ends_in(path, extensions);
    let mut paths = Vec::new();
    collect(root, &wanted, &mut paths)?;
    paths.sort();
    paths.into_iter().map(|path| read(root, &path)).collect()
}

/// The paths of all files under the root, sorted, with `/` between the parts.
///
/// # Errors
/// [`Error::Read`] if a folder cannot be read.
pub fn paths(root: &Path) -> Result<Vec<String>, Error> {
    let mut paths = Vec::new();
    collect(root, &|_| true, &mut paths)?;
    paths.sort();
    Ok(paths.iter().map(|path| relative(root, path)).collect())
}

/// Whether the file's name ends in one of these extensions, without the dot.
#[must_use]
pub fn ends_in(path: &Path, extensions: &[&str]) -> bool {
    path.extension().is_some_and(|end| extensions.iter().any(|wanted| end == *wanted))
}

/// Reads one text file.
///
/// # Errors
/// [`Error::Read`] if it cannot be read.
pub fn read_text(path: &Path) -> Result<String, Error> {
    fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_path_buf(), source })
}

fn read(root: &Path, path: &Path) -> Result<SourceFile, Error> {
    let text = read_text(path)?;
    Ok(SourceFile { path: relative(root, path), text })
}

fn relative(root: &Path, path: &Path) -> String {
    let relative = path.strip_prefix(root).unwrap_or(path);
    let parts: Vec<_> = relative.iter().map(|part| part.to_string_lossy()).collect();
    parts.join("/")
}

fn collect(folder: &Path, wanted: &dyn Fn(&Path) -> bool, paths: &mut Vec<PathBuf>) -> Result<(), Error> {
    let failed = |source| Error::Read { path: folder.to_path_buf(), source };
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let path = entry.path();
        let kind = entry.file_type().map_err(failed)?;
        if SKIPPED.contains(&entry.file_name().to_string_lossy().as_ref()) {
            continue;
        }
        if kind.is_dir() {
            collect(&path, wanted, paths)?;
        } else if kind.is_file() && wanted(&path) {
            paths.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{SourceFile, files, root};

    fn is_test(path: &str) -> bool {
        SourceFile { path: path.to_owned(), text: String::new() }.is_test()
    }

    #[test]
    fn own_files_are_found_and_build_output_is_not() {
        let found = files(&root(), &["rs"]).unwrap();
        assert!(found.iter().any(|file| file.path == "xtask/src/workspace.rs"));
        assert!(!found.iter().any(|file| file.path.starts_with("target/")));
    }

    #[test]
    fn test_files_are_told_by_their_path() {
        assert!(is_test("tests/contract/outbox_store_adapter.rs"));
        assert!(is_test("crates/x/src/usecases/publish/tests.rs"));
        assert!(!is_test("crates/test-support/src/checker.rs"));
    }
}
