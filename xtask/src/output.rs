//! Writing for the reader: results to standard output, the rest to standard error.

use std::io::{self, Write};

/// Writes a line to standard output.
pub fn say(line: &str) {
    put(&format!("{line}\n"));
}

/// Writes text to standard output as it is, at once.
#[cfg(not(test))]
pub fn put(text: &str) {
    let mut out = io::stdout().lock();
    // A closed pipe is the reader's choice.
    let _unheard = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Writes text where the test harness keeps it: a made-up result must not be read as a real one.
#[cfg(test)]
pub fn put(text: &str) {
    print!("{text}");
}

/// Writes a line to standard error.
pub fn say_error(line: &str) {
    let _unheard = io::stderr().write_all(format!("{line}\n").as_bytes());
}
