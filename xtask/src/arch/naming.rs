//! The names of ports and adapters: on which side of the boundary a type stands is to be seen where it is used.

use std::collections::{BTreeMap, BTreeSet};

use super::table::Named;
use crate::{
    Report,
    rust_source::{Kind, TestFiles, Token, outside_tests, tokens, word},
    workspace::SourceFile,
};

/// What the name of a port ends in.
const PORT_ENDS: &[&str] = &["Port", "Repository", "Reader"];
/// What the name of an adapter ends in, if not in a word of its port.
const ADAPTER_ENDS: &[&str] = &["Adapter", "Repository", "Publisher"];
/// Where the crates of adapters are.
const ADAPTERS: &str = "crates/adapter-";

/// Holds the names of the traits in modules `ports`, and of what implements them in the adapters' crates. The lists name
/// what is called otherwise; an entry that nothing needs is a problem.
#[must_use]
pub fn check_names(sources: &[SourceFile], other_ports: &[Named], other_adapters: &[Named]) -> Report {
    let mut report = Report::default();
    let tests = TestFiles::of(sources);
    let code = sources.iter().filter(|file| file.path.starts_with("crates/") && !tests.contain(file));
    let code: Vec<(&str, Vec<Token<'_>>)> =
        code.map(|file| (file.path.as_str(), outside_tests(&tokens(&file.text)))).collect();
    let ports = check_ports(&code, other_ports, &mut report);
    check_adapters(&code, &ports, other_adapters, &mut report);
    report
}

/// Gives the names of the ports.
fn check_ports<'a>(code: &[(&str, Vec<Token<'a>>)], others: &[Named], report: &mut Report) -> BTreeSet<&'a str> {
    let mut ports = BTreeSet::new();
    let mut used = BTreeSet::new();
    for (path, code) in code {
        for name in traits(code) {
            let place = format!("{path}:{}", name.line);
            if !is_of_ports(path) {
                if name.text.ends_with("Port") {
                    report.problem(format!("{place}: {} is called a port and stands outside of `ports`", name.text));
                }
                continue;
            }
            ports.insert(name.text);
            if ends_in(name.text, PORT_ENDS) {
                continue;
            }
            if let Some(other) = others.iter().find(|other| other.name == name.text) {
                used.insert(other.name);
            } else {
                report.problem(format!(
                    "{place}: the name of the port {} must end in {}, or stand with a reason in OTHER_PORTS \
                     (xtask/src/arch/table.rs)",
                    name.text,
                    PORT_ENDS.join(", ")
                ));
            }
        }
    }
    report.looked_at("ports", ports.len());
    unused(others, &used, "OTHER_PORTS", report);
    ports
}

fn check_adapters(code: &[(&str, Vec<Token<'_>>)], ports: &BTreeSet<&str>, others: &[Named], report: &mut Report) {
    // One type may stand for several ports; its name has to fit one of them.
    let mut adapters: BTreeMap<(&str, &str), (String, Vec<&str>)> = BTreeMap::new();
    for (path, code) in code.iter().filter(|(path, _)| path.starts_with(ADAPTERS)) {
        let package = path.split("/src/").next().unwrap_or_default();
        for (port, adapter) in implementations(code).filter(|(port, _)| ports.contains(port.text)) {
            let place = || (format!("{path}:{}", adapter.line), Vec::new());
            adapters.entry((package, adapter.text)).or_insert_with(place).1.push(port.text);
        }
    }
    report.looked_at("adapters of ports", adapters.len());
    let mut used = BTreeSet::new();
    for ((_, name), (place, ports)) in adapters {
        let fits_a_port = ports.iter().flat_map(|port| words(port)).any(|word| word != "Port" && name.ends_with(word));
        if fits_a_port || ends_in(name, ADAPTER_ENDS) {
            continue;
        }
        if let Some(other) = others.iter().find(|other| other.name == name) {
            used.insert(other.name);
        } else {
            report.problem(format!(
                "{place}: the name of {name} must end in {}, or in a word of its port {}, or stand with a reason in \
                 OTHER_ADAPTERS (xtask/src/arch/table.rs)",
                ADAPTER_ENDS.join(", "),
                ports.join(", ")
            ));
        }
    }
    unused(others, &used, "OTHER_ADAPTERS", report);
}

fn unused(listed: &[Named], used: &BTreeSet<&str>, list: &str, report: &mut Report) {
    for other in listed.iter().filter(|other| !used.contains(other.name)) {
        report.problem(format!("{list} lists {}, which needs no exception", other.name));
    }
}

fn is_of_ports(path: &str) -> bool {
    path.split_once("/src/").is_some_and(|(_, rest)| rest == "ports.rs" || rest.starts_with("ports/"))
}

fn ends_in(name: &str, ends: &[&str]) -> bool {
    ends.iter().any(|end| name.ends_with(end))
}

/// The words of a name such as `OutboxStorePort`.
fn words(name: &str) -> Vec<&str> {
    let starts = name.char_indices().filter(|(_, c)| c.is_uppercase()).map(|(at, _)| at);
    let ends = starts.clone().skip(1).chain([name.len()]);
    starts.zip(ends).filter_map(|(start, end)| name.get(start..end)).collect()
}

fn traits<'a>(code: &[Token<'a>]) -> impl Iterator<Item = Token<'a>> {
    let names = code.iter().zip(code.iter().skip(1));
    names.filter(|(keyword, name)| keyword.text == "trait" && name.kind == Kind::Ident).map(|(_, name)| *name)
}

