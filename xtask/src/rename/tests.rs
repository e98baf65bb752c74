//! What `rename` changes, what it refuses, and that nothing is left.

use std::{collections::BTreeSet, fs, path::Path};

use tempfile::TempDir;

use super::{KEPT, Name, NameError, Options, RENAMED, RenameError, VERSION_FILE, leftovers, rename};
use crate::{
    Error,
    tree::{
        Tree,
        fixture::{copy_of_the_workspace, planted},
    },
    workspace,
};

const CONNECTOR: &str = "{ \"database.dbname\": \"app\", \"topic.prefix\": \"app\" }\n";
const CODE: &str = r#"//! `app migrate` runs it in migrations/app.
let url = "postgres://localhost/app"; let other = "postgres://u@db/app"; let source = "/outbox";
let names = ["outbox.events", "app.events.parking", "APP__OUTBOX__X", "APP_PROFILE", "APP", "app-id"];
self.outbox.events.iter(); use app_bootstrap::AppEnvironment; migrations("../migrations/app");
"#;

fn small() -> TempDir {
    planted(&[
        ("Cargo.toml", "version = \"0.3.0\"\n"),
        ("Cargo.lock", "name = \"serde_json\"\n"),
        ("README.md", "# Outbox workspace\n\ntarget/debug/app serve\n"),
        ("README.ko.md", "# Outbox 워크스페이스\n"),
        ("docs/book.toml", "[book]\ntitle = \"Outbox workspace\"\n"),
        ("crates/app-bootstrap/Cargo.toml", "name = \"app-bootstrap\"\n[[bin]]\nname = \"app\"\n"),
        ("crates/x/src/lib.rs", CODE),
        ("docs/connector.json", CONNECTOR),
    ])
}

fn read(root: &Path, path: &str) -> String {
    fs::read_to_string(root.join(path)).unwrap()
}

fn refused(root: &Path, name: &str) -> RenameError {
    let before: Vec<(String, String)> = owned(root);
    let error = rename(root, name).unwrap_err();
    assert_eq!(owned(root), before, "nothing is written");
    let Error::Rename(error) = error else { panic!("{error}") };
    error
}

fn owned(root: &Path) -> Vec<(String, String)> {
    Tree::read(root).unwrap().files().map(|(path, text)| (path.to_owned(), text.to_owned())).collect()
}

fn name(value: &str) -> Result<Name, NameError> {
    Name::try_new(value, &BTreeSet::from(["serde_json".to_owned()]))
}

#[test]
fn every_name_of_a_planted_tree_becomes_the_new_one() {
    let folder = small();
    assert_eq!(rename(folder.path(), "order-service").unwrap(), 7);
    assert_eq!(read(folder.path(), "README.ko.md"), "# Order service\n");
    assert_eq!(read(folder.path(), "docs/book.toml"), "[book]\ntitle = \"Order service\"\n");
    assert_eq!(read(folder.path(), "README.md"), "# Order service\n\ntarget/debug/order-service serve\n");
    assert_eq!(
        read(folder.path(), "crates/app-bootstrap/Cargo.toml"),
        "name = \"app-bootstrap\"\n[[bin]]\nname = \"order-service\"\n"
    );
    assert_eq!(
        read(folder.path(), "crates/x/src/lib.rs"),
        r#"//! `order-service migrate` runs it in migrations/app.
let url = "postgres://localhost/order_service"; let other = "postgres://u@db/order_service"; let source = "/order-service";
let names = ["order-service.outbox.events", "order-service.events.parking", "ORDER_SERVICE__OUTBOX__X", "ORDER_SERVICE_PROFILE", "ORDER_SERVICE", "app-id"];
self.outbox.events.iter(); use app_bootstrap::AppEnvironment; migrations("../migrations/app");
"#
    );
    assert_eq!(
        read(folder.path(), "docs/connector.json"),
        "{ \"database.dbname\": \"order_service\", \"topic.prefix\": \"order-service\" }\n"
    );
    assert_eq!(
        read(folder.path(), VERSION_FILE),
        "# What this workspace was made from; written by `cargo xtask rename`.\n\
         template = \"outbox-workspace\"\nversion = \"0.3.0\"\nname = \"order-service\"\n"
    );
}

/// In a workspace that was renamed, this holds its files to be free of the template's names.
#[test]
fn no_old_name_is_left_in_a_copy_of_this_workspace() {
    let folder = copy_of_the_workspace();
    if !workspace::root().join(VERSION_FILE).exists() {
        rename(folder.path(), "order-service").unwrap();
    }
    assert_eq!(leftovers(&Tree::read(folder.path()).unwrap()), Vec::<String>::new());
    assert!(matches!(refused(folder.path(), "other-service"), RenameError::AlreadyRenamed));
}

