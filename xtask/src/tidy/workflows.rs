//! Workflows: what they may do, and that nobody else can change what they run.

use crate::{Report, workspace::SourceFile};

const FOLDER: &str = ".github/workflows/";

/// Every workflow begins with leave to read and no more, and every action is pinned by a commit, with its tag beside it.
pub(super) fn check(files: &[SourceFile]) -> Report {
    let mut report = Report::default();
    let workflows: Vec<&SourceFile> = files.iter().filter(|file| file.path.starts_with(FOLDER)).collect();
    for file in &workflows {
        if !file.text.contains("\npermissions:\n  contents: read\n\n") {
            report
                .problem(format!("{}: does not begin with `permissions: contents: read` and nothing else", file.path));
        }
        for (index, line) in file.text.lines().enumerate() {
            let used = line.trim_start().trim_start_matches("- ").strip_prefix("uses: ");
            if used.is_some_and(|used| !is_pinned(used)) {
                report.problem(format!("{}:{}: an action is not pinned by commit and tag", file.path, index + 1));
            }
        }
    }
    report.looked_at("workflows", workflows.len());
    report
}

/// `owner/action@<40 hexadecimal digits> # v1.2.3`, or an action of this repository.
fn is_pinned(used: &str) -> bool {
    let is_commit = |commit: &str| commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    let parts = used.split_once('@').and_then(|(_, version)| version.split_once(" # v"));
    used.starts_with("./") || parts.is_some_and(|(commit, tag)| is_commit(commit) && !tag.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::file;

    const HEAD: &str = "name: x\n\npermissions:\n  contents: read\n\njobs:\n";

    fn problems(text: &str) -> Vec<String> {
        check(&[file(".github/workflows/x.yml", text)]).problems().to_vec()
    }

    #[test]
    fn action_that_is_pinned_by_a_tag_alone_fails() {
        let commit = "11bd71901bbe5b1630ceea73d27597364c9af683";
        assert_eq!(problems(&format!("{HEAD}      - uses: a/b@{commit} # v4.2.2\n      - uses: ./own\n")), [""; 0]);
        for used in ["a/b@v4", "a/b", &format!("a/b@{commit}"), &format!("a/b@{} # v1", &commit[1..])] {
            assert_eq!(
                problems(&format!("{HEAD}      - uses: {used}\n")),
                [".github/workflows/x.yml:7: an action is not pinned by commit and tag"],
                "{used}"
            );
        }
    }

    #[test]
    fn workflow_that_may_write_or_does_not_say_fails() {
        for text in [
            "name: x\n\njobs:\n",
            "permissions:\n  contents: write\n\n",
            "\npermissions:\n  contents: read\n  packages: write\n\n",
        ] {
            assert_eq!(problems(text).len(), 1, "{text}");
        }
        assert!(!check(&[file("README.md", HEAD)]).is_clean());
    }
}
