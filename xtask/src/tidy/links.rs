//! Links of the documents into the workspace, and the book that holds the pages.

use std::{collections::BTreeSet, path::Path};

use crate::{
    Report, markdown,
    workspace::{SourceFile, ends_in},
};

/// Every relative link leads to a file or folder, and what stands behind `#` to a heading of a document.
pub(super) fn check(files: &[SourceFile], root: &Path) -> Report {
    let mut report = Report::default();
    let mut relative = 0;
    for file in files {
        for (line, text) in markdown::prose(&file.text) {
            for target in markdown::links(text).into_iter().filter(|target| is_relative(target)) {
                relative += 1;
                if let Some(wrong) = wrong_with(target, file, root) {
                    report.problem(format!("{}:{line}: the link to `{target}` {wrong}", file.path));
                }
            }
        }
    }
    report.looked_at("documents", files.len());
    report.note(format!("{relative} relative links lead somewhere or are listed above"));
    report
}

/// Why the target of a link is not there.
fn wrong_with(target: &str, from: &SourceFile, root: &Path) -> Option<&'static str> {
    let (path, heading) = target.split_once('#').unwrap_or((target, ""));
    let is_here = |text: &str| heading.is_empty() || markdown::anchors(text).any(|anchor| anchor == heading);
    if path.is_empty() {
        return (!is_here(&from.text)).then_some("names no heading here");
    }
    let folder = Path::new(&from.path).parent().unwrap_or(Path::new(""));
    let path = root.join(folder).join(path);
    if !path.exists() {
        return Some("leads nowhere");
    }
    let is_document = ends_in(&path, &["md"]);
    let text = if is_document { std::fs::read_to_string(&path).unwrap_or_default() } else { String::new() };
    (is_document && !is_here(&text)).then_some("names no heading there")
}

/// A link of a page of the book leads to a file of the book: what lies elsewhere, and the list of a folder, exist beside
/// the source alone and not in what `mdbook` makes of it.
pub(super) fn check_inside(files: &[SourceFile], root: &Path) -> Report {
    let mut report = Report::default();
    let mut links = 0;
    for file in files.iter().filter(|file| file.path.starts_with(BOOK)) {
        for (line, text) in markdown::prose(&file.text) {
            for target in markdown::links(text).into_iter().filter(|target| is_relative(target)) {
                links += 1;
                if let Some(wrong) = wrong_in_the_book(target, file, root) {
                    report.problem(format!("{}:{line}: the link to `{target}` {wrong}", file.path));
                }
            }
        }
    }
    report.looked_at("links of the book", links);
    report
}

/// Why the target of a link is nothing that the book has.
fn wrong_in_the_book(target: &str, from: &SourceFile, root: &Path) -> Option<&'static str> {
    let path = target.split('#').next().unwrap_or_default();
    let folder = from.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    match joined(folder, path).filter(|path| path.starts_with(BOOK)) {
        _ if path.is_empty() => None,
        None => Some("leaves the book: name the file without a link"),
        Some(path) => root.join(path).is_dir().then_some("leads to a folder, for which the book has no page"),
    }
}

