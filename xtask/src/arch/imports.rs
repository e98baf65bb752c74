//! The directions between modules, read from the imports and paths of their sources.

use super::{
    Crate,
    table::{CONTEXT, CONTEXTS, ModuleRule},
};
use crate::{
    Report,
    rust_source::{PathUse, TestFiles, outside_tests, paths, tokens},
    workspace::SourceFile,
};

const ALWAYS: &[&str] = &["std", "core", "alloc"];

/// Checks what the code of the listed modules, tests excepted, imports and names.
#[must_use]
pub fn check_imports(crates: &[Crate], sources: &[SourceFile], table: &[ModuleRule]) -> Report {
    let mut report = Report::default();
    let mut seen = 0;
    let tests = TestFiles::of(sources);
    for rule in table.iter().flat_map(each_package) {
        let rule = &rule;
        let Some(package) = crates.iter().find(|package| package.name == rule.package) else {
            report.problem(format!("the table lists module {} of {}, which is no crate", rule.module, rule.package));
            continue;
        };
        let names: Vec<String> = package.edges.iter().map(|edge| edge.name_in_code.clone()).collect();
        let files: Vec<&SourceFile> =
            sources.iter().filter(|file| belongs(file, package, rule) && !tests.contain(file)).collect();
        if files.is_empty() {
            report.problem(format!("{} has no module {}: the rule cannot hold", rule.package, rule.module));
        }
        for file in files {
            seen += 1;
            check_file(file, &module_path(file, package), &names, rule, &mut report);
        }
    }
    report.looked_at("source files", seen);
    report
}

/// The rule for each crate that it speaks of.
fn each_package(rule: &ModuleRule) -> Vec<ModuleRule> {
    if rule.package == CONTEXT {
        CONTEXTS.iter().map(|package| ModuleRule { package, ..*rule }).collect()
    } else {
        vec![*rule]
    }
}

fn check_file(file: &SourceFile, module: &[String], crates: &[String], rule: &ModuleRule, report: &mut Report) {
    for found in paths(&outside_tests(&tokens(&file.text)), module, crates) {
        match found {
            PathUse::Foreign { name, line } => {
                if !ALWAYS.contains(&name.as_str()) && !rule.crates.contains(&name.as_str()) {
                    report.problem(format!(
                        "{}:{line}: {}'s `{}` may not name the crate {name}",
                        file.path, rule.package, rule.module
                    ));
                }
            }
            PathUse::Own { path, line } => {
                if !std::iter::once(&rule.module).chain(rule.modules).any(|seen| is_within(&path, seen)) {
                    report.problem(format!(
                        "{}:{line}: {}'s `{}` may not import crate::{}",
                        file.path,
                        rule.package,
                        rule.module,
                        path.join("::")
                    ));
                }
            }
        }
    }
}

/// Whether the path is the allowed one or lies below it.
fn is_within(path: &[String], allowed: &str) -> bool {
    let mut names = path.iter();
    allowed.split("::").all(|name| names.next().is_some_and(|own| own == name))
}

fn belongs(file: &SourceFile, package: &Crate, rule: &ModuleRule) -> bool {
    let inside = source_path(file, package).and_then(|path| path.strip_prefix(rule.module));
    inside.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

fn module_path(file: &SourceFile, package: &Crate) -> Vec<String> {
    let path = source_path(file, package).unwrap_or_default();
    let path = path.strip_suffix(".rs").unwrap_or(path);
    let path = path.strip_suffix("/mod").unwrap_or(path);
    path.split('/').map(str::to_owned).collect()
}

fn source_path<'a>(file: &'a SourceFile, package: &Crate) -> Option<&'a str> {
    file.path.strip_prefix(&package.folder)?.strip_prefix("/src/")
}

#[cfg(test)]
mod tests {
    use super::check_imports;
    use crate::{
        arch::{
            Crate, Edge, EdgeKind,
            table::{CONTEXT, MODULES, ModuleRule},
        },
        workspace::SourceFile,
    };

    /// A crate that the rules of a context are tried on.
    const SHOP: &str = "shop";

    fn package(name: &str) -> Crate {
        let edges = ["application-core", "sea-orm", "axum", "thiserror", "time", "proptest"].map(|to| Edge {
            to: to.to_owned(),
            name_in_code: to.replace('-', "_"),
            kind: EdgeKind::Normal,
        });
        Crate { name: name.to_owned(), folder: format!("crates/{name}"), edges: edges.to_vec(), inherits_lints: true }
    }

