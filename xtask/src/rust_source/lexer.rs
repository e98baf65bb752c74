//! Rust text as tokens: comments are gone, and literals cannot be mistaken for code.

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A keyword or name; a raw one without its `r#`.
    Ident,
    /// A string, character or number.
    Literal,
    /// A lifetime or label.
    Lifetime,
    /// `::`, or any other single character.
    Punctuation,
}

/// A piece of Rust text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'a> {
    /// What it is.
    pub kind: Kind,
    /// How it is written.
    pub text: &'a str,
    /// The line it begins on, from 1.
    pub line: usize,
}

/// Cuts Rust text into tokens. Text that is no Rust gives tokens all the same.
#[must_use]
pub fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut lexer = Lexer { rest: text, line: 1 };
    let mut found = Vec::new();
    while lexer.skip_blank() {
        let (line, start) = (lexer.line, lexer.rest);
        let kind = lexer.next_kind();
        let text = start.get(..start.len() - lexer.rest.len()).unwrap_or_default();
        found.push(Token { kind, text: text.strip_prefix("r#").filter(|_| kind == Kind::Ident).unwrap_or(text), line });
    }
    found
}

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
}

impl Lexer<'_> {
    /// Moves to the next token and says whether there is one.
    fn skip_blank(&mut self) -> bool {
        loop {
            if self.rest.starts_with("//") {
                self.take_while(|c| c != '\n');
            } else if self.rest.starts_with("/*") {
                self.block_comment();
            } else if self.peek().is_some_and(char::is_whitespace) {
                self.bump();
            } else {
                return !self.rest.is_empty();
            }
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0_usize;
        while !self.rest.is_empty() {
            if self.take("/*") {
                depth += 1;
            } else if self.take("*/") {
                depth -= 1;
                if depth == 0 {
                    return;
                }
            } else {
                self.bump();
            }
        }
    }

    fn next_kind(&mut self) -> Kind {
        if self.literal_with_prefix() {
            return Kind::Literal;
        }
        match self.peek() {
            Some('r') if self.rest.starts_with("r#") => {
                self.take("r#");
                self.take_while(is_name);
                Kind::Ident
            }
            Some(c) if c.is_alphabetic() || c == '_' => {
                self.take_while(is_name);
                Kind::Ident
            }
            Some(c) if c.is_ascii_digit() => {
                self.number();
                Kind::Literal
            }
            Some('"') => {
                self.quoted('"');
                Kind::Literal
            }
            Some('\'') => self.character_or_lifetime(),
            _ => {
                if !self.take("::") {
                    self.bump();
                }
                Kind::Punctuation
            }
        }
    }

    /// A raw string, or a string or character with a prefix.
    fn literal_with_prefix(&mut self) -> bool {
        for prefix in ["br", "cr", "r"] {
            if let Some(after) = self.rest.strip_prefix(prefix) {
                let body = after.trim_start_matches('#');
                if body.starts_with('"') {
                    let hashes = after.len() - body.len();
                    self.raw_string(prefix.len() + hashes + 1, hashes);
                    return true;
                }
            }
        }
        for (prefix, quote) in [("b\"", '"'), ("c\"", '"'), ("b'", '\'')] {
            if self.rest.starts_with(prefix) {
                self.bump();
                self.quoted(quote);
                return true;
            }
        }
        false
    }

    fn raw_string(&mut self, opening: usize, hashes: usize) {
        (0..opening).for_each(|_| self.bump());
        let end = format!("\"{}", "#".repeat(hashes));
        while !self.rest.is_empty() && !self.take(&end) {
            self.bump();
        }
    }

    fn quoted(&mut self, quote: char) {
        self.bump();
        while let Some(c) = self.peek() {
            self.bump();
            if c == '\\' {
                self.bump();
            } else if c == quote {
                return;
            }
        }
    }

    fn character_or_lifetime(&mut self) -> Kind {
        let mut ahead = self.rest.chars().skip(1);
        let first = ahead.next();
        if first == Some('\\') || ahead.next() == Some('\'') {
            self.quoted('\'');
            return Kind::Literal;
        }
        self.bump();
        self.take_while(is_name);
        Kind::Lifetime
    }

    fn number(&mut self) {
        self.take_while(is_name);
        let mut ahead = self.rest.chars();
        if ahead.next() == Some('.') && ahead.next().is_some_and(|c| c.is_ascii_digit()) {
            self.bump();
            self.take_while(is_name);
        }
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn bump(&mut self) {
        let mut chars = self.rest.chars();
        if chars.next() == Some('\n') {
            self.line += 1;
        }
        self.rest = chars.as_str();
    }

    fn take(&mut self, text: &str) -> bool {
        let found = self.rest.starts_with(text);
        if found {
            text.chars().for_each(|_| self.bump());
        }
        found
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) {
        while self.peek().is_some_and(&wanted) {
            self.bump();
        }
    }
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::{Kind, tokens};

    fn names(text: &str) -> Vec<&str> {
        tokens(text).into_iter().filter(|token| token.kind == Kind::Ident).map(|token| token.text).collect()
    }

    #[test]
    fn comments_and_literals_hold_no_names() {
        let text = r##"
            // one
            /* two /* three */ four */ let a = "five \" six"; //! seven
            let b = r#"eight " nine"#; let c = b"ten"; let d = 'e'; let f = '\''; let g = br"h";
        "##;
        assert_eq!(names(text), ["let", "a", "let", "b", "let", "c", "let", "d", "let", "f", "let", "g"]);
    }

    #[test]
    fn lifetimes_are_told_from_characters() {
        assert_eq!(
            names("fn f<'a>(x: &'a str) { 'b: loop { break 'b; } let c = 'c'; }"),
            ["fn", "f", "x", "str", "loop", "break", "let", "c"]
        );
    }

    #[test]
    fn raw_names_lose_their_prefix_and_ranges_stay_apart() {
        assert_eq!(names("r#async; 0..n; 1.5f64; x.0"), ["async", "n", "x"]);
    }

    #[test]
    fn lines_are_counted_through_comments_and_strings() {
        let text = "/* a\n */ let x = \"b\n\nc\"; y";
        let lines: Vec<(&str, usize)> =
            tokens(text).into_iter().filter(|t| t.kind == Kind::Ident).map(|t| (t.text, t.line)).collect();
        assert_eq!(lines, [("let", 2), ("x", 2), ("y", 4)]);
    }

    #[test]
    fn unfinished_text_ends() {
        for text in ["\"abc", "/* abc", "r#\"abc", "'", "b'", "r##", "\\"] {
            assert!(tokens(text).len() < 4, "{text}");
        }
    }
}
