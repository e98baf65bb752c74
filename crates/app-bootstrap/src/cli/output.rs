//! What a command prints as its result.

use std::io::{self, Write};

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
