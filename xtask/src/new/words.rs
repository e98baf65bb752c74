//! Names of types, and the words that they are made of.

use super::NewError;
use crate::rename::KEYWORDS;

/// Most characters of the name of a type: it becomes part of longer ones, and of the name of a table.
const LONGEST: usize = 30;
/// Names of types that the templates use themselves, or that Rust keeps.
const USED: &[&str] = &[
    "Arc", "Clock", "Created", "Err", "Error", "Json", "None", "Ok", "Option", "Path", "Problem", "Random", "Response",
    "Result", "Router", "Self", "Some", "State", "String", "Uuid", "Vec",
];

/// A name made of words: `SalesOrder`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words(String);

impl Words {
    /// Checks a name; `part` says in the error which one it is.
    ///
    /// # Errors
    /// [`NewError::TypeName`].
    pub fn try_new(part: &'static str, value: &str) -> Result<Self, NewError> {
        let wrong = || NewError::TypeName { part, value: value.to_owned(), bound: LONGEST };
        let is_made_so = value.starts_with(|c: char| c.is_ascii_uppercase())
            && value.chars().all(|c| c.is_ascii_alphanumeric())
            && (2..=LONGEST).contains(&value.len())
            && !value.as_bytes().windows(2).any(|pair| pair.iter().all(u8::is_ascii_uppercase));
        if !is_made_so || USED.contains(&value) {
            return Err(wrong());
        }
        Ok(Self(value.to_owned()))
    }

    /// Checks a name that is one of a module as well; `part` says in the error which one it is.
    ///
    /// # Errors
    /// [`NewError::TypeName`]; [`NewError::Keyword`].
    pub fn of_module(part: &'static str, value: &str) -> Result<Self, NewError> {
        let words = Self::try_new(part, value)?;
        if KEYWORDS.contains(&words.joined('_').as_str()) {
            return Err(NewError::Keyword { part, value: value.to_owned() });
        }
        Ok(words)
    }

    /// The name as it is.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its words in lower case, joined.
    #[must_use]
    pub fn joined(&self, separator: char) -> String {
        let mut text = String::new();
        for c in self.0.chars() {
            if c.is_ascii_uppercase() && !text.is_empty() {
                text.push(separator);
            }
            text.push(c.to_ascii_lowercase());
        }
        text
    }
}
