//! `arch`: holds the directions between the crates and modules, and what may come from outside.
//!
//! The rules are tables in `arch/table.rs`; each rule is a function from what was read to a [`Report`].

mod edges;
mod imports;
mod licences;
mod lints;
mod model;
mod naming;
pub mod table;
mod third_party;
mod vendored;

use std::path::Path;

pub use edges::{check_adapters, check_edges, check_externals};
pub use imports::check_imports;
pub use licences::{check_deny_list, is_allowed};
pub use lints::check_lints;
pub use model::{Crate, Depth, Edge, EdgeKind, Locked, crates, locked, metadata};
pub use naming::check_names;
pub use third_party::{check_core_tree, check_locked};
pub use vendored::check_vendored;

use crate::{
    Error, Report,
    command::Command,
    process, workspace,
    workspace::{files, read_text},
};

/// The command `arch`.
pub const COMMAND: Command = Command {
    name: "arch",
    arguments: "",
    summary: "holds the directions between crates and modules, names of ports and adapters, lints, licences and bans",
    run: |arguments| {
        process::no_arguments("arch", arguments)?;
        Ok(check(&workspace::root())?.finish("arch"))
    },
};

/// Checks all rules on the workspace at `root`.
///
/// # Errors
/// If cargo gives no answer or a file cannot be read.
pub fn check(root: &Path) -> Result<Report, Error> {
    let metadata = metadata(root, Depth::Everything)?;
    let crates = crates(&metadata)?;
    let sources = files(root, &["rs"])?;
    let mut report = check_edges(&crates, table::CRATES);
    report.merge(check_externals(&crates, table::HOMES));
    report.merge(check_adapters(&crates, table::ADAPTERS));
    report.merge(check_imports(&crates, &sources, table::MODULES));
    report.merge(check_names(&sources, table::OTHER_PORTS, table::OTHER_ADAPTERS));
    report.merge(check_lints(&read_text(&root.join("Cargo.toml"))?, &sources, table::LINTS));
    report.merge(check_locked(&locked(&metadata), table::LICENCES, table::BANNED));
    report.merge(check_core_tree(&core_tree(root)?, table::CORE_TREE));
    report.merge(check_vendored(&workspace::paths(root)?, &files(root, &["md"])?, table::LICENCES));
    report.merge(check_deny_list(&read_text(&root.join("deny.toml"))?, table::LICENCES));
    Ok(report)
}

/// The names of all crates that `application-core` is built from, itself excepted: as it is on its own, for any target.
fn core_tree(root: &Path) -> Result<Vec<String>, Error> {
    let arguments = [
        "tree",
        "-p",
        table::CORE,
        "--edges",
        "normal,build",
        "--target",
        "all",
        "--prefix",
        "none",
        "--format",
        "{p}",
    ];
    let text = process::output_of(process::cargo(root).args(arguments))?;
    let mut names: Vec<String> = text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names.retain(|name| name != table::CORE && !name.is_empty());
    Ok(names)
}