/// Of each `impl Trait for Type` both names, without paths and parameters.
fn implementations<'a>(code: &[Token<'a>]) -> impl Iterator<Item = (Token<'a>, Token<'a>)> {
    let starts = (0..code.len()).filter(move |&index| word(code, index) == "impl");
    starts.filter_map(move |start| {
        let (implemented, end) = path(code, after_parameters(code, start + 1))?;
        let (name, _) = path(code, end + 1).filter(|_| word(code, end) == "for")?;
        Some((implemented, name))
    })
}

/// The last name of the path that begins here, and the index after its parameters.
fn path<'a>(code: &[Token<'a>], mut at: usize) -> Option<(Token<'a>, usize)> {
    loop {
        let name = code.get(at).filter(|token| token.kind == Kind::Ident)?;
        at = after_parameters(code, at + 1);
        if word(code, at) != "::" {
            return Some((*name, at));
        }
        at += 1;
    }
}

/// The index after the `<…>` that may begin here.
fn after_parameters(code: &[Token<'_>], start: usize) -> usize {
    if word(code, start) != "<" {
        return start;
    }
    let mut depth = 0_usize;
    for index in start..code.len() {
        match word(code, index) {
            "<" => depth += 1,
            // The head of an arrow closes nothing.
            ">" if !matches!(word(code, index - 1), "-" | "=") => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return index + 1;
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::{check_names, words};
    use crate::{arch::table::Named, workspace::SourceFile};

    const PORTS: &str = "crates/core/src/ports/all.rs";
    const ADAPTER: &str = "crates/adapter-x/src/lib.rs";

    fn report(files: &[(&str, &str)], ports: &[Named], adapters: &[Named]) -> Vec<String> {
        let files = files.iter().map(|(path, text)| SourceFile { path: (*path).to_owned(), text: (*text).to_owned() });
        check_names(&files.collect::<Vec<_>>(), ports, adapters).problems().to_vec()
    }

    /// A good port with a good adapter, and this beside them.
    fn problems(path: &str, text: &str) -> Vec<String> {
        let good = [(PORTS, "pub trait OutboxStorePort {} pub trait ReadinessCheckPort {}")];
        let adapter = [("crates/adapter-y/src/lib.rs", "impl OutboxStorePort for OutboxStoreAdapter {}")];
        report(&[&good[..], &adapter, &[(path, text)]].concat(), &[], &[])
    }

    #[test]
    fn names_by_the_rules_pass_however_they_are_written() {
        let text = "impl<Tx: Fn() -> u8> core::ports::OutboxStorePort<Tx, Vec<u8>> for x::PostgresStore<Tx> where Tx: Y {}\n\
                    impl OutboxStorePort for FooPublisher {} impl OutboxStorePort for FooRepository {}\n\
                    impl ReadinessCheckPort for DatabaseReadiness {} impl Other for Anything {} impl Anything {}\n\
                    fn f() -> impl Iterator<Item = u8> { for x in y {} }\n\
                    #[cfg(test)] mod tests { impl OutboxStorePort for Scripted {} }";
        assert_eq!(problems(ADAPTER, text), Vec::<String>::new());
    }

    #[test]
    fn port_of_another_name_fails() {
        for (path, text) in
            [("crates/c/src/ports.rs", "pub trait Rates: Send {}"), ("crates/c/src/ports/a.rs", "trait Rates<T> {}")]
        {
            let found = problems(path, text);
            let [problem] = found.as_slice() else { panic!("{found:?}") };
            let words = format!("{path}:1: the name of the port Rates must end in Port, Repository, Reader, or stand");
            assert!(problem.starts_with(&words), "{problem}");
        }
    }

    #[test]
    fn port_outside_of_the_ports_fails() {
        let found = problems("crates/c/src/application.rs", "\npub trait RatesPort {}");
        assert_eq!(found, ["crates/c/src/application.rs:2: RatesPort is called a port and stands outside of `ports`"]);
    }

    #[test]
    fn adapter_whose_name_says_nothing_of_its_port_fails() {
        for text in [
            "impl OutboxStorePort for Thing {}",
            "impl<T> a::OutboxStorePort<T> for b::Thing<T> {}",
            "impl OutboxStorePort for Thing {} impl ReadinessCheckPort for Thing {}",
            "impl OutboxStorePort for ThingPort {} impl ReadinessCheckPort for CheckThing {}",
        ] {
            let found = problems(ADAPTER, text);
            assert!(!found.is_empty() && found.iter().all(|found| found.contains("must end in Adapter")), "{found:?}");
        }
        assert_eq!(problems("crates/c/src/adapter.rs", "impl OutboxStorePort for Thing {}"), Vec::<String>::new());
    }

    #[test]
    fn listed_name_is_allowed_as_long_as_it_is_needed() {
        let clock = [Named { name: "Clock", reason: "the field's word" }];
        let reaper = [Named { name: "Reaper", reason: "the field's word" }];
        let needed = [(PORTS, "pub trait Clock {}"), (ADAPTER, "impl Clock for Reaper {}")];
        assert_eq!(report(&needed, &clock, &reaper), Vec::<String>::new());
        assert_eq!(report(&needed, &[], &[]).len(), 2);
        let renamed = [(PORTS, "pub trait ClockPort {}"), (ADAPTER, "impl ClockPort for SystemClock {}")];
        assert_eq!(
            report(&renamed, &clock, &reaper),
            [
                "OTHER_PORTS lists Clock, which needs no exception",
                "OTHER_ADAPTERS lists Reaper, which needs no exception"
            ]
        );
    }

    #[test]
    fn sources_without_ports_or_adapters_fail() {
        assert_eq!(report(&[], &[], &[]).len(), 2);
    }

    #[test]
    fn name_is_cut_into_its_words() {
        assert_eq!(words("OutboxStorePort"), ["Outbox", "Store", "Port"]);
        assert_eq!(words("Clock"), ["Clock"]);
    }
}
