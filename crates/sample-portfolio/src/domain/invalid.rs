//! Why a value is refused.

use std::fmt;

/// The part of a work log that breaks a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WorkLogField {
    /// The title.
    Title,
    /// The minutes, planned or spent.
    Minutes,
}

impl fmt::Display for WorkLogField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Title => "title",
            Self::Minutes => "minutes",
        })
    }
}

/// A value that breaks a bound: the field, the bound and the value that was met.
///
/// Of a title only lengths and places are told: its text may be personal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidWorkLog {
    /// A text without a visible character.
    #[error("{field} is blank")]
    Blank {
        /// The field.
        field: WorkLogField,
    },
    /// A text over its bound.
    #[error("{field} has {actual} characters, at most {bound} are allowed")]
    TooLong {
        /// The field.
        field: WorkLogField,
        /// The most characters allowed.
        bound: usize,
        /// The characters met.
        actual: usize,
    },
    /// A text with a control character.
    #[error("{field} holds a control character at byte {offset}")]
    Control {
        /// The field.
        field: WorkLogField,
        /// Where it stands, in bytes from the start.
        offset: usize,
    },
    /// A number outside its range.
    #[error("{field} is {actual}, {min} to {max} is allowed")]
    OutOfRange {
        /// The field.
        field: WorkLogField,
        /// The least allowed.
        min: u32,
        /// The most allowed.
        max: u32,
        /// The number met.
        actual: i64,
    },
}

impl InvalidWorkLog {
    /// The field that breaks a bound.
    #[must_use]
    pub const fn field(&self) -> WorkLogField {
        match self {
            Self::Blank { field }
            | Self::TooLong { field, .. }
            | Self::Control { field, .. }
            | Self::OutOfRange { field, .. } => *field,
        }
    }
}
