//! The directions between crates, against the table.

use super::{
    Crate, Edge, EdgeKind,
    table::{AdapterRule, CONTEXT, CONTEXTS, CrateRule, Home, speaks_of},
};
use crate::Report;

/// Compares every edge between crates of the workspace with the table; a crate that only one side knows is a problem.
#[must_use]
pub fn check_edges(crates: &[Crate], table: &[CrateRule]) -> Report {
    let mut report = Report::default();
    let is_member = |name: &str| crates.iter().any(|member| member.name == name);
    let mut edges = 0;
    for member in crates {
        if !member.inherits_lints {
            report.problem(format!("{}/Cargo.toml lacks `[lints] workspace = true`", member.folder));
        }
        let Some(rule) = table.iter().find(|rule| speaks_of(rule.name, &member.name)) else {
            report.problem(format!("crate {} is not in the table (xtask/src/arch/table.rs)", member.name));
            continue;
        };
        for edge in member.edges.iter().filter(|edge| is_member(&edge.to)) {
            edges += 1;
            if !is_allowed(rule, edge) {
                report.problem(format!(
                    "{} may not depend on {} ({})",
                    member.name,
                    edge.to,
                    match edge.kind {
                        EdgeKind::Normal => "dependencies",
                        EdgeKind::Build => "build-dependencies",
                        EdgeKind::Dev => "dev-dependencies",
                    }
                ));
            }
        }
    }
    let contexts = if table.iter().any(|rule| rule.name == CONTEXT) { CONTEXTS } else { &[] };
    let listed = table.iter().map(|rule| rule.name).filter(|name| *name != CONTEXT).chain(contexts.iter().copied());
    for name in listed.filter(|name| !is_member(name)) {
        report.problem(format!("the table lists {name}, which is no crate of the workspace"));
    }
    report.looked_at("crates", crates.len());
    report.looked_at("edges between them", edges);
    report
}

fn is_allowed(rule: &CrateRule, edge: &Edge) -> bool {
    let listed = |names: &[&str]| names.iter().any(|name| speaks_of(name, &edge.to));
    match edge.kind {
        EdgeKind::Normal => listed(rule.normal),
        EdgeKind::Build => listed(rule.build),
        EdgeKind::Dev => listed(rule.dev) || listed(rule.normal),
    }
}

/// Holds each technology in its homes.
#[must_use]
pub fn check_externals(crates: &[Crate], table: &[Home]) -> Report {
    let mut report = Report::default();
    let is_member = |name: &str| crates.iter().any(|member| member.name == name);
    let mut edges = 0;
    for member in crates {
        for edge in member.edges.iter().filter(|edge| !is_member(&edge.to)) {
            edges += 1;
            let home = table.iter().find(|home| home.external == edge.to);
            if let Some(home) = home.filter(|home| !home.homes.iter().any(|name| speaks_of(name, &member.name))) {
                report.problem(format!(
                    "{} may not name {}: it lives in {}",
                    member.name,
                    edge.to,
                    home.homes.join(", ")
                ));
            }
        }
    }
    report.looked_at("edges to other crates", edges);
    report
}

/// How the crate of an adapter is called.
const ADAPTER: &str = "adapter-";

