//! `check-template`: makes clones as a team would, and checks that they are green. It takes long and is no part of `check`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    Error, arch,
    check::test_output::TestOutput,
    command::Command,
    output, process,
    rename::{RenameError, VERSION_FILE},
    tree::{TreeError, git},
    workspace,
};

/// The command `check-template`.
pub const COMMAND: Command = Command {
    name: "check-template",
    arguments: "[own|sample|tutorial]",
    summary: "makes clones below the target folder, with a context of their own, the sample or both; checks them",
    run: |arguments| {
        let ways = chosen(arguments)?;
        let root = workspace::root();
        if root.join(VERSION_FILE).exists() {
            return Err(RenameError::AlreadyRenamed.into());
        }
        let folder = arch::metadata(&root, arch::Depth::Members)?.target_directory.into_std_path_buf();
        let clones = folder.join("check-template");
        for way in ways {
            let code = walk(&root, &clones, way)?;
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
    /// What is shown once every step has passed.
    shows: &'static str,
    steps: &'static [&'static [&'static str]],
}

const RENAME: &[&str] = &["rename", "order-service"];
/// As the tutorial and the guides say it.
const AGGREGATE: &[&str] = &["new", "aggregate", "Invoice", "--context", "billing", "--events", "Issued,Paid"];
/// Beside the sample's consumer, where there is one.
const CONSUMER: &[&str] = &["new", "consumer", "Payments", "--event", "InvoicePaid", "--context", "billing"];
const CHECK: &[&str] = &["check", "--fast"];
/// From a request to a queue on the broker, and from a commit to the consumer: what `new` has written for both.
const DELIVERED: &[&str] = &[
    "test",
    "--test",
    "system",
    "--",
    "contexts::billing::invoice_events_reach_a_queue_in_the_order_of_their_commits",
    "contexts::billing_payments::payments_handles_an_event_that_was_committed",
];

const WAYS: &[Way] = &[
    Way {
        name: "own",
        shows: "without the sample, a new aggregate's events are delivered to a queue and to a new consumer",
        steps: &[
            RENAME,
            &["remove-sample"],
            AGGREGATE,
            &["new", "port", "ExchangeRates", "--context", "billing"],
            &["new", "adapter", "FixedRates", "--port", "ExchangeRates", "--context", "billing"],
            CONSUMER,
            CHECK,
            DELIVERED,
        ],
    },
    Way { name: "sample", shows: "the sample goes on under another name", steps: &[RENAME, CHECK] },
    Way {
        name: "tutorial",
        shows: "beside the sample, a new aggregate's events are delivered to a queue and to a new consumer",
        steps: &[AGGREGATE, CONSUMER, CHECK, DELIVERED],
    },
];

fn chosen(arguments: &[String]) -> Result<Vec<&'static Way>, Error> {
    match arguments {
        [] => Ok(WAYS.iter().collect()),
        [name, rest @ ..] => {
            let way = WAYS.iter().find(|way| rest.is_empty() && way.name == name);
            let argument = rest.first().unwrap_or(name).clone();
            let expected = "own, sample or tutorial, or nothing for all";
            way.map(|way| vec![way]).ok_or(Error::UnknownArgument { command: "check-template", argument, expected })
        }
    }
}

/// Walks the way in a new copy and gives the exit code of the step that failed, or 0.
fn walk(root: &Path, clones: &Path, way: &Way) -> Result<u8, Error> {
    let folder = clones.join(way.name);
    // Shared by the clones alone: cargo takes a clone's crates for those of this workspace, and would go on running them.
    let target = &clones.join("target");
    copy(root, &folder)?;
    process::output_of(&mut git(&folder, &["init", "--quiet"]))?;
    for step in way.steps {
        commit(&folder)?;
        output::say(&format!("\n{}: cargo xtask {}", way.name, step.join(" ")));
        let code = run(&folder, target, step)?;
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
    output::say(&format!("ok      {}: {} steps; {}", way.name, way.steps.len(), way.shows));
    Ok(0)
}

/// Runs a step in the copy and gives its exit code. What shows the delivery fails unless each of its tests was run.
fn run(folder: &Path, target: &Path, step: &[&str]) -> Result<u8, Error> {
    let mut command = process::cargo(folder);
    command.arg("xtask").args(step).env("CARGO_TARGET_DIR", target);
    if step != DELIVERED {
        return process::status_of(&mut command);
    }
    let mut tests = TestOutput::default();
    let status = process::follow(command, |line| {
        output::say(line);
        tests.read(line);
    })?;
    Ok(shown(process::code(status), &tests))
}

/// The exit code of the tests of delivery: a filter that matches no test would pass.
fn shown(code: u8, tests: &TestOutput) -> u8 {
    let (expected, passed) = (delivery_tests().count(), tests.passed());
    if code == 0 && passed != expected {
        output::say(&format!("delivery is shown by {expected} tests, and {passed} passed"));
        return 1;
    }
    code
}

/// The tests that [`DELIVERED`] runs.
fn delivery_tests() -> impl Iterator<Item = &'static str> {
    DELIVERED.iter().copied().skip_while(|word| *word != "--").skip(1)
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
    use super::{AGGREGATE, CONSUMER, DELIVERED, WAYS, chosen, commit, copy, delivery_tests, shown};
    use crate::{
        check::test_output::TestOutput,
        command::COMMANDS,
        markdown,
        tree::{Tree, fixture::planted, git, require_clean},
        workspace,
    };

    #[test]
    fn all_ways_are_walked_unless_one_is_chosen() {
        assert_eq!(chosen(&[]).unwrap().len(), 3);
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

    #[test]
    fn delivery_counts_only_if_each_of_its_tests_was_run() {
        let code = |code, results: &[&str]| {
            let mut tests = TestOutput::default();
            for result in results {
                tests.read(&format!("test result: {result}"));
            }
            shown(code, &tests)
        };
        let (none, one) = ("ok. 0 passed; 0 failed; 96 filtered out", "ok. 1 passed; 0 failed; 95 filtered out");
        let (two, three) = ("ok. 2 passed; 0 failed; 94 filtered out", "ok. 3 passed; 0 failed; 93 filtered out");
        for passing in [&[two][..], &[one, one], &[none, two]] {
            assert_eq!(code(0, passing), 0, "{passing:?}");
        }
        for failing in [&[none][..], &[], &[one], &[three], &[two, one]] {
            assert_eq!(code(0, failing), 1, "{failing:?}");
        }
        assert_eq!(code(101, &["FAILED. 1 passed; 1 failed"]), 101);
    }

    /// What the step names must be what the templates write.
    #[test]
    fn delivery_is_shown_by_tests_that_the_templates_write() {
        let named: Vec<&str> =
            delivery_tests().filter_map(|word| word.rsplit_once("::")).map(|(_, name)| name).collect();
        let written = [
            ("aggregate/system.rs.tmpl", "{{aggregate}}", "invoice"),
            ("part/consumer_system.rs.tmpl", "{{name}}", "payments"),
        ];
        assert_eq!(named.len(), written.len());
        for (name, (template, mark, value)) in named.into_iter().zip(written) {
            let text = std::fs::read_to_string(workspace::root().join("templates").join(template)).unwrap();
            assert!(text.replace(mark, value).contains(&format!("async fn {name}()")), "{template}: {name}");
        }
        for way in WAYS.iter().filter(|way| way.steps.contains(&AGGREGATE)) {
            assert!(way.steps.contains(&CONSUMER) && way.steps.last() == Some(&DELIVERED), "{}", way.name);
        }
    }

    /// What a page tells its reader to make is what is made and checked here.
    #[test]
    fn pages_make_the_aggregate_and_the_consumer_that_are_checked() {
        let said = [AGGREGATE, CONSUMER].map(|step| format!("cargo xtask {}", step.join(" ")));
        for page in ["tutorial.md", "tutorial.ko.md", "guides/add-your-first-aggregate.md"] {
            let Ok(text) = std::fs::read_to_string(workspace::root().join("docs").join(page)) else { continue };
            let fences = markdown::fences(&text);
            let lines = fences.iter().flat_map(|fence| &fence.lines).map(|(_, line)| *line);
            let made: Vec<&str> = lines.filter(|line| line.starts_with("cargo xtask new")).collect();
            assert_eq!(made, said, "{page}");
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
