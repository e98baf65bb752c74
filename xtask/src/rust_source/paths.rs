//! Paths in Rust text: what a file imports or names, seen from the crate's root or as another crate.

use super::{Kind, Token, after_closing, word};

/// A path that Rust text mentions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathUse {
    /// A path into the own crate, from its root: `crate::ports::Clock` is `["ports", "Clock"]`.
    Own {
        /// The names after the crate's root. `*` stands for a glob.
        path: Vec<String>,
        /// The line of its first name.
        line: usize,
    },
    /// A path that begins with another crate's name.
    Foreign {
        /// The crate's name in code.
        name: String,
        /// The line of the name.
        line: usize,
    },
}

/// The crates that are there without being a dependency.
const LANGUAGE: &[&str] = &["std", "core", "alloc", "proc_macro", "test"];

/// All imports and paths of a file, where `module` is the file's place in its crate and `crates` are the names of the
/// crates it could reach.
///
/// A path in the middle of code that begins with neither `crate`, `self`, `super` nor such a name is local: what it
/// stands for was imported, and the import is in the result.
#[must_use]
pub fn paths(tokens: &[Token<'_>], module: &[String], crates: &[String]) -> Vec<PathUse> {
    let mut reader = Reader { tokens, crates, module: module.to_vec(), inner: Vec::new(), found: Vec::new() };
    reader.read();
    reader.found
}

struct Reader<'a, 't> {
    tokens: &'a [Token<'t>],
    crates: &'a [String],
    module: Vec<String>,
    /// For each module opened inside the file: the depth of braces inside it.
    inner: Vec<usize>,
    found: Vec<PathUse>,
}

impl<'t> Reader<'_, 't> {
    fn word(&self, index: usize) -> &'t str {
        word(self.tokens, index)
    }

    fn is_name(&self, index: usize) -> bool {
        self.tokens.get(index).is_some_and(|token| token.kind == Kind::Ident)
    }

    fn read(&mut self) {
        let (mut index, mut depth) = (0, 0_usize);
        while index < self.tokens.len() {
            let next = index + 1;
            match self.word(index) {
                "use" if self.word(next) != "<" => {
                    index = self.tree(next, &[]);
                    continue;
                }
                "extern" if self.word(next) == "crate" => {
                    self.import(vec![String::new(), self.word(next + 1).to_owned()], index);
                    index = next + 2;
                    continue;
                }
                "mod" if self.word(next + 1) == "{" => {
                    self.module.push(self.word(next).to_owned());
                    self.inner.push(depth + 1);
                }
                "{" => depth += 1,
                "}" => {
                    if self.inner.last() == Some(&depth) {
                        self.inner.pop();
                        self.module.pop();
                    }
                    depth = depth.saturating_sub(1);
                }
                "::" if self.is_name(next) && self.begins_path(index) => {
                    index = self.inline(next, vec![String::new()]);
                    continue;
                }
                _ if self.is_name(index) && self.word(next) == "::" && !self.follows_path(index) => {
                    index = self.inline(index, Vec::new());
                    continue;
                }
                _ => {}
            }
            index = next;
        }
    }

    /// Whether the `::` here stands at the beginning of a path, as in `::std::fmt`.
    fn begins_path(&self, index: usize) -> bool {
        index.checked_sub(1).is_none_or(|before| !self.is_name(before) && self.word(before) != ">")
    }

    /// Whether the name here continues a path or follows a dot.
    fn follows_path(&self, index: usize) -> bool {
        index.checked_sub(1).is_some_and(|before| matches!(self.word(before), "::" | "."))
    }

    /// Reads a path in code and gives the index after it.
    fn inline(&mut self, start: usize, mut path: Vec<String>) -> usize {
        let mut index = start;
        while self.is_name(index) {
            path.push(self.word(index).to_owned());
            index += 1;
            if self.word(index) != "::" {
                break;
            }
            index += 1;
        }
        let first = path.first().map(String::as_str).unwrap_or_default();
        if first.is_empty() || matches!(first, "crate" | "self" | "super") || self.is_crate(first) {
            self.import(path, start);
        }
        index
    }

    /// Reads one tree of a `use` and gives the index after it.
    fn tree(&mut self, start: usize, prefix: &[String]) -> usize {
        let mut path = prefix.to_vec();
        let mut index = start;
        loop {
            match self.word(index) {
                "::" if path.is_empty() => path.push(String::new()),
                "::" => {}
                "{" => {
                    let end = after_closing(self.tokens, index);
                    let mut inside = index + 1;
                    while inside + 1 < end {
                        inside = self.tree(inside, &path);
                    }
                    // What follows the group is the next tree, or the end.
                    return end + usize::from(matches!(self.word(end), "," | ";"));
                }
                "as" => index += 1,
                "," | ";" => {
                    self.import(path, start);
                    return index + 1;
                }
                "}" | "" => {
                    self.import(path, start);
                    return index;
                }
                name => path.push(name.to_owned()),
            }
            index += 1;
        }
    }

    /// Notes a path as seen from the root of its crate. An empty first name stands for a leading `::`.
    fn import(&mut self, path: Vec<String>, at: usize) {
        let line = self.tokens.get(at).map_or(0, |token| token.line);
        let mut names = path.into_iter().peekable();
        let Some(first) = names.next().filter(|first| !first.is_empty() || names.peek().is_some()) else {
            return;
        };
        let mut own = self.module.clone();
        match first.as_str() {
            "" => {
                let name = names.next().unwrap_or_default();
                return self.found.push(PathUse::Foreign { name, line });
            }
            "crate" => own.clear(),
            "self" => {}
            "super" => {
                own.pop();
                while names.next_if(|name| name == "super").is_some() {
                    own.pop();
                }
            }
            name if self.is_crate(name) => {
                return self.found.push(PathUse::Foreign { name: first, line });
            }
            _ => own.push(first),
        }
        own.extend(names.filter(|name| name != "self"));
        self.found.push(PathUse::Own { path: own, line });
    }

    fn is_crate(&self, name: &str) -> bool {
        LANGUAGE.contains(&name) || self.crates.iter().any(|known| known == name)
    }
}

