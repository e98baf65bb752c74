//! What a command prints as its result.

use std::io::{self, Write};

/// Prints a line; a reader that has gone away, as `head` does, ends the output and is no error.
pub(super) fn line(text: impl AsRef<str>) {
    let mut stdout = io::stdout().lock();
    if writeln!(stdout, "{}", text.as_ref()).and_then(|()| stdout.flush()).is_err() {
        std::process::exit(0);
    }
}
