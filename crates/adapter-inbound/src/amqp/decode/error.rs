//! Why a delivery cannot be read.

use application_core::outbox::{InvalidEvent, storable};

/// The longest value that an error repeats, in characters.
const SHOWN: usize = 80;

/// A delivery that is no message. Fields and their values are named; a payload's text never is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The body is over the limit.
    #[error("the body takes {actual} bytes, at most {bound} are read")]
    TooLarge {
        /// The limit, in bytes.
        bound: usize,
        /// The body's size, in bytes.
        actual: usize,
    },
    /// The body is not UTF-8.
    #[error("the body is no UTF-8 text from byte {offset} on")]
    NotText {
        /// Where the first wrong byte stands.
        offset: usize,
    },
    /// The body is not a JSON object.
    #[error("the body is no JSON object: {category} error at line {line}, column {column}")]
    NotAnObject {
        /// What kind of error: `syntax`, `data` or `eof`.
        category: &'static str,
        /// The line, from 1; 0 when there is none.
        line: usize,
        /// The column, from 1; 0 when there is none.
        column: usize,
    },
    /// Neither an envelope, nor a `CloudEvent`, nor a payload with its description in headers.
    #[error("the message is no envelope, no CloudEvent, and its headers describe no event")]
    UnknownFormat,
    /// A version or an encoding that this reader does not know.
    #[error("{field} {actual:?} is not supported")]
    Unsupported {
        /// The field or property.
        field: &'static str,
        /// Its value, shortened.
        actual: String,
    },
    /// A field that neither body nor headers have.
    #[error("{field} is missing")]
    Missing {
        /// The field.
        field: &'static str,
    },
    /// A value that cannot be what the field says.
    #[error("{field} is {actual:?}, not {expected}")]
    Invalid {
        /// The field or header.
        field: String,
        /// What is allowed.
        expected: &'static str,
        /// Its value, shortened.
        actual: String,
    },
    /// A value beyond the bounds of an event.
    #[error("the event breaks a bound")]
    Bound {
        /// Which.
        #[source]
        source: InvalidEvent,
    },
}

impl DecodeError {
    pub(super) fn invalid(field: impl Into<String>, expected: &'static str, actual: &str) -> Self {
        Self::Invalid { field: field.into(), expected, actual: shortened(actual) }
    }

    pub(super) fn unsupported(field: &'static str, actual: &str) -> Self {
        Self::Unsupported { field, actual: shortened(actual) }
    }
}

impl From<InvalidEvent> for DecodeError {
    fn from(source: InvalidEvent) -> Self {
        Self::Bound { source }
    }
}

fn shortened(text: &str) -> String {
    let shown: String = text.chars().take(SHOWN).collect();
    let shown = storable(&shown);
    if text.chars().nth(SHOWN).is_some() { format!("{shown}…") } else { shown }
}
