//! The lints that keep panics out of reachable code: none is missing, weakened, or switched off without a reason.

use super::table::HeldLint;
use crate::{
    Report,
    rust_source::{TestFiles, Token, after_closing, outside_tests, tokens, word},
    workspace::SourceFile,
};

/// Levels, the weakest first. The check makes errors of warnings.
const LEVELS: [&str; 4] = ["allow", "warn", "deny", "forbid"];

/// Names that cover all lints; whoever allows one allows those that are held.
const GROUPS: [&str; 4] = ["all", "pedantic", "restriction", "warnings"];

/// Compares `[workspace.lints]` of the manifest with the table, and looks for attributes in ordinary code that switch
/// one of its lints off without saying why.
#[must_use]
pub fn check_lints(manifest: &str, sources: &[SourceFile], lints: &[HeldLint]) -> Report {
    let mut report = Report::default();
    let set: Vec<(&str, &str, &str)> = levels(manifest).collect();
    for held in lints {
        let level = set.iter().find(|(tool, name, _)| (*tool, *name) == (held.tool, held.name));
        let strength = |level: &str| LEVELS.iter().position(|known| *known == level);
        match level {
            None => report.problem(format!("Cargo.toml: [workspace.lints.{}] lacks {}", held.tool, held.name)),
            Some((.., level)) if strength(level) < strength(held.level) => report.problem(format!(
                "Cargo.toml: [workspace.lints.{}] has {} = {level:?}, which must be {:?} or stronger",
                held.tool, held.name, held.level
            )),
            Some(_) => {}
        }
    }
    for (tool, group, _) in set.iter().filter(|(_, name, level)| GROUPS.contains(name) && *level == "allow") {
        report.problem(format!("Cargo.toml: [workspace.lints.{tool}] allows {group}, and lints that are held with it"));
    }
    report.looked_at("lints that are held", lints.len());
    let tests = TestFiles::of(sources);
    let mut files = 0;
    for file in sources.iter().filter(|file| !tests.contain(file)) {
        files += 1;
        for (line, lint) in switched_off(&outside_tests(&tokens(&file.text)), lints) {
            report.problem(format!("{}:{line}: {lint} is switched off without a reason", file.path));
        }
    }
    report.looked_at("files of ordinary code", files);
    report
}

/// Of each lint in the tables `workspace.lints`: its tool, its name, its level.
fn levels(manifest: &str) -> impl Iterator<Item = (&str, &str, &str)> {
    let mut tool = None;
    manifest.lines().filter_map(move |line| {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(section) = line.strip_prefix('[') {
            tool = section.strip_prefix("workspace.lints.").and_then(|tool| tool.strip_suffix(']'));
            return None;
        }
        let (name, value) = line.split_once('=')?;
        let value = value.split_once("level").map_or(value, |(_, level)| level);
        Some((tool?, name.trim(), value.split('"').nth(1)?))
    })
}

