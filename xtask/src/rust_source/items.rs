//! Items in Rust text: what a file defines, which functions are tests, and which tokens are test code.

use std::collections::BTreeSet;

use super::{Kind, Token, after_closing, word};

/// A function that the test harness runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestFunction {
    /// Its name.
    pub name: String,
    /// The modules inside the file that it is in, outermost first.
    pub modules: Vec<String>,
}

/// The names of all items that the tokens define.
#[must_use]
pub fn definitions<'a>(tokens: &[Token<'a>]) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    for index in 0..tokens.len() {
        let name = match word(tokens, index) {
            "struct" | "enum" | "trait" | "fn" | "mod" | "type" | "const" | "static" | "union" => index + 1,
            "macro_rules" if word(tokens, index + 1) == "!" => index + 2,
            _ => continue,
        };
        if let Some(token) = tokens.get(name).filter(|token| token.kind == Kind::Ident) {
            found.insert(token.text);
        }
    }
    found
}

/// The functions with an attribute whose path ends in `test`.
#[must_use]
pub fn test_functions(tokens: &[Token<'_>]) -> Vec<TestFunction> {
    let mut found = Vec::new();
    let mut modules: Vec<(String, usize)> = Vec::new();
    let (mut depth, mut index, mut marked) = (0_usize, 0, false);
    while index < tokens.len() {
        match word(tokens, index) {
            "#" if word(tokens, index + 1) == "[" => {
                marked |= is_test_attribute(tokens, index + 2);
                index = after_closing(tokens, index + 1);
                continue;
            }
            "mod" if word(tokens, index + 2) == "{" => modules.push((word(tokens, index + 1).to_owned(), depth + 1)),
            "{" => depth += 1,
            "}" => {
                modules.retain(|(_, inside)| *inside < depth);
                depth = depth.saturating_sub(1);
            }
            "fn" if marked => found.push(TestFunction {
                name: word(tokens, index + 1).to_owned(),
                modules: modules.iter().map(|(name, _)| name.clone()).collect(),
            }),
            _ => {}
        }
        marked &= !matches!(word(tokens, index), "fn" | "{" | "}" | ";");
        index += 1;
    }
    found
}

/// Whether the attribute that begins here is `#[test]`, `#[tokio::test(..)]` or alike.
fn is_test_attribute(tokens: &[Token<'_>], mut index: usize) -> bool {
    while word(tokens, index + 1) == "::" {
        index += 2;
    }
    word(tokens, index) == "test"
}

/// The modules in files of their own that are declared under `#[cfg(test)]`.
#[must_use]
pub fn test_modules<'a>(tokens: &[Token<'a>]) -> Vec<&'a str> {
    let mut found = Vec::new();
    for start in 0..tokens.len() {
        if word(tokens, start) == "#" && word(tokens, start + 1) == "[" {
            let end = after_closing(tokens, start + 1);
            if is_cfg_test(tokens, start + 2, end) {
                let item = end..after_item(tokens, end);
                let declared =
                    item.clone().find(|&index| word(tokens, index) == "mod" && word(tokens, index + 2) == ";");
                found.extend(declared.map(|index| word(tokens, index + 1)));
            }
        }
    }
    found
}

/// The tokens without the items and attributes under `cfg(test)`.
#[must_use]
pub fn outside_tests<'a>(tokens: &[Token<'a>]) -> Vec<Token<'a>> {
    let mut kept = Vec::new();
    let mut index = 0;
    while let Some(token) = tokens.get(index) {
        if token.text == "#" && word(tokens, index + 1) == "[" {
            let end = after_closing(tokens, index + 1);
            if is_cfg_test(tokens, index + 2, end) {
                index = after_item(tokens, end);
                continue;
            }
            // An attribute that only tests have.
            if (2..5).map(|ahead| word(tokens, index + ahead)).eq(["cfg_attr", "(", "test"]) {
                index = end;
                continue;
            }
        }
        kept.push(*token);
        index += 1;
    }
    kept
}

fn is_cfg_test(tokens: &[Token<'_>], start: usize, end: usize) -> bool {
    let words: Vec<&str> = (start..end).map(|index| word(tokens, index)).collect();
    words.first() == Some(&"cfg") && words.contains(&"test") && !words.contains(&"not") && !words.contains(&"any")
}

/// The index after the item that begins here: after its `;` or its braces.
fn after_item(tokens: &[Token<'_>], mut index: usize) -> usize {
    while index < tokens.len() {
        match word(tokens, index) {
            ";" => return index + 1,
            "{" => return after_closing(tokens, index),
            "(" | "[" => index = after_closing(tokens, index),
            _ => index += 1,
        }
    }
    index
}

#[cfg(test)]
mod tests {
    use super::{definitions, outside_tests, test_functions};
    use crate::rust_source::tokens;

    #[test]
    fn items_of_every_kind_are_definitions_and_mentions_are_not() {
        let text = "pub struct A; enum B {} trait C {} async fn d() { let e = F::new(); } type G = H; \
                    macro_rules! i { () => {} } // struct J;";
        let found: Vec<&str> = definitions(&tokens(text)).into_iter().collect();
        assert_eq!(found, ["A", "B", "C", "G", "d", "i"]);
    }

    #[test]
    fn tests_are_found_by_their_attribute_only() {
        let text = r"
            #[test] fn a() {}
            #[tokio::test(flavor = x)] #[other] pub async fn b() { fn inner() {} }
            mod m { #[test] fn c() {} }
            fn d() {}
            #[cfg(test)] fn e() {}
            proptest! { #[test] fn f(x in 0..3) {} }
            // #[test] fn g() {}
        ";
        let found: Vec<String> =
            test_functions(&tokens(text)).into_iter().map(|t| [t.modules, vec![t.name]].concat().join("::")).collect();
        assert_eq!(found, ["a", "b", "m::c", "f"]);
    }

    #[test]
    fn test_code_is_left_out_and_the_rest_stays() {
        let text = "use a; #[cfg(test)] mod tests { use b; fn x() { {} } } #[cfg(test)] use c; fn y() {} \
                    #[cfg(not(test))] use d; #[cfg_attr(test, e::f)] struct G;";
        let names: Vec<&str> = outside_tests(&tokens(text)).iter().map(|token| token.text).collect();
        assert!(!names.contains(&"b") && !names.contains(&"c"), "{names:?}");
        assert!(names.contains(&"a") && names.contains(&"y") && names.contains(&"d"), "{names:?}");
        assert!(!names.contains(&"e") && names.contains(&"G"), "{names:?}");
    }
}
