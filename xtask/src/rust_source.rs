//! Reading Rust text as far as the checks need it: tokens, items, tests and paths, without a parser.

mod items;
mod lexer;
mod paths;
mod test_files;

pub use items::{TestFunction, definitions, outside_tests, test_functions, test_modules};
pub use lexer::{Kind, Token, tokens};
pub use paths::{PathUse, paths};
pub use test_files::TestFiles;

/// The text of the token at `index`; empty beyond the end and for literals, which name nothing.
#[must_use]
pub fn word<'a>(tokens: &[Token<'a>], index: usize) -> &'a str {
    tokens.get(index).map_or("", |token| if token.kind == Kind::Literal { "" } else { token.text })
}

/// The index after the bracket that closes the one at `open`; the end if none does.
#[must_use]
pub fn after_closing(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0_usize;
    for index in open..tokens.len() {
        match word(tokens, index) {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return index + 1;
                }
            }
            _ => {}
        }
    }
    tokens.len()
}
