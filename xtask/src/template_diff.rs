//! `template-diff`: what the template has changed since this clone was made, in the clone's own names.
//!
//! Both versions of the template are renamed as the clone was, stored as trees of git, and compared there: so the patch
//! names files that git can merge with (`git apply --3way`).

use std::{collections::BTreeSet, fs, path::Path, process::Command as Process};

use crate::{
    Error, arch,
    command::Command,
    output, process,
    rename::{Name, RenameError, VERSION_FILE, rename_tree},
    tree::{Tree, TreeError, git},
    workspace,
};

/// The command `template-diff`.
pub const COMMAND: Command = Command {
    name: "template-diff",
    arguments: "TAG [--patch]",
    summary: "shows what the template changed since this clone was made, up to a tag; --patch for `git apply --3way`",
    run: |arguments| {
        let root = workspace::root();
        let options = Options::parse(arguments)?;
        let target = arch::metadata(&root, arch::Depth::Members)?.target_directory.into_std_path_buf();
        output::put(&diff(&root, &target.join("template-diff"), &options)?);
        Ok(0)
    },
};

/// What a clone makes its own, and the template's changes do not concern.
const OWN: &[&str] = &[
    "CHANGELOG.md",
    "Cargo.lock",
    "README.ko.md",
    "README.md",
    "config",
    "crates/sample-portfolio",
    "docs/events",
    "migrations/app",
];

/// Why nothing could be compared.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TemplateDiffError {
    /// The clone does not say what it was made from.
    #[error("there is no {VERSION_FILE} that names commit and name; `cargo xtask rename` writes it")]
    NoVersion,
    /// Git does not know the commit or tag.
    #[error("git does not know `{0}`: fetch the template first, `git fetch template --tags`")]
    Unknown(String),
}

#[derive(Debug, PartialEq, Eq)]
struct Options {
    tag: String,
    patch: bool,
}

impl Options {
    fn parse(arguments: &[String]) -> Result<Self, Error> {
        let (flags, tags): (Vec<_>, Vec<_>) = arguments.iter().partition(|argument| argument.starts_with('-'));
        let unknown = |argument: &str| Error::UnknownArgument {
            command: "template-diff",
            argument: argument.to_owned(),
            expected: "one TAG, --patch",
        };
        if let Some(flag) = flags.iter().find(|flag| **flag != "--patch") {
            return Err(unknown(flag));
        }
        match tags.as_slice() {
            [tag] => Ok(Self { tag: (*tag).clone(), patch: !flags.is_empty() }),
            [] => Err(unknown("")),
            [_, second, ..] => Err(unknown(second)),
        }
    }
}

/// The difference as text; `work` is a folder that may be made anew.
fn diff(root: &Path, work: &Path, options: &Options) -> Result<String, Error> {
    let text = fs::read_to_string(root.join(VERSION_FILE)).unwrap_or_default();
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
        line.map(|value| value.trim_matches('"').to_owned())
    };
    let (Some(commit), Some(name)) = (value("commit"), value("name")) else {
        return Err(TemplateDiffError::NoVersion.into());
    };
    let name = Name::try_new(&name, &BTreeSet::new()).map_err(RenameError::from)?;
    let (before, after) = (renamed(root, work, &commit, &name)?, renamed(root, work, &options.tag, &name)?);
    let mut command = git(root, &["diff", if options.patch { "--patch" } else { "--stat" }, "--full-index"]);
    command.args([&before, &after]).args(["--", "."]).args(OWN.iter().map(|path| format!(":(exclude){path}")));
    process::output_of(&mut command)
}

