//! `template-diff`: what the template has changed since this clone was made, in the clone's own names.
//!
//! Both versions of the template are renamed as the clone was, stored as trees of git, and compared there: so the patch
//! names files that git can merge with (`git apply --3way`). The summary is sorted by crate: `by_crate`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::Command as Process,
};

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
    summary: "shows by crate what the template changed since this clone, up to a tag; --patch for `git apply --3way`",
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
    let form: &[&str] =
        if options.patch { &["diff", "--patch", "--full-index"] } else { &["diff", "--numstat", "-z", "--no-renames"] };
    let mut command = git(root, form);
    command.args([&before, &after]).args(["--", "."]).args(OWN.iter().map(|path| format!(":(exclude){path}")));
    let text = process::output_of(&mut command)?;
    if options.patch { Ok(text) } else { by_crate(&text) }
}

/// A file that differs, with the lines added and removed; of what is no text, git counts none.
struct Changed<'a> {
    path: &'a str,
    lines: Option<(u64, u64)>,
}

/// The changed files sorted by crate, then by folder of the root, and last those of the root itself; `numstat` is what
/// `git diff --numstat -z --no-renames` says.
fn by_crate(numstat: &str) -> Result<String, Error> {
    let mut groups: BTreeMap<(u8, String), Vec<Changed<'_>>> = BTreeMap::new();
    for entry in numstat.split_terminator('\0') {
        let mut fields = entry.splitn(3, '\t');
        let (Some(added), Some(removed), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
            return Err(Error::Unreadable {
                what: "answer of `git diff --numstat`",
                expected: "lines added, lines removed and a path for each file",
            });
        };
        let lines = added.parse().ok().zip(removed.parse().ok());
        groups.entry(home(path)).or_default().push(Changed { path, lines });
    }
    let mut text = Vec::new();
    for ((_, name), files) in &groups {
        let counted = files.iter().filter_map(|file| file.lines);
        let (added, removed) = counted.fold((0, 0), |sum, lines| (sum.0 + lines.0, sum.1 + lines.1));
        let plural = if files.len() == 1 { "" } else { "s" };
        text.push(format!("{name}: {} file{plural}, +{added} -{removed}\n", files.len()));
        for Changed { path, lines } in files {
            let lines = lines.map_or_else(|| "no text".to_owned(), |(added, removed)| format!("+{added} -{removed}"));
            text.push(format!("  {path}  {lines}\n"));
        }
    }
    if text.is_empty() {
        text.push("nothing has changed but what a clone makes its own\n".to_owned());
    }
    Ok(text.concat())
}

/// Where a file belongs, and which of the three kinds of such places comes first.
fn home(path: &str) -> (u8, String) {
    match path.split_once('/') {
        Some(("crates", rest)) => (0, format!("crates/{}", rest.split('/').next().unwrap_or(rest))),
        Some((folder, _)) => (1, folder.to_owned()),
        None => (2, "top level".to_owned()),
    }
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

    use super::{Options, TemplateDiffError, VERSION_FILE, by_crate, diff};
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
        assert_eq!(summary, "crates/x: 1 file, +1 -1\n  crates/x/src/lib.rs  +1 -1\n");
    }

    #[test]
    fn summary_is_sorted_by_crate_then_by_folder_and_the_top_level_comes_last() {
        let numstat = [
            "1\t0\t.github/workflows/check.yml",
            "5\t2\tCargo.toml",
            "3\t1\tcrates/b/src/lib.rs",
            "7\t0\tcrates/a/tests/of a.rs",
            "0\t4\tcrates/a/Cargo.toml",
            "-\t-\tdocs/images/x.png",
            "2\t2\tdocs/faq.md",
            "9\t0\tmigrations/outbox/V9__x.sql",
            "1\t1\ttests/contract/main.rs",
            "1\t1\txtask/src/main.rs",
        ];
        let summary = by_crate(&numstat.map(|entry| format!("{entry}\0")).concat()).unwrap();
        let expected = "\
crates/a: 2 files, +7 -4
  crates/a/tests/of a.rs  +7 -0
  crates/a/Cargo.toml  +0 -4
crates/b: 1 file, +3 -1
  crates/b/src/lib.rs  +3 -1
.github: 1 file, +1 -0
  .github/workflows/check.yml  +1 -0
docs: 2 files, +2 -2
  docs/images/x.png  no text
  docs/faq.md  +2 -2
migrations: 1 file, +9 -0
  migrations/outbox/V9__x.sql  +9 -0
tests: 1 file, +1 -1
  tests/contract/main.rs  +1 -1
xtask: 1 file, +1 -1
  xtask/src/main.rs  +1 -1
top level: 1 file, +5 -2
  Cargo.toml  +5 -2
";
        assert_eq!(summary, expected);
    }

    #[test]
    fn summary_of_no_change_says_so_and_an_answer_that_is_no_list_of_files_is_refused() {
        let (folder, work) = clone();
        process::output_of(&mut git(folder.path(), &["tag", "v1", "HEAD~1"])).unwrap();
        let summary = run(folder.path(), work.path(), "v1", false).unwrap();
        assert_eq!(summary, "nothing has changed but what a clone makes its own\n");
        assert!(matches!(by_crate("1\tcrates/a/src/lib.rs\0"), Err(Error::Unreadable { .. })));
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
