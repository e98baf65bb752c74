//! Cases that need a longer run than a test may take: the register names the command.

use super::{
    Index,
    commands::{COMMAND_LINE, missing_command},
    rows,
};
use crate::{Report, markdown::codes, workspace::SourceFile};

/// The word in the last column that marks such a case.
const MARK: &str = "long";
/// Where the programs behind `cargo xtask bench` and `cargo xtask chaos` say what they take.
const BENCHMARKS: &str = "tests/bench/src/benchmarks/mod.rs";
const CHAOS_OPTIONS: &str = "tests/src/chaos/options.rs";

/// Checks the column `still open` of the register: who marks a case as long names a command that exists.
#[must_use]
pub fn check_long(document: &SourceFile, index: &Index) -> Report {
    let mut report = Report::default();
    let mut long = 0;
    for ([case, open], row) in rows(document, ["case", "still open"]) {
        let open = row.cell(open);
        if !is_marked(open) {
            continue;
        }
        long += 1;
        let mut wrong =
            |what: String| report.problem(format!("{}:{}: {}: {what}", document.path, row.line, row.cell(case)));
        let commands: Vec<&str> = codes(open).into_iter().filter(|code| is_long_run(code)).collect();
        if commands.is_empty() {
            wrong(format!("is `{MARK}` without `cargo xtask chaos` or `cargo xtask bench --only NAME`"));
        }
        commands.into_iter().filter_map(|command| missing(command, index)).for_each(&mut wrong);
    }
    report.looked_at("long cases", long);
    report
}

/// Whether the word stands there, outside of code.
fn is_marked(text: &str) -> bool {
    let mut words = text.split('`').step_by(2).flat_map(|text| text.split(|c: char| !c.is_alphanumeric()));
    words.any(|word| word == MARK)
}

/// Whether the command is one of those that take long: chaos, or benchmarks by their names.
fn is_long_run(code: &str) -> bool {
    let words: Vec<&str> = code.strip_prefix(COMMAND_LINE).unwrap_or_default().split_whitespace().collect();
    match words.as_slice() {
        ["bench", options @ ..] => options.contains(&"--only"),
        [command, ..] => *command == "chaos",
        [] => false,
    }
}

/// What is wrong with a long command; `None` if it can be run.
fn missing(code: &str, index: &Index) -> Option<String> {
    if let Some(what) = missing_command(code, index) {
        return Some(what);
    }
    let words: Vec<&str> = code.strip_prefix(COMMAND_LINE).unwrap_or_default().split_whitespace().collect();
    if words.first() == Some(&"chaos") {
        let known = index.text(CHAOS_OPTIONS).unwrap_or_default();
        let mut options = words.into_iter().filter(|word| word.starts_with("--"));
        let unknown = options.find(|option| !known.contains(&format!("\"{option}\" =>")))?;
        return Some(format!("`{code}`: chaos takes no `{unknown}`"));
    }
    let known = index.text(BENCHMARKS).unwrap_or_default();
    let named = words.windows(2).filter_map(|pair| if let ["--only", name] = pair { Some(*name) } else { None });
    let mut named = named.peekable();
    if named.peek().is_none() {
        return Some(format!("`{code}` names no benchmark"));
    }
    let unknown = named.find(|name| !known.contains(&format!("name: \"{name}\"")))?;
    Some(format!("`{code}`: no benchmark `{unknown}`"))
}

#[cfg(test)]
mod tests {
    use super::{BENCHMARKS, CHAOS_OPTIONS, check_long};
    use crate::{
        names::{Index, fixture::document},
        workspace::SourceFile,
    };

    fn problems(rows: &str) -> Vec<String> {
        let file = |path: &str, text: &str| SourceFile { path: path.to_owned(), text: text.to_owned() };
        let index = Index::new(vec![
            file(BENCHMARKS, "Benchmark { name: \"growth\", about: \"\" }"),
            file(CHAOS_OPTIONS, "match argument { \"--seed\" => {} \"--minutes\" => {} }"),
        ]);
        let text = format!("| Case | Still open |\n| --- | --- |\n{rows}");
        check_long(&document(&text), &index).problems().to_vec()
    }

    #[test]
    fn long_cases_with_their_commands_pass_and_others_are_not_looked_at() {
        let rows = "| P1 | long: `cargo xtask bench --only growth` |\n\
                    | P2 | ten million rows, *long*: `cargo xtask bench --quick --only growth` measures them |\n\
                    | B2 | minutes of real time |\n\
                    | B3 | `cargo xtask bench --only gone` is no business of this rule |\n\
                    | B4 | |\n";
        assert_eq!(problems(rows), Vec::<String>::new());
    }

    #[test]
    fn long_case_without_a_command_that_exists_fails() {
        let rows = "| P1 | long |\n\
                    | P2 | long: `cargo xtask bench --only grwoth` |\n\
                    | P3 | long: `cargo xtask bench` |\n\
                    | P5 | long: `cargo xtask bench --only` |\n\
                    | P6 | long: `cargo xtask demo` |\n";
        let without = "is `long` without `cargo xtask chaos` or `cargo xtask bench --only NAME`";
        assert_eq!(
            problems(rows),
            [
                format!("docs/page.md:3: P1: {without}"),
                "docs/page.md:4: P2: `cargo xtask bench --only grwoth`: no benchmark `grwoth`".to_owned(),
                format!("docs/page.md:5: P3: {without}"),
                "docs/page.md:6: P5: `cargo xtask bench --only` names no benchmark".to_owned(),
                format!("docs/page.md:7: P6: {without}"),
            ]
        );
    }

    // sample-only: begin
    #[test]
    fn long_case_of_chaos_passes_only_with_options_that_chaos_takes() {
        let rows = "| B1 | long: `cargo xtask chaos --minutes 30`; half an hour |\n\
                    | P4 | long: `cargo xtask chaos --soaked` |\n";
        assert_eq!(problems(rows), ["docs/page.md:4: P4: `cargo xtask chaos --soaked`: chaos takes no `--soaked`"]);
    }
    // sample-only: end

    #[test]
    fn register_without_a_long_case_fails() {
        assert_eq!(problems("| P1 | |\n"), ["looked at no long cases: the rule cannot hold"]);
    }
}