    fn problems(package_name: &'static str, module: &str, path: &str, text: &str) -> Vec<String> {
        let spoken_of = if package_name == SHOP { CONTEXT } else { package_name };
        let rules = MODULES.iter().filter(|rule| rule.package == spoken_of && rule.module == module);
        let rules: Vec<ModuleRule> = rules.map(|rule| ModuleRule { package: package_name, ..*rule }).collect();
        assert_eq!(rules.len(), 1);
        let file = SourceFile { path: format!("crates/{package_name}/src/{path}"), text: text.to_owned() };
        check_imports(&[package(package_name)], &[file], &rules).problems().to_vec()
    }

    fn shop(module: &str, text: &str) -> Vec<String> {
        problems(SHOP, module, &format!("{module}/order.rs"), text)
    }

    #[test]
    fn domain_may_use_itself_and_the_language() {
        let text = "use std::fmt; use super::events::X; use crate::domain::Y; use time::OffsetDateTime; use X::*;\n\
                    #[cfg(test)] mod tests { use proptest::prelude::*; use crate::adapter::Z; }";
        assert_eq!(shop("domain", text), Vec::<String>::new());
    }

    #[test]
    fn io_crate_in_the_domain_fails_however_it_is_named() {
        for text in [
            "use sea_orm::Db;",
            "use {std::fmt, sea_orm as db};",
            "fn f(x: sea_orm::Db) {}",
            "fn f(x: ::sea_orm::Db) {}",
            "#[derive(sea_orm::Entity)] struct X;",
            "extern crate sea_orm;",
            "mod inner { pub use sea_orm::Db; }",
        ] {
            assert_eq!(
                shop("domain", text),
                ["crates/shop/src/domain/order.rs:1: shop's `domain` may not name the crate \
                  sea_orm"],
                "{text}"
            );
        }
    }

    #[test]
    fn domain_that_looks_outward_fails() {
        for (text, to) in [
            ("use crate::application::X;", "application::X"),
            ("use super::super::adapter::X;", "adapter::X"),
            ("use crate::{domain::Y, adapter::X};", "adapter::X"),
            ("fn f() { crate::adapter::x() }", "adapter::x"),
            ("use crate::*;", "*"),
            // Re-exported at the root, it would come in through the back door.
            ("use crate::Row;", "Row"),
        ] {
            assert_eq!(
                shop("domain", text),
                [format!(
                    "crates/shop/src/domain/order.rs:1: shop's `domain` may not import \
                     crate::{to}"
                )],
                "{text}"
            );
        }
    }

    #[test]
    fn application_may_use_the_domain_and_not_the_adapter() {
        let text = "use crate::{domain::X, ports::Y, integration_events::Z}; use application_core::ports::Clock;";
        assert_eq!(shop("application", text), Vec::<String>::new());
        assert_eq!(shop("application", "use crate::adapter::X;").len(), 1);
        assert_eq!(shop("application", "use axum::Router;").len(), 1);
    }

    #[test]
    fn ports_of_the_core_do_not_know_the_use_cases() {
        let found = |text| problems("application-core", "ports", "ports/clock.rs", text);
        assert_eq!(found("use crate::outbox::X; use super::error::Y;"), Vec::<String>::new());
        assert_eq!(found("use crate::usecases::X;").len(), 1);
    }

    #[test]
    fn single_item_may_be_allowed_without_its_module() {
        let found = |text| problems("application-core", "outbox", "outbox/backoff.rs", text);
        assert_eq!(found("use crate::ports::Random;"), Vec::<String>::new());
        assert_eq!(found("use crate::ports::{Random, OutboxStorePort};").len(), 1);
        assert_eq!(found("use crate::ports::*;").len(), 1);
        assert_eq!(found("use crate::ports;").len(), 1);
    }

    #[test]
    fn module_without_a_file_fails() {
        let rule = ModuleRule { package: SHOP, module: "domain", modules: &[], crates: &[] };
        let report = check_imports(&[package(SHOP)], &[], &[rule]);
        assert!(report.problems().iter().any(|p| p == "shop has no module domain: the rule cannot hold"));
        assert!(report.problems().iter().any(|p| p.starts_with("looked at no source files")));
    }

    #[test]
    fn file_that_only_begins_like_the_module_is_another() {
        let found = problems(SHOP, "domain", "domain_like.rs", "use sea_orm::X;");
        assert!(!found.iter().any(|problem| problem.contains("sea_orm")), "{found:?}");
    }
}
