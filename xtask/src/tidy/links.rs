//! Links of the documents into the workspace.

use std::path::Path;

use crate::{Report, markdown, workspace::SourceFile};

/// Every relative link leads to a file or folder.
pub(super) fn check(files: &[SourceFile], root: &Path) -> Report {
    let mut report = Report::default();
    let mut relative = 0;
    for file in files {
        let folder = Path::new(&file.path).parent().unwrap_or(Path::new(""));
        for (line, text) in markdown::prose(&file.text) {
            for target in markdown::links(text).into_iter().filter(|target| is_relative(target)) {
                relative += 1;
                let path = target.split('#').next().unwrap_or_default();
                if !root.join(folder).join(path).exists() {
                    report.problem(format!("{}:{line}: the link to `{target}` leads nowhere", file.path));
                }
            }
        }
    }
    report.looked_at("documents", files.len());
    report.note(format!("{relative} relative links lead somewhere or are listed above"));
    report
}

fn is_relative(target: &str) -> bool {
    !target.is_empty() && !target.starts_with('#') && !target.contains("://") && !target.starts_with("mailto:")
}

#[cfg(test)]
mod tests {
    use super::check;
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
        let text = "[a](src/lib.rs#top) [b](../Cargo.toml) [c](https://example.org) [d](#here) `[e](gone)`";
        assert!(problems("xtask/page.md", text).is_empty());
        assert_eq!(problems("docs/page.md", "[a](src/lib.rs)").len(), 1);
    }

    #[test]
    fn no_document_at_all_fails() {
        assert!(!check(&[], &workspace::root()).is_clean());
    }
}
