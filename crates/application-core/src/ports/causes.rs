//! An error with its causes, for logs, readiness and the command line.

use std::error::Error;

/// The words of an error and of its causes, outermost first.
///
/// Drivers repeat a cause in their own text: a cause whose words stand in an earlier one's is left out.
#[must_use]
pub fn causes(error: &dyn Error) -> Vec<String> {
    let mut said = vec![error.to_string()];
    let mut source = error.source();
    while let Some(cause) = source {
        let words = cause.to_string();
        if !said.iter().any(|earlier| earlier.contains(&words)) {
            said.push(words);
        }
        source = cause.source();
    }
    said
}

/// The same on one line.
#[must_use]
pub fn with_causes(error: &dyn Error) -> String {
    causes(error).join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("connection refused")]
    struct Refused;

    /// As drivers do it: the cause is in the text and in the chain.
    #[derive(Debug, thiserror::Error)]
    #[error("IO error: {source}")]
    struct Driver {
        source: Refused,
    }

    #[derive(Debug, thiserror::Error)]
    #[error("the broker cannot be reached")]
    struct Ours {
        source: Driver,
    }

    #[test]
    fn a_cause_that_was_said_is_not_said_again() {
        let error = Ours { source: Driver { source: Refused } };
        assert_eq!(causes(&error), ["the broker cannot be reached", "IO error: connection refused"]);
        assert_eq!(with_causes(&error), "the broker cannot be reached: IO error: connection refused");
    }
}
