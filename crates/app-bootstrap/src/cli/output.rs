//! What a command prints as its result.

use std::io::{self, Write};

/// Tells a person something beside the result, on standard error.
pub(super) fn hint(text: impl AsRef<str>) {
    // The result has reached its reader without it.
    let _ = writeln!(io::stderr(), "{}", text.as_ref());
}

/// Prints a line; a reader that has gone away, as `head` does, ends the output and is no error.
pub(super) fn line(text: impl AsRef<str>) {
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{}", text.as_ref()).and_then(|()| stdout.flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(0),
        // The result did not reach anybody: a script must not take it for a success.
        Err(_unwritable) => std::process::exit(1),
    }
}
