//! `events`, the program behind `cargo xtask events`: how it ends, what it says, and what it leaves as it is.

use std::{fs, path::Path, process::Command};

use app_bootstrap::contexts::event_contracts;
use serde_json::{Value, json};
use system_tests::event_documents::{ASYNCAPI, FOLDER};
use tempfile::TempDir;

/// Runs the program in a workspace's root; gives its exit code and all that it said.
fn events(root: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_events"));
    let output = command.current_dir(root).args(arguments).output().expect("it runs");
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

/// A root with the documents of today's types.
fn written() -> TempDir {
    let root = tempfile::tempdir().expect("a folder");
    let (code, said) = events(root.path(), &[]);
    assert_eq!(code, Some(0), "{said}");
    root
}

#[test]
fn documents_that_were_written_are_checked_without_a_problem() {
    let root = written();
    let (code, said) = events(root.path(), &["--check"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(&format!("{} versions of events; 0 problems", event_contracts().len())), "{said}");
}

#[test]
fn the_check_of_documents_that_have_drifted_fails_and_leaves_them_as_they_are() {
    if event_contracts().is_empty() {
        return;
    }
    let root = written();
    let path = root.path().join(FOLDER).join(ASYNCAPI);
    fs::write(&path, "{}\n").expect("written");
    let (code, said) = events(root.path(), &["--check"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("docs/events/asyncapi.json is not what the types say: run `cargo xtask events`"), "{said}");
    assert_eq!(fs::read_to_string(&path).expect("read"), "{}\n");
    assert_eq!(events(root.path(), &[]).0, Some(0), "it is written anew");
    assert_eq!(events(root.path(), &["--check"]).0, Some(0));
}

#[test]
fn a_breaking_change_fails_the_check_and_the_writing_and_nothing_is_written() {
    let Some(contract) = event_contracts().into_iter().next() else { return };
    let (root, stem) = (written(), contract.stem());
    let path = root.path().join(FOLDER).join(format!("schemas/{stem}.json"));
    let mut schema: Value = serde_json::from_str(&fs::read_to_string(&path).expect("read")).expect("JSON");
    schema["properties"]["planted"] = json!({ "type": "string" });
    let published = format!("{schema:#}\n");
    fs::write(&path, &published).expect("written");
    for arguments in [&["--check"][..], &[]] {
        let (code, said) = events(root.path(), arguments);
        assert_eq!(code, Some(1), "{arguments:?}: {said}");
        let broken = format!("{stem} is published, and planted is gone: keep its type as it was and add a version");
        assert!(said.contains(&broken), "{arguments:?}: {said}");
        assert_eq!(said.contains("nothing is written"), arguments.is_empty(), "{said}");
    }
    assert_eq!(fs::read_to_string(&path).expect("read"), published);
}

#[test]
fn a_published_version_that_no_context_lists_any_more_fails_the_check() {
    let root = written();
    let folder = root.path().join(FOLDER).join("schemas");
    fs::create_dir_all(&folder).expect("made");
    fs::write(folder.join("OrderForgotten.v1.json"), "{}\n").expect("written");
    let (code, said) = events(root.path(), &["--check"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("schemas/OrderForgotten.v1.json is of no listed event"), "{said}");
}

#[test]
fn an_argument_that_the_program_of_events_does_not_know_is_a_usage_error() {
    let root = tempfile::tempdir().expect("a folder");
    let (code, said) = events(root.path(), &["--chek"]);
    assert_eq!(code, Some(64), "{said}");
    assert!(!root.path().join(FOLDER).exists(), "nothing is written");
}
