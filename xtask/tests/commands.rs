//! Commands as programs, in folders of their own: what they refuse, and with which exit code and words they end.

#![expect(clippy::expect_used, reason = "helpers of tests, which clippy takes for code")]

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use tempfile::TempDir;
use xtask::{rename::VERSION_FILE, workspace};

const FAILED: Option<i32> = Some(1);

/// A workspace of its own, at whose root the program takes itself to be.
struct Workspace(TempDir);

impl Workspace {
    fn of(files: &[(&str, &str)]) -> Self {
        let folder = Self(tempfile::tempdir().expect("a folder"));
        for (path, text) in files {
            folder.write(path, text);
        }
        folder
    }

    /// A copy of this one, with everything committed.
    fn committed_copy() -> Self {
        let (folder, root) = (Self::of(&[]), workspace::root());
        for path in workspace::paths(&root).expect("its files") {
            let to = folder.root().join(&path);
            fs::create_dir_all(to.parent().expect("a folder")).expect("made");
            fs::copy(root.join(&path), to).expect("copied");
        }
        folder.git(&["init", "--quiet"]);
        folder.git(&["add", "--all"]);
        let identity = ["-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"];
        folder.git(&[&identity[..], &["commit", "--quiet", "--message", "all"]].concat());
        folder
    }

    fn root(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, path: &str, text: &str) {
        let to = self.root().join(path);
        fs::create_dir_all(to.parent().expect("a folder")).expect("made");
        fs::write(to, text).expect("written");
    }

    fn git(&self, arguments: &[&str]) -> String {
        let output = Command::new("git").current_dir(self.root()).args(arguments).output().expect("git runs");
        assert!(output.status.success(), "git {arguments:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn xtask(&self, arguments: &[&str]) -> Ended {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command.current_dir(self.root()).args(arguments);
        // It looks for its workspace there, and cargo for its target folder here.
        command.env("CARGO_MANIFEST_DIR", self.root().join("xtask"));
        command.env("CARGO_TARGET_DIR", self.root().join("target"));
        Ended::of(&command.output().expect("it runs"))
    }
}

/// How a command ended, and what it said.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    out: String,
    errors: String,
}

impl Ended {
    fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { code: output.status.code(), out: text(&output.stdout), errors: text(&output.stderr) }
    }
}

/// Plants a change that is not committed, and sees that the command does nothing then.
fn refuses_to_mix(clone: &Workspace, command: &[&str]) {
    clone.write("left-over.txt", "not committed\n");
    let refused = clone.xtask(command);
    assert_eq!(refused.code, FAILED, "{refused:?}");
    assert!(refused.errors.contains("1 uncommitted changes, the first is `?? left-over.txt`"), "{refused:?}");
    assert_eq!(clone.git(&["status", "--porcelain"]), "?? left-over.txt\n", "nothing is changed");
}

#[test]
fn rename_refuses_uncommitted_changes_and_goes_on_where_it_is_told_to() {
    let clone = Workspace::committed_copy();
    refuses_to_mix(&clone, &["rename", "order-service"]);
    let told = clone.xtask(&["rename", "order-service", "--allow-dirty"]);
    if workspace::root().join(VERSION_FILE).exists() {
        assert_eq!(told.code, FAILED, "{told:?}");
        assert!(told.errors.contains("this workspace was renamed before"), "{told:?}");
    } else {
        assert_eq!(told.code, Some(0), "{told:?}");
        let version = fs::read_to_string(clone.root().join(VERSION_FILE)).expect("it is written");
        assert!(version.contains("name = \"order-service\""), "{version}");
    }
}

#[test]
fn remove_sample_refuses_uncommitted_changes_and_goes_on_where_it_is_told_to() {
    let clone = Workspace::committed_copy();
    refuses_to_mix(&clone, &["remove-sample"]);
    let told = clone.xtask(&["remove-sample", "--allow-dirty"]);
    assert!(!told.errors.contains("uncommitted"), "{told:?}");
    // sample-only: begin
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(!clone.root().join("crates/sample-portfolio").exists());
    // sample-only: end
}

#[test]
fn check_template_refuses_a_clone_that_was_renamed() {
    let clone = Workspace::of(&[(VERSION_FILE, "name = \"order-service\"\n")]);
    let refused = clone.xtask(&["check-template"]);
    assert_eq!(refused.code, FAILED, "{refused:?}");
    assert!(refused.errors.contains("this workspace was renamed before"), "{refused:?}");
    assert!(!clone.root().join("target").exists(), "no clone is made");
}

/// A workspace without commands of its own: cargo ends with 101 at the first of them.
#[test]
fn check_template_ends_with_the_code_of_the_step_that_failed_and_names_it_and_its_folder() {
    let template = Workspace::of(&[
        ("Cargo.toml", "[package]\nname = \"planted\"\nversion = \"0.0.0\"\nedition = \"2024\"\n"),
        ("src/lib.rs", "//! Planted.\n"),
    ]);
    let ended = template.xtask(&["check-template"]);
    assert_eq!(ended.code, Some(101), "{ended:?}");
    let failed = "FAILED  own: cargo xtask rename order-service (101); look into ";
    let line = ended.out.lines().last().unwrap_or_default();
    assert!(line.starts_with(failed) && line.ends_with("target/check-template/own"), "{ended:?}");
    assert!(!ended.out.contains("sample: "), "the other way is not begun: {ended:?}");
    assert!(template.root().join("target/check-template/own/src/lib.rs").exists(), "it is there to be looked into");
}
