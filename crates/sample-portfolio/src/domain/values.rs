//! The values of a work log: newtypes that hold their bounds once they exist.

use std::fmt;

use uuid::Uuid;

use super::invalid::{InvalidWorkLog, WorkLogField};

macro_rules! typed_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Uuid);

        impl $name {
            /// Wraps an identifier.
            #[must_use]
            pub const fn new(id: Uuid) -> Self {
                Self(id)
            }

            /// The bare identifier.
            #[must_use]
            pub const fn as_uuid(self) -> Uuid {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

typed_id!(
    /// The identity of a work log: a `UUIDv7`, so that ids sort by the time of reservation.
    WorkLogId
);
typed_id!(
    /// The identity of a portfolio; portfolios themselves live elsewhere.
    PortfolioId
);

/// What the work is about: 1 to 200 characters, not blank, no control character.
///
/// `Debug` shows the length alone: people write names into titles.
#[derive(Clone, PartialEq, Eq)]
pub struct Title(String);

impl Title {
    /// The most characters allowed.
    pub const MAX_CHARS: usize = 200;

    /// Checks the bounds.
    ///
    /// # Errors
    /// [`InvalidWorkLog`] names the bound and the length met.
    pub fn try_new(text: impl Into<String>) -> Result<Self, InvalidWorkLog> {
        let (text, field) = (text.into(), WorkLogField::Title);
        if text.trim().is_empty() {
            return Err(InvalidWorkLog::Blank { field });
        }
        let actual = text.chars().count();
        if actual > Self::MAX_CHARS {
            return Err(InvalidWorkLog::TooLong { field, bound: Self::MAX_CHARS, actual });
        }
        match text.char_indices().find(|(_, c)| c.is_control()) {
            Some((offset, _)) => Err(InvalidWorkLog::Control { field, offset }),
            None => Ok(Self(text)),
        }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Title {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Title({} bytes)", self.0.len())
    }
}

/// A length of work: 1 to 1,440 minutes, a day at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Minutes(u32);

impl Minutes {
    /// The least allowed.
    pub const MIN: u32 = 1;
    /// The most allowed.
    pub const MAX: u32 = 24 * 60;

    /// Checks the bounds; takes any number a client can send, so that the error can name it.
    ///
    /// # Errors
    /// [`InvalidWorkLog::OutOfRange`] names the range and the number met.
    pub fn try_new(minutes: i64) -> Result<Self, InvalidWorkLog> {
        match u32::try_from(minutes) {
            Ok(inside @ Self::MIN..=Self::MAX) => Ok(Self(inside)),
            _ => Err(InvalidWorkLog::OutOfRange {
                field: WorkLogField::Minutes,
                min: Self::MIN,
                max: Self::MAX,
                actual: minutes,
            }),
        }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// How often a work log has changed: 1 when reserved, one more with each transition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(u32);

impl Version {
    /// The version of a work log that was just reserved.
    pub const FIRST: Self = Self(1);

    /// Wraps a number.
    #[must_use]
    pub const fn new(version: u32) -> Self {
        Self(version)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }

    pub(super) const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_bounded_in_characters_and_the_error_names_bound_and_length() {
        assert!(Title::try_new("ä".repeat(200)).is_ok());
        assert_eq!(
            Title::try_new("ä".repeat(201)),
            Err(InvalidWorkLog::TooLong { field: WorkLogField::Title, bound: 200, actual: 201 })
        );
    }

    #[test]
    fn a_blank_title_and_a_control_character_are_refused() {
        for blank in ["", " ", "\u{3000}\t"] {
            assert_eq!(Title::try_new(blank), Err(InvalidWorkLog::Blank { field: WorkLogField::Title }));
        }
        for text in ["ab\u{0}c", "ab\nc", "ab\u{7f}"] {
            assert_eq!(Title::try_new(text), Err(InvalidWorkLog::Control { field: WorkLogField::Title, offset: 2 }));
        }
    }

    #[test]
    fn minutes_are_one_to_a_day_and_the_error_names_range_and_number() {
        for inside in [1, 60, 1_440] {
            assert_eq!(Minutes::try_new(inside).map(|minutes| i64::from(minutes.get())), Ok(inside));
        }
        for outside in [i64::MIN, -1, 0, 1_441, i64::from(u32::MAX) + 2, i64::MAX] {
            let error = Minutes::try_new(outside).expect_err("outside the range");
            assert_eq!(error.to_string(), format!("minutes is {outside}, 1 to 1440 is allowed"));
        }
    }

    #[test]
    fn debug_shows_no_title() {
        let title = Title::try_new("call with Ada").expect("valid");
        assert_eq!(format!("{title:?}"), "Title(13 bytes)");
    }
}
