//! A setting that cannot be used, as every adapter reports it, and what of a URL can be shown.

use std::{collections::HashSet, fmt};

/// The most characters that are shown of a key or a value.
const LONGEST_VALUE: usize = 200;
/// The most characters that are shown of a bound: a list of known keys fits in.
const LONGEST_BOUND: usize = 2_000;

/// One problem of a settings section: the key, the value met and the bound.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("{} is {value}, but {bound}", shortened(.key, LONGEST_VALUE))]
pub struct SettingProblem {
    /// The key's path, for example `amqp.heartbeat`; whole here, and shown up to 200 characters.
    pub key: String,
    /// The value that was met, up to 200 characters of it; never a secret.
    pub value: String,
    /// What the value must be, as the end of a sentence: `it must be 1 to 64`. Up to 2,000 characters.
    pub bound: String,
    /// The key of the setting whose value makes the bound; none: it is fixed.
    pub bounded_by: Option<String>,
}

impl SettingProblem {
    /// Puts a problem together.
    #[must_use]
    pub fn new(key: impl Into<String>, value: impl fmt::Display, bound: impl Into<String>) -> Self {
        let (value, bound): (String, String) = (value.to_string(), bound.into());
        let (value, bound) = (shortened(&value, LONGEST_VALUE), shortened(&bound, LONGEST_BOUND));
        Self { key: key.into(), value, bound, bounded_by: None }
    }

    /// The same problem, whose bound is the value of another setting of the section.
    #[must_use]
    pub fn bounded_by(self, key: impl Into<String>) -> Self {
        Self { bounded_by: Some(key.into()), ..self }
    }

    /// The same problem, its key within a section.
    #[must_use]
    pub fn within(self, section: &str) -> Self {
        let inside = |key: String| format!("{section}.{key}");
        Self { key: inside(self.key), bounded_by: self.bounded_by.map(inside), ..self }
    }

    /// Leaves out problems whose bound is the value of a setting that is refused itself: they may be none once it is right.
    #[must_use]
    pub fn without_follow_ons(problems: Vec<Self>) -> Vec<Self> {
        let refused: HashSet<String> = problems.iter().map(|problem| problem.key.clone()).collect();
        let follows = |problem: &Self| problem.bounded_by.as_ref().is_some_and(|key| refused.contains(key));
        problems.into_iter().filter(|problem| !follows(problem)).collect()
    }
}

/// The text, or its beginning and how long it is.
#[must_use]
pub fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => {
            let begin = text.get(..end).unwrap_or_default();
            format!("{begin}… ({} characters)", text.chars().count())
        }
    }
}

/// Whether credentials may stand behind the host of a URL, so that it must not be shown in parts either.
///
/// A `/`, `?` or `#` that is not percent-encoded ends a password early: its beginning is then read as the port, and its
/// rest, up to the `@`, as path, query or fragment.
#[must_use]
pub fn hides_credentials(url: &str) -> bool {
    let behind_scheme = url.split_once("://").map_or(url, |(_, rest)| rest);
    behind_scheme.split_once(['/', '?', '#']).is_some_and(|(_, rest)| rest.contains('@'))
}

#[cfg(test)]
mod tests {
    use super::{LONGEST_VALUE, SettingProblem, hides_credentials, shortened};

    #[test]
    fn a_long_key_or_value_is_shown_by_its_beginning_and_its_length() {
        assert_eq!(shortened("é", 1), "é");
        assert_eq!(shortened("éé", 1), "é… (2 characters)");
        let long = "é".repeat(LONGEST_VALUE + 1);
        let problem = SettingProblem::new(long.clone(), &long, long.clone());
        assert_eq!(problem.key, long, "whole, for whoever looks it up");
        let begin = "é".repeat(LONGEST_VALUE);
        assert_eq!(problem.to_string(), format!("{begin}… (201 characters) is {begin}… (201 characters), but {long}"));
        let longest = SettingProblem::new("k", 1, "b".repeat(1_000_000)).to_string();
        assert!(longest.len() < 3_000, "{}", longest.len());
    }

    #[test]
    fn a_bound_that_a_refused_setting_makes_is_not_told() {
        let most = SettingProblem::new("most", 0, "it must be 1 to 9");
        let least = SettingProblem::new("least", 1, "it must be 0 to 0").bounded_by("most");
        let both = [most, least.clone()].map(|problem| problem.within("part"));
        let left = SettingProblem::without_follow_ons(both.to_vec());
        assert_eq!(left.iter().map(|problem| problem.key.as_str()).collect::<Vec<_>>(), ["part.most"]);
        assert_eq!(SettingProblem::without_follow_ons(vec![least.clone()]), [least]);
    }

    #[test]
    fn an_at_sign_behind_the_host_may_end_a_password() {
        for url in ["postgres://u:1#x@h/db", "postgres://u:1?x@h", "amqp://u:1/x@h/v", "u:1/x@h"] {
            assert!(hides_credentials(url), "{url}");
        }
        for url in ["postgres://u:x@h/db?sslmode=disable", "amqp://u:x@y@h", "amqp://h/%2f", "nothing"] {
            assert!(!hides_credentials(url), "{url}");
        }
    }
}
