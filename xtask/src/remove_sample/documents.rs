//! What the documents say of tests and files that are gone.

use super::index;
use crate::{
    markdown,
    names::{Index, looks_like_a_test},
    tree::Tree,
    workspace::ends_in,
};

/// What stands where a sentence named something that is gone.
const INSTEAD: &str = "a test that went with the sample";

/// Takes out of every document the names of tests and files that were there before and are not any more.
pub(super) fn take_out(tree: &mut Tree, before: &Index) {
    let after = index(tree);
    let is_gone = |code: &str| {
        let test = looks_like_a_test(code) && before.has_test(code) && !after.has_test(code);
        let path = code.contains('/') && before.has_path(code) && !after.has_path(code);
        let command = ["cargo xtask demo", "cargo xtask chaos"].iter().any(|gone| code.starts_with(gone));
        test || path || command
    };
    let is_evidence = |code: &str| looks_like_a_test(code) && after.has_test(code);
    let documents = tree.files().filter(|(path, _)| ends_in(path.as_ref(), &["md"]));
    let documents: Vec<(String, String)> =
        documents.map(|(path, text)| (path.to_owned(), without_gone(text, &is_gone, &is_evidence))).collect();
    for (path, text) in documents {
        tree.set(&path, text);
    }
}

/// The text without what is gone. A row of a table that no test stands behind any more goes as a whole.
fn without_gone(text: &str, is_gone: &dyn Fn(&str) -> bool, is_evidence: &dyn Fn(&str) -> bool) -> String {
    let mut kept = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let codes = markdown::codes(line);
        let gone: Vec<&str> = codes.iter().copied().filter(|code| is_gone(code)).collect();
        let is_row = line.starts_with('|');
        if !gone.is_empty() && is_row && !codes.iter().any(|code| is_evidence(code)) {
            continue;
        }
        kept.push_str(&gone.iter().fold(line.to_owned(), |line, code| without_name(&line, code)));
    }
    kept
}

/// The line without a name of a list; in a sentence, something else stands in its place.
fn without_name(line: &str, code: &str) -> String {
    let name = format!("`{code}`");
    for form in [format!(", and {name}"), format!("{name}, and "), format!(", {name}"), format!("{name}, ")] {
        if line.contains(&form) {
            return line.replacen(&form, "", 1);
        }
    }
    // The mark of a case that needs a long run goes with its command.
    for form in [format!("long: {name}; "), format!("long: {name}")] {
        if line.contains(&form) {
            return line.replacen(&form, "", 1);
        }
    }
    for (form, instead) in [("The test ", "A test that went with the sample"), ("the test ", INSTEAD)] {
        let form = format!("{form}{name}");
        if line.contains(&form) {
            return line.replacen(&form, instead, 1);
        }
    }
    let alone = format!("| {name} |");
    if line.contains(&alone) { line.replacen(&alone, "| |", 1) } else { line.replacen(&name, INSTEAD, 1) }
}

#[cfg(test)]
mod tests {
    use super::without_gone;

    fn cleaned(text: &str) -> String {
        without_gone(text, &|code| code.starts_with("gone"), &|code| code.starts_with("here"))
    }

    #[test]
    fn row_goes_when_no_test_is_left_and_loses_a_name_otherwise() {
        let text = "| A | `gone_a`, `gone_b` |\n| B | `gone_a`, `here_b` | `gone/x` |\n| C | `here_c`, `gone_c` |\n| D | `item` |\n";
        assert_eq!(cleaned(text), "| B | `here_b` | |\n| C | `here_c` |\n| D | `item` |\n");
    }

    #[test]
    fn mark_of_a_long_case_goes_with_its_command() {
        let text = "| A | `here_a` | long: `gone_run` |\n| B | `here_b` | long: `gone_run`; the rest |\n\
                    | C | `here_c` | long: `gone_run`, `here_run` |\n";
        let expected = "| A | `here_a` |  |\n| B | `here_b` | the rest |\n| C | `here_c` | long: `here_run` |\n";
        assert_eq!(cleaned(text), expected);
    }

    #[test]
    fn sentence_loses_a_name_of_its_list_or_says_that_it_is_gone() {
        assert_eq!(cleaned("Shown by `gone_a`, and `here_b`.\n"), "Shown by `here_b`.\n");
        assert_eq!(
            cleaned("The kill, which `gone_a` shows.\n"),
            "The kill, which a test that went with the sample shows.\n"
        );
        assert_eq!(cleaned("The test `gone_a` runs it.\n"), "A test that went with the sample runs it.\n");
    }

    #[test]
    fn text_without_such_a_name_stays_as_it_is() {
        let text = "# A\n\n| `x` | y |\n";
        assert_eq!(cleaned(text), text);
    }
}
