//! What code must not leave behind, and what a test must not do to pass.

use super::Allowed;
use crate::{
    Report,
    rust_source::{TestFiles, Token, outside_tests, tokens, word},
    workspace::SourceFile,
};

/// Ignored tests, placeholders and debugging in any code; sleeping in test code.
pub(super) fn check(files: &[SourceFile], allowed: &[Allowed]) -> Report {
    let mut report = Report::default();
    let mut used = vec![false; allowed.len()];
    let tests = TestFiles::of(files);
    let mut test_files = 0;
    for file in files {
        let all = tokens(&file.text);
        let mut found = forbidden_anywhere(&all);
        // Test code in a file of ordinary code: what is there, less what is left without tests.
        if tests.contain(file) {
            test_files += 1;
            found.extend(sleeps(&all));
        } else {
            let ordinary = sleeps(&outside_tests(&all));
            found.extend(sleeps(&all).into_iter().filter(|sleep| !ordinary.contains(sleep)));
        }
        for (line, what) in found {
            let exception = allowed.iter().position(|entry| entry.path == file.path && entry.what == what);
            match exception.and_then(|index| used.get_mut(index)) {
                Some(used) => *used = true,
                None => report.problem(format!("{}:{line}: `{what}`{}", file.path, advice(what))),
            }
        }
    }
    for (entry, _) in allowed.iter().zip(used).filter(|(_, used)| !used) {
        report.problem(format!("{} is allowed `{}`, which it does not contain", entry.path, entry.what));
    }
    report.looked_at("files of tests", test_files);
    report
}

fn advice(what: &str) -> &'static str {
    match what {
        "#[ignore]" => ": a test is run or deleted",
        "sleep" => " in a test: wait for a condition with a deadline",
        _ => " is left behind",
    }
}

fn forbidden_anywhere(tokens: &[Token<'_>]) -> Vec<(usize, &'static str)> {
    let at = |index: usize| {
        let call = word(tokens, index + 1) == "!";
        Some(match word(tokens, index) {
            "#" if word(tokens, index + 1) == "[" && word(tokens, index + 2) == "ignore" => "#[ignore]",
            "todo" if call => "todo!",
            "unimplemented" if call => "unimplemented!",
            "dbg" if call => "dbg!",
            _ => return None,
        })
    };
    lines(tokens, at)
}

/// `sleep(..)`, by whatever path or import it is called.
fn sleeps(tokens: &[Token<'_>]) -> Vec<(usize, &'static str)> {
    let at = |index: usize| {
        let called = word(tokens, index + 1) == "(" && !matches!(word(tokens, index.wrapping_sub(1)), "fn" | ".");
        (word(tokens, index) == "sleep" && called).then_some("sleep")
    };
    lines(tokens, at)
}

fn lines(tokens: &[Token<'_>], at: impl Fn(usize) -> Option<&'static str>) -> Vec<(usize, &'static str)> {
    tokens.iter().enumerate().filter_map(|(index, token)| Some((token.line, at(index)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::{Allowed, file};

    fn problems(path: &str, text: &str) -> Vec<String> {
        let other = file("tests/other.rs", "//! Another.");
        check(&[file(path, text), other], &[]).problems().to_vec()
    }

    #[test]
    fn leftovers_fail_in_any_code() {
        for (text, what) in [
            ("#[ignore] fn a() {}", "#[ignore]`: a test is run or deleted"),
            ("#[ignore = \"slow\"] fn a() {}", "#[ignore]`: a test is run or deleted"),
            ("fn a() { todo!() }", "todo!` is left behind"),
            ("fn a() { unimplemented!(\"x\") }", "unimplemented!` is left behind"),
            ("fn a() { dbg!(1); }", "dbg!` is left behind"),
        ] {
            assert_eq!(problems("src/a.rs", text), [format!("src/a.rs:1: `{what}")], "{text}");
        }
        assert!(problems("src/a.rs", "// todo!()\nlet x = \"dbg!\"; let ignore = 1;").is_empty());
    }

    #[test]
    fn sleeping_test_fails_however_it_sleeps() {
        for text in
            ["fn a() { std::thread::sleep(x); }", "async fn a() { tokio::time::sleep(x).await }", "fn a() { sleep(x) }"]
        {
            assert_eq!(problems("tests/a.rs", text).len(), 1, "{text}");
            assert_eq!(problems("src/a.rs", text).len(), 0, "{text}");
            let inside = format!("fn b() {{}}\n#[cfg(test)] mod tests {{ {text} }}");
            assert_eq!(
                problems("src/a.rs", &inside),
                ["src/a.rs:2: `sleep` in a test: wait for a condition with a deadline"]
            );
        }
    }

    #[test]
    fn allowed_line_is_allowed_as_long_as_it_is_needed() {
        let allowed = [Allowed { path: "tests/a.rs", what: "sleep", reason: "waits for a condition" }];
        assert!(check(&[file("tests/a.rs", "fn a() { sleep(x) }")], &allowed).is_clean());
        assert_eq!(
            check(&[file("tests/a.rs", "fn a() {}")], &allowed).problems(),
            ["tests/a.rs is allowed `sleep`, which it does not contain"]
        );
    }

    #[test]
    fn no_test_file_at_all_fails() {
        assert!(!check(&[file("src/a.rs", "")], &[]).is_clean());
    }
}
