//! The commands that documents tell their readers to run.

use super::Index;
use crate::{
    Report,
    command::COMMANDS,
    markdown::{self, Fence},
    workspace::SourceFile,
};

/// How a command of this crate begins.
pub(super) const COMMAND_LINE: &str = "cargo xtask ";

/// Every `cargo xtask` command in the documents exists and takes the arguments that stand behind it, and `cargo xtask test`
/// names a test or module that exists.
#[must_use]
pub fn check_commands(documents: &[SourceFile], index: &Index) -> Report {
    let mut report = Report::default();
    let mut commands = 0;
    for document in documents {
        for (line, text) in markdown::prose(&document.text) {
            for code in markdown::codes(text).into_iter().filter(|code| code.starts_with(COMMAND_LINE)) {
                commands += 1;
                if let Some(what) = missing_command(code, index) {
                    report.problem(format!("{}:{line}: {what}", document.path));
                }
            }
        }
        for (line, code) in
            markdown::fences(&document.text).iter().filter(|fence| fence.language == "sh").flat_map(in_shell)
        {
            commands += 1;
            if let Some(what) = missing_command(&code, index) {
                report.problem(format!("{}:{line}: {what}", document.path));
            }
        }
    }
    report.looked_at("commands in documents", commands);
    report
}

/// The commands in lines for a shell, without what follows on the line.
fn in_shell(fence: &Fence<'_>) -> Vec<(usize, String)> {
    let behind = |line: &str| line.split(COMMAND_LINE).skip(1).map(str::to_owned).collect::<Vec<_>>();
    let ends = [')', '#', '>', '|', ';', '&', '"'];
    let command = |rest: String| format!("{COMMAND_LINE}{}", rest.split(ends).next().unwrap_or_default().trim());
    fence.lines.iter().flat_map(|(line, text)| behind(text).into_iter().map(|rest| (*line, command(rest)))).collect()
}

/// What is wrong with a command line; `None` if it can be run.
pub(super) fn missing_command(code: &str, index: &Index) -> Option<String> {
    let mut words = code.strip_prefix(COMMAND_LINE).unwrap_or_default().split_whitespace();
    let name = words.next().unwrap_or_default();
    let Some(command) = COMMANDS.iter().find(|command| command.name == name) else {
        return Some(format!("no command `{code}`"));
    };
    if let Some(word) = unknown_argument(command.arguments, words.clone()) {
        return Some(format!("`{code}`: the command takes no `{word}`"));
    }
    // A filter as the harness takes it: the name of a test, or of the module that it is in.
    let filter = words.next().filter(|word| name == "test" && word.starts_with(|c: char| c.is_ascii_lowercase()))?;
    let found = index.has_test(filter) || index.has_test(&format!("{filter}::*"));
    (!found).then(|| format!("`{code}` finds no test"))
}

/// The first word that a command takes neither as an option nor as one of the words to choose from, by what it says of its
/// arguments: `up|down`, `[--fast]`, `NAME --context NAME`. Words in capitals stand for anything.
fn unknown_argument<'a>(arguments: &str, words: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let known: Vec<&str> = arguments.split([' ', '|', '[', ']']).filter(|word| !word.is_empty()).collect();
    // Whoever hands arguments on knows what they may be.
    if known.iter().any(|word| word.ends_with("ARGUMENT")) {
        return None;
    }
    let takes_anything = known.iter().any(|word| word.starts_with(|c: char| c.is_ascii_uppercase()));
    let has_choice = known.iter().any(|word| word.starts_with(|c: char| c.is_ascii_lowercase()));
    let fits = |first: bool, word: &str| {
        if word.starts_with("--") {
            known.contains(&word.split('=').next().unwrap_or_default())
        } else if has_choice && first {
            word.split('|').all(|choice| known.contains(&choice))
        } else {
            takes_anything
        }
    };
    words.enumerate().find(|&(index, word)| !fits(index == 0, word)).map(|(_, word)| word)
}

#[cfg(test)]
mod tests {
    use super::{COMMAND_LINE, check_commands, unknown_argument};
    use crate::{
        command::COMMANDS,
        names::fixture::{document, index},
        workspace,
    };

    fn problems(text: &str) -> Vec<String> {
        check_commands(&[document(text)], &index()).problems().to_vec()
    }

    #[test]
    fn real_commands_pass() {
        let text =
            "`cargo xtask arch`, `cargo xtask test claims_once`, `cargo xtask test store`, `cargo xtask test -p x`";
        assert_eq!(problems(text), Vec::<String>::new());
    }

    #[test]
    fn unknown_command_and_test_that_is_not_there_fail() {
        assert_eq!(
            problems("`cargo xtask bnech`\n`cargo xtask test claims_twice`"),
            [
                "docs/page.md:1: no command `cargo xtask bnech`",
                "docs/page.md:2: `cargo xtask test claims_twice` finds no test"
            ]
        );
    }

    #[test]
    fn argument_that_the_command_does_not_take_fails() {
        assert_eq!(
            problems("`cargo xtask check --fsat`\n```sh\ncargo xtask dev upp\n```\n`cargo xtask arch x`"),
            [
                "docs/page.md:1: `cargo xtask check --fsat`: the command takes no `--fsat`",
                "docs/page.md:5: `cargo xtask arch x`: the command takes no `x`",
                "docs/page.md:3: `cargo xtask dev upp`: the command takes no `upp`",
            ]
        );
        let unknown = |arguments, line: &'static str| unknown_argument(arguments, line.split_whitespace());
        let new = "aggregate|port NAME --context NAME | adr TITLE";
        assert_eq!(unknown(new, "port|aggregate"), None);
        assert_eq!(unknown(new, "aggregate Invoice --context=billing"), None);
        assert_eq!(unknown(new, "event Paid"), Some("event"));
        assert_eq!(unknown(new, "port Rates --contxt billing"), Some("--contxt"));
        assert_eq!(unknown("[--seed N] [ARGUMENT]...", "--soak"), None);
    }

    #[test]
    fn commands_in_blocks_for_a_shell_are_looked_at() {
        let text = "```sh\neval \"$(cargo xtask dev status)\"  # x\ncargo xtask demoo > out\n```\n```toml\ncargo xtask no\n```\n";
        assert_eq!(problems(text), ["docs/page.md:3: no command `cargo xtask demoo`"]);
    }

    #[test]
    fn documents_without_a_command_fail() {
        assert_eq!(problems("text"), ["looked at no commands in documents: the rule cannot hold"]);
    }

    /// What runs outside of a check is met by nobody before it is needed.
    #[test]
    fn commands_of_workflows_and_of_the_hook_exist() {
        const FOLDERS: [&str; 4] = [".ci/", ".devcontainer/", ".githooks/", ".github/workflows/"];
        let (root, mut found) = (workspace::root(), 0);
        for path in workspace::paths(&root).unwrap() {
            if !FOLDERS.iter().any(|folder| path.starts_with(folder)) {
                continue;
            }
            let text = workspace::read_text(&root.join(&path)).unwrap();
            for rest in text.split(COMMAND_LINE).skip(1) {
                let name: String = rest.chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect();
                assert!(COMMANDS.iter().any(|command| command.name == name), "{path}: {name}");
                found += 1;
            }
        }
        assert!(found > 5, "{found} commands");
    }
}
