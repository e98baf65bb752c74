//! The one table of what carries the template's name.

use super::Name;

/// Where an old name counts as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Where it stands alone: no letter, digit, `_` or `-` beside it, and no `/` or `.` before it.
    Word,
    /// Between quotation marks or backticks.
    Quoted,
    /// As the beginning of a variable's name, before `__` or `_PROFILE`, or as a word.
    Prefix,
    /// Wherever it is, unless the word goes on.
    Text,
}

/// A name that becomes the team's own.
#[derive(Debug, Clone, Copy)]
pub struct Renamed {
    /// What is called so.
    pub what: &'static str,
    /// The template's name for it.
    pub old: &'static str,
    /// What it becomes.
    pub new: fn(&Name) -> String,
    /// Where an occurrence counts.
    pub how: How,
    /// The one file that has it, or everywhere.
    pub file: Option<&'static str>,
}

/// Every name that becomes the team's own; a line before another one has the first say.
pub const RENAMED: &[Renamed] = &[
    Renamed {
        what: "the workspace, in the title of its front page",
        old: "# Outbox workspace",
        new: |name| format!("# {}", name.title()),
        how: How::Text,
        file: Some("README.md"),
    },
    Renamed {
        what: "the workspace, in the title of its Korean front page",
        old: "# Outbox 워크스페이스",
        new: |name| format!("# {}", name.title()),
        how: How::Text,
        file: Some("README.ko.md"),
    },
    Renamed {
        what: "the workspace, in the title of its book",
        old: "title = \"Outbox workspace\"",
        new: |name| format!("title = \"{}\"", name.title()),
        how: How::Text,
        file: Some("docs/book.toml"),
    },
    Renamed {
        what: "the database, in the default URL",
        old: "://localhost/app",
        new: |name| format!("://localhost/{}", name.snake()),
        how: How::Text,
        file: None,
    },
    Renamed {
        what: "the database, in the URLs of tests",
        old: "@db/app",
        new: |name| format!("@db/{}", name.snake()),
        how: How::Text,
        file: None,
    },
    Renamed {
        what: "the database, in the example of a connector",
        old: "\"database.dbname\": \"app\"",
        new: |name| format!("\"database.dbname\": \"{}\"", name.snake()),
        how: How::Text,
        file: None,
    },
    Renamed {
        what: "the program, where it is built",
        old: "target/debug/app",
        new: |name| format!("target/debug/{}", name.kebab()),
        how: How::Text,
        file: None,
    },
    Renamed {
        what: "the exchange",
        old: "outbox.events",
        new: |name| format!("{}.outbox.events", name.kebab()),
        how: How::Quoted,
        file: None,
    },
    Renamed {
        what: "the source of CloudEvents",
        old: "/outbox",
        new: |name| format!("/{}", name.kebab()),
        how: How::Quoted,
        file: None,
    },
    Renamed {
        what: "the prefix of environment variables, and the variable that names the profile",
        old: "APP",
        new: Name::upper,
        how: How::Prefix,
        file: None,
    },
    Renamed {
        what: "the program, its queues, its consumer, and its name in the sessions of the database",
        old: "app",
        new: |name| name.kebab().to_owned(),
        how: How::Word,
        file: None,
    },
];

/// What looks like the old name and is none.
pub const KEPT: &[(&str, &str)] = &[("migrations/app", "the folder of the application's own migrations")];

/// What speaks of the template's names on purpose.
pub const UNTOUCHED: &[&str] =
    &["xtask/src/rename", "xtask/src/rename.rs", "docs/guides/make-it-yours.md", "Cargo.lock"];