/// The held lints, and groups of them, that attributes allow or expect without a reason.
fn switched_off<'a>(code: &[Token<'a>], lints: &[HeldLint]) -> Vec<(usize, &'a str)> {
    let mut found = Vec::new();
    for start in 0..code.len() {
        let open = start + 1 + usize::from(word(code, start + 1) == "!");
        if word(code, start) != "#" || word(code, open) != "[" {
            continue;
        }
        // Anywhere in the attribute: `cfg_attr` has it behind its condition.
        for at in open..after_closing(code, open) {
            if !matches!(word(code, at), "allow" | "expect") || word(code, at + 1) != "(" {
                continue;
            }
            let inside = code.get(at + 2..after_closing(code, at + 1)).unwrap_or_default();
            let is_reason = |pair: &[Token<'_>]| pair.iter().map(|token| token.text).eq(["reason", "="]);
            if inside.windows(2).any(is_reason) {
                continue;
            }
            let is_held = |name: &str| GROUPS.contains(&name) || lints.iter().any(|lint| lint.name == name);
            found.extend(inside.iter().filter(|token| is_held(token.text)).map(|token| (token.line, token.text)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::check_lints;
    use crate::{
        arch::table::{HeldLint, LINTS},
        workspace::{self, SourceFile, read_text},
    };

    const HELD: &[HeldLint] = &[
        HeldLint { tool: "rust", name: "unsafe_code", level: "forbid" },
        HeldLint { tool: "clippy", name: "unwrap_used", level: "warn" },
    ];
    const GOOD: &str = "[workspace.lints.rust]\nunsafe_code = \"forbid\"\n\n[workspace.lints.clippy]\n\
                        pedantic = { level = \"warn\", priority = -1 }\nunwrap_used = \"warn\" # in code\n\n[profile.dev]\n";

    fn problems(manifest: &str, path: &str, text: &str) -> Vec<String> {
        let file = |path: &str, text: &str| SourceFile { path: path.to_owned(), text: text.to_owned() };
        let files = [file("crates/a/src/lib.rs", "//! A."), file(path, text)];
        check_lints(manifest, &files, HELD).problems().to_vec()
    }

    fn of_manifest(old: &str, new: &str) -> Vec<String> {
        assert!(GOOD.contains(old));
        problems(&GOOD.replace(old, new), "crates/a/src/b.rs", "")
    }

    fn of_code(text: &str) -> Vec<String> {
        problems(GOOD, "crates/a/src/b.rs", text)
    }

    #[test]
    fn lints_as_they_are_held_or_stronger_pass() {
        assert_eq!(of_manifest("", ""), Vec::<String>::new());
        assert_eq!(of_manifest("unwrap_used = \"warn\"", "unwrap_used = { level = \"deny\" }"), Vec::<String>::new());
    }

    #[test]
    fn lint_that_is_missing_or_elsewhere_fails() {
        let missing = ["Cargo.toml: [workspace.lints.clippy] lacks unwrap_used"];
        assert_eq!(of_manifest("unwrap_used = \"warn\"", ""), missing);
        assert_eq!(of_manifest("unwrap_used", "# unwrap_used"), missing);
        assert_eq!(of_manifest("[workspace.lints.clippy]", "[workspace.metadata.clippy]"), missing);
    }

    #[test]
    fn lint_that_is_weakened_fails() {
        let problem = |level: &str| {
            format!(
                "Cargo.toml: [workspace.lints.clippy] has unwrap_used = {level:?}, which must be \"warn\" or stronger"
            )
        };
        assert_eq!(of_manifest("unwrap_used = \"warn\"", "unwrap_used = \"allow\""), [problem("allow")]);
        assert_eq!(
            of_manifest("unwrap_used = \"warn\"", "unwrap_used = { priority = 1, level = \"allow\" }"),
            [problem("allow")]
        );
        assert_eq!(of_manifest("\"forbid\"", "\"deny\"").len(), 1);
    }

    #[test]
    fn group_that_is_allowed_fails() {
        let group = "[workspace.lints.clippy]\nrestriction = { level = \"allow\", priority = 1 }";
        assert_eq!(
            of_manifest("[workspace.lints.clippy]", group),
            ["Cargo.toml: [workspace.lints.clippy] allows restriction, and lints that are held with it"]
        );
    }

    #[test]
    fn lint_that_code_switches_off_without_a_reason_fails() {
        for (attribute, lint) in [
            ("#![allow(clippy::unwrap_used)]", "unwrap_used"),
            ("#[expect(clippy::unwrap_used)] fn f() {}", "unwrap_used"),
            ("#[allow(dead_code, clippy::unwrap_used)] fn f() {}", "unwrap_used"),
            ("#![cfg_attr(not(debug_assertions), allow(clippy::unwrap_used))]", "unwrap_used"),
            ("#![allow(clippy::all)]", "all"),
            ("#![allow(warnings)]", "warnings"),
        ] {
            let expected = format!("crates/a/src/b.rs:1: {lint} is switched off without a reason");
            assert_eq!(of_code(attribute), [expected], "{attribute}");
        }
    }

    #[test]
    fn reason_other_lints_and_test_code_pass() {
        for text in [
            "#![expect(clippy::unwrap_used, reason = \"a wrong fixture fails its test\")]",
            "#[allow(dead_code)] fn f() { x.expect(\"unwrap_used\") }",
            "#![deny(clippy::unwrap_used)] // #![allow(clippy::unwrap_used)]",
            "#[cfg(test)] mod tests { #![allow(clippy::unwrap_used)] }",
        ] {
            assert_eq!(of_code(text), Vec::<String>::new(), "{text}");
        }
        let of_tests = problems(GOOD, "crates/a/tests/b.rs", "#![allow(clippy::unwrap_used)]");
        assert_eq!(of_tests, Vec::<String>::new());
    }

    #[test]
    fn table_without_lints_and_workspace_without_code_fail() {
        assert_eq!(check_lints(GOOD, &[], &[]).problems().len(), 2);
    }

    #[test]
    fn manifest_of_this_workspace_keeps_panics_out_and_each_held_lint_is_missed_when_it_is_gone() {
        let manifest = read_text(&workspace::root().join("Cargo.toml")).unwrap();
        let code = [SourceFile { path: "crates/a/src/lib.rs".to_owned(), text: String::new() }];
        assert_eq!(check_lints(&manifest, &code, LINTS).problems(), Vec::<String>::new());
        for lint in LINTS {
            let planted = manifest.replace(&format!("\n{} = ", lint.name), &format!("\n# {} = ", lint.name));
            let missing = format!("Cargo.toml: [workspace.lints.{}] lacks {}", lint.tool, lint.name);
            assert_eq!(check_lints(&planted, &code, LINTS).problems(), [missing]);
        }
    }
}
