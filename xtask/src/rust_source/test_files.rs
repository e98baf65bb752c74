//! Which files hold nothing but test code.

use super::{test_modules, tokens};
use crate::workspace::SourceFile;

/// The files that are test code as a whole: by their path, or because their module is declared under `#[cfg(test)]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestFiles {
    /// The paths of the declared modules, without `.rs`.
    modules: Vec<String>,
}

impl TestFiles {
    /// Finds the declarations in these files.
    #[must_use]
    pub fn of(files: &[SourceFile]) -> Self {
        let declared = files.iter().flat_map(|file| {
            let folder = folder_of_children(&file.path);
            let names: Vec<String> = test_modules(&tokens(&file.text)).into_iter().map(str::to_owned).collect();
            names.into_iter().map(move |name| format!("{folder}/{name}"))
        });
        Self { modules: declared.collect() }
    }

    /// Whether the file is test code.
    #[must_use]
    pub fn contain(&self, file: &SourceFile) -> bool {
        let within = |module: &String| {
            file.path.strip_prefix(module.as_str()).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        };
        file.is_test() || self.modules.iter().any(within)
    }
}

/// Where the modules that a file declares are.
fn folder_of_children(path: &str) -> &str {
    let module = path.strip_suffix(".rs").unwrap_or(path);
    match module.rsplit_once('/') {
        Some((folder, "mod" | "lib" | "main")) => folder,
        _ => module,
    }
}

#[cfg(test)]
mod tests {
    use super::TestFiles;
    use crate::workspace::SourceFile;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn modules_declared_for_tests_are_test_files() {
        let tests = TestFiles::of(&[
            file("a/src/lib.rs", "#[cfg(test)] mod testing; mod real; #[cfg(test)] mod inline { }"),
            file("a/src/real.rs", "#[cfg(test)] pub(crate) mod golden;"),
            file("a/src/part/mod.rs", "#[cfg(test)]\n#[path = \"x\"] mod fixtures;"),
        ]);
        for path in ["a/src/testing.rs", "a/src/testing/deep.rs", "a/src/real/golden.rs", "a/src/part/fixtures/mod.rs"]
        {
            assert!(tests.contain(&file(path, "")), "{path}");
        }
        for path in ["a/src/real.rs", "a/src/golden.rs", "b/src/testing.rs", "a/src/testing_more.rs", "a/src/inline.rs"]
        {
            assert!(!tests.contain(&file(path, "")), "{path}");
        }
    }
}
