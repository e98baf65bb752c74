//! Upgrading: each version of the template has a page for its clones.

use crate::{Report, rename::VERSION_FILE, workspace::SourceFile};

const FOLDER: &str = "docs/upgrading";

/// The version has a page that says something, and the list of pages leads to it. `made_from` is the text of the file
/// that a renamed clone has: its own version is no version of the template, so that it keeps the page of that one.
pub(super) fn check(markdown: &[SourceFile], manifest: &str, made_from: Option<&str>) -> Report {
    let mut report = Report::default();
    let (text, source) = made_from.map_or((manifest, "Cargo.toml"), |text| (text, VERSION_FILE));
    let Some(version) = version(text) else {
        report
            .problem(format!("{source}: has no line `version = \"…\"`, so that no page of {FOLDER} can be asked for"));
        return report;
    };
    let (page, list) = (format!("{FOLDER}/v{version}.md"), format!("{FOLDER}/README.md"));
    let text = |path: &str| markdown.iter().find(|file| file.path == path).map(|file| file.text.as_str());
    let says = |text: &str| text.lines().any(|line| !line.trim().is_empty() && !line.starts_with('#'));
    if !text(&page).is_some_and(says) {
        report.problem(format!("{page}: is not there or says nothing; {source} has this version"));
    }
    if !text(&list).is_some_and(|text| text.contains(&format!("](v{version}.md)"))) {
        report.problem(format!("{list}: has no link to v{version}.md"));
    }
    report.looked_at("pages on upgrading", markdown.iter().filter(|file| file.path.starts_with(FOLDER)).count());
    report
}

fn version(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'))
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::file;

    const MANIFEST: &str = "[workspace.package]\nversion = \"0.2.0\"\n\n[workspace.dependencies]\n";

    fn problems(page: &str, list: &str, made_from: Option<&str>) -> Vec<String> {
        let pages = [file("docs/upgrading/README.md", list), file("docs/upgrading/v0.2.0.md", page)];
        check(&pages, MANIFEST, made_from).problems().to_vec()
    }

    #[test]
    fn version_without_a_page_on_upgrading_fails() {
        let pages = [file("docs/upgrading/README.md", "[a](v0.1.0.md)"), file("docs/upgrading/v0.1.0.md", "# A\nb")];
        assert_eq!(
            check(&pages, MANIFEST, None).problems(),
            [
                "docs/upgrading/v0.2.0.md: is not there or says nothing; Cargo.toml has this version",
                "docs/upgrading/README.md: has no link to v0.2.0.md"
            ]
        );
    }

    #[test]
    fn page_on_upgrading_that_is_a_heading_alone_or_is_not_listed_fails() {
        assert!(problems("# 0.2.0\n\nMove x.\n", "[0.2.0](v0.2.0.md)", None).is_empty());
        assert_eq!(problems("# 0.2.0\n\n", "[0.2.0](v0.2.0.md)", None).len(), 1);
        assert_eq!(problems("# 0.2.0\n\nMove x.\n", "0.2.0", None).len(), 1);
    }

    #[test]
    fn clone_is_asked_for_the_page_of_the_template_that_it_was_made_from() {
        let list = "[0.2.0](v0.2.0.md)";
        assert!(problems("# 0.2.0\n\nMove x.\n", list, Some("version = \"0.2.0\"\nname = \"orders\"\n")).is_empty());
        assert_eq!(
            problems("# 0.2.0\n\nMove x.\n", list, Some("version = \"0.3.0\"\n"))[0],
            "docs/upgrading/v0.3.0.md: is not there or says nothing; .template-version has this version"
        );
    }

    #[test]
    fn manifest_without_a_version_fails() {
        assert!(!check(&[], "[workspace]\n", None).is_clean());
    }
}
