//! Claims that nobody can keep without showing it.

use crate::{Report, markdown, names::Index, workspace::SourceFile};

const CLAIMS: &[&str] = &["exactly once", "exactly-once", "never lost", "never loses", "zero loss"];

/// The register lists the claims that must not be made, with the right wording.
const REGISTER: &str = "docs/evidence.md";

/// Words that turn the claim into its denial.
const DENIALS: &[&str] = &["not", "no", "never", "nor", "neither", "without", "cannot", "nobody", "instead", "than"];

/// A document that says "exactly once" and the like names the test that shows it on the same line, or denies it.
pub(super) fn check(files: &[SourceFile], index: &Index) -> Report {
    let mut report = Report::default();
    let documents: Vec<&SourceFile> = files.iter().filter(|file| file.path != REGISTER).collect();
    for file in &documents {
        let mut before = "";
        for (line, text) in markdown::prose(&file.text) {
            for claim in claims(text, before) {
                if !markdown::codes(text).iter().any(|code| index.has_test(code)) {
                    report.problem(format!(
                        "{}:{line}: claims \"{claim}\": name the test beside it, or say what is promised instead",
                        file.path
                    ));
                }
            }
            before = text;
        }
    }
    report.looked_at("documents with claims", documents.len());
    report
}

/// The claims of a line that no denial precedes in the same sentence; the sentence may begin on the line before.
fn claims(line: &str, before: &str) -> Vec<&'static str> {
    let text = format!("{before} {line}").to_lowercase();
    let own = before.len() + 1;
    let found = CLAIMS.iter().filter(|claim| {
        let places = text.match_indices(*claim).filter(|(at, _)| *at + claim.len() > own);
        places.into_iter().any(|(at, _)| !is_denied(text.get(..at).unwrap_or_default()))
    });
    found.copied().collect()
}

fn is_denied(before: &str) -> bool {
    let sentence = before.rsplit(['.', ';', '|']).next().unwrap_or_default();
    sentence.split(|c: char| !c.is_alphanumeric()).any(|word| DENIALS.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::{names::Index, tidy::file};

    fn problems(path: &str, text: &str) -> Vec<String> {
        let index = Index::new(vec![file("tests/a.rs", "#[test] fn second_delivery_has_no_effect() {}")]);
        check(&[file(path, text)], &index).problems().to_vec()
    }

    #[test]
    fn bare_claim_fails() {
        for text in ["Events arrive exactly once.", "Exactly-once delivery!", "It is not slow. Events are never lost."]
        {
            assert_eq!(problems("README.md", text).len(), 1, "{text}");
        }
        assert_eq!(
            problems("README.md", "# A\n\nAn event is never lost.\n"),
            ["README.md:3: claims \"never lost\": name the test beside it, or say what is promised instead"]
        );
    }

    #[test]
    fn denial_passes_also_across_a_line_break() {
        for text in ["It is not exactly-once.", "It never promises\nexactly-once delivery.", "No exactly once here."] {
            assert_eq!(problems("README.md", text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn claim_beside_its_test_passes_and_beside_another_name_fails() {
        assert!(problems("README.md", "Applied exactly once: `second_delivery_has_no_effect`.").is_empty());
        assert_eq!(problems("README.md", "Applied exactly once: `wished_for`.").len(), 1);
    }

    #[test]
    fn register_lists_the_claims_themselves() {
        assert!(
            check(&[file("docs/evidence.md", "exactly once"), file("README.md", "")], &Index::new(vec![])).is_clean()
        );
    }
}
