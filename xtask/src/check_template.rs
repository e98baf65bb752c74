//! `check-template`: makes clones as a team would, and checks that they are green. It takes long and is no part of `check`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    Error, arch,
    command::Command,
    output, process,
    rename::{RenameError, VERSION_FILE},
    tree::{TreeError, git},
    workspace,
};

/// The command `check-template`.
pub const COMMAND: Command = Command {
    name: "check-template",
    arguments: "[own|sample]",
    summary: "makes clones below the target folder: renamed, with a context of their own or the sample; checks them",
    run: |arguments| {
        let ways = chosen(arguments)?;
        let root = workspace::root();
        if root.join(VERSION_FILE).exists() {
            return Err(RenameError::AlreadyRenamed.into());
        }
        let target = arch::metadata(&root, arch::Depth::Members)?.target_directory.into_std_path_buf();
        for way in ways {
            let code = walk(&root, &target, way)?;
            if code != 0 {
                return Ok(code);
            }
        }
        Ok(0)
    },
};

/// What a team does with its clone.
#[derive(Debug, PartialEq, Eq)]
struct Way {
    name: &'static str,
    steps: &'static [&'static [&'static str]],
}

const RENAME: &[&str] = &["rename", "order-service"];
/// As the tutorial and the guides say it.
const AGGREGATE: &[&str] = &["new", "aggregate", "Invoice", "--context", "billing", "--events", "Issued,Paid"];
const CHECK: &[&str] = &["check", "--fast"];

const WAYS: &[Way] = &[
    Way {
        name: "own",
        steps: &[
            RENAME,
            &["remove-sample"],
            AGGREGATE,
            &["new", "port", "ExchangeRates", "--context", "billing"],
            &["new", "adapter", "FixedRates", "--port", "ExchangeRates", "--context", "billing"],
            &["new", "consumer", "Payments", "--event", "InvoicePaid", "--context", "billing"],
            CHECK,
        ],
    },
    Way { name: "sample", steps: &[RENAME, CHECK] },
];

fn chosen(arguments: &[String]) -> Result<Vec<&'static Way>, Error> {
    match arguments {
        [] => Ok(WAYS.iter().collect()),
        [name, rest @ ..] => {
            let way = WAYS.iter().find(|way| rest.is_empty() && way.name == name);
            let argument = rest.first().unwrap_or(name).clone();
            let expected = "own or sample, or nothing for both";
            way.map(|way| vec![way]).ok_or(Error::UnknownArgument { command: "check-template", argument, expected })
        }
    }
}

/// Walks the way in a new copy and gives the exit code of the step that failed, or 0.
fn walk(root: &Path, target: &Path, way: &Way) -> Result<u8, Error> {
    let folder = target.join("check-template").join(way.name);
    copy(root, &folder)?;
    process::output_of(&mut git(&folder, &["init", "--quiet"]))?;
    for step in way.steps {
        commit(&folder)?;
        output::say(&format!("\n{}: cargo xtask {}", way.name, step.join(" ")));
        let mut command = process::cargo(&folder);
        command.args(["xtask"]).args(*step).env("CARGO_TARGET_DIR", target);
        let code = process::status_of(&mut command)?;
        if code != 0 {
            output::say(&format!(
                "FAILED  {}: cargo xtask {} ({code}); look into {}",
                way.name,
                step.join(" "),
                folder.display()
            ));
            return Ok(code);
        }
    }
    output::say(&format!("ok      {}: {} steps", way.name, way.steps.len()));
    Ok(0)
}

/// Copies the workspace's files into a folder that is new.
fn copy(root: &Path, folder: &Path) -> Result<(), Error> {
    let failed = |path: PathBuf| move |source| Error::from(TreeError::Write { path, source });
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(failed(folder.to_path_buf()))?;
    }
    for path in workspace::paths(root)? {
        let to = folder.join(&path);
        let parent = to.parent().unwrap_or(folder);
        fs::create_dir_all(parent).and_then(|()| fs::copy(root.join(&path), &to)).map_err(failed(to.clone()))?;
    }
    Ok(())
}

fn commit(folder: &Path) -> Result<(), Error> {
    let identity = ["-c", "user.name=check-template", "-c", "user.email=check-template@localhost"];
    let commit = ["-c", "commit.gpgsign=false", "commit", "--quiet", "--allow-empty", "--message", "A step"];
    process::output_of(&mut git(folder, &["add", "--all"]))?;
    process::output_of(git(folder, &identity).args(commit)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::{AGGREGATE, WAYS, chosen, commit, copy};
    use crate::{
        command::COMMANDS,
        markdown,
        tree::{Tree, fixture::planted, git, require_clean},
        workspace,
    };

    #[test]
    fn both_ways_are_walked_unless_one_is_chosen() {
        assert_eq!(chosen(&[]).unwrap().len(), 2);
        assert_eq!(chosen(&["own".to_owned()]).unwrap(), [&WAYS[0]]);
        for arguments in [&["owm"][..], &["own", "sample"]] {
            assert!(chosen(&arguments.iter().map(|&word| word.to_owned()).collect::<Vec<_>>()).unwrap_err().is_usage());
        }
    }

    #[test]
    fn every_step_is_a_command() {
        for step in WAYS.iter().flat_map(|way| way.steps) {
            assert!(COMMANDS.iter().any(|command| command.name == step[0]), "{step:?}");
        }
    }

    /// What a page tells its reader to make is what is made and checked here.
    #[test]
    fn pages_make_the_aggregate_that_is_checked() {
        let said = format!("cargo xtask {}", AGGREGATE.join(" "));
        for page in ["tutorial.md", "tutorial.ko.md", "guides/add-your-first-aggregate.md"] {
            let Ok(text) = std::fs::read_to_string(workspace::root().join("docs").join(page)) else { continue };
            let fences = markdown::fences(&text);
            let lines = fences.iter().flat_map(|fence| &fence.lines).map(|(_, line)| *line);
            let made: Vec<&str> = lines.filter(|line| line.starts_with("cargo xtask new")).collect();
            assert_eq!(made, [said.as_str()], "{page}");
        }
    }

    #[test]
    fn copy_is_new_and_each_step_begins_with_everything_committed() {
        let from = planted(&[("a/b.rs", "x"), ("target/debug/y", "y"), (".git", "gitdir: elsewhere")]);
        let folder = from.path().join("target/copy");
        copy(from.path(), &folder).unwrap();
        std::fs::write(folder.join("left over"), "").unwrap();
        copy(from.path(), &folder).unwrap();
        let tree = Tree::read(&folder).unwrap();
        assert_eq!(tree.files().collect::<Vec<_>>(), [("a/b.rs", "x")]);
        assert!(git(&folder, &["init", "--quiet"]).status().unwrap().success());
        assert!(require_clean(&folder).is_err());
        commit(&folder).unwrap();
        require_clean(&folder).unwrap();
        commit(&folder).unwrap();
    }
}