/// Compares what the adapters' code may name of crates from outside with the closed list of each; tests are free.
#[must_use]
pub fn check_adapters(crates: &[Crate], table: &[AdapterRule]) -> Report {
    let mut report = Report::default();
    let is_member = |name: &str| crates.iter().any(|member| member.name == name);
    let mut adapters = 0;
    for member in crates.iter().filter(|member| member.name.starts_with(ADAPTER)) {
        adapters += 1;
        let Some(rule) = table.iter().find(|rule| rule.name == member.name) else {
            report.problem(format!("{} has no list in ADAPTERS (xtask/src/arch/table.rs)", member.name));
            continue;
        };
        let outside = member.edges.iter().filter(|edge| edge.kind != EdgeKind::Dev && !is_member(&edge.to));
        let used: Vec<&str> = outside.map(|edge| edge.to.as_str()).collect();
        for name in used.iter().filter(|name| !rule.crates.contains(name)) {
            report.problem(format!(
                "{} may not depend on {name}, which is not on its list: ADAPTERS in xtask/src/arch/table.rs takes it",
                member.name
            ));
        }
        for name in rule.crates.iter().filter(|name| !used.contains(name)) {
            report.problem(format!("the list of {} in ADAPTERS has {name}, which it does not depend on", member.name));
        }
    }
    for rule in table.iter().filter(|rule| !is_member(rule.name)) {
        report.problem(format!("ADAPTERS lists {}, which is no crate of the workspace", rule.name));
    }
    report.looked_at("adapters", adapters);
    report
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::{check_adapters, check_edges, check_externals};
    use crate::{
        arch::{
            Crate, Edge, EdgeKind, crates, metadata,
            model::Depth,
            table::{ADAPTERS, AdapterRule, CRATES, CrateRule, HOMES},
        },
        workspace,
    };

    const TABLE: &[CrateRule] = &[
        CrateRule { name: "core", normal: &[], build: &[], dev: &["core"] },
        CrateRule { name: "left", normal: &["core"], build: &[], dev: &[] },
        CrateRule { name: "right", normal: &["core"], build: &[], dev: &[] },
    ];

    fn member(name: &str, edges: &[(&str, EdgeKind)]) -> Crate {
        let edges = edges
            .iter()
            .map(|(to, kind)| Edge { to: (*to).to_owned(), name_in_code: to.replace('-', "_"), kind: *kind })
            .collect();
        Crate { name: name.to_owned(), folder: format!("crates/{name}"), edges, inherits_lints: true }
    }

    fn workspace_with(edge: (&str, EdgeKind)) -> Vec<Crate> {
        vec![
            member("core", &[("core", EdgeKind::Dev), ("serde", EdgeKind::Normal)]),
            member("left", &[("core", EdgeKind::Normal), edge]),
            member("right", &[("core", EdgeKind::Normal), ("core", EdgeKind::Dev)]),
        ]
    }

    #[test]
    fn allowed_edges_pass_and_are_counted() {
        let report = check_edges(&workspace_with(("serde", EdgeKind::Normal)), TABLE);
        assert_eq!(report.summary(), "3 crates, 4 edges between them; 0 problems");
    }

    #[test]
    fn forbidden_edge_fails_whatever_its_kind() {
        for (kind, section) in [
            (EdgeKind::Normal, "dependencies"),
            (EdgeKind::Build, "build-dependencies"),
            (EdgeKind::Dev, "dev-dependencies"),
        ] {
            let report = check_edges(&workspace_with(("right", kind)), TABLE);
            assert_eq!(report.problems(), [format!("left may not depend on right ({section})")]);
        }
    }

    #[test]
    fn normal_edge_gives_no_leave_to_a_build_script() {
        let report = check_edges(&workspace_with(("core", EdgeKind::Build)), TABLE);
        assert_eq!(report.problems(), ["left may not depend on core (build-dependencies)"]);
    }

    #[test]
    fn crate_that_the_table_does_not_list_fails() {
        let mut crates = workspace_with(("serde", EdgeKind::Normal));
        crates.push(member("stray", &[]));
        let report = check_edges(&crates, TABLE);
        assert_eq!(report.problems(), ["crate stray is not in the table (xtask/src/arch/table.rs)"]);
    }

    #[test]
    fn listed_crate_that_is_gone_fails() {
        let mut crates = workspace_with(("serde", EdgeKind::Normal));
        crates.pop();
        let report = check_edges(&crates, TABLE);
        assert_eq!(report.problems(), ["the table lists right, which is no crate of the workspace"]);
    }

    #[test]
    fn empty_workspace_fails() {
        let report = check_edges(&[], &[]);
        assert_eq!(report.problems().len(), 2);
        assert!(!check_externals(&[], HOMES).is_clean());
    }

    #[test]
    fn crate_without_the_workspace_lints_fails() {
        let mut crates = workspace_with(("serde", EdgeKind::Normal));
        for member in &mut crates {
            member.inherits_lints = member.name != "left";
        }
        let report = check_edges(&crates, TABLE);
        assert_eq!(report.problems(), ["crates/left/Cargo.toml lacks `[lints] workspace = true`"]);
    }

    #[test]
    fn technology_outside_its_home_fails_in_tests_as_well() {
        for kind in [EdgeKind::Normal, EdgeKind::Dev] {
            let report = check_externals(&[member("adapter-outbound", &[("sqlx", kind)])], HOMES);
            let [problem] = report.problems() else { panic!("{report:?}") };
            assert!(problem.starts_with("adapter-outbound may not name sqlx"), "{problem}");
        }
        assert!(check_externals(&[member("adapter-outbound", &[("lapin", EdgeKind::Normal)])], HOMES).is_clean());
    }

    #[test]
    fn crate_that_an_adapters_list_lacks_fails_outside_of_its_tests() {
        let list = [AdapterRule { name: "adapter-x", crates: &["serde"] }];
        let problems = |edges: &[(&str, EdgeKind)]| {
            let edges = [&[("serde", EdgeKind::Normal), ("core", EdgeKind::Normal)][..], edges].concat();
            check_adapters(&[member("core", &[]), member("adapter-x", &edges)], &list).problems().to_vec()
        };
        assert_eq!(problems(&[("rand", EdgeKind::Dev)]), Vec::<String>::new());
        for kind in [EdgeKind::Normal, EdgeKind::Build] {
            let place = "ADAPTERS in xtask/src/arch/table.rs takes it";
            assert_eq!(
                problems(&[("rand", kind)]),
                [format!("adapter-x may not depend on rand, which is not on its list: {place}")]
            );
        }
    }

    #[test]
    fn lists_of_adapters_and_what_they_depend_on_are_the_same() {
        let list = [AdapterRule { name: "adapter-x", crates: &["serde"] }];
        let problems = |members: &[Crate]| check_adapters(members, &list).problems().to_vec();
        assert_eq!(
            problems(&[member("adapter-x", &[])]),
            ["the list of adapter-x in ADAPTERS has serde, which it does not depend on"]
        );
        assert_eq!(
            problems(&[member("adapter-y", &[])]),
            [
                "adapter-y has no list in ADAPTERS (xtask/src/arch/table.rs)",
                "ADAPTERS lists adapter-x, which is no crate of the workspace"
            ]
        );
        assert_eq!(problems(&[]).len(), 2);
        let members = crates(&metadata(&workspace::root(), Depth::Members).unwrap()).unwrap();
        assert_eq!(check_adapters(&members, ADAPTERS).problems(), Vec::<String>::new());
    }

    /// The whole way from a manifest on disk: a copy of this workspace, and a copy with one line more.
    #[test]
    fn a_planted_forbidden_edge_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        copy(&workspace::root(), folder.path());
        assert_eq!(edge_problems(folder.path()), Vec::<String>::new());

        let manifest = folder.path().join("crates/adapter-outbound/Cargo.toml");
        let text = fs::read_to_string(&manifest).unwrap();
        let planted =
            text.replace("[dependencies]\n", "[dependencies]\nadapter-persistence-postgres.workspace = true\n");
        assert_ne!(text, planted);
        fs::write(&manifest, planted).unwrap();
        assert_eq!(
            edge_problems(folder.path()),
            ["adapter-outbound may not depend on adapter-persistence-postgres (dependencies)"]
        );
    }

    fn edge_problems(root: &Path) -> Vec<String> {
        let members = crates(&metadata(root, Depth::Members).unwrap()).unwrap();
        check_edges(&members, CRATES).problems().to_vec()
    }

    /// Copies the manifests and sources, which is what cargo looks at.
    fn copy(from: &Path, to: &Path) {
        for entry in fs::read_dir(from).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap();
            if path.is_dir() && !["target", ".git", ".dev", "docs"].iter().any(|skipped| name == *skipped) {
                fs::create_dir(to.join(name)).unwrap();
                copy(&path, &to.join(name));
            } else if path.extension().is_some_and(|end| end == "toml" || end == "rs") {
                fs::copy(&path, to.join(name)).unwrap();
            }
        }
    }
}
