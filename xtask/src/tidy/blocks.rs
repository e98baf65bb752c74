//! Blocks of code on the pages that teach: each is of a kind that a test compiles, loads or runs.
//!
//! Rust is a documentation test (`check_book`). Settings are loaded by `settings_on_the_pages_can_be_used`. Commands for a
//! shell are looked up: those of `cargo xtask` by `check_commands`, those of the program by
//! `every_command_of_the_program_on_the_pages_is_one_with_its_options`; on the pages to type along they are run by
//! `what_the_pages_tell_to_type_does_what_they_say`.

use crate::{
    Report,
    markdown::{self, Fence},
    workspace::SourceFile,
};

/// Pages that are run from top to bottom, with their requests.
const TYPED_ALONG: &[&str] = &["README.md", "README.ko.md", "docs/tutorial.md", "docs/tutorial.ko.md"];
/// Where the other pages are that teach.
const GUIDES: &str = "docs/guides/";

/// Every block of code on these pages has a check.
pub(super) fn check(markdown: &[SourceFile]) -> Report {
    let mut report = Report::default();
    let mut blocks = 0;
    for file in markdown {
        let typed_along = TYPED_ALONG.contains(&file.path.as_str());
        if !typed_along && !file.path.starts_with(GUIDES) {
            continue;
        }
        for fence in markdown::fences(&file.text) {
            blocks += 1;
            for (line, what) in unchecked(&file.path, &fence, typed_along) {
                report.problem(format!("{}:{line}: {what}", file.path));
            }
        }
    }
    report.looked_at("blocks of code", blocks);
    report
}

/// What of a block nothing checks, each with its line.
fn unchecked(path: &str, fence: &Fence<'_>, typed_along: bool) -> Vec<(usize, String)> {
    match fence.language {
        "rust" | "rust,no_run" if path.starts_with("docs/") => Vec::new(),
        "toml" | "mermaid" => Vec::new(),
        "sh" => commands(fence)
            .into_iter()
            .filter(|(_, command)| !is_known(command, typed_along))
            .map(|(line, command)| (line, format!("no test looks at `{command}`")))
            .collect(),
        language => {
            let line = fence.lines.first().map_or(0, |(line, _)| line.saturating_sub(1));
            vec![(line, format!("no test compiles or runs a block of `{language}`"))]
        }
    }
}

/// The commands of a block with their lines; those that go on in the next line are one.
fn commands(fence: &Fence<'_>) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (number, text) in &fence.lines {
        let text = text.split(" #").next().unwrap_or_default().trim();
        let begun = text.trim_end_matches('\\').trim_end();
        match found.last_mut().filter(|_| goes_on) {
            Some((_, command)) => command.extend([" ", begun]),
            None if !text.is_empty() && !text.starts_with('#') => found.push((*number, begun.to_owned())),
            None => {}
        }
        goes_on = text.ends_with('\\');
    }
    found
}

fn is_known(command: &str, typed_along: bool) -> bool {
    let begins = |with: &str| command.strip_prefix(with).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
    begins("cargo xtask")
        || begins("app")
        || begins("target/debug/app")
        || typed_along && (begins("curl") || command == "eval \"$(cargo xtask dev status)\"")
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::file;

    fn problems(path: &str, text: &str) -> Vec<String> {
        check(&[file(path, text)]).problems().to_vec()
    }

    #[test]
    fn block_that_a_test_looks_at_passes() {
        let program =
            ["```sh", "cargo xtask check   # words", "app serve", "target/debug/app outbox list", "# words", "```"];
        let text =
            format!("```rust\nfn main() {{}}\n```\n```toml\na = 1\n```\n```mermaid\nx\n```\n{}", program.join("\n"));
        assert_eq!(problems("docs/guides/a.md", &text), Vec::<String>::new());
        let typed = "```sh\neval \"$(cargo xtask dev status)\"    # words\ncurl -X POST \\\n  localhost\n```\n";
        assert_eq!(problems("README.md", typed), Vec::<String>::new());
    }

    #[test]
    fn block_that_nothing_compiles_or_runs_fails() {
        assert_eq!(problems("README.md", "```rust\nx\n```\n").len(), 1, "only pages of the book are compiled");
        for language in ["rust,ignore", "text", "", "sql", "bash"] {
            assert_eq!(
                problems("docs/tutorial.md", &format!("# A\n```{language}\nx\n```\n")),
                [format!("docs/tutorial.md:2: no test compiles or runs a block of `{language}`")]
            );
        }
    }

    #[test]
    fn command_that_no_test_looks_at_fails() {
        assert_eq!(
            problems("docs/guides/a.md", "```sh\nmake it\ncargo build\napplet\n```\n"),
            [
                "docs/guides/a.md:2: no test looks at `make it`",
                "docs/guides/a.md:3: no test looks at `cargo build`",
                "docs/guides/a.md:4: no test looks at `applet`"
            ]
        );
        let request = "```sh\ncurl -X POST \\\n  localhost\n```\n";
        assert_eq!(
            problems("docs/guides/a.md", request),
            ["docs/guides/a.md:2: no test looks at `curl -X POST localhost`"]
        );
    }

    #[test]
    fn pages_that_do_not_teach_are_passed_by_and_no_block_at_all_fails() {
        assert_eq!(
            problems("docs/runbooks/a.md", "```sql\nx\n```\n"),
            ["looked at no blocks of code: the rule cannot hold"]
        );
    }
}