#[cfg(test)]
mod tests {
    use super::{PathUse, paths};
    use crate::rust_source::tokens;

    fn seen(text: &str) -> Vec<String> {
        let module = ["domain".to_owned(), "work_log".to_owned()];
        let crates = ["sea_orm".to_owned(), "serde".to_owned()];
        paths(&tokens(text), &module, &crates)
            .into_iter()
            .map(|found| match found {
                PathUse::Own { path, .. } => format!("crate::{}", path.join("::")),
                PathUse::Foreign { name, .. } => name,
            })
            .collect()
    }

    #[test]
    fn trees_are_flattened() {
        assert_eq!(
            seen("use crate::{adapter::{http, postgres::Row as R}, domain::X}; use serde::{A, B};"),
            ["crate::adapter::http", "crate::adapter::postgres::Row", "crate::domain::X", "serde", "serde"]
        );
    }

    #[test]
    fn relative_imports_are_seen_from_the_root() {
        assert_eq!(
            seen("use super::super::adapter::X; use super::events; use self::inner::Y; use status::Z;"),
            [
                "crate::adapter::X",
                "crate::domain::events",
                "crate::domain::work_log::inner::Y",
                "crate::domain::work_log::status::Z"
            ]
        );
    }

    #[test]
    fn modules_inside_the_file_count() {
        assert_eq!(
            seen("mod a { mod b { use super::super::X; } use super::Y; } use super::Z;"),
            ["crate::domain::work_log::X", "crate::domain::work_log::Y", "crate::domain::Z"]
        );
    }

    #[test]
    fn paths_in_code_and_attributes_are_found() {
        assert_eq!(
            seen(
                "#[derive(serde::Serialize)] fn f(x: ::sea_orm::Db) { crate::adapter::go(); W::new(); x.serde::<A>() }"
            ),
            ["serde", "sea_orm", "crate::adapter::go"]
        );
    }

    #[test]
    fn comments_and_strings_import_nothing() {
        assert_eq!(
            seen("// use sea_orm::A;\n/* use sea_orm::B; */ let x = \"use sea_orm::C;\";"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn globs_extern_crates_and_visible_imports_are_found() {
        assert_eq!(
            seen("pub use crate::*; pub(crate) use sea_orm as db; extern crate sea_orm;"),
            ["crate::*", "sea_orm", "sea_orm"]
        );
        assert_eq!(seen("fn f() -> impl Sized + use<'a> {}"), Vec::<String>::new());
    }
}