/// The tree of a version of the template, with the clone's names.
fn renamed(root: &Path, work: &Path, version: &str, name: &Name) -> Result<String, Error> {
    let commit = format!("{version}^{{commit}}");
    let known = git(root, &["rev-parse", "--quiet", "--verify", &commit]).output();
    if !known.is_ok_and(|output| output.status.success()) {
        return Err(TemplateDiffError::Unknown(version.to_owned()).into());
    }
    let failed = |source| Error::from(TreeError::Write { path: work.to_path_buf(), source });
    let files = work.join("files");
    if work.exists() {
        fs::remove_dir_all(work).map_err(failed)?;
    }
    fs::create_dir_all(&files).map_err(failed)?;
    let home = process::output_of(&mut git(root, &["rev-parse", "--absolute-git-dir"]))?;
    let aside = |arguments: &[&str]| {
        let mut command: Process = git(&files, arguments);
        command.env("GIT_DIR", home.trim()).env("GIT_WORK_TREE", &files).env("GIT_INDEX_FILE", work.join("index"));
        command
    };
    process::output_of(&mut aside(&["read-tree", &commit]))?;
    process::output_of(&mut aside(&["checkout-index", "--all"]))?;
    let mut tree = Tree::read(&files)?;
    rename_tree(&mut tree, name);
    tree.write(&files)?;
    process::output_of(&mut aside(&["add", "--all"]))?;
    Ok(process::output_of(&mut aside(&["write-tree"]))?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use tempfile::TempDir;

    use super::{Options, TemplateDiffError, VERSION_FILE, diff};
    use crate::{
        Error, process,
        tree::{
            fixture::{commit_all, planted},
            git,
        },
    };

    /// A clone of a template with two versions, made from the first.
    fn clone() -> (TempDir, TempDir) {
        let folder = planted(&[
            ("README.md", "one\n"),
            ("crates/x/src/lib.rs", "//! X.\nconst QUEUE: &str = \"app.events\";\nconst N: u32 = 1;\n"),
        ]);
        let root = folder.path();
        commit_all(root);
        let commit = process::output_of(&mut git(root, &["rev-parse", "HEAD"])).unwrap();
        fs::write(root.join("README.md"), "two\n").unwrap();
        let text = "//! X.\nconst QUEUE: &str = \"app.events\";\nconst N: u32 = 2;\n";
        fs::write(root.join("crates/x/src/lib.rs"), text).unwrap();
        commit_all(root);
        process::output_of(&mut git(root, &["tag", "v2"])).unwrap();
        let version = format!("version = \"0.1.0\"\ncommit = \"{}\"\nname = \"order-service\"\n", commit.trim());
        fs::write(root.join(VERSION_FILE), version).unwrap();
        (folder, tempfile::tempdir().unwrap())
    }

    fn run(root: &Path, work: &Path, tag: &str, patch: bool) -> Result<String, Error> {
        diff(root, &work.join("work"), &Options { tag: tag.to_owned(), patch })
    }

    #[test]
    fn diff_is_of_the_templates_files_and_carries_the_clones_names() {
        let (folder, work) = clone();
        let patch = run(folder.path(), work.path(), "v2", true).unwrap();
        for line in [" const QUEUE: &str = \"order-service.events\";", "-const N: u32 = 1;", "+const N: u32 = 2;"] {
            assert!(patch.lines().any(|found| found == line), "{line} in\n{patch}");
        }
        assert!(!patch.contains("README.md"), "{patch}");
        let summary = run(folder.path(), work.path(), "v2", false).unwrap();
        assert!(summary.contains("crates/x/src/lib.rs | 2 +-"), "{summary}");
    }

    /// Git finds the version that the patch was made from, and merges.
    #[test]
    fn patch_is_merged_into_a_clone_that_has_changed_the_same_file() {
        let (folder, work) = clone();
        let root = folder.path();
        let text = "//! X.\nconst OWN: u32 = 3;\nconst QUEUE: &str = \"order-service.events\";\nconst N: u32 = 1;\n";
        fs::write(root.join("crates/x/src/lib.rs"), text).unwrap();
        commit_all(root);
        let patch = work.path().join("template.patch");
        fs::write(&patch, run(root, work.path(), "v2", true).unwrap()).unwrap();
        process::output_of(git(root, &["apply", "--3way"]).arg(&patch)).unwrap();
        let merged = fs::read_to_string(root.join("crates/x/src/lib.rs")).unwrap();
        assert!(merged.contains("N: u32 = 2") && merged.contains("OWN: u32 = 3"), "{merged}");
    }

    #[test]
    fn tag_that_git_does_not_know_and_clone_without_a_version_are_named() {
        let (folder, work) = clone();
        let error = run(folder.path(), work.path(), "v3", false).unwrap_err();
        assert!(matches!(error, Error::TemplateDiff(TemplateDiffError::Unknown(tag)) if tag == "v3"));
        fs::remove_file(folder.path().join(VERSION_FILE)).unwrap();
        let error = run(folder.path(), work.path(), "v2", false).unwrap_err();
        assert!(matches!(error, Error::TemplateDiff(TemplateDiffError::NoVersion)));
    }

    #[test]
    fn arguments_are_one_tag_and_the_wish_for_a_patch() {
        let parse = |line: &str| Options::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(parse("v2 --patch").unwrap(), Options { tag: "v2".to_owned(), patch: true });
        for line in ["", "v1 v2", "v1 --pach"] {
            assert!(parse(line).unwrap_err().is_usage(), "{line}");
        }
    }
}
