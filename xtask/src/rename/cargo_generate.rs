//! That `cargo generate` would copy this workspace as it is. It was not run: this holds what it reads to what it documents.

use std::collections::BTreeMap;

use crate::{command::COMMANDS, markdown, tree::Tree, workspace};

const CONFIG: &str = "cargo-generate.toml";
/// Its own placeholders. Whatever file holds one would keep it, for no file is filled in.
const PLACEHOLDERS: &[&str] =
    &["authors", "crate_name", "crate_type", "is_init", "os-arch", "project-name", "username", "within_cargo_project"];

/// What would be more, or less, than a copy.
fn beyond_copying(files: &BTreeMap<&str, &str>) -> Vec<String> {
    let Some(text) = files.get(CONFIG) else { return vec![format!("there is no {CONFIG}")] };
    let mut found = config(text);
    for (path, text) in files {
        // Names of files are filled in whether or not their contents are, and this ending is taken off.
        if path.contains("{{") || path.ends_with(".liquid") {
            found.push(format!("{path}: would get another name"));
        }
        if *path == ".genignore" {
            found.push(format!("{path}: files would be left out"));
        }
        let lines = text.lines().enumerate().filter(|(_, line)| has_placeholder(line));
        found.extend(lines.map(|(index, _)| format!("{path}:{}: has a placeholder, which stays as it is", index + 1)));
    }
    found
}

fn config(text: &str) -> Vec<String> {
    let table: toml::Table = match toml::from_str(text) {
        Ok(table) => table,
        Err(error) => return vec![format!("{CONFIG}: {error}")],
    };
    let mut found = Vec::new();
    for (key, value) in &table {
        match (key.as_str(), value.as_table()) {
            ("template", Some(template)) => found.extend(template.iter().filter_map(|(key, value)| wrong(key, value))),
            _ => found.push(format!("{CONFIG}: [{key}] asks or runs something")),
        }
    }
    if table.get("template").is_none_or(|template| template.get("exclude").is_none()) {
        found.push(format!("{CONFIG}: template.exclude is not set: braces would be filled in"));
    }
    for code in text.lines().filter(|line| line.starts_with('#')).flat_map(markdown::codes) {
        let command = code.strip_prefix("cargo xtask ").and_then(|rest| rest.split(' ').next());
        if command.is_some_and(|name| COMMANDS.iter().all(|command| command.name != name)) {
            found.push(format!("{CONFIG}: there is no command `{code}`"));
        }
    }
    found
}

fn wrong(key: &str, value: &toml::Value) -> Option<String> {
    match key {
        "cargo_generate_version" => None,
        "exclude" => {
            let all = value.as_array().is_some_and(|globs| globs.len() == 1 && globs[0].as_str() == Some("**/*"));
            (!all).then(|| format!("{CONFIG}: template.exclude is {value}: other files would be filled in"))
        }
        _ => Some(format!("{CONFIG}: template.{key} is more than a copy needs")),
    }
}

fn has_placeholder(line: &str) -> bool {
    let mut inside = line.split("{{").skip(1).map(|rest| rest.split(['}', '|']).next().unwrap_or_default().trim());
    inside.any(|name| PLACEHOLDERS.contains(&name))
}

fn planted(files: &[(&str, &str)]) -> Vec<String> {
    beyond_copying(&files.iter().copied().collect())
}

const PLAIN: &str =
    "# Then `cargo xtask rename NAME`.\n[template]\ncargo_generate_version = \">=0.18.0\"\nexclude = [\"**/*\"]\n";

#[test]
fn cargo_generate_finds_no_placeholder_and_is_told_to_copy_every_file() {
    let tree = Tree::read(&workspace::root()).unwrap();
    assert_eq!(beyond_copying(&tree.files().collect()), Vec::<String>::new());
}

#[test]
fn placeholder_and_file_that_would_get_another_name_or_be_left_out_are_found() {
    let placeholder = ["name = \"{{", " project-name | upcase ", "}}\"\n"].concat();
    let files = [
        (CONFIG, PLAIN),
        (".genignore", "docs\n"),
        ("Cargo.toml", placeholder.as_str()),
        ("a.rs.liquid", ""),
        ("templates/x.tmpl", "{{name}} ${{ matrix.way }}\n"),
        ("{{name}}.rs", ""),
    ];
    assert_eq!(
        planted(&files),
        [
            ".genignore: files would be left out",
            "Cargo.toml:1: has a placeholder, which stays as it is",
            "a.rs.liquid: would get another name",
            "{{name}}.rs: would get another name"
        ]
    );
}

#[test]
fn settings_of_cargo_generate_that_do_more_than_copy_or_name_what_is_not_there_are_found() {
    assert!(planted(&[(CONFIG, PLAIN)]).is_empty());
    for (text, words) in [
        ("[template\n", "cargo-generate.toml: TOML"),
        ("[template]\n", "template.exclude is not set"),
        ("[template]\nexclude = [\"templates/**\"]\n", "other files would be filled in"),
        ("[template]\nexclude = [\"**/*\"]\nignore = [\"docs\"]\n", "template.ignore is more than a copy needs"),
        ("[template]\nexclude = [\"**/*\"]\n[hooks]\npost = [\"a.rhai\"]\n", "[hooks] asks or runs something"),
        ("# `cargo xtask renamed x`\n[template]\nexclude = [\"**/*\"]\n", "no command `cargo xtask renamed x`"),
    ] {
        let found = planted(&[(CONFIG, text)]);
        assert!(found.len() == 1 && found[0].contains(words), "{words} in {found:?}");
    }
    assert_eq!(planted(&[]), ["there is no cargo-generate.toml"]);
}
