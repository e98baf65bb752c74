//! That the sample can be removed, and that nothing of it is left then.

use super::{RemoveSampleError, index, remove_sample, take_out_of_lock, without_blocks, without_item};
use crate::{
    Error, Report,
    names::{MIRRORED, check_cases, check_commands, check_evidence, check_mapping},
    tree::{
        Tree,
        fixture::{copy_of_the_workspace, planted},
    },
    workspace::{self, SourceFile},
};

const GUIDE: &str = "docs/guides/make-it-yours.md";

fn refused(root: &std::path::Path) -> RemoveSampleError {
    match remove_sample(root) {
        Err(Error::RemoveSample(error)) => error,
        other => panic!("{other:?}"),
    }
}

fn document(tree: &Tree, path: &str) -> SourceFile {
    SourceFile { path: path.to_owned(), text: tree.text(path).unwrap_or_default().to_owned() }
}

/// The tables of the documents, against what is there.
fn tables(tree: &Tree) -> Report {
    let index = index(tree);
    let of_the_sample = ["WorkLog", "create_work_log"];
    let mirrored = MIRRORED.iter().copied().filter(|name| !of_the_sample.iter().any(|part| name.contains(part)));
    let mut report =
        check_mapping(&document(tree, "docs/mapping-from-ca-tmpl.md"), &index, &mirrored.collect::<Vec<_>>());
    report.merge(check_evidence(&document(tree, "docs/evidence.md"), &index));
    report.merge(check_cases(&document(tree, "docs/cases.md"), &index));
    let all = tree.files().filter(|(path, _)| workspace::ends_in(path.as_ref(), &["md"]));
    report.merge(check_commands(&all.map(|(path, _)| document(tree, path)).collect::<Vec<_>>(), &index));
    report
}

/// In a workspace without the sample, this holds the command to say so.
#[test]
fn nothing_of_the_sample_is_left_in_a_copy_of_this_workspace() {
    let folder = copy_of_the_workspace();
    if workspace::root().join(super::SAMPLE).exists() {
        let before = tables(&Tree::read(folder.path()).unwrap());
        remove_sample(folder.path()).unwrap();
        let tree = Tree::read(folder.path()).unwrap();
        // What changes in the template's sample is nothing to a clone that has removed it: template_diff leaves it out.
        let own = |path: &str| {
            path.starts_with("xtask/src/remove_sample") || path == GUIDE || path == "xtask/src/template_diff.rs"
        };
        let marks = ["sample-portfolio", "sample_portfolio", "sample-only", "V1__work_log"];
        let left: Vec<_> = tree
            .files()
            .filter(|(path, text)| !own(path) && marks.iter().any(|mark| path.contains(mark) || text.contains(mark)))
            .map(|(path, _)| path)
            .collect();
        assert_eq!(left, Vec::<&str>::new());
        assert!(tree.text("migrations/app/.gitkeep").is_some());
        let new: Vec<String> = tables(&tree).problems().to_vec();
        assert_eq!(new.len(), before.problems().len(), "{new:#?} against {:#?}", before.problems());
    }
    assert_eq!(refused(folder.path()), RemoveSampleError::NoSample);
}

#[test]
fn workspace_without_a_sample_is_refused() {
    assert_eq!(refused(planted(&[("Cargo.toml", "")]).path()), RemoveSampleError::NoSample);
}

#[test]
fn place_that_has_changed_stops_the_command_before_it_writes() {
    let folder = copy_of_the_workspace();
    let contexts = folder.path().join("crates/app-bootstrap/src/contexts.rs");
    if !workspace::root().join(super::SAMPLE).exists() {
        return;
    }
    let text = std::fs::read_to_string(&contexts).unwrap().replace("portfolio::CONTEXT", "portfolio::OTHER");
    std::fs::write(&contexts, &text).unwrap();
    let error = refused(folder.path());
    assert!(matches!(error, RemoveSampleError::Unknown { what: "portfolio::CONTEXT", .. }), "{error}");
    assert!(folder.path().join(super::SAMPLE).exists() && std::fs::read_to_string(&contexts).unwrap() == text);
}

#[test]
fn blocks_go_with_their_marks_and_a_lone_mark_is_refused() {
    let text = "a\n# sample-only: begin\nb\n# sample-only: end\nc\n";
    assert_eq!(without_blocks(text).as_deref(), Some("a\nc\n"));
    for text in ["# sample-only: begin\n", "# sample-only: end\n", "sample-only: begin\nsample-only: begin\n"] {
        assert_eq!(without_blocks(text), None, "{text}");
    }
}

#[test]
fn entry_of_a_list_goes_wherever_it_stands() {
    for (list, rest) in [("[a, x]", "[a]"), ("[x, a]", "[a]"), ("[x]", "[]"), ("[a, x, b]", "[a, b]")] {
        assert_eq!(without_item(list, "x").as_deref(), Some(rest));
    }
    assert_eq!(without_item("[a]", "x"), None);
    assert_eq!(without_item("[x] [x]", "x"), None);
}

#[test]
fn lock_file_loses_the_package_and_who_depended_on_it() {
    let lock = "version = 4\n\n[[package]]\nname = \"app\"\ndependencies = [\n \"rand\",\n \"sample-portfolio\",\n]\n\n\
                [[package]]\nname = \"sample-portfolio\"\nversion = \"0.1.0\"\n\n[[package]]\nname = \"z\"\n";
    let folder = planted(&[("Cargo.lock", lock)]);
    let mut tree = Tree::read(folder.path()).unwrap();
    take_out_of_lock(&mut tree);
    let rest =
        "version = 4\n\n[[package]]\nname = \"app\"\ndependencies = [\n \"rand\",\n]\n\n[[package]]\nname = \"z\"\n";
    assert_eq!(tree.text("Cargo.lock"), Some(rest));
}
