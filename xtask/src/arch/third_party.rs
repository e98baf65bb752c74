//! What comes from outside: origin, licence, bans, and the closed list of the core.

use std::collections::BTreeSet;

use super::{Locked, is_allowed};
use crate::Report;

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Checks every package of the lock file: where it comes from, its licence, and that it is not banned.
#[must_use]
pub fn check_locked(packages: &[Locked], licences: &[&str], banned: &[(&str, &str)]) -> Report {
    let mut report = Report::default();
    let mut expressions = BTreeSet::new();
    let mut foreign = 0;
    for package in packages.iter().filter(|package| !package.is_member) {
        foreign += 1;
        let name = format!("{} {}", package.name, package.version);
        if package.source.as_deref() != Some(REGISTRY) {
            report.problem(format!(
                "{name} comes from {}, not from crates.io",
                package.source.as_deref().unwrap_or("a path outside the workspace")
            ));
        }
        if let Some((_, why)) = banned.iter().find(|(banned, _)| *banned == package.name) {
            report.problem(format!("{name} is banned: {why}"));
        }
        match &package.licence {
            None => report.problem(format!("{name} names no licence")),
            Some(expression) => {
                expressions.insert(expression.as_str());
                if !is_allowed(expression, licences) {
                    report.problem(format!("{name} has the licence `{expression}`, which is not allowed"));
                }
            }
        }
    }
    report.looked_at("locked packages", foreign);
    report.looked_at("licence expressions", expressions.len());
    report
}

/// Compares the tree of the core with the closed list.
#[must_use]
pub fn check_core_tree(tree: &[String], allowed: &[&str]) -> Report {
    let mut report = Report::default();
    for name in tree.iter().filter(|name| !allowed.contains(&name.as_str())) {
        report.problem(format!("application-core is built from {name}, which is not on its list"));
    }
    report.looked_at("crates below the core", tree.len());
    report
}

#[cfg(test)]
mod tests {
    use super::{REGISTRY, check_core_tree, check_locked};
    use crate::arch::{
        Locked,
        table::{BANNED, CORE_TREE, LICENCES},
    };

    fn package(name: &str, licence: Option<&str>, source: Option<&str>) -> Locked {
        Locked {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            source: source.map(str::to_owned),
            is_member: false,
            licence: licence.map(str::to_owned),
        }
    }

    fn problems(package: Locked) -> Vec<String> {
        check_locked(&[package], LICENCES, BANNED).problems().to_vec()
    }

    #[test]
    fn permissive_package_from_the_registry_passes() {
        assert_eq!(problems(package("serde", Some("MIT OR Apache-2.0"), Some(REGISTRY))), Vec::<String>::new());
    }

    #[test]
    fn forbidden_licence_fails() {
        assert_eq!(
            problems(package("arch_test_core", Some("AGPL-3.0"), Some(REGISTRY))),
            ["arch_test_core 1.0.0 has the licence `AGPL-3.0`, which is not allowed"]
        );
    }

    #[test]
    fn missing_licence_fails() {
        let found = problems(package("bare", None, Some(REGISTRY)));
        assert!(found.contains(&"bare 1.0.0 names no licence".to_owned()), "{found:?}");
    }

    #[test]
    fn package_from_git_or_a_stray_path_fails() {
        let git = "git+https://example.org/fork#abc";
        assert_eq!(
            problems(package("fork", Some("MIT"), Some(git))),
            [format!("fork 1.0.0 comes from {git}, not from crates.io")]
        );
        assert_eq!(
            problems(package("stray", Some("MIT"), None)),
            ["stray 1.0.0 comes from a path outside the workspace, not from crates.io"]
        );
    }

    #[test]
    fn banned_package_fails() {
        assert_eq!(
            problems(package("openssl", Some("Apache-2.0"), Some(REGISTRY))),
            ["openssl 1.0.0 is banned: one TLS stack: rustls with ring"]
        );
    }

    #[test]
    fn empty_lock_file_fails() {
        assert!(!check_locked(&[], LICENCES, BANNED).is_clean());
    }

    #[test]
    fn io_crate_below_the_core_fails() {
        let tree = ["serde".to_owned(), "tokio".to_owned()];
        assert_eq!(
            check_core_tree(&tree, CORE_TREE).problems(),
            ["application-core is built from tokio, which is not on its list"]
        );
    }

    #[test]
    fn empty_tree_fails() {
        assert!(!check_core_tree(&[], CORE_TREE).is_clean());
    }

    #[test]
    fn closed_list_of_the_core_holds_no_io_crate() {
        for name in ["tokio", "sqlx", "sea-orm", "lapin", "axum", "config", "hyper", "rustls", "mio", "socket2"] {
            assert!(!CORE_TREE.contains(&name), "{name}");
        }
    }
}