/// ADR 17.
#[test]
fn packages_and_folders_keep_their_names_whatever_the_service_is_called() {
    let folder = copy_of_the_workspace();
    let paths = |root: &Path| owned(root).into_iter().map(|(path, _)| path).filter(|path| path != VERSION_FILE);
    let before: Vec<String> = paths(folder.path()).collect();
    if !workspace::root().join(VERSION_FILE).exists() {
        rename(folder.path(), "order-service").unwrap();
    }
    assert_eq!(paths(folder.path()).collect::<Vec<_>>(), before);
    for package in [
        "application-core",
        "adapter-persistence-postgres",
        "adapter-outbound",
        "adapter-inbound",
        "app-bootstrap",
        "event-contracts",
        "test-support",
    ] {
        let manifest = read(folder.path(), &format!("crates/{package}/Cargo.toml"));
        assert!(manifest.starts_with(&format!("[package]\nname = \"{package}\"\n")), "{manifest}");
    }
}

#[test]
fn name_that_begins_or_ends_with_the_old_one_is_no_leftover() {
    for name in ["app-two", "my-app", "app2"] {
        let folder = small();
        rename(folder.path(), name).unwrap();
        assert!(read(folder.path(), "crates/x/src/lib.rs").contains(&format!("`{name} migrate`")), "{name}");
    }
}

#[test]
fn place_that_the_table_misses_stops_the_command_before_it_writes() {
    let folder = small();
    fs::write(folder.path().join("run.sh"), "true\nexec target/release/app serve\n").unwrap();
    let RenameError::Left(left) = refused(folder.path(), "order-service") else { panic!("not left") };
    assert_eq!(left, ["run.sh:2"]);
}

#[test]
fn workspace_without_one_of_the_names_is_refused() {
    let folder = small();
    fs::write(folder.path().join("README.md"), "# Something else\n").unwrap();
    let error = refused(folder.path(), "order-service");
    assert!(matches!(error, RenameError::NotFound { old: "# Outbox workspace", .. }), "{error}");
}

#[test]
fn name_of_another_form_or_length_is_refused_with_its_value() {
    for value in ["Order", "1st", "-x", "order_service", "order--service", "order-", "naïve", "a b"] {
        assert_eq!(name(value), Err(NameError::Form { value: value.to_owned() }));
    }
    for value in ["", "a", &"x".repeat(41)] {
        assert_eq!(name(value), Err(NameError::Length { value: value.to_owned() }));
    }
    assert!(name("ab").is_ok() && name(&"x".repeat(40)).is_ok());
    let text = NameError::Length { value: "a".to_owned() }.to_string();
    assert_eq!(text, "the name `a` has 1 bytes, but it must have 2 to 40");
}

#[test]
fn name_that_something_else_has_is_refused() {
    assert_eq!(name("serde-json"), Err(NameError::Taken { value: "serde-json".to_owned() }));
    assert_eq!(name("test"), Err(NameError::Reserved { value: "test".to_owned() }));
    let folder = small();
    for taken in ["app", "app-bootstrap", "serde-json"] {
        let error = refused(folder.path(), taken);
        assert!(matches!(error, RenameError::Name(NameError::Taken { .. })), "{error}");
    }
}

#[test]
fn name_that_the_language_cargo_or_the_compiler_keeps_is_refused_with_the_reason() {
    let folder = small();
    for keyword in ["fn", "self", "crate", "type", "async", "gen", "yield"] {
        let error = refused(folder.path(), keyword);
        assert!(matches!(&error, RenameError::Name(NameError::Keyword { value }) if value == keyword), "{error}");
        assert!(error.to_string().contains(&format!("`{keyword}` is a keyword of Rust")), "{error}");
    }
    for kept in ["std", "core", "alloc", "test", "proc-macro", "build"] {
        let error = refused(folder.path(), kept);
        assert!(matches!(&error, RenameError::Name(NameError::Reserved { value }) if value == kept), "{error}");
        assert!(error.to_string().contains("cargo and the compiler keep"), "{error}");
    }
    let error = refused(folder.path(), "serde-json").to_string();
    assert!(
        error.ends_with("is taken by a package or program of the workspace, or by one that it is built from"),
        "{error}"
    );
    assert!(name("type-service").is_ok(), "a keyword is refused as the whole name alone");
}

#[test]
fn each_line_of_the_table_differs_and_says_what_it_is_for() {
    let olds: BTreeSet<_> = RENAMED.iter().map(|row| row.old).collect();
    assert_eq!(olds.len(), RENAMED.len());
    assert!(RENAMED.iter().all(|row| !row.what.is_empty()) && KEPT.iter().all(|(_, reason)| !reason.is_empty()));
}

#[test]
fn arguments_are_one_name_and_the_leave_to_be_dirty() {
    let parse = |line: &str| Options::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    let options = |allow_dirty| Options { name: "x".to_owned(), allow_dirty };
    assert_eq!(parse("x").unwrap(), options(false));
    assert_eq!(parse("--allow-dirty x").unwrap(), options(true));
    for line in ["", "x y", "x --force"] {
        assert!(parse(line).unwrap_err().is_usage(), "{line}");
    }
}
