//! What there is to name: files, their items and their tests.

use std::{collections::BTreeMap, path::Path};

use crate::{
    Error,
    rust_source::{definitions, test_functions, tokens},
    workspace::{SourceFile, files},
};

/// Parts of a path that the name of a test leaves out.
const SILENT: &[&str] = &["src", "mod", "lib", "main", "tests"];

/// The files of the workspace, and the test functions in them.
#[derive(Debug)]
pub struct Index {
    files: BTreeMap<String, String>,
    tests: Vec<Test>,
}

#[derive(Debug)]
struct Test {
    file: String,
    modules: Vec<String>,
    name: String,
}

impl Index {
    /// Reads the workspace at `root`.
    ///
    /// # Errors
    /// [`Error::Read`] if a file cannot be read.
    pub fn read(root: &Path) -> Result<Self, Error> {
        let extensions = ["rs", "sql", "md", "toml", "json", "yml", "yaml", "sh"];
        Ok(Self::new(files(root, &extensions)?))
    }

    /// Makes an index of these files.
    #[must_use]
    pub fn new(files: Vec<SourceFile>) -> Self {
        let tests = files.iter().filter(|file| is_rust(&file.path)).flat_map(tests_of).collect();
        Self { files: files.into_iter().map(|file| (file.path, file.text)).collect(), tests }
    }

    /// How many test functions there are.
    #[must_use]
    pub fn test_count(&self) -> usize {
        self.tests.len()
    }

    /// Whether there is such a file, or a folder with files.
    #[must_use]
    pub fn has_path(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        self.files.contains_key(path) || self.files.keys().any(|file| file.starts_with(&folder))
    }

    /// The Rust files: path and text.
    pub(super) fn sources(&self) -> impl Iterator<Item = (&str, &str)> {
        let rust = self.files.iter().filter(|(path, _)| is_rust(path));
        rust.map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The text of the file.
    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Whether the file defines the item. A Rust file is itself the module that it is named after; in other files the
    /// item has to occur as a word.
    #[must_use]
    pub fn defines(&self, path: &str, item: &str) -> bool {
        let Some(text) = self.files.get(path) else { return false };
        if !is_rust(path) {
            return text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == item);
        }
        let tokens = tokens(text);
        let defined = definitions(&tokens);
        let module = modules_of(path).last().cloned().unwrap_or_default();
        item.split("::").all(|name| defined.contains(name) || name == module)
    }

    /// Whether there is such a test: a function's name, or the end of its path with `::` between the names, modules
    /// called `tests` left out. `module::*` asks for any test in that module.
    #[must_use]
    pub fn has_test(&self, reference: &str) -> bool {
        self.tests_named(reference).next().is_some()
    }

    /// Whether there is such a test in that file or folder.
    #[must_use]
    pub fn has_test_in(&self, reference: &str, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        self.tests_named(reference).any(|test| test.file == path || test.file.starts_with(&folder))
    }

    fn tests_named(&self, reference: &str) -> impl Iterator<Item = &Test> {
        let wanted: Vec<String> = reference.split("::").map(str::to_owned).collect();
        self.tests.iter().filter(move |test| matches(test, &wanted))
    }
}

fn matches(test: &Test, wanted: &[String]) -> bool {
    match wanted.split_last() {
        Some((last, modules)) if last == "*" && !modules.is_empty() => {
            test.modules.windows(modules.len()).any(|window| window == modules)
        }
        Some((last, modules)) => *last == test.name && test.modules.ends_with(modules),
        None => false,
    }
}

fn tests_of(file: &SourceFile) -> Vec<Test> {
    let place = modules_of(&file.path);
    let found = test_functions(&tokens(&file.text)).into_iter();
    found
        .map(|test| {
            let inner = test.modules.into_iter().filter(|name| !SILENT.contains(&name.as_str()));
            Test { file: file.path.clone(), modules: place.iter().cloned().chain(inner).collect(), name: test.name }
        })
        .collect()
}

/// The names of the modules and folders that lead to a file.
fn modules_of(path: &str) -> Vec<String> {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    path.split('/').filter(|part| !SILENT.contains(part)).map(str::to_owned).collect()
}

fn is_rust(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|end| end == "rs")
}

#[cfg(test)]
mod tests {
    use crate::names::fixture::index;

    #[test]
    fn tests_are_found_by_name_by_path_and_by_module() {
        let index = index();
        assert_eq!(index.test_count(), 2);
        for real in [
            "it_grows",
            "backoff::it_grows",
            "outbox::backoff::it_grows",
            "backoff::*",
            "store::claims_once",
            "store::*",
        ] {
            assert!(index.has_test(real), "{real}");
        }
        for unreal in ["helper", "backoff::it_shrinks", "store::it_grows", "Backoff", "other::*", "*", "it_grow", ""] {
            assert!(!index.has_test(unreal), "{unreal}");
        }
        assert!(index.has_test_in("claims_once", "tests/contract"));
        assert!(!index.has_test_in("claims_once", "tests/con"));
    }

    #[test]
    fn items_are_defined_where_they_are_and_nowhere_else() {
        let index = index();
        assert!(index.defines("crates/core/src/outbox/backoff.rs", "Backoff"));
        assert!(index.defines("tests/contract/store.rs", "store"));
        assert!(index.defines("migrations/V3__event.sql", "outbox_event"));
        assert!(!index.defines("tests/contract/store.rs", "Backoff"));
        assert!(!index.defines("migrations/V3__event.sql", "outbox"));
        assert!(!index.defines("gone.rs", "Backoff"));
    }
}