/// The path of a link from a page in this folder, seen from the workspace's root; nothing, if it leads out of that.
fn joined(folder: &str, target: &str) -> Option<String> {
    // A browser would look for it at the root of the site.
    if target.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = folder.split('/').collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Where the pages of the book are.
const BOOK: &str = "docs/";
/// Where the book lists its pages.
const SUMMARY: &str = "docs/SUMMARY.md";
/// Where the pages are that hold Rust which is compiled.
const COMPILED: &str = "tests/src/pages.rs";

/// Every page below `docs` is in the book, and Rust on a page is a documentation test.
pub(super) fn check_book(markdown: &[SourceFile], rust: &[SourceFile]) -> Report {
    let mut report = Report::default();
    let text =
        |files: &[SourceFile], path: &str| files.iter().find(|file| file.path == path).map(|file| file.text.clone());
    let summary = text(markdown, SUMMARY).unwrap_or_default();
    let listed: Vec<&str> = summary.lines().flat_map(markdown::links).collect();
    let compiled = text(rust, COMPILED).unwrap_or_default();
    let mut pages = 0;
    for file in markdown.iter().filter(|file| file.path.starts_with("docs/") && file.path != SUMMARY) {
        pages += 1;
        let page = file.path.trim_start_matches("docs/");
        if !listed.contains(&page) {
            report.problem(format!("{}: is not in {SUMMARY}", file.path));
        }
        let has_rust =
            markdown::fences(&file.text).iter().any(|fence| matches!(fence.language, "rust" | "rust,no_run"));
        if has_rust && !compiled.contains(&format!("/{}\"", file.path)) {
            report.problem(format!("{}: has Rust that {COMPILED} does not compile", file.path));
        }
    }
    report.looked_at("pages of the book", pages);
    report
}

/// A translation, `page.ko.md`, tells its readers to type what the original does.
pub(super) fn check_translations(markdown: &[SourceFile]) -> Report {
    let mut report = Report::default();
    let mut translations = 0;
    for file in markdown {
        let Some(stem) = file.path.strip_suffix(".ko.md") else { continue };
        translations += 1;
        let original = markdown.iter().find(|other| other.path == format!("{stem}.md"));
        match original {
            None => report.problem(format!("{}: translates no page", file.path)),
            Some(original) if commands(&original.text) != commands(&file.text) => {
                report.problem(format!("{}: has other commands than {}", file.path, original.path));
            }
            Some(_) => {}
        }
    }
    report.note(format!("{translations} translations have the commands of their originals or are listed above"));
    report
}

/// The lines of the blocks for a shell, without comments, in any order: a translation may divide them otherwise.
fn commands(text: &str) -> BTreeSet<&str> {
    let fences = markdown::fences(text).into_iter().filter(|fence| fence.language == "sh");
    let lines = fences.flat_map(|fence| fence.lines).map(|(_, line)| line.split(" #").next().unwrap_or_default());
    lines.map(str::trim).filter(|line| !line.is_empty()).collect()
}

fn is_relative(target: &str) -> bool {
    !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:")
}

#[cfg(test)]
mod tests {
    use super::{check, check_book, check_inside, check_translations};
    use crate::{tidy::file, workspace};

    fn problems(path: &str, text: &str) -> Vec<String> {
        check(&[file(path, text)], &workspace::root()).problems().to_vec()
    }

    #[test]
    fn link_that_leads_nowhere_fails() {
        assert_eq!(
            problems("xtask/page.md", "text\n[a](src/gone.rs)\n"),
            ["xtask/page.md:2: the link to `src/gone.rs` leads nowhere"]
        );
    }

    #[test]
    fn links_are_seen_from_their_document() {
        let text = "[a](src/lib.rs#top) [b](../Cargo.toml) [c](https://example.org) `[d](gone)`";
        assert!(problems("xtask/page.md", text).is_empty());
        assert_eq!(problems("docs/page.md", "[a](src/lib.rs)").len(), 1);
    }

    #[test]
    fn link_to_a_heading_that_is_not_there_fails() {
        let text = "[a](../docs/architecture.md#invariants) [b](../docs/architecture.md#gone)";
        assert_eq!(
            problems("xtask/page.md", text),
            ["xtask/page.md:1: the link to `../docs/architecture.md#gone` names no heading there"]
        );
    }

    #[test]
    fn link_to_a_heading_of_its_own_document_that_is_not_there_fails() {
        let text = "# Top\n[a](#top) [b](#below) [c](#gone)\n## Below\n```\n## Gone\n```\n";
        assert_eq!(problems("xtask/page.md", text), ["xtask/page.md:2: the link to `#gone` names no heading here"]);
    }

    #[test]
    fn page_that_the_summary_lacks_fails() {
        let summary = file("docs/SUMMARY.md", "- [A](guides/a.md)\n");
        let pages = [summary, file("docs/guides/a.md", "# A"), file("docs/b.md", "# B"), file("README.md", "# C")];
        assert_eq!(check_book(&pages, &[]).problems(), ["docs/b.md: is not in docs/SUMMARY.md"]);
    }

    #[test]
    fn link_that_leaves_the_book_or_leads_to_a_folder_fails() {
        let inside =
            "[a](#a) [b](../faq.md#x) [c](../images/overview.png) [d](https://example.org) [e](./dashboard.md)";
        let outside = "[a](../../SECURITY.md) [b](../adr) [c](../../../x.md) [d](../adr/) [e](/docs/faq.md)";
        let pages = [file("docs/guides/a.md", &format!("{inside}\n{outside}\n")), file("README.md", "[a](docs/adr)")];
        let leaves = |target: &str| {
            format!("docs/guides/a.md:2: the link to `{target}` leaves the book: name the file without a link")
        };
        let folder = |target: &str| {
            format!("docs/guides/a.md:2: the link to `{target}` leads to a folder, for which the book has no page")
        };
        assert_eq!(
            check_inside(&pages, &workspace::root()).problems(),
            [
                leaves("../../SECURITY.md"),
                folder("../adr"),
                leaves("../../../x.md"),
                folder("../adr/"),
                leaves("/docs/faq.md")
            ]
        );
    }

    #[test]
    fn translation_with_another_command_or_without_an_original_fails() {
        let page = |path: &str, command: &str| file(path, &format!("```sh\n{command}  # words\n```\n"));
        let pages = [
            page("README.md", "cargo xtask check"),
            page("README.ko.md", "cargo xtask check"),
            page("docs/a.md", "app serve"),
            page("docs/a.ko.md", "app relay"),
            page("docs/b.ko.md", ""),
        ];
        assert_eq!(
            check_translations(&pages).problems(),
            ["docs/a.ko.md: has other commands than docs/a.md", "docs/b.ko.md: translates no page"]
        );
    }

    #[test]
    fn every_page_with_rust_is_among_the_documentation_tests() {
        let page = |language: &str| {
            [file("docs/SUMMARY.md", "[A](a.md)"), file("docs/a.md", &format!("```{language}\nfn main() {{}}\n```\n"))]
        };
        let compiled = [file("tests/src/pages.rs", "pages!(a = \"../../docs/a.md\");")];
        assert!(check_book(&page("rust"), &compiled).is_clean() && check_book(&page("rust,ignore"), &[]).is_clean());
        assert_eq!(
            check_book(&page("rust"), &[]).problems(),
            ["docs/a.md: has Rust that tests/src/pages.rs does not compile"]
        );
    }

    #[test]
    fn no_document_at_all_fails() {
        assert!(!check(&[], &workspace::root()).is_clean() && !check_book(&[], &[]).is_clean());
        assert!(!check_inside(&[], &workspace::root()).is_clean());
    }
}
