//! Workflows: what they may do, and that nobody else can change what they run.

use crate::{Report, workspace::SourceFile};

const FOLDER: &str = ".github/workflows/";

/// Every workflow begins with leave to read and no more, every action is pinned by a commit, with its tag beside it, and
/// every program that cargo installs by its version and lock file.
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
            if line.contains("cargo install ") && !is_install_pinned(line) {
                let what = "a program is installed without `--version X.Y.Z --locked`";
                report.problem(format!("{}:{}: {what}", file.path, index + 1));
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

/// Another version could be anybody's, and without its lock file, so could what it is built from.
fn is_install_pinned(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let behind = words.iter().skip_while(|word| **word != "--version").nth(1);
    let is_exact = |version: &str| {
        let parts: Vec<&str> = version.split('.').collect();
        parts.len() == 3 && parts.iter().all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    words.contains(&"--locked") && behind.is_some_and(|version| is_exact(version))
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
    fn program_that_is_installed_without_its_version_or_lock_file_fails() {
        let step = |command: &str| format!("{HEAD}        run: {command}\n");
        assert_eq!(problems(&step("cargo install cargo-deny --version 0.18.9 --locked")), [""; 0]);
        for command in [
            "cargo install cargo-deny",
            "cargo install cargo-deny --locked",
            "cargo install cargo-deny --version 0.18.9",
            "cargo install cargo-deny --version 0.18 --locked",
            "cargo install cargo-deny --version ^0.18.9 --locked",
            "cargo install cargo-deny --locked --version",
        ] {
            let found = ".github/workflows/x.yml:7: a program is installed without `--version X.Y.Z --locked`";
            assert_eq!(problems(&step(command)), [found], "{command}");
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
