//! `new`: makes a bounded context with its first aggregate, a part of a context, or a decision record, from the files in
//! `templates/`.
//!
//! The templates are the team's own to change; `new/template.rs` says what they may hold.

mod adr;
mod aggregate;
mod part;
mod system_test;
mod template;
mod words;

use std::path::Path;

pub use aggregate::Aggregate;
pub use template::TemplateError;
pub use words::Words;

use part::{Kind, Part};

use crate::{Error, command::Command, output, process, rename::NameError, tree::Tree, workspace};

/// The command `new`.
pub const COMMAND: Command = Command {
    name: "new",
    arguments: "aggregate|port|adapter|consumer NAME --context NAME [--events A,B|--port NAME|--event NAME] | adr TITLE",
    summary: "makes a context with its first aggregate, a part of a context, or a decision record, from templates/",
    run: |arguments| {
        let root = workspace::root();
        let made = new(&root, arguments)?;
        output::say(&format!("made {}", made.join(", ")));
        if arguments.first().is_some_and(|what| what != "adr") {
            process::output_of(process::cargo(&root).args(["fmt", "--all"]))?;
            output::say("next: cargo xtask check --fast, then write down what it is about");
        }
        // A new context has events, and their contracts belong to it.
        if arguments.first().is_some_and(|what| what == "aggregate") {
            return process::status_of(process::cargo(&root).args(["xtask", "events"]));
        }
        Ok(0)
    },
};

/// Why nothing was made. Nothing is written then.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum NewError {
    /// A name cannot be used.
    #[error("{part}: {source}")]
    Name {
        /// Which name.
        part: &'static str,
        /// Why.
        #[source]
        source: NameError,
    },
    /// A name of a type cannot be used.
    #[error(
        "{part} is `{value}`, but it must be 2 to {bound} letters and digits, beginning with an upper-case letter and no abbreviation"
    )]
    TypeName {
        /// Which name.
        part: &'static str,
        /// The name.
        value: String,
        /// The most characters.
        bound: usize,
    },
    /// A module would be called like a word of the language.
    #[error("{part} is `{value}`, but a module is called like it, and in lower case it is a keyword of Rust")]
    Keyword {
        /// Which name.
        part: &'static str,
        /// The name.
        value: String,
    },
    /// An option is missing.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// Too few or too many events, or one of them twice.
    #[error(
        "--events has {count} names of which {distinct} differ, but it must have {fewest} to {most} different ones"
    )]
    Events {
        /// How many were given.
        count: usize,
        /// How many of them differ.
        distinct: usize,
        /// The fewest allowed.
        fewest: usize,
        /// The most allowed.
        most: usize,
    },
    /// The context is not there.
    #[error("there is no context `{0}`; `cargo xtask new aggregate` makes one")]
    NoContext(String),
    /// A context brings one handler.
    #[error("{0} registers a handler, and a context brings one: let that one do the work of yours as well")]
    SecondHandler(String),
    /// Something of that name is there.
    #[error("{0} exists; choose another name")]
    Exists(String),
    /// A title cannot be used.
    #[error(
        "the title `{value}` has {actual} characters, but it must have 1 to {bound}, none of them a control character, and one letter or digit"
    )]
    Title {
        /// The title.
        value: String,
        /// Its characters.
        actual: usize,
        /// The most allowed.
        bound: usize,
    },
    /// A place that has to know the new thing has changed.
    #[error("{file} does not hold `{what}` once, so nothing can be added there")]
    Place {
        /// The file.
        file: String,
        /// What should be in it.
        what: String,
    },
    /// A template cannot be used.
    #[error(transparent)]
    Template(#[from] TemplateError),
}

/// Makes what the arguments ask for below `root` and gives the paths of the new files.
///
/// # Errors
/// [`NewError`], with nothing written; [`Error::UnknownArgument`]; what [`Tree`] says of files.
pub fn new(root: &Path, arguments: &[String]) -> Result<Vec<String>, Error> {
    let unknown =
        |argument: &str, expected| Error::UnknownArgument { command: "new", argument: argument.to_owned(), expected };
    let mut tree = Tree::read(root)?;
    match arguments.split_first().map(|(what, rest)| (what.as_str(), rest)) {
        Some(("aggregate", rest)) => Aggregate::parse(rest, &tree)?.add_to(&mut tree)?,
        Some(("port", rest)) => Part::parse(Kind::Port, rest)?.add_to(&mut tree)?,
        Some(("adapter", rest)) => Part::parse(Kind::Adapter, rest)?.add_to(&mut tree)?,
        Some(("consumer", rest)) => Part::parse(Kind::Consumer, rest)?.add_to(&mut tree)?,
        Some(("adr", [title])) => adr::add_to(&mut tree, title, &adr::today()?)?,
        Some(("adr", [_, second, ..])) => return Err(unknown(second, "one TITLE; put it into quotation marks")),
        Some(("adr", [])) => return Err(NewError::Missing("TITLE").into()),
        Some((what, _)) => return Err(unknown(what, "aggregate, port, adapter, consumer or adr")),
        None => {
            return Err(Error::MissingArgument {
                command: "new",
                expected: "aggregate, port, adapter, consumer or adr",
            });
        }
    }
    let made = tree.changed().into_iter().filter(|path| !root.join(path).exists()).map(str::to_owned).collect();
    tree.write(root)?;
    Ok(made)
}
