//! A name for a service.

use std::collections::BTreeSet;

/// Longest name: with the purpose of a session behind it, PostgreSQL's `application_name` must have room.
const LONGEST: usize = 40;
const SHORTEST: usize = 2;

/// Names that cargo and the compiler keep for themselves.
const RESERVED: &[&str] = &["alloc", "build", "core", "deps", "examples", "incremental", "proc-macro", "std", "test"];

/// Words of the language, those included that it keeps for later.
pub(crate) const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn", "else",
    "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro", "match", "mod",
    "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static", "struct", "super", "trait", "true",
    "try", "type", "typeof", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// Why a name cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum NameError {
    /// It is too short or too long.
    #[error("the name `{value}` has {} bytes, but it must have {SHORTEST} to {LONGEST}", .value.len())]
    Length {
        /// The name.
        value: String,
    },
    /// It is not made as it must be.
    #[error(
        "the name `{value}` must be lower-case words of a-z and 0-9 joined by single `-`, the first beginning with a letter"
    )]
    Form {
        /// The name.
        value: String,
    },
    /// Cargo or the compiler keeps it for itself.
    #[error("the name `{value}` is reserved: cargo and the compiler keep {} for themselves", RESERVED.join(", "))]
    Reserved {
        /// The name.
        value: String,
    },
    /// It is a word of the language.
    #[error("the name `{value}` is a keyword of Rust, and a crate or module is to be called so")]
    Keyword {
        /// The name.
        value: String,
    },
    /// Something else is called so.
    #[error("the name `{value}` is taken by a package or program of the workspace, or by one that it is built from")]
    Taken {
        /// The name.
        value: String,
    },
}

/// A name: lower-case words of `a-z` and `0-9` joined by single `-`, beginning with a letter; 2 to 40 bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name(String);

impl Name {
    /// Checks a name; `taken` are the names of other things, in which `-` and `_` are the same.
    ///
    /// # Errors
    /// [`NameError`].
    pub fn try_new(value: &str, taken: &BTreeSet<String>) -> Result<Self, NameError> {
        let owned = || value.to_owned();
        if !(SHORTEST..=LONGEST).contains(&value.len()) {
            return Err(NameError::Length { value: owned() });
        }
        let is_word =
            |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        if !value.starts_with(|c: char| c.is_ascii_lowercase()) || !value.split('-').all(is_word) {
            return Err(NameError::Form { value: owned() });
        }
        if KEYWORDS.contains(&value) {
            return Err(NameError::Keyword { value: owned() });
        }
        if RESERVED.contains(&value) {
            return Err(NameError::Reserved { value: owned() });
        }
        if taken.iter().any(|other| other.replace('_', "-") == value) {
            return Err(NameError::Taken { value: owned() });
        }
        Ok(Self(owned()))
    }

    /// `order-service`.
    #[must_use]
    pub fn kebab(&self) -> &str {
        &self.0
    }

    /// `order_service`.
    #[must_use]
    pub fn snake(&self) -> String {
        self.0.replace('-', "_")
    }

    /// `ORDER_SERVICE`.
    #[must_use]
    pub fn upper(&self) -> String {
        self.snake().to_ascii_uppercase()
    }

    /// `Order service`.
    #[must_use]
    pub fn title(&self) -> String {
        let words = self.0.replace('-', " ");
        let (first, rest) = words.split_at(1);
        format!("{}{rest}", first.to_ascii_uppercase())
    }
}
