//! What `cargo metadata` says, cut down to what the rules read.

use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};

use crate::{Error, process, workspace::read_text};

/// How a dependency is declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EdgeKind {
    /// `[dependencies]`
    Normal,
    /// `[build-dependencies]`
    Build,
    /// `[dev-dependencies]`
    Dev,
}

/// A dependency of a crate of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// The package it depends on.
    pub to: String,
    /// How it is called in code.
    pub name_in_code: String,
    /// How it is declared.
    pub kind: EdgeKind,
}

/// A crate of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crate {
    /// The package's name.
    pub name: String,
    /// Its folder from the workspace's root, with `/` between the parts.
    pub folder: String,
    /// Its dependencies.
    pub edges: Vec<Edge>,
    /// Whether it takes the workspace's lints.
    pub inherits_lints: bool,
}

/// A package of the lock file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Locked {
    /// The package's name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Where it comes from; `None` for a path.
    pub source: Option<String>,
    /// Whether it is a crate of the workspace.
    pub is_member: bool,
    /// Its licence expression.
    pub licence: Option<String>,
}

/// How much to ask cargo for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// The crates of the workspace: needs neither network nor lock file.
    Members,
    /// All packages of the lock file.
    Everything,
}

/// Asks cargo about the workspace at `root`.
///
/// # Errors
/// [`Error::Metadata`] if cargo does not understand it.
pub fn metadata(root: &Path, depth: Depth) -> Result<Metadata, Error> {
    let mut command = MetadataCommand::new();
    command.cargo_path(process::cargo_path()).manifest_path(root.join("Cargo.toml"));
    if depth == Depth::Members {
        command.no_deps();
    }
    command.exec().map_err(Error::Metadata)
}

/// The crates of the workspace.
///
/// # Errors
/// [`Error::Read`] if a manifest cannot be read.
pub fn crates(metadata: &Metadata) -> Result<Vec<Crate>, Error> {
    metadata
        .workspace_packages()
        .into_iter()
        .map(|package| {
            let manifest = PathBuf::from(package.manifest_path.as_std_path());
            let folder = package.manifest_path.parent().unwrap_or(&package.manifest_path);
            let folder = folder.strip_prefix(&metadata.workspace_root).unwrap_or(folder);
            Ok(Crate {
                name: package.name.to_string(),
                folder: folder.components().map(|part| part.as_str()).collect::<Vec<_>>().join("/"),
                edges: package.dependencies.iter().map(edge).collect(),
                inherits_lints: inherits_lints(&read_text(&manifest)?),
            })
        })
        .collect()
}

/// All packages of the lock file.
#[must_use]
pub fn locked(metadata: &Metadata) -> Vec<Locked> {
    let packages = metadata.packages.iter();
    packages
        .map(|package| Locked {
            name: package.name.to_string(),
            version: package.version.to_string(),
            source: package.source.as_ref().map(|source| source.repr.clone()),
            is_member: metadata.workspace_members.contains(&package.id),
            licence: package.license.clone(),
        })
        .collect()
}

fn edge(dependency: &cargo_metadata::Dependency) -> Edge {
    let name = dependency.rename.as_ref().unwrap_or(&dependency.name);
    Edge {
        to: dependency.name.clone(),
        name_in_code: name.replace('-', "_"),
        kind: match dependency.kind {
            DependencyKind::Build => EdgeKind::Build,
            DependencyKind::Development => EdgeKind::Dev,
            _ => EdgeKind::Normal,
        },
    }
}

/// Whether a manifest has `[lints] workspace = true`. The metadata does not tell.
fn inherits_lints(manifest: &str) -> bool {
    let mut section = String::new();
    for line in manifest.lines() {
        let line = line.split('#').next().unwrap_or_default();
        let line: String = line.chars().filter(|c| !c.is_whitespace()).collect();
        if line.starts_with('[') {
            section = line;
        } else if (section == "[lints]" && line == "workspace=true")
            || (section.is_empty() && line == "lints.workspace=true")
        {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::inherits_lints;

    #[test]
    fn lints_count_in_their_own_section_only() {
        assert!(inherits_lints("[package]\nname = \"x\"\n[lints]\nworkspace = true # all\n"));
        assert!(!inherits_lints("[package]\nversion.workspace = true\n"));
        assert!(!inherits_lints("[lints]\n# workspace = true\n[dependencies]\nworkspace = true\n"));
        assert!(!inherits_lints("[lints]\nworkspace = false\n"));
    }
}
